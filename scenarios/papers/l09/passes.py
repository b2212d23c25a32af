"""Passes of the engine over a workload: tuples, their times, and the time of each call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.operators.match.match_results import Matches
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.log import records as r
from slackwater.paper import Advanced, PaperRun
from slackwater.scenarios.papers.l09.workload import (
    EVENTS_PER_UNIT,
    MAX_DELAY,
    NEGATIVE,
    SITE,
    TYPES,
    UNIT_NS,
    PointArrivals,
    arriving,
    make_events,
)

EVENTS: Final = {3: 40_000, 4: 30_000, 5: 10_000, 6: 3_000, 7: 3_000}
"""By the query's length, its positive steps: 3 is SEQ(A, B, !C, D), and 7 SEQ(A, B, !C, D, E, F, G,
H) (L09 IX-B). Shorter queries get more events, as they have fewer results per event."""
LENGTHS: Final = tuple(EVENTS)
_EVENTS_MIN: Final = 200
_CALLS: Final = 20
"""Calls of a timed pass: so few that the fixed cost of a call does not matter."""
_ROWS_WATCHED: Final = 20
"""Records per call where the state is read after each."""
_REPEATS: Final = 3
_NO_BOUND: Final = 60
"""Time units, far above any delay: promises alone purge, without a longest delay."""
_QUERY: Final = "l09"
_NO_TIMES: Final = np.empty(0, np.int64)
_NO_FLAGS: Final = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One of L09's strategies: the order before the query and the barrier after it.

    ``keep_late``: lateness of an event for which the query must still keep partners [time units].
    ``purge``: what else drops events from its state (``engine.operators.match.seq``).
    """

    name: str
    order: str
    barrier: str
    keep_late: int
    purge: str = "late"


AGGRESSIVE: Final = Strategy("aggressive", "none", "immediate", MAX_DELAY)
CONSERVATIVE: Final = Strategy("conservative", "none", "punctuation", _NO_BOUND, "promises")
K_SLACK: Final = Strategy("K-slack", f"kslack:{MAX_DELAY}s", "immediate", 0)


@dataclass(frozen=True, slots=True)
class StrategySetup:
    """A point of a figure: a strategy, its query and its workload.

    ``late``: share of events out of order, for each type in ``TYPES``. ``promised``: promises
    per event; ``promising``: the types that they are about. ``per_unit``: events per time unit.
    ``events``: number of events; 0 means ``EVENTS``. ``spill``: what leaves memory.
    """

    strategy: Strategy
    length: int
    window: int = 20
    late: tuple[float, ...] = (0.0,) * len(TYPES)
    promised: float = 0.0
    promising: str = TYPES
    per_unit: int = EVENTS_PER_UNIT
    events: int = 0
    spill: SpillSettings | None = None

    @property
    def query(self) -> str:
        """L09's query of this length."""
        steps = ", ".join(
            f"{'!' if kind == NEGATIVE else ''}{kind} {kind.lower()}"
            for kind in TYPES[: self.length + 1]
        )
        return f"EVENT SEQ({steps}) WITHIN {self.window} s"


def late(positive: float = 0.0, negative: float = 0.0) -> tuple[float, ...]:
    """Shares out of order of the negated type, and of every other one."""
    return tuple(negative if kind == NEGATIVE else positive for kind in TYPES)


@dataclass(frozen=True, slots=True)
class EmittedTuples:
    """Tuples that left, as equally long columns: the time at which each left [ns], the arrival
    of the event that made it leave (L09's ``ats``) [ns], and whether it is a result (else it is
    a compensation).
    """

    at: np.ndarray
    caused: np.ndarray
    inserted: np.ndarray

    @classmethod
    def of(cls, results: ResultPieces) -> EmittedTuples:
        """The tuples of one call, without a dict of each result."""
        releases = [piece.released for piece in results.pieces if isinstance(piece, Matches)]
        at = np.concatenate([_NO_TIMES, *(each.at for each in releases)])
        known = np.concatenate([_NO_TIMES, *(each.known_at for each in releases)])
        inserted = np.concatenate([_NO_FLAGS, *(each.plus for each in releases)])
        return cls(at, np.where(inserted, known, at), inserted)

    @classmethod
    def joined(cls, parts: Sequence[EmittedTuples]) -> EmittedTuples:
        """One after another."""
        return cls(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.caused for part in parts]),
            np.concatenate([part.inserted for part in parts]),
        )

    @property
    def final(self) -> int:
        """Number of results that were not retracted (L09's NumResult)."""
        return int(2 * self.inserted.sum()) - len(self.inserted)

    @property
    def retracted(self) -> int:
        """Compensation tuples."""
        return int((~self.inserted).sum())

    @property
    def waited_units(self) -> float:
        """Mean wait on the arrival clock [time units] per result that was not retracted."""
        return float((self.at - self.caused).sum()) / UNIT_NS / max(self.final, 1)


@dataclass(frozen=True, slots=True)
class StrategyRun:
    """Results of a pass.

    ``tuples``: emitted before the end of the input, which emits ``at_end`` results more.
    ``arrival``: time of every record [ns]. ``rows``, ``seconds``: records and CPU time of each
    call. ``state_sizes``: events in the matcher's state after each call; ``buffered``: mean number
    of events in the order's state. ``loads``: number of chunks read back into memory.
    """

    events: int
    tuples: EmittedTuples
    at_end: int
    arrival: np.ndarray
    rows: np.ndarray
    seconds: np.ndarray
    state_sizes: np.ndarray
    buffered: float
    loads: int = 0

    @property
    def seconds_per_event(self) -> float:
        """L09's average execution time."""
        return float(self.seconds.sum()) / self.events

    @property
    def held_mean(self) -> float:
        """Mean number of events held during the second half, when the state has filled."""
        return float(self.state_sizes[len(self.state_sizes) // 2 :].mean())


def timed(
    run: PaperRun, name: str, setups: Sequence[StrategySetup]
) -> dict[StrategySetup, StrategyRun]:
    """Every setup, several times in turn; of each call the least time counts."""
    return run.once(("timed", name), lambda: _timed(run, name, setups))


def counted_passes(
    run: PaperRun, name: str, setups: Sequence[StrategySetup]
) -> dict[StrategySetup, StrategyRun]:
    """Every setup once, for values that do not depend on the machine."""

    def make() -> dict[StrategySetup, StrategyRun]:
        with run.watched(name) as advanced:
            return {each: _passed(each, workload(run, each), advanced) for each in setups}

    return run.once(("counted", name), make)


def watched(
    run: PaperRun, name: str, setups: Sequence[StrategySetup]
) -> dict[StrategySetup, StrategyRun]:
    """Every setup once, in small calls; the state is read after each."""

    def make() -> dict[StrategySetup, StrategyRun]:
        with run.watched(name) as advanced:
            return {
                each: _passed(each, workload(run, each), advanced, _ROWS_WATCHED) for each in setups
            }

    return run.once(("watched", name), make)


def workload(run: PaperRun, setup: StrategySetup) -> PointArrivals:
    """The records of a setup."""
    count = max(round((setup.events or EVENTS[setup.length]) * run.scale), _EVENTS_MIN)
    events = run.once(
        ("events", count, setup.per_unit), lambda: make_events(count, run.seed, setup.per_unit)
    )
    shares = dict(zip(TYPES, setup.late, strict=True))
    return arriving(events, shares, setup.promised, run.seed, setup.promising)


def _timed(
    run: PaperRun, name: str, setups: Sequence[StrategySetup]
) -> dict[StrategySetup, StrategyRun]:
    found: dict[StrategySetup, StrategyRun] = {}
    with run.watched(f"{name}: {len(setups)} setups, {_REPEATS} passes each") as advanced:
        for _ in range(_REPEATS):
            for setup in setups:
                records = workload(run, setup)
                again = _passed(setup, records, advanced)
                if setup in found:
                    np.minimum(found[setup].seconds, again.seconds, out=found[setup].seconds)
                else:
                    found[setup] = again
    return found


def _passed(
    setup: StrategySetup, records: PointArrivals, advanced: Advanced, rows: int | None = None
) -> StrategyRun:
    """Run one pass. With ``rows``: in calls of so many records; also sees what the order holds."""
    settings = ChainSettings(
        parse_order(setup.strategy.order),
        plans=(query(setup.query, name=_QUERY),),
        barrier=parse_barrier(setup.strategy.barrier),
        ordered="no" if rows is None else "bare",
        pattern=PatternSettings(
            keep_late_ns=setup.strategy.keep_late * UNIT_NS, purge=setup.strategy.purge
        ),
        spill=setup.spill,
    )
    chain = Chain(settings, SITE)
    tuples, taken, seconds, state_sizes = [], [], [], []
    waited_ns = 0
    for frame in records.frames(rows or max(records.events // _CALLS, 1)):
        started = time.process_time()
        output = chain.process([frame])
        seconds.append(time.process_time() - started)
        tuples.append(EmittedTuples.of(output.results[0]))
        taken.append(frame.rows)
        state_sizes.append(chain.counters()["queries"][_QUERY]["buffered"])
        for batch in output.ordered:
            waited_ns += int((batch.columns["release"] - batch.columns[r.ARRIVAL]).sum())
        advanced(frame.rows)
    loads = chain.counters()["queries"][_QUERY].get("chunk_loads", 0)
    last = EmittedTuples.of(chain.finish().results[0])
    arrival = records.columns[r.ARRIVAL]
    return StrategyRun(
        records.events, EmittedTuples.joined(tuples), last.final, arrival, np.array(taken),
        np.array(seconds), np.array(state_sizes), waited_ns / int(arrival[-1] - arrival[0]), loads,
    )  # fmt: skip
