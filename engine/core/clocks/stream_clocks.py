"""The clocks of a released stream, row by row: progress, event clock, and error bounds.

Scopes close and events are purged or expire by these clocks minus the worst errors of the sources'
clocks (SPEC 4.3), including synchronised sources that have not sent anything yet
(``engine.core.clocks.prediction``).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import IN_ORDER, ClockBound, Promises, Released, Strings
from slackwater.engine.core.timeline import (
    ALL,
    ANY_TYPE,
    LONG_AGO,
    Ahead,
    Moved,
    Steps,
    StreamProgress,
    ends_of,
    progress_steps,
)
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX

# Promises of punctuations per type, in a stream without order (SPEC 4.2).
#
# A POG names a type, a source, or both; without a source it is for all sources, without a type for
# all types of its source. A type is covered up to the least promise of its sources: those that have
# sent an event of it or a promise that names it, or, while there are none, all sources of the site
# so far. So the first event of a type may advance its coverage, as fewer sources count from then
# on. A new source that sends something older breaks a promise, which is counted.
#
# A source that promises the largest int has ended (``eos``) and no longer limits coverage, unless
# it sends another event: then it counts as before.


_OTHER: Final = -1
"""A type that the query does not name."""
_ANY: Final = 0
"""The place of promises without a source."""


class _Book(NamedTuple):
    """Arrays by type of the query (t) and place of a source (s); place 0 is for all sources.

    ``said`` int64 (t + 1, s): the largest ref promised; the last type is "without a type".
    ``sends`` bool (t + 1, s): sent an event of the type or a promise that names it; in the last
    row: anything. ``ended`` bool (s,). Per type: ``covered``: coverage; ``senders``: number of its
    sources; ``least``: least promise of its sources; ``at_least``: how many have it. The last two
    are recomputed if ``stale``.
    """

    said: np.ndarray
    sends: np.ndarray
    ended: np.ndarray
    covered: np.ndarray
    senders: np.ndarray
    least: np.ndarray
    at_least: np.ndarray
    stale: np.ndarray


class _Batch(NamedTuple):
    """Input and output of a batch: places in lists of types and sources, by code + 1; events;
    promises with the row that they precede; and, as output, per type the value of each move and its
    cause: the number of a promise, or -1 minus that of an event.
    """

    type_of: np.ndarray
    place_of: np.ndarray
    event_type: np.ndarray
    event_source: np.ndarray
    row: np.ndarray
    type: np.ndarray
    source: np.ndarray
    ref: np.ndarray
    value: np.ndarray
    number: np.ndarray
    moves: np.ndarray


@inline
def _promised(b: _Book, kind: int, place: int) -> int:
    """Return the least ref of later events of this type and source."""
    if b.ended[place]:
        return INT_MAX
    return int(max(b.said[kind, place], b.said[len(b.covered), place]))


@inline
def _counts(b: _Book, kind: int, place: int) -> bool:
    """Whether the source is one of those that cover the type."""
    return bool(b.sends[kind if b.senders[kind] else len(b.covered), place])


@kernel
def _count(b: _Book, kind: int) -> None:
    """Recompute the least promise of a type's sources."""
    least, number = INT_MAX, 0
    for place in range(len(b.ended)):
        if _counts(b, kind, place):
            promised = _promised(b, kind, place)
            if promised < least:
                least, number = promised, 0
            number += promised == least
    b.least[kind] = least if number else LONG_AGO
    b.at_least[kind] = number
    b.stale[kind] = False


@inline
def _seen(b: _Book, kind: int, place: int) -> None:
    """Note that the source has sent something of this type, of another, or of none."""
    types = len(b.covered)
    if not b.sends[types, place]:
        b.sends[types, place] = True
        b.stale[:] = True
    if 0 <= kind < types and not b.sends[kind, place]:
        b.sends[kind, place] = True
        b.senders[kind] += 1
        b.stale[kind] = True


@inline
def _say(b: _Book, kind: int, place: int, ref: int) -> None:
    """Enter a promise; a type becomes stale when none of its sources is at its least promise."""
    types = len(b.covered)
    if kind == _OTHER:
        return
    ends = kind == types and ref == INT_MAX
    for other in range(types):
        if (kind in (other, types)) and not b.stale[other] and _counts(b, other, place):
            before = _promised(b, other, place)
            if before == b.least[other] and (ends or ref > before):
                b.at_least[other] -= 1
                b.stale[other] = b.at_least[other] == 0
    if ends:
        b.ended[place] = True
    else:
        b.said[kind, place] = max(b.said[kind, place], ref)


@kernel
def _go_through(b: _Book, batch: _Batch) -> None:
    """Process events and promises in order; a promise precedes the event of its row."""
    types, event = len(b.covered), 0
    for number in range(len(batch.row)):
        event = _take_events(b, batch, event, batch.row[number])
        kind = batch.type_of[batch.type[number] + 1]
        place = batch.place_of[batch.source[number] + 1]
        if place != _ANY:
            _seen(b, kind, place)
        _say(b, kind, place, batch.ref[number])
        for of in range(types):
            _look_again(b, batch, of, number)
    _take_events(b, batch, event, len(batch.event_type))


@inline
def _look_again(b: _Book, batch: _Batch, kind: int, mover: int) -> None:
    """Update the coverage of the type."""
    if b.stale[kind]:
        _count(b, kind)
    covered = max(_promised(b, kind, _ANY), b.least[kind])
    if covered > b.covered[kind]:
        b.covered[kind] = covered
        batch.value[kind, batch.moves[kind]] = covered
        batch.number[kind, batch.moves[kind]] = mover
        batch.moves[kind] += 1


@inline
def _take_events(b: _Book, batch: _Batch, event: int, end: int) -> int:
    """Note the senders of the events before ``end``."""
    while event < min(end, len(batch.event_type)):
        place = batch.place_of[batch.event_source[event] + 1]
        kind = batch.type_of[batch.event_type[event] + 1]
        # The first sender of a type replaces all others; only this can advance coverage.
        first = 0 <= kind < len(b.covered) and b.senders[kind] == 0
        _seen(b, kind, place)
        if b.ended[place]:
            b.ended[place] = False
            b.stale[:] = True
        if first:
            _look_again(b, batch, kind, -1 - event)
        event += 1
    return event


class PromiseBook(Restorable):
    """The promises in a stream without order.

    Args:
        types: types of the query's steps.
    """

    state_fields = ("_codes", "_book")

    def __init__(self, types: frozenset[str]) -> None:
        self._types = sorted(types)
        self._codes = np.array([-1], np.int64)
        """Code of the source at each place."""
        self._place_of = np.zeros(1, np.int32)
        """Place of a source by its code + 1; -1: it has none yet."""
        self._type_of = np.full(1, len(self._types), np.int32)
        self._book = self._empty(4)

    def _empty(self, places: int) -> _Book:
        types = len(self._types)
        return _Book(
            np.full((types + 1, places), LONG_AGO), np.zeros((types + 1, places), bool),
            np.zeros(places, bool), np.full(types, LONG_AGO), np.zeros(types, np.int64),
            np.full(types, LONG_AGO), np.zeros(types, np.int64), np.ones(types, bool),
        )  # fmt: skip

    def steps(self, released: Released, promises: Promises, first: int) -> dict[str, Steps]:
        """Return the coverage per type; ``first``: number of the batch's first row."""
        # Copies, so that the kernel gets arrays of one type: columns may be read-only.
        event_type, event_source = (
            np.array(released.columns.get(name, ()), np.int32) for name in ("type", "source")
        )
        release = released.columns.get("release", np.empty(0, np.int64))
        self._know(released.strings, event_source, promises.source)
        before = self._book.covered.copy()
        order = np.argsort(promises.row, kind="stable")
        row, at = promises.row[order], promises.at[order]
        types = len(self._types)
        value, number = np.empty((2, types, len(row) + 1), np.int64)
        moves = np.zeros(types, np.int64)
        _go_through(
            self._book,
            _Batch(
                self._type_of, self._place_of, event_type, event_source, row,
                promises.type[order].astype(np.int64), promises.source[order].astype(np.int64),
                promises.ref[order], value, number, moves,
            ),
        )  # fmt: skip
        found = {}
        for place, kind in enumerate(self._types):
            mover = number[place, : moves[place]]
            moment, instant = np.empty((2, len(mover)), np.int64)
            said, sent = mover >= 0, mover < 0
            moment[said], instant[said] = 2 * (first + row[mover[said]]), at[mover[said]]
            moment[sent] = 2 * (first - 1 - mover[sent]) + 1
            instant[sent] = release[-1 - mover[sent]]
            found[kind] = Steps.of(
                value[place, : moves[place]], instant, moment, int(before[place])
            )
        return found

    def _know(self, strings: Strings, *sources: np.ndarray) -> None:
        """Assign a place to each source, and set the codes of the types."""
        if len(strings.texts) + 1 >= len(self._place_of):  # the last place is for unknown texts
            more = 2 * len(strings.texts) + 3 - len(self._place_of)
            self._place_of = np.append(self._place_of, np.full(more, -1, np.int32))
            self._type_of = np.append(self._type_of, np.full(more, _OTHER, np.int32))
        for number, kind in enumerate(self._types):
            if kind != ANY_TYPE:  # it is covered only by promises for all types
                self._type_of[strings.find(kind) + 1] = number
        self._type_of[[-1, 0]] = _OTHER, len(self._types)
        for codes in sources:
            unknown = self._place_of[codes + 1] < 0
            if not unknown.any():
                continue
            fresh = np.unique(codes[unknown])
            self._place_of[fresh + 1] = len(self._codes) + np.arange(len(fresh))
            self._codes = np.append(self._codes, fresh.astype(np.int64))
        if len(self._codes) > len(self._book.ended):
            self._grow()

    def _grow(self) -> None:
        old = self._book
        self._book = self._empty(2 * len(self._codes))
        for before, after in zip(old, self._book, strict=True):
            after[..., : before.shape[-1]] = before

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._place_of = np.full(int(self._codes.max()) + 2, -1, np.int32)
        self._place_of[self._codes + 1] = np.arange(len(self._codes))
        self._type_of = np.full(len(self._place_of), _OTHER, np.int32)


NOTHING: Final = -(2**63) + 1
"""The horizon before any progress; even what was purged has expired against it."""
COMPARED: Final = 3
"""Largest number of uncertain comparisons between two events that affect one match."""
_EARLIEST: Final = -(2**62)
_NO_INTS: Final = np.empty(0, np.int64)


class _Clocks(NamedTuple):
    """At each row of a batch, and after the last: progress, event clock, horizon, and the error
    bound of any source's clock.
    """

    frontier: np.ndarray
    newest: np.ndarray
    horizon: np.ndarray
    error: np.ndarray
    before: np.ndarray
    t_a: np.ndarray

    def rows(self, n: int) -> Ahead:
        """Return the values for its ``n`` rows."""
        return Ahead(self.frontier[:n], self.horizon[:n], self.error[:n], self.t_a[:n])


class StreamClocks(Restorable):
    """The clocks of a stream between batches.

    Args:
        types: types whose promises are needed: those of the queries' steps.
        by_clock: events expire against the event clock (else against progress).
        certainty: ``pairwise``; ``max-delay``: two times may differ in error by twice the largest
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
        """The site's largest delay so far."""
        self.bound = ClockBound()
        self._widest = 0
        """Twice the largest uncertainty of an event so far."""
        self._before = 0
        """Error bound of events of clocks that were not synchronised yet [ns]."""
        self.rows = 0

    @property
    def error(self) -> int:
        """The error bound of any source's clock, up to the largest ref so far [ns]."""
        return int(self.bound.at(np.array([self._newest]))[0]) + self._before

    def ahead(self, released: Released) -> Ahead:
        """Return the values at the rows of the next batch."""
        return self._until_after(released, ends_of(released)).rows(released.n)

    def widest(self, released: Released) -> int:
        """Return twice the largest possible uncertainty of an event before a batch [ns]."""
        return max(self._widest, 2 * int(released.bound.at(np.array([self._newest]))[0]))

    def _until_after(self, released: Released, ref: np.ndarray) -> _Clocks:
        """Return the clocks at each row of a batch, and after it."""
        steps, status = released.progress, released.columns.get("status", _NO_INTS)
        moves = _and_behind(np.where(status == IN_ORDER, ref, LONG_AGO))
        np.maximum.at(moves, np.minimum(steps.row, released.n), steps.frontier)
        frontier = _running(self.frontier, moves)
        newest = _running(self._newest, _and_behind(ref))
        clock = newest if self._by_clock else frontier
        # Errors that shrink towards the first sync were larger at buffered events.
        there = np.where(frontier == LONG_AGO, released.bound.until, frontier)
        before = _running(self._before, released.bound.before(there))
        error = released.bound.at(clock) + before
        either = released.bound.at(np.maximum(newest, frontier)) + before
        # The clock minus the worst errors of events.
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
        """Process a batch; return the changes."""
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
        """Return ``received`` minus the errors of this many clocks."""
        promised = {name: self._shorter(of, errors) for name, of in received.promised.items()}
        return StreamProgress(self._shorter(received.clock, errors), promised)

    def _shorter(self, steps: Steps, errors: int) -> Steps:
        # Later times err by more, but by far less than their distance: values still ascend.
        error = self.bound.at(steps.value) * errors
        if self._by_delay:
            error = np.maximum(2 * self.bound.at(steps.value), self.t_a)
        # At the end of an error the order is still uncertain; only beyond it is it certain.
        error += error > 0
        left = np.maximum(steps.value, _EARLIEST) - error
        return replace(steps, value=np.where(steps.value < _EARLIEST, steps.value, left))

    def restore(self, state: dict[str, Any]) -> None:
        if state["_book"] is not None:
            self._book = PromiseBook(self._types)
        super().restore(state)


def _and_behind(values: np.ndarray) -> np.ndarray:
    """Return ``values`` and the last one again, for the place after the batch."""
    return np.append(values, values[-1] if len(values) else LONG_AGO)


def _running(before: int, values: np.ndarray) -> np.ndarray:
    """Return the running maximum, including ``before``; possibly ``values`` itself."""
    if len(values) and before <= values[0] and bool((values[1:] >= values[:-1]).all()):
        return values
    return np.maximum.accumulate(np.concatenate(([before], values)))[1:]
