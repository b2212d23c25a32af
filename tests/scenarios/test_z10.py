"""Z10 reproduced, small: the methods give what the query's definition gives, or do not."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.z10 import buffer, disorder, length, methods
from slackwater.scenarios.papers.z10.grids import holds_with
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    IE_MINER,
    K_SLACK,
    REALTIME,
    EmittedMatches,
    MethodRun,
    MethodSetup,
    counted_passes,
    truth,
)
from slackwater.scenarios.papers.z10.paper import paper
from slackwater.scenarios.papers.z10.workload import (
    NEGATED,
    TYPES,
    WITHIN_NS,
    IntervalArrivals,
    WorkloadShape,
    arriving,
)

POINTS = WorkloadShape(400)
DURABLE = WorkloadShape(400, mean_ns=WITHIN_NS // 20)


def paper_run(folder: Path, scale: float = 1.0) -> PaperRun:
    return PaperRun(1, scale, folder, lambda _what: nullcontext(lambda _rows: None))


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    return paper_run(tmp_path)


def by_definition(made: IntervalArrivals, *, durable: bool) -> set[tuple[int, ...]]:
    """A (overlap) B (!D) (before) C within the window, by trying all."""
    of = {
        kind: [row for row in range(len(made)) if TYPES[made.kind[row]] == kind]
        for kind in ("A", "B", "C", NEGATED)
    }
    ts, te, found = made.ts, made.te, set()
    for a, b, c in product(of["A"], of["B"], of["C"]):
        span = max(te[a], te[b], te[c]) - min(ts[a], ts[b], ts[c])
        if durable:
            related = ts[a] < ts[b] < te[a] < te[b] < ts[c]
            since = ts[a]
        else:
            related = te[a] < ts[b] and te[b] < ts[c]
            since = ts[b]
        if not related or span > WITHIN_NS:
            continue
        if not any(since < ts[d] < ts[c] for d in of[NEGATED]):
            found.add((a, b, c))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("shape", [POINTS, DURABLE])
@pytest.mark.parametrize("method", [REALTIME, CORRECT])
@pytest.mark.parametrize("share", [0.0, 0.45])
def test_both_methods_end_with_the_matches_of_the_definition(
    run: PaperRun, shape: WorkloadShape, method: str, share: float
) -> None:
    setup = MethodSetup(method, shape, share)
    ran = counted_passes(run, "test", [setup])[setup]
    expected = by_definition(ran.arriving, durable=bool(shape.mean_ns))
    assert len(expected) > 5
    assert {tuple(row) for row in ran.emissions.final.tolist()} == expected
    assert {tuple(row) for row in truth(run, shape).tolist()} == expected
    if method == CORRECT:
        assert ran.emissions.retracted == 0
        assert ran.accuracy(truth(run, shape)) == 100


def test_k_slack_is_right_of_instants_alone(run: PaperRun) -> None:
    points, durable = MethodSetup(K_SLACK, POINTS, 0.45), MethodSetup(K_SLACK, DURABLE, 0.45)
    found = counted_passes(run, "test", [points, durable])
    assert found[points].accuracy(truth(run, POINTS)) == 100
    assert found[durable].accuracy(truth(run, DURABLE)) < 10


def test_ie_miner_is_wrong_of_what_comes_late(run: PaperRun) -> None:
    calm, late = MethodSetup(IE_MINER, DURABLE), MethodSetup(IE_MINER, DURABLE, 0.45)
    found, right = counted_passes(run, "test", [calm, late]), truth(run, DURABLE)
    assert found[calm].right(right) == len(right)
    assert found[late].right(right) < len(right)


@pytest.mark.parametrize("shape", [POINTS, DURABLE])
def test_the_share_out_of_order_is_exact(shape: WorkloadShape) -> None:
    made = arriving(shape, 0.25, 1)
    order = np.argsort(made.arrival)
    assert len(set(made.arrival.tolist())) == len(made)
    ends = made.te[order]
    behind = ends < np.maximum.accumulate(ends)
    assert np.array_equal(np.sort(order[behind]), np.flatnonzero(made.late))
    assert made.late.sum() == 100


def test_measures_by_hand() -> None:
    second = 10**9
    made = IntervalArrivals(
        ts=np.array([0, 1, 2, 3]) * second,
        te=np.array([0, 1, 2, 3]) * second,
        kind=np.array([0, 1, 2, 2]),
        arrival=np.array([0, 5, 2, 3]) * second,
        late=np.array([False, True, False, False]),
    )
    emissions = EmittedMatches(
        events=np.array([[0, 1, 2], [0, 1, 3], [0, 1, 2]]),
        plus=np.array([True, True, False]),
        at=np.array([5, 5, 7]) * second,
        known_at=np.array([5, 5, 5]) * second,
        at_end=np.zeros(3, np.bool_),
    )
    ran = MethodRun(MethodSetup(REALTIME, POINTS), made, emissions, np.array([4e-6]))
    assert emissions.final.tolist() == [[0, 1, 3]]
    assert ran.corrections == 3  # the late event completes both, and one is taken back
    assert ran.latency_s == 5 + 5 + 2
    assert ran.waiting_s == 2
    assert ran.accuracy(np.array([[0, 1, 3]])) == 50
    assert ran.event_seconds == 1e-6


def test_a_range_says_with_what_a_verdict_holds(run: PaperRun) -> None:
    def few(_run: PaperRun, shape: WorkloadShape, _shares: object) -> bool:
        return shape.density < 50

    said = holds_with(run, few, POINTS)
    assert "events per window: holds with 20, 40, fails with 80" in said
    assert "longest delay: holds with W/20, W/4, W/2" in said


@pytest.mark.slow
@pytest.mark.parametrize("method", [REALTIME, CORRECT])
def test_a_small_buffer_changes_no_answer(run: PaperRun, method: str) -> None:
    shape = replace(buffer.SHAPE, count=600)
    setups = [MethodSetup(method, shape, 0.18, buffer=size) for size in (50, 1000)]
    found = counted_passes(run, "test", setups)
    right = {tuple(row) for row in truth(run, shape).tolist()}
    assert right
    for setup in setups:
        assert {tuple(row) for row in found[setup].emissions.final.tolist()} == right


@pytest.mark.slow
def test_every_figure_has_claims_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "_TURNS", 1)
    for module in (disorder, length):
        monkeypatch.setattr(module, "too_near", lambda *_: "")
    monkeypatch.setattr(methods, "_LEAST", 0)
    monkeypatch.setattr(buffer, "_few", lambda _run: "")
    made = paper()
    findings: dict[str, Finding] = {
        name: each.make(paper_run(tmp_path, 0.05)) for name, each in made.reproductions.items()
    }
    assert list(findings) == [f"fig-{number}" for number in range(11, 21)]
    for finding in findings.values():
        assert finding.claims
        assert finding.tables
        assert finding.figures
        for claim in finding.claims:
            assert "Ours: " in claim.detail
            assert "The paper: " in claim.detail
            assert claim.holds == ("Why: " not in claim.detail)
            assert claim.rests
            assert claim.rests in claim.detail


@pytest.mark.slow
def test_what_a_small_scale_cannot_decide_is_not_judged(tmp_path: Path) -> None:
    made, run = paper(), paper_run(tmp_path, 0.05)
    accuracy, buffers, times, lengths = found = [
        made.reproductions[name].make(run) for name in ("fig-14", "fig-17", "fig-19", "fig-20")
    ]
    assert [len(each.claims) for each in found] == [2, 0, 0, 2]
    assert [len(each.not_judged) for each in found] == [1, 2, 4, 1]
    assert set(accuracy.not_judged.values()) == {"1,000 events; fewer than 10,000 say too little."}
    assert set(lengths.not_judged.values()) == {"500 events; fewer than 10,000 say too little."}
    assert all("never need a buffer of 500" in why for why in buffers.not_judged.values())
    assert all("a pass has 500 events" in why for why in times.not_judged.values())


def test_times_that_are_near_decide_nothing(run: PaperRun) -> None:
    few = counted_passes(run, "test", [MethodSetup(REALTIME, POINTS)])
    assert "a pass has 400 events" in methods.too_near({REALTIME: list(few.values())}, 2.0)
    many = counted_passes(run, "test", [MethodSetup(REALTIME, WorkloadShape(5_000))])
    passes = {REALTIME: list(many.values())}
    assert not methods.too_near(passes, 1.06, 0.95)
    assert methods.too_near(passes, 1.06, 0.96).startswith("it depends on 0.960 to 1, which")
    busy = {REALTIME: [replace(ran, noise=1.2) for ran in passes[REALTIME]]}
    assert "1.150 to 1" in methods.too_near(busy, 1.15)
    assert "passes of this one differ by 20%" in methods.too_near(busy, 1.15, 1.21)


def test_the_noise_of_times_is_the_median_by_the_least() -> None:
    made, emissions = (
        arriving(POINTS, 0.0, 1),
        EmittedMatches(*(np.empty((0, 3)), *[np.empty(0)] * 4)),
    )
    setup = MethodSetup(REALTIME, POINTS)
    calls = ([1.0, 4.0], [2.0, 3.0], [4.0, 5.0])
    least = methods._least([MethodRun(setup, made, emissions, np.array(each)) for each in calls])
    assert least.seconds.tolist() == [1.0, 3.0]
    assert least.noise == (2.0 + 4.0) / (1.0 + 3.0)


@pytest.mark.parametrize("shape", [POINTS, DURABLE])
def test_k_is_the_largest_delay_of_these_events_or_of_the_most_disorder(
    run: PaperRun, shape: WorkloadShape
) -> None:
    calm, most = (arriving(shape, share, run.seed) for share in (0.0, 0.45))
    longest = {id(made): int((made.arrival - made.ts).max()) for made in (calm, most)}
    assert methods.k_ns(run, MethodSetup(CORRECT, shape)) == longest[id(calm)] < longest[id(most)]
    assert methods.k_ns(run, MethodSetup(CORRECT, shape, fixed_k=True)) == longest[id(most)]
    assert (longest[id(calm)] > 0) == bool(shape.mean_ns)
