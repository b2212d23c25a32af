"""Z10's buffer with files asked afterwards: against the engine, and against trying all by hand."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slackwater.paper import PaperRun
from slackwater.scenarios.papers.z10.after_answer import AnsweredMatches, answered
from slackwater.scenarios.papers.z10.methods import (
    CORRECT,
    REALTIME,
    EmittedMatches,
    MethodSetup,
    counted_passes,
    k_ns,
    truth,
)
from slackwater.scenarios.papers.z10.workload import (
    NEGATED,
    TYPES,
    WITHIN_NS,
    IntervalArrivals,
    WorkloadShape,
)

SECOND = 10**9
Row = tuple[tuple[int, ...], bool, int, int]


@pytest.fixture
def run(tmp_path: Path) -> PaperRun:
    return PaperRun(1, 1.0, tmp_path, lambda _what: nullcontext(lambda _rows: None))


def rows(emissions: EmittedMatches, *, engine: bool = False) -> list[Row]:
    """What left, in one order.

    ``engine``: without what it tells in another way: when a result leaves that is given as the
    input ends, and since when one stood that is taken back.
    """
    columns = (
        emissions.events.tolist(),
        emissions.plus.tolist(),
        emissions.at.tolist(),
        emissions.known_at.tolist(),
        emissions.at_end.tolist(),
    )
    return sorted(
        (tuple(events), plus, 0 if engine and ended else at, known if plus or not engine else 0)
        for events, plus, at, known, ended in zip(*columns, strict=True)
    )


@pytest.mark.parametrize("method", [REALTIME, CORRECT])
@pytest.mark.parametrize("share", [0.0, pytest.param(0.18, marks=pytest.mark.slow), 0.45])
def test_a_memory_for_all_gives_what_the_engine_gives(
    run: PaperRun, method: str, share: float
) -> None:
    setup = MethodSetup(method, WorkloadShape(400, density=80), share)
    engine = counted_passes(run, "test", [setup])[setup].emissions
    ours = answered(run, MethodSetup(method, setup.shape, share, buffer=400), SECOND)
    assert engine.inserted > 100
    assert ours.wrong == 0
    assert int(engine.at_end.sum()) == int(ours.ran.emissions.at_end.sum())
    assert rows(ours.ran.emissions, engine=True) == rows(engine, engine=True)


def by_hand(
    made: IntervalArrivals, setup: MethodSetup, answer_ns: int, waits_ns: int
) -> tuple[list[Row], set[tuple[int, ...]], int]:
    """What leaves, what memory gives, and how much of it is wrong: triple by triple."""
    order = np.argsort(made.arrival).tolist()
    rank = {event: place for place, event in enumerate(order)}
    of = {kind: [e for e in order if TYPES[made.kind[e]] == kind] for kind in ("A", "B", "C")}
    absent = [e for e in order if TYPES[made.kind[e]] == NEGATED]
    ts, came = made.ts.tolist(), made.arrival.tolist()
    left, wrong = list[Row](), 0
    at_once = set[tuple[int, ...]]()
    for match in product(of["A"], of["B"], of["C"]):
        a, b, c = match
        if not (ts[a] < ts[b] < ts[c] <= ts[a] + WITHIN_NS):
            continue
        last = max(match, key=lambda event: rank[event])
        memory = set(order[max(0, rank[last] + 1 - setup.buffer) : rank[last] + 1])
        between = [d for d in absent if ts[b] < ts[d] < ts[c]]
        early = [d for d in between if rank[d] < rank[last]]
        later = [d for d in between if rank[d] > rank[last]]
        known = came[last]
        gives = set(match) <= memory and not memory & set(early)
        if setup.method == CORRECT:
            if between:
                continue
            passed = [e for e in order if ts[e] >= ts[c] + waits_ns]
            released = min((came[e] for e in passed), default=2**62)
            asked = known if gives else known + answer_ns
            left.append((match, True, max(released, asked), known))
        elif gives and early:
            wrong += 1
            left += [(match, True, known, known), (match, False, known + answer_ns, known)]
        elif not early:
            at = known if gives else known + answer_ns
            if not gives and later and came[later[0]] <= at:
                continue
            left.append((match, True, at, known))
            if later:
                then = order[max(0, rank[later[0]] + 1 - setup.buffer) : rank[later[0]] + 1]
                takes = 0 if set(match) <= set(then) else answer_ns
                left.append((match, False, came[later[0]] + takes, at))
        if gives:
            at_once.add(match)
    return sorted(left), at_once, wrong


@pytest.mark.parametrize("method", [REALTIME, CORRECT])
@pytest.mark.parametrize("share", [0.1, 0.45])
@pytest.mark.parametrize(
    "buffer", [1, 15, *(pytest.param(each, marks=pytest.mark.slow) for each in (4, 60))]
)
def test_each_result_leaves_when_memory_or_files_have_it(
    run: PaperRun, method: str, share: float, buffer: int
) -> None:
    setup = MethodSetup(method, WorkloadShape(400, density=60), share, buffer=buffer)
    for seconds in (1, 40, 400):
        found: AnsweredMatches = answered(run, setup, seconds * SECOND)
        left, at_once, wrong = by_hand(
            found.ran.arriving, setup, seconds * SECOND, k_ns(run, setup)
        )
        assert len(left) > 100
        assert rows(found.ran.emissions) == left
        assert {tuple(row) for row in found.at_once.tolist()} == at_once
        assert found.wrong == wrong


def test_the_files_make_every_result_right_in_the_end(run: PaperRun) -> None:
    shape = WorkloadShape(400, density=60)
    right = {tuple(row) for row in truth(run, shape).tolist()}
    small, large = (
        answered(run, MethodSetup(REALTIME, shape, 0.45, buffer=buffer), 40 * SECOND)
        for buffer in (4, 400)
    )
    for each in (small, large):
        assert {tuple(row) for row in each.ran.emissions.final.tolist()} == right
    assert len(small.at_once) < len(large.at_once)
    assert answered(run, MethodSetup(REALTIME, shape, 0.45, buffer=1), SECOND).accuracy(
        truth(run, shape)
    ) == 0  # fmt: skip
