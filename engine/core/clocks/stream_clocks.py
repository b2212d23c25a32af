"""The clocks of a released stream, row by row: progress, event clock, and how wrong they may be.

What closes a scope, makes an event useless or lets it expire is never a clock as it is, but
what is left of it when the clocks of sources err the worst way (SPEC 4.3): those of every source
that is synchronised, whether it has sent anything yet or not (``engine.core.clocks.bound``).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.clocks.promises import PromiseBook
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import IN_ORDER, ClockBound, Released
from slackwater.engine.core.timeline import (
    ALL,
    LONG_AGO,
    Ahead,
    Moved,
    Steps,
    StreamProgress,
    ends_of,
    progress_steps,
)

NOTHING: Final = -(2**63) + 1
"""The horizon while there is none; what was purged has expired even against that."""
COMPARED: Final = 3
"""So many uncertain comparisons may lie between two events that bear on one match."""
_EARLIEST: Final = -(2**62)
_NO_INTS: Final = np.empty(0, np.int64)


class _Clocks(NamedTuple):
    """At each row of a batch, and behind the last: progress, event clock, horizon, and how wrong
    the clock of any source may be.
    """

    frontier: np.ndarray
    newest: np.ndarray
    horizon: np.ndarray
    error: np.ndarray
    before: np.ndarray
    t_a: np.ndarray

    def rows(self, n: int) -> Ahead:
        """What its ``n`` rows need."""
        return Ahead(self.frontier[:n], self.horizon[:n], self.error[:n], self.t_a[:n])


class StreamClocks(Restorable):
    """Where the clocks stand between batches.

    Args:
        types: whose promises are asked for: those of the queries' steps.
        by_clock: events expire against the event clock (else against progress).
        certainty: ``pairwise``; ``max-delay``: two times may be off by twice the largest
            uncertainty of an event so far; ``max-delay-r19``: by the site's largest delay.
    """

    state_fields = (
        "frontier", "horizon", "_newest", "t_a", "_before", "_widest", "rows", "bound", "_book",
    )  # fmt: skip

    def __init__(
        self, types: frozenset[str], *, by_clock: bool = False, certainty: str = "pairwise"
    ) -> None:
        self._by_clock = by_clock
        self._by_delay = certainty != "pairwise"
        self._of_events = certainty == "max-delay"
        self._types = types
        self._book: PromiseBook | None = None
        self.frontier = LONG_AGO
        self.horizon = NOTHING
        self._newest = LONG_AGO
        self.t_a = 0
        """The site's largest delay, so far."""
        self.bound = ClockBound()
        self._widest = 0
        """Twice the largest uncertainty of an event so far."""
        self._before = 0
        """By how much clocks of events may have erred that were not synchronised yet [ns]."""
        self.rows = 0

    @property
    def error(self) -> int:
        """How wrong the clock of any source may be, up to the largest ref yet [ns]."""
        return int(self.bound.at(np.array([self._newest]))[0]) + self._before

    def ahead(self, released: Released) -> Ahead:
        """Of a batch that is to come."""
        return self._until_after(released, ends_of(released)).rows(released.n)

    def widest(self, released: Released) -> int:
        """Twice the largest uncertainty that an event before a batch may have by its bound [ns]."""
        return max(self._widest, 2 * int(released.bound.at(np.array([self._newest]))[0]))

    def _until_after(self, released: Released, ref: np.ndarray) -> _Clocks:
        """The clocks at each row of a batch, and behind it."""
        steps, status = released.progress, released.columns.get("status", _NO_INTS)
        moves = _and_behind(np.where(status == IN_ORDER, ref, LONG_AGO))
        np.maximum.at(moves, np.minimum(steps.row, released.n), steps.frontier)
        frontier = _running(self.frontier, moves)
        newest = _running(self._newest, _and_behind(ref))
        clock = newest if self._by_clock else frontier
        # Errors that shrink towards the first sync were larger at events that are held.
        there = np.where(frontier == LONG_AGO, released.bound.until, frontier)
        before = _running(self._before, released.bound.before(there))
        error = released.bound.at(clock) + before
        either = released.bound.at(np.maximum(newest, frontier)) + before
        # What is left of the clock if those of events err the worst way.
        spread = np.maximum(2 * error, max(self.t_a, released.t_a))
        left = np.maximum(clock, _EARLIEST) - COMPARED * spread
        horizon = np.where(clock == LONG_AGO, NOTHING, left)
        t_a = np.full(released.n + 1, released.t_a)
        if self._of_events:
            unc = released.columns.get("unc", _NO_INTS)
            if len(released.refuted.by):
                self._widest = self.widest(released)
            t_a = np.maximum.accumulate(np.concatenate([2 * unc, [0]]))
            t_a = np.maximum(t_a, self._widest)
        return _Clocks(frontier, newest, _running(self.horizon, horizon), either, before, t_a)

    def advance(self, released: Released) -> Moved:
        """The moves of a batch."""
        ref = ends_of(released)
        status, release = (released.columns.get(name, _NO_INTS) for name in ("status", "release"))
        steps, first = released.progress, self.rows
        clocks = self._until_after(released, ref)
        number = 2 * (first + np.arange(released.n)) + 1
        clock = Steps.of(ref, release, number, self._newest)
        if released.promises is None:
            progress = progress_steps(ref, status, release, first, steps, self.frontier)
            received, at = StreamProgress(clock, {ALL: progress}), steps.at
        else:
            self._book = self._book or PromiseBook(self._types)
            received = StreamProgress(clock, self._book.steps(released, released.promises, first))
            at = released.promises.at
        self.bound, self.t_a = released.bound, max(self.t_a, released.t_a)
        now = max([LONG_AGO, *release[-1:].tolist(), *at[-1:].tolist()])
        self.frontier, self._newest, self.horizon, _, self._before, t_a = (
            int(each[-1]) for each in clocks
        )
        self._widest = max(self._widest, t_a)
        self.rows += released.n
        closed = passed = received
        if self.bound != ClockBound() or (self._by_delay and self.t_a):
            closed, passed = self._less(received, 1), self._less(received, 2)
        rows = clocks.rows(released.n)
        return Moved(first, rows, now, received, closed, passed, self.horizon, self.t_a)

    def _less(self, received: StreamProgress, errors: int) -> StreamProgress:
        """``received`` less so many clocks' errors."""
        promised = {name: self._shorter(of, errors) for name, of in received.promised.items()}
        return StreamProgress(self._shorter(received.clock, errors), promised)

    def _shorter(self, steps: Steps, errors: int) -> Steps:
        # Later times err by more, but by far less than they are later: values still ascend.
        error = self.bound.at(steps.value) * errors
        if self._by_delay:
            error = np.maximum(2 * self.bound.at(steps.value), self.t_a)
        # What lies where an error ends may lie before it; only beyond that there is no doubt.
        error += error > 0
        left = np.maximum(steps.value, _EARLIEST) - error
        return replace(steps, value=np.where(steps.value < _EARLIEST, steps.value, left))

    def restore(self, state: dict[str, Any]) -> None:
        if state["_book"] is not None:
            self._book = PromiseBook(self._types)
        super().restore(state)


def _and_behind(values: np.ndarray) -> np.ndarray:
    """``values``, and the last of them once more: nothing else is known behind a batch yet."""
    return np.append(values, values[-1] if len(values) else LONG_AGO)


def _running(before: int, values: np.ndarray) -> np.ndarray:
    """The largest so far, ``before`` included; perhaps ``values`` themselves."""
    if len(values) and before <= values[0] and bool((values[1:] >= values[:-1]).all()):
        return values
    return np.maximum.accumulate(np.concatenate(([before], values)))[1:]
