"""An operator that reads results as events: checkpoints, copies and comparisons of it."""

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

# How far results of a statement have come: what its operator has read, less how long it waits.
#
# Who reads results as events must know when no earlier one comes any more. A plan says how long
# after its time a result may come at most, and how far back it may be corrected after that. The
# first is a matter of speed alone: a result that comes later all the same is taken in as a
# correction is.


EARLIEST: Final = -(2**62)
"""Progress while there is none; what is taken off it stays within int64."""
_ERRORS: Final = 3
"""So many clocks' errors lie between an event and what lets a match of it go at most."""


@dataclass(slots=True)
class ProgressSteps:
    """Steps of progress: from arrival-clock instant ``at[i]`` on none is below ``value[i]``."""

    at: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, slots=True)
class Reach:
    """``waits_ns``: so long after its own time a result may come, besides what clocks err by.
    ``back_ns``: results that far behind progress may still change; None: any may.
    """

    waits_ns: int
    back_ns: int | None


def reach_of(
    plan: Plan, window: WindowSettings, pattern: PatternSettings, setting: BarrierSettings | None
) -> Reach:
    """Of the results of ``plan``.

    Args:
        plan: of the statement.
        window: of windows.
        pattern: of patterns.
        setting: the barrier asked for.
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
    # What changes upstream changes what is made of it, from there on.
    return Reach(waits, back + max((each for each in further if each is not None), default=0))


@dataclass(slots=True)
class SourceProgress:
    """The progress of the results of one statement that reads the log.

    Args:
        plan: of the statement.
        reach: of its results.
    """

    plan: Plan
    reach: Reach
    facts: ResultFacts = field(init=False)
    frontier: int = EARLIEST
    errs_from: int = INT_MAX
    """The first instant at which it read an event whose clock errs."""
    last_read: int = LONG_AGO
    steps: list[ProgressSteps] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.plan)

    def saw(self, released: Released) -> None:
        """The statement's operator has read a batch."""
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
        # A step comes before the row whose number it has.
        place = np.concatenate([2 * np.arange(n) + 1, 2 * steps.row])
        order = np.argsort(place, kind="stable")
        if not len(order):
            return
        read = np.maximum.accumulate(np.maximum(value[order], self.last_read))
        self.last_read = int(read[-1])
        behind = np.maximum(read, EARLIEST) - self.reach.waits_ns - self._error(read, released)
        value = np.maximum.accumulate(np.maximum(behind, self.frontier))
        self.frontier = int(value[-1])
        # Instants ascend but for steps that were due before rows which came with them.
        self.steps.append(ProgressSteps(np.maximum.accumulate(at[order]), value))

    def _error(self, read: np.ndarray, released: Released) -> np.ndarray:
        """What clocks may err by, when progress is ``read``."""
        error = released.bound.at(read)
        if self.facts.window_ns is not None:
            if self.facts.on_clock:
                error = np.minimum(error, self.facts.window_ns)
            return np.asarray(np.maximum(error, (released.t_a + 1) // 2))
        return _ERRORS * error if self.reach.waits_ns else error

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        emitted = [(step.at.copy(), step.value.copy()) for step in self.steps]
        return {
            "frontier": self.frontier, "read": self.last_read, "steps": emitted,
            "errs_from": self.errs_from,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.frontier, self.last_read = state["frontier"], state["read"]
        self.errs_from = state["errs_from"]
        self.steps = [ProgressSteps(*step) for step in state["steps"]]


# Checkpoints of an operator: copies of it from before events that may still change.
#
# The tail of an operator is the events that it has read and that may still change. A correction
# replays the tail from the first changed event on. So there are checkpoints at some places of the
# tail: at its start, and where earlier corrections began, denser towards the end, as most
# corrections are of recent events. A correction costs what follows it, not the whole tail.


_MOST: Final = 6
"""Copies that are kept."""
_FEW: Final = 256
"""Events that are read again rather than that a copy is kept for them."""


class Checkpoints:
    """Copies of an operator, by how much of its tail they have read.

    Args:
        first: the operator when it has read nothing; it is kept, and must not be used elsewhere.
    """

    def __init__(self, first: AskedOperator) -> None:
        self._counts, self._copies = [0], [first]

    def back_to(
        self, tail: DerivedRows, count: int, strings: Strings, bound: ClockBound
    ) -> AskedOperator:
        """The operator when it had read the first ``count`` events of the tail: to be copied, not
        fed. What comes behind them in the tail changes, and is forgotten.
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
        """The first ``count`` events of the tail leave it: they change no more."""
        place = int(np.searchsorted(self._counts, count, "right")) - 1
        first = self._copies[place]
        first.feed(tail.cut(self._counts[place], count), NO_STEPS, strings, bound)
        self._counts = [0, *(each - count for each in self._counts[place + 1 :])]
        self._copies = [first, *self._copies[place + 1 :]]

    def _thin(self, n: int) -> None:
        """Of too many the one goes without which least is read again, for how old it is."""
        if len(self._counts) > _MOST:
            counts = np.array(self._counts)
            needless = int(np.argmin(np.diff(counts) / (n - counts[1:] + 1.0))) + 1
            del self._counts[needless], self._copies[needless]

    def codes(self) -> list[np.ndarray | None]:
        """Of texts that each copy holds (``engine.core.operator.Operator``)."""
        return [each.codes() for each in self._copies]

    def snapshot(self) -> dict[str, Any]:
        """Plain data: the first of them, from which the others can be made."""
        return self._copies[0].snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        del self._counts[1:], self._copies[1:]
        self._copies[0].restore(state)


# What two runs over nearly the same events have in their results that the other one has not.


def changes_between(
    emitted: Sequence[Sequence[Result]], now: Sequence[Sequence[Result]], at: int
) -> ResultPieces:
    """The changes from results ``emitted`` to ``now``: retractions, then insertions.

    Args:
        emitted: pieces of results, insertions and retractions, behind what both begin with.
        now: pieces of the results that should have been emitted, behind the same.
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
        # Of each content as many as it has changed by, from those that brought that about: given
        # now, or retracted as was emitted; or the other way round.
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
    """Per place, how many before it have the same number."""
    order = np.argsort(number, kind="stable")
    ordered = number[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    counts = np.diff(np.append(begins, len(ordered)))
    rank = np.empty(len(number), np.int64)
    rank[order] = np.arange(len(number)) - np.repeat(begins, counts)
    return rank


# An operator that reads results as events: fed in order, copied, and compared with itself.


NO_STEPS: Final = Progress()
_TIMES: Final = ("ref", REF_END, "ts", "te", "arrival", "release", "unc", "epoch", "seq")
_NOBODY: Final = {name: np.empty(0, np.int64) for name in _TIMES} | {
    name: np.empty(0, np.int32) for name in CODED if name not in (CLOCK, STAMPED_BY)
}
"""Columns of a batch that has progress alone; the clock is the source's own."""


class AskedOperator(Restorable):
    """``build``'s operator, with the clocks of the stream that it reads.

    Args:
        build: makes the operator; each call makes one that has read nothing.
        beside: how far from its event's time a gap of missing ones reaches [ns]: 0 where windows
            lie on the clock, 1 where events are their borders.
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
        """Reads ``rows``, in order, which come after all that it has read.

        Args:
            rows: with the instants of their release.
            steps: progress besides.
            strings: what the rows' codes mean.
            bound: how wrong their times may be.
        """
        released = Released(
            rows.n, {**_NOBODY, **rows.columns, "status": np.full(rows.n, IN_ORDER, np.int8)},
            rows.types, strings, 0, steps, self._gaps(rows, steps), None, bound,
        )  # fmt: skip
        if self._clocks is not None:
            released = replace(released, moved=self._clocks.advance(released))
        return self.operator.process(released)

    def _gaps(self, rows: DerivedRows, steps: Progress) -> Gaps:
        """What is missing upstream: once for all results of one extent, as it is of each key."""
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
        """Another one in the same state."""
        found = AskedOperator(self._build, self._beside)
        found.restore(self.snapshot())
        return found

    def run(
        self, rows: DerivedRows, steps: Progress, now: int, strings: Strings, bound: ClockBound
    ) -> tuple[AskedOperator, ResultPieces]:
        """A copy that has read ``rows``, and come to ``now``; and the results that it gave."""
        run, results = self.copy(), ResultPieces()
        results.extend(run.feed(rows, steps, strings, bound))
        results.extend(run.operator.advance(now))
        return run, results

    def codes(self) -> np.ndarray | None:
        """As of ``engine.core.operator.Operator``."""
        return self.operator.codes()
