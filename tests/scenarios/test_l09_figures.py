"""L09's figures: strategies agree on the results, latencies by hand, verdicts from the data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import records as r
from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.curves import ascending, growth, spread
from slackwater.scenarios.papers.l09 import conservative, disk, window_state
from slackwater.scenarios.papers.l09.comparison import crossing
from slackwater.scenarios.papers.l09.paper import paper
from slackwater.scenarios.papers.l09.passes import (
    AGGRESSIVE,
    CONSERVATIVE,
    K_SLACK,
    EmittedTuples,
    StrategyRun,
    StrategySetup,
    counted_passes,
    late,
    watched,
    workload,
)
from slackwater.scenarios.papers.l09.service import (
    busy,
    keeps_up,
    latency_seconds,
    sustained,
    unit_seconds,
)
from slackwater.scenarios.papers.l09.workload import UNIT_NS
from slackwater.scenarios.papers.page import Reproduced, write_reproduced
from slackwater.scenarios.papers.verdicts import decided, judged

SMALL = 0.01


def paper_run(folder: Path, scale: float = SMALL) -> PaperRun:
    def watch(_what: str) -> AbstractContextManager[Any]:
        return nullcontext(lambda _rows: None)

    return PaperRun(1, scale, folder, watch)


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    return paper_run(tmp_path)


def answer(run: PaperRun, setup: StrategySetup) -> int:
    """The slow twin: how many sequences the query's definition gives (SPEC 4.1)."""
    kinds: dict[str, list[int]] = {}
    for frame in workload(run, setup).frames(1_000):
        for record in frame.batch.to_pylist():
            if record[r.KIND] == r.Kind.EVENT:
                kinds.setdefault(record[r.TYPE], []).append(record[r.TS])
    steps = [kind for kind in "ABCDEFGH"[: setup.length + 1] if kind != "C"]

    def chains(first: int, last: int, left: list[str]) -> Iterator[int]:
        if not left:
            yield 1
            return
        for ts in kinds[left[0]]:
            if last < ts <= first + setup.window * UNIT_NS:
                negated = left[0] == "D" and any(last < c < ts for c in kinds["C"])
                if not negated:
                    yield from chains(first, ts, left[1:])

    return sum(sum(chains(a, a, steps[1:])) for a in kinds["A"])


@pytest.mark.parametrize("length", [3, 4])
def test_every_strategy_finds_what_the_query_means(run: PaperRun, length: int) -> None:
    shares = late(0.3, 0.4)
    setups = [
        StrategySetup(AGGRESSIVE, length), StrategySetup(AGGRESSIVE, length, late=shares),
        StrategySetup(K_SLACK, length, late=shares),
        StrategySetup(CONSERVATIVE, length, late=shares),
        StrategySetup(CONSERVATIVE, length, late=shares, promised=0.2),
    ]  # fmt: skip
    found = counted_passes(run, f"length {length}", setups)
    wanted = answer(run, setups[0])
    assert wanted > 100
    for setup in setups:
        assert found[setup].tuples.final + found[setup].at_end == wanted
    in_order, eager, slack, blocked, wary = (found[setup] for setup in setups)
    assert not in_order.tuples.retracted
    assert eager.tuples.retracted > 0
    assert in_order.tuples.waited_units == eager.tuples.waited_units == 0
    assert slack.tuples.retracted == wary.tuples.retracted == blocked.tuples.final == 0
    assert wary.tuples.waited_units > 0
    assert 0 < slack.tuples.waited_units <= 11


def test_promises_about_the_positive_types_alone_release_nothing(run: PaperRun) -> None:
    setup = StrategySetup(CONSERVATIVE, 3, late=late(0.3, 0.3), promised=0.2, promising="ABDEFGHIJ")
    ran = counted_passes(run, "positive only", [setup])[setup]
    assert not ran.tuples.final
    assert ran.at_end > 100


def test_small_calls_change_nothing_but_what_is_seen(tmp_path: Path) -> None:
    run = paper_run(tmp_path, 0.05)
    setup = StrategySetup(K_SLACK, 3, late=late(0.3, 0.3))
    large, small = (
        counted_passes(run, "large", [setup])[setup],
        watched(run, "small", [setup])[setup],
    )
    assert small.rows.max() == 20 < large.rows.max()
    for name in ("at", "caused", "inserted"):
        assert np.array_equal(getattr(small.tuples, name), getattr(large.tuples, name))
    assert 40 < small.buffered < 100, "eight events per time unit, held for up to ten of them"


# ---- latency with computing -----------------------------------------------------------------


def ran(
    arrival: list[int], seconds: list[float], tuples: list[tuple[int, int, bool]]
) -> StrategyRun:
    """A pass in calls of one record; times in units, ``tuples``: (at, caused, inserted)."""
    at, caused = (np.array([each[k] for each in tuples]) * UNIT_NS for k in (0, 1))
    inserted = np.array([each[2] for each in tuples])
    return StrategyRun(
        len(arrival), EmittedTuples(at, caused, inserted), 0, np.array(arrival) * UNIT_NS,
        np.ones(len(arrival), np.int64), np.array(seconds), np.zeros(1), 0.0,
    )  # fmt: skip


def test_latency_is_waiting_and_the_queue_and_computing() -> None:
    made = ran([0, 1, 2, 9], [0.5, 2.0, 0.5, 0.25], [(1, 1, True), (9, 2, True)])
    # A unit is a second: records are done at 0.5, 3, 3.5 and 9.25 s.
    assert latency_seconds(made, 1.0) == pytest.approx(((3 - 1) + (9.25 - 2)) / 2)
    # A compensation tuple adds its own computing, and takes a result away.
    made = ran([0, 1, 2, 9], [0.5, 2.0, 0.5, 0.25], [(1, 1, True), (2, 2, True), (9, 9, False)])
    assert latency_seconds(made, 1.0) == pytest.approx((3 - 1) + (3.5 - 2) + 0.25)
    assert busy(made, 1.0) == pytest.approx(3.25 / 9)
    assert busy(made, unit_seconds([made])) == pytest.approx(0.8)


@given(
    gaps=st.lists(st.integers(0, 5), min_size=2, max_size=20),
    work=st.lists(st.integers(0, 5), min_size=20, max_size=20),
    unit=st.sampled_from([0.5, 1.0, 3.0]),
)
@settings(max_examples=50, deadline=None)
def test_the_queue_against_a_plain_loop(gaps: list[int], work: list[int], unit: float) -> None:
    arrival = list(itertools.accumulate([0, *gaps]))
    work = work[: len(arrival)] if len(arrival) <= 20 else [*work, 1]
    free, total = 0.0, 0.0
    done: dict[int, float] = {}
    for at, seconds in zip(arrival, work, strict=True):
        free = max(free, at * unit) + seconds
        done[at] = free  # of records at one instant, the last
    total = sum(done[at] - at * unit for at in arrival)
    made = ran(arrival, [float(each) for each in work], [(at, at, True) for at in arrival])
    assert latency_seconds(made, unit) == pytest.approx(total / len(arrival))


def test_strategies_cross_where_computing_costs_what_waiting_does() -> None:
    arrival = list(range(0, 400, 4))
    tuples = [(at, at, True) for at in arrival[:-1]]
    held = [(at + 4, at, True) for at in arrival[:-1]]
    eager, wary = ran(arrival, [2.0] * 100, tuples), ran(arrival, [1.0] * 100, held)
    # Aggressive: 2 s without a queue. Conservative: 4 units and 1 s. The same at 0.25 s per unit,
    # but there aggressive has a queue already: below 0.5 s per unit it cannot keep up.
    found = crossing(eager, wary)
    assert found.busy > 1
    unit_s = 8 / found.events_per_second
    assert latency_seconds(eager, unit_s) == pytest.approx(latency_seconds(wary, unit_s))
    assert crossing(ran(arrival, [9.0] * 100, held), wary).events_per_second == 0


# ---- figures --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_window_sets_the_state(tmp_path: Path) -> None:
    found = window_state.state(paper_run(tmp_path, 0.1))
    assert ascending(found.facts["held"])


@pytest.mark.slow
def test_latency_of_conservative_falls_with_promises(run: PaperRun) -> None:
    found = conservative.latency(run)
    assert found.claims[1].holds == ascending(found.facts["by_promised"][::-1])
    assert found.facts["by_promised"][0] > found.facts["by_promised"][-1]


@pytest.mark.slow
def test_on_disk_or_not_the_results_are_the_same(tmp_path: Path) -> None:
    run = paper_run(tmp_path, 0.3)
    facts = disk.thresholds(run).facts
    setup = StrategySetup(AGGRESSIVE, 5, late=late(0.8, 0.8), events=disk.EVENTS)
    assert set(facts["standing"]) == {answer(run, setup)}
    assert facts["loads"][0] > facts["loads"][-1] > 0
    waits = facts["latency"]["waiting alone"]
    assert waits[0] == 0 < waits[1] < waits[-1]
    assert disk.THRESHOLDS[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", list(paper().reproductions))
def test_every_figure_has_claims_a_table_and_a_drawing(name: str, made: dict[str, Finding]) -> None:
    finding = made[name]
    assert finding.claims
    assert finding.tables
    assert [figure.name for figure in finding.figures] == [name]
    for claim in finding.claims:
        assert "Ours: " in claim.detail
        assert "The paper: " in claim.detail


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    run = paper_run(tmp_path_factory.mktemp("l09"))
    return {name: unwrap(each.make)(run) for name, each in paper().reproductions.items()}


@pytest.mark.slow
def test_the_page_has_every_figure(made: dict[str, Finding], tmp_path: Path) -> None:
    page = write_reproduced(Reproduced(paper(), made, 1, SMALL), tmp_path / "page")
    shown = page.read_text(encoding="utf-8").partition("<script")[0]
    assert all(f'<section id="{name}">' in shown for name in made)
    assert shown.count('<div class="plot"') == len(made)
    claims = [claim for finding in made.values() for claim in finding.claims]
    assert f"of {len(claims)} claims of the paper hold here" in shown


def test_curves_by_hand() -> None:
    assert ascending([1, 2, 3])
    assert not ascending([1, 1])
    assert growth([2.0, 1.0, 3.0]) == 1.5
    assert growth([0.0, 1.0]) == float("inf")
    assert growth([0.0, 0.0]) == 1
    assert spread([2.0, 1.0, 3.0]) == 3


def test_a_stream_is_sustained_if_its_queue_empties() -> None:
    """A record takes a second and one comes each unit; the last tenth decides."""
    nothing = np.empty(0, np.int64)
    tuples = EmittedTuples(nothing, nothing, np.empty(0, np.bool_))
    arrival = UNIT_NS * np.arange(101)
    ran = StrategyRun(101, tuples, 0, arrival, np.array([101]), np.array([101.0]), np.zeros(1), 0.0)
    assert keeps_up(ran, 1.0)
    assert not keeps_up(ran, 0.99)
    assert sustained([ran], 0.5) == pytest.approx(2.02)
    assert 1 <= sustained([ran], 2.0) < 1.1


def test_a_claim_that_fails_at_a_smaller_scale_is_not_judged(tmp_path: Path) -> None:
    falls = judged("it falls", False, "4", "less", "w")
    claims = (judged("it grows", True, "3", "more", ""), falls)
    made = Finding(claims, (), not_judged={"it is 5": "few"})
    judge = decided(lambda _run: made)
    assert judge(paper_run(tmp_path, 1.0)) is made
    small = judge(paper_run(tmp_path, 0.5))
    assert small.claims == claims[:1]
    assert list(small.not_judged) == ["it is 5", "it falls"]
    assert small.not_judged["it falls"].startswith("With 0.5 of the data it does not hold")
    assert falls.detail in small.not_judged["it falls"]
