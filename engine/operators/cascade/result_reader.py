"""An operator that reads results as events: its progress, checkpoints and corrections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent.records import CLOCK
from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_in_force
from slackwater.engine.core.clocks.epochs import STAMPED_BY
from slackwater.engine.core.clocks.stream_clocks import StreamClocks
from slackwater.engine.core.operator import Operator, Restorable, Result, ResultPieces
from slackwater.engine.core.released import IN_ORDER, ClockBound, Gaps, Progress, Released, Strings
from slackwater.engine.core.timeline import LONG_AGO, REF_END, ends_of
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.kernels.tables import numbered
from slackwater.engine.operators.cascade.derived_events import (
    CODED,
    MISSING,
    DerivedRows,
    columns_in,
    identities_of,
    signs_of,
)
from slackwater.engine.operators.match.seq import kept_ns
from slackwater.engine.operators.window.settings import WindowSettings, horizon_ns
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.results_as_events import ResultFacts, facts_of, sources_of

# Progress of results: the progress of the operator's input minus the time that results may take.
#
# A reader of results must know when no earlier result can come. The plan says how long after its
# event time a result may come, and how far back it may be corrected. The first only affects speed:
# a result that comes even later is handled as a correction.


EARLIEST: Final = -(2**62)
"""Progress before the first event; differences from it stay within int64."""
_ERRORS: Final = 3
"""At most so many clock errors separate an event from the one that releases its match."""


@dataclass(slots=True)
class ProgressSteps:
    """Progress: from arrival instant ``at[i]`` on, no event is expected before ``value[i]``."""

    at: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, slots=True)
class Reach:
    """How late results may come, and how long they may change.

    ``waits_ns``: the largest delay of a result after its event time, apart from clock errors.
    ``back_ns``: results less than this behind progress may change; None: all may.
    """

    waits_ns: int
    back_ns: int | None


def reach_of(
    plan: Plan, window: WindowSettings, pattern: PatternSettings, setting: BarrierSettings | None
) -> Reach:
    """Return the reach of the results of ``plan``.

    Args:
        plan: the plan of the statement.
        window: the settings of windows.
        pattern: the settings of patterns.
        setting: the requested barrier; None: the default.
    """
    facts = facts_of(plan)
    waits, back = 0, horizon_ns(window, 0)
    kept: int | None = 0
    if facts.window_ns is not None:
        back = horizon_ns(window, facts.window_ns) + 2 * facts.window_ns
    elif facts.is_pattern:
        barrier, within = barrier_in_force(setting, facts.realtime), facts.match_ns or 0
        kind = BARRIERS[barrier.name]
        at_once = kind.closes is Closes.NOTHING and not kind.by_arrival and not barrier.ordered
        if not at_once:
            waits = barrier.span_ns + within * (facts.negated + barrier.ordered)
        kept = kept_ns(facts.match_ns, pattern)
        back = (kept or 0) + within + waits
    further = [reach_of(source, window, pattern, setting).back_ns for source in sources_of(plan)]
    if kept is None or None in further:
        return Reach(waits, None)
    # A change upstream changes all results from there on.
    return Reach(waits, back + max((each for each in further if each is not None), default=0))


@dataclass(slots=True)
class SourceProgress:
    """The progress of the results of one statement that reads the log.

    Args:
        plan: the plan of the statement.
        reach: the reach of its results.
    """

    plan: Plan
    reach: Reach
    facts: ResultFacts = field(init=False)
    frontier: int = EARLIEST
    errs_from: int = INT_MAX
    """The release time of the first event with a clock error."""
    last_read: int = LONG_AGO
    steps: list[ProgressSteps] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.plan)

    def saw(self, released: Released) -> None:
        """Update the progress for a batch that the statement's operator has read."""
        columns, n = released.columns, released.n
        empty = np.empty(0, np.int64)
        in_order = columns.get("status", empty) == IN_ORDER
        errs = columns.get("release", empty)[columns.get("unc", empty) > 0]
        self.errs_from = int(min([self.errs_from, *errs[:1]]))
        steps = released.progress
        if self.facts.window_ns is not None and len(released.slack.row):
            steps = released.slack
        value = np.concatenate([np.where(in_order, ends_of(released), LONG_AGO), steps.frontier])
        at = np.concatenate([columns.get("release", empty)[:n], steps.at])
        # A step precedes the row with its number.
        place = np.concatenate([2 * np.arange(n) + 1, 2 * steps.row])
        order = np.argsort(place, kind="stable")
        if not len(order):
            return
        read = np.maximum.accumulate(np.maximum(value[order], self.last_read))
        self.last_read = int(read[-1])
        behind = np.maximum(read, EARLIEST) - self.reach.waits_ns - self._error(read, released)
        value = np.maximum.accumulate(np.maximum(behind, self.frontier))
        self.frontier = int(value[-1])
        # The instants ascend, except for steps due before rows that were released with them.
        self.steps.append(ProgressSteps(np.maximum.accumulate(at[order]), value))

    def _error(self, read: np.ndarray, released: Released) -> np.ndarray:
        """Return the largest effect of clock errors on results [ns] at progress ``read``."""
        error = released.bound.at(read)
        if self.facts.window_ns is not None:
            if self.facts.on_clock:
                error = np.minimum(error, self.facts.window_ns)
            return np.asarray(np.maximum(error, (released.t_a + 1) // 2))
        return _ERRORS * error if self.reach.waits_ns else error

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""
        emitted = [(step.at.copy(), step.value.copy()) for step in self.steps]
        return {
            "frontier": self.frontier, "read": self.last_read, "steps": emitted,
            "errs_from": self.errs_from,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self.frontier, self.last_read = state["frontier"], state["read"]
        self.errs_from = state["errs_from"]
        self.steps = [ProgressSteps(*step) for step in state["steps"]]


# Checkpoints of an operator: copies of it from before events that may still change.
#
# The tail of an operator is the events that it has read and that may still change. A correction
# replays the tail from the first changed event on. So there are checkpoints at some places of the
# tail: at its start, and where earlier corrections began, denser towards the end, as most
# corrections are of recent events. The cost of a correction grows with the events after it.


_MOST: Final = 6
"""Largest number of copies."""
_FEW: Final = 256
"""Replays of fewer events get no copy."""


class Checkpoints:
    """Copies of an operator, each after a number of events of its tail.

    Args:
        first: the operator before any event; this object owns it from here on.
    """

    def __init__(self, first: AskedOperator) -> None:
        self._counts, self._copies = [0], [first]

    def back_to(
        self, tail: DerivedRows, count: int, strings: Strings, bound: ClockBound
    ) -> AskedOperator:
        """Return the operator after the first ``count`` events of the tail.

        The caller must copy it, not feed it. Checkpoints after ``count`` are dropped.
        """
        while self._counts[-1] > count:
            self._counts.pop()
            self._copies.pop()
        found, start = self._copies[-1], self._counts[-1]
        if start < count:
            found = found.copy()
            found.feed(tail.cut(start, count), NO_STEPS, strings, bound)
        if count - start >= _FEW:
            self._counts.append(count)
            self._copies.append(found)
            self._thin(tail.n)
        return found

    def let_go(self, tail: DerivedRows, count: int, strings: Strings, bound: ClockBound) -> None:
        """Remove the first ``count`` events from the tail: they are final."""
        place = int(np.searchsorted(self._counts, count, "right")) - 1
        first = self._copies[place]
        first.feed(tail.cut(self._counts[place], count), NO_STEPS, strings, bound)
        self._counts = [0, *(each - count for each in self._counts[place + 1 :])]
        self._copies = [first, *self._copies[place + 1 :]]

    def _thin(self, n: int) -> None:
        """Drop the copy that saves the fewest replayed events for its age, if there are too many.

        ``n``: length of the tail.
        """
        if len(self._counts) > _MOST:
            counts = np.array(self._counts)
            needless = int(np.argmin(np.diff(counts) / (n - counts[1:] + 1.0))) + 1
            del self._counts[needless], self._copies[needless]

    def codes(self) -> list[np.ndarray | None]:
        """Return the codes of texts in each copy (``engine.core.operator.Operator``)."""
        return [each.codes() for each in self._copies]

    def snapshot(self) -> dict[str, Any]:
        """State as plain data: the first copy; the others can be replayed from it."""
        return self._copies[0].snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        del self._counts[1:], self._copies[1:]
        self._copies[0].restore(state)


# The difference between the results of two runs over nearly the same events.


def changes_between(
    emitted: Sequence[Sequence[Result]], now: Sequence[Sequence[Result]], at: int
) -> ResultPieces:
    """Return the changes from results ``emitted`` to ``now``: retractions, then insertions.

    Args:
        emitted: pieces of emitted insertions and retractions, after the common prefix.
        now: pieces of the results that should have been emitted, after the same prefix.
        at: the instant of the changes.
    """
    pieces = [*columns_in(emitted), *columns_in(now)]
    first_now = len(list(columns_in(emitted)))
    found = ResultPieces()
    if not pieces:
        return found
    lengths = [len(piece) for piece in pieces]
    number = numbered(np.concatenate([identities_of(piece) for piece in pieces]))
    signs = np.concatenate([signs_of(piece) for piece in pieces])
    is_now = np.repeat(np.arange(len(pieces)) >= first_now, lengths)
    net = np.zeros(int(number.max()) + 1, np.int64)
    np.add.at(net, number, np.where(is_now, signs, -signs))
    for plus in (False, True):
        # Each content appears as often as its count changed. The rows come from insertions in
        # ``now`` and retractions in ``emitted``, or the other way round for ``-``.
        mine = ((signs > 0) == is_now) == plus
        count = np.maximum(net if plus else -net, 0)
        rows = np.flatnonzero(mine)
        rows = rows[_rank(number[rows]) < count[number[rows]]]
        starts = np.cumsum([0, *lengths])
        for place, piece in enumerate(pieces):
            some = rows[(rows >= starts[place]) & (rows < starts[place + 1])] - starts[place]
            if len(some):
                instants = np.full(len(some), at)
                found.extend(piece.taken(some, np.full(len(some), plus), instants))  # type: ignore[attr-defined]
    return found


def _rank(number: np.ndarray) -> np.ndarray:
    """Return for each place how many earlier places have the same number."""
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    counts = np.diff(np.append(begins, len(ordered)))
    rank = np.empty(len(number), np.int64)
    rank[order] = np.arange(len(number)) - np.repeat(begins, counts)
    return rank


# An operator that reads results as events: it is fed in order, and can be copied.


NO_STEPS: Final = Progress()
_TIMES: Final = ("ref", REF_END, "ts", "te", "arrival", "release", "unc", "epoch", "seq")
_NOBODY: Final = {name: np.empty(0, np.int64) for name in _TIMES} | {
    name: np.empty(0, np.int32) for name in CODED if name not in (CLOCK, STAMPED_BY)
}
"""Columns of a batch without rows; the clock is the source's own."""


class AskedOperator(Restorable):
    """The operator that ``build`` returns, with the clocks of the stream that it reads.

    Args:
        build: returns a new operator that has read nothing.
        beside: half-width of a gap around the event that reports it [ns]: 0 for windows on the
            clock, 1 for windows that are bounded by events.
    """

    state_fields = ("operator", "_clocks")

    def __init__(self, build: Callable[[], Operator], beside: int) -> None:
        self._build, self._beside = build, beside
        self.operator = build()
        types = self.operator.types
        self._clocks = None if types is None else StreamClocks(frozenset(types))

    def feed(
        self, rows: DerivedRows, steps: Progress, strings: Strings, bound: ClockBound
    ) -> Sequence[Result]:
        """Process ``rows``, which are in order and follow all earlier ones.

        Args:
            rows: the events, with their release times.
            steps: additional progress.
            strings: the texts of the codes in ``rows``.
            bound: the bound of their clock errors.
        """
        released = Released(
            rows.n, {**_NOBODY, **rows.columns, "status": np.full(rows.n, IN_ORDER, np.int8)},
            rows.types, strings, 0, steps, self._gaps(rows, steps), None, bound,
        )  # fmt: skip
        if self._clocks is not None:
            released = replace(released, moved=self._clocks.advance(released))
        return self.operator.process(released)

    def _gaps(self, rows: DerivedRows, steps: Progress) -> Gaps:
        """Return the gaps upstream, one per extent: all keys of an extent report the same gap."""
        if not rows.n or not rows[MISSING].any():
            return Gaps()
        extent = np.column_stack([rows["ref"], rows[REF_END]])
        first = np.flatnonzero(np.append(True, (extent[1:] != extent[:-1]).any(axis=1)))
        count = np.maximum.reduceat(rows[MISSING], first)
        first, count = first[count > 0], count[count > 0]
        at, none = rows[REF_END][first], np.zeros(len(first), np.int64)
        return Gaps(
            first, rows["source"][first].astype(np.int64), rows["stream"][first].astype(np.int64),
            none, none, count, at - self._beside, at + self._beside,
            np.searchsorted(steps.row, first, "right"),
        )  # fmt: skip

    def copy(self) -> AskedOperator:
        """Return a copy in the same state."""
        found = AskedOperator(self._build, self._beside)
        found.restore(self.snapshot())
        return found

    def run(
        self, rows: DerivedRows, steps: Progress, now: int, strings: Strings, bound: ClockBound
    ) -> tuple[AskedOperator, ResultPieces]:
        """Feed ``rows`` to a copy and advance it to ``now``; return it and its results."""
        run, results = self.copy(), ResultPieces()
        results.extend(run.feed(rows, steps, strings, bound))
        results.extend(run.operator.advance(now))
        return run, results

    def codes(self) -> np.ndarray | None:
        """See ``engine.core.operator.Operator``."""
        return self.operator.codes()
