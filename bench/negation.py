"""SEQ with negation over a disordered stream, in this process on one core.

1 M events of ten types, 20 sources, 1,000 keys, 12.5 % of them up to 1 s late. Goal (issue 4): at
least 1,500,000 events/s for ``SEQ(A a, !C c, B b)`` on equal keys WITHIN 5 s with the barriers
``immediate`` and ``bounded:1s``, order ``none``: frames in memory in, results as Arrow tables out.
"Matcher" is the operator alone, on the released stream.

Shared machines: seconds are processor time of this process (``time.process_time``), wall time
stands beside it. The baseline of the ratio is one NumPy sort of the same events by event time.

``python -m bench.negation [EVENTS OF THE ENDLESS RUN]``
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.workload import event_frames, pattern_stream, sync_frame
from slackwater.engine.barrier.registry import BarrierSettings, parse_barrier
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.core.released import Released
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.match.match_results import Matches, columns_table
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.plan import SeqPlan

EVENTS = 1_000_000
SOURCES = 20
BATCH_FRAMES = 4  # about as many rows as the in-process host gathers
PROMISE_EVERY = 50
MIDDLE = "SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key"
LEADING = "SEQ(!C c, A a, B b) WHERE a.key = b.key AND c.key = a.key"
TRAILING = "SEQ(A a, B b, !C c) WHERE a.key = b.key AND c.key = a.key"
THREE = "SEQ(A a, B b, D d) WHERE a.key = b.key AND b.key = d.key"
JOINED = "SEQ(A a, !C c, B b) WHERE a.v < b.v"
SIZES = (100_000, 1_000_000, 10_000_000)
ENDLESS = 30_000_000
TOLD_EVERY = 5_000_000


@dataclass(frozen=True)
class NegationCase:
    """``within``: of the query; ``clock_ns``: what every clock may err by; ``promises``: with."""

    name: str
    pattern: str
    barrier: str
    order: str = "none"
    within: str = "5 s"
    clock_ns: int = 0
    promises: bool = False


CASES = (
    NegationCase("negation in the middle", MIDDLE, "immediate"),
    NegationCase("negation in the middle", MIDDLE, "bounded:1s"),
    NegationCase("negation in the middle", MIDDLE, "punctuation", promises=True),
    NegationCase("negation in the middle", MIDDLE, "immediate", "sequence:latency=1100ms"),
    NegationCase("negation in the middle", MIDDLE, "punctuation", "sequence:latency=1100ms"),
    NegationCase("in the middle, clocks err by 1 ms", MIDDLE, "immediate", clock_ns=1_000_000),
    NegationCase("in the middle, clocks err by 1 ms", MIDDLE, "bounded:1s", clock_ns=1_000_000),
    NegationCase("negation in front", LEADING, "immediate"),
    NegationCase("negation in front", LEADING, "bounded:1s"),
    NegationCase("negation at the end", TRAILING, "immediate"),
    NegationCase("negation at the end", TRAILING, "bounded:1s"),
    NegationCase("three steps", THREE, "immediate"),
    NegationCase("three steps", THREE, "bounded:1s"),
    NegationCase("no key, a.v < b.v", JOINED, "immediate", within="5 ms"),
    NegationCase("no key, a.v < b.v", JOINED, "bounded:1s", within="5 ms"),
)


@dataclass(frozen=True)
class Spent:
    """Seconds of the processor and of the wall clock, and how many results there were."""

    cpu: float
    wall: float
    results: int = 0


def timed(work: Callable[[], int]) -> Spent:
    """What ``work``, which gives the number of its results, costs."""
    cpu, wall = time.process_time(), time.perf_counter()
    results = work()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall, results)


def best(spent: Iterable[Spent]) -> Spent:
    """The run with the least processor time."""
    return min(spent, key=lambda each: each.cpu)


def plan_of(case: NegationCase) -> SeqPlan:
    """The case's query."""
    plan = query(f"EVENT {case.pattern} WITHIN {case.within}")
    assert isinstance(plan, SeqPlan)
    return plan


def stream(case: NegationCase, events: int) -> Iterator[Frame]:
    """The case's events."""
    first = True
    for made in pattern_stream(events, SOURCES, promise_every=PROMISE_EVERY * case.promises):
        if first and case.clock_ns:  # what a sync says is the less certain the older it is
            begin, arrival = int(made["ts"].min()) - 1, int(made["arrival"][0])
            yield sync_frame(SOURCES, begin, arrival, 2 * case.clock_ns)
            first = False
        yield from event_frames(made, SOURCES)


def batches(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    """The frames in the portions of a host."""
    waiting: list[Frame] = []
    for frame in frames:
        waiting.append(frame)
        if len(waiting) == BATCH_FRAMES:
            yield waiting
            waiting = []
    yield waiting


def chain_of(case: NegationCase) -> Chain:
    """Order and operator."""
    settings = ChainSettings(parse_order(case.order), (plan_of(case),), parse_barrier(case.barrier))
    return Chain(settings, "main")


def tables(results: ResultPieces) -> int:
    """The results as Arrow tables, as the hosts take them; gives their number."""
    pieces = [piece for piece in results.pieces if isinstance(piece, Matches)]
    return sum(columns_table(piece).num_rows for piece in pieces)


def chain_run(case: NegationCase, frames: Iterable[Frame]) -> Spent:
    """The whole chain."""
    chain = chain_of(case)

    def work() -> int:
        found = sum(tables(chain.process(batch).results[0]) for batch in batches(frames))
        return found + tables(chain.finish().results[0])

    return timed(work)


def matcher_run(case: NegationCase, released: list[Released], barrier: BarrierSettings) -> Spent:
    """The operator alone: its batches, and the end of the input."""
    matcher = Alone(SeqMatcher(plan_of(case)), barrier)

    def work() -> int:
        found = sum(len(matcher.process(batch)) for batch in released)
        return found + len(matcher.finish(int(released[-1].columns["arrival"].max())))

    return timed(work)


def released_of(case: NegationCase, frames: Iterable[Frame]) -> list[Released]:
    """What the order hands to the operator."""
    chain = chain_of(case)
    operator, found = chain._operators[0], []  # noqa: SLF001 - what the operator sees is inside

    class Tap:
        """Keeps what comes, and hands it on."""

        def __getattr__(self, name: str) -> object:
            return getattr(operator, name)

        def process(self, released: Released) -> object:
            found.append(released)
            return operator.process(released)

    chain._operators[0] = Tap()  # type: ignore[call-overload]  # noqa: SLF001
    for batch in batches(frames):
        chain.process(batch)
    return found


def sort_seconds(events: int) -> float:
    """Processor seconds of one NumPy sort by event time."""
    ts = np.concatenate([made["ts"] for made in pattern_stream(events, SOURCES)])
    return best(timed(lambda: len(np.argsort(ts, kind="stable"))) for _ in range(3)).cpu


def said(events: int, spent: Spent, baseline: float) -> str:
    rate, wall = events / spent.cpu / 1e6, events / spent.wall / 1e6
    return f"{rate:5.2f} M events/s (wall {wall:5.2f}), {baseline / spent.cpu:5.3f} x one sort"


def rates() -> None:
    """Every case on 1 M events."""
    baseline = sort_seconds(EVENTS)
    for case in CASES:
        frames = list(stream(case, EVENTS))
        chain_run(case, frames[:4])  # compile
        whole = best(chain_run(case, frames) for _ in range(3))
        released = released_of(case, frames)
        barrier = parse_barrier(case.barrier)
        alone = best(matcher_run(case, released, barrier) for _ in range(3))
        print(
            f"{case.name}, {case.barrier}, order {case.order}: {whole.results:,} results\n"
            f"    chain    {said(EVENTS, whole, baseline)}\n"
            f"    matcher  {said(EVENTS, alone, baseline)}",
            flush=True,
        )


def linear() -> None:
    """Cost per event and per result as the stream grows."""
    for case in CASES[:2]:
        for events in SIZES:
            spent = chain_run(case, list(stream(case, events)))
            print(
                f"{case.barrier}, {events:>10,} events: {spent.cpu / events * 1e9:5.0f} ns per "
                f"event, {spent.cpu / (events + spent.results) * 1e9:5.0f} ns per event and result",
                flush=True,
            )


def endless(events: int) -> None:
    """State and memory of a run whose stream is made while it goes."""
    case = CASES[1]
    chain, done, found, cpu = chain_of(case), 0, 0, 0.0
    for batch in batches(stream(case, events)):
        spent = timed(lambda batch=batch: tables(chain.process(batch).results[0]))  # type: ignore[misc]
        before, done = done, done + sum(frame.rows for frame in batch)
        found, cpu = found + spent.results, cpu + spent.cpu
        if done // TOLD_EVERY > before // TOLD_EVERY or done >= events:
            (counters,) = chain.counters()["queries"].values()
            print(
                f"endless, {case.barrier}: {done:>10,} events, {found:,} results, "
                f"{counters['buffered']:,} events and {counters['matches_held']:,} matches held, "
                f"{resident_mib():,.0f} MiB resident, {done / cpu / 1e6:.2f} M events/s",
                flush=True,
            )


def resident_mib() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    rates()
    linear()
    endless(int(sys.argv[1]) if len(sys.argv) > 1 else ENDLESS)


if __name__ == "__main__":
    main()
