"""Holds matches until they are due: the common part of all barriers except ``immediate``.

A policy decides when a match is due: when clocks reach target values, or at an instant of the
arrival clock. A later row that invalidates a pending match drops it without output; one that
changes a released match corrects it (``-`` and, if it is still valid, ``+``). At one instant
records come before deadlines, and the changes of a row before the matches that it makes due.

``ordered``: due matches leave in order of their last event's time, when no earlier match is pending
and none can come, by the policy's clocks.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.barrier.base import (
    ORDER,
    BarrierRequirements,
    Changes,
    EventTable,
    ReleasedMatches,
)
from slackwater.engine.barrier.policies import Policy
from slackwater.engine.core.timeline import LONG_AGO, StreamTimeline
from slackwater.engine.kernels import tables as heap
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import Record, joined, one, record, take_rows
from slackwater.engine.kernels.tables import numbered, places_of

# The replay of the happenings of pending matches, one after another.
#
# Matches are numbered as entries; columns hold whether one is pending, due and so on. The outcomes
# of matches control ``adaptive``: their rate is smoothed at their places in the stream.


# Kinds of happenings.
NEW: Final = 0
CHANGED: Final = 1
DUE: Final = 2
LAST_DUE: Final = 3
"""No earlier match can come any more."""

# The state of a match (``where``). DONE: released or dropped.
FUTURE: Final = 0
PENDING: Final = 1
DONE: Final = 2

FATES: Final = record("rate_ppm", "waits", "adapts", "dropped", "corrected")
"""``rate_ppm``: smoothed rate of matches that a later row changed. ``waits``: 1: new matches wait
until they are due; 0: they leave at once. ``adapts``: 1: the rate sets ``waits``. ``dropped``,
``corrected``: counters.
"""

_ONE: Final = 1_000_000
_SMOOTHING: Final = 64
_WAIT_ABOVE_PPM: Final = 100_000
_AT_ONCE_BELOW_PPM: Final = 50_000


class ReplayEntries(NamedTuple):
    """Matches by entry, in order of their numbers; ``heap``: scratch of the same length."""

    where: np.ndarray
    due: np.ndarray
    last_due: np.ndarray
    last_ns: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    heap: np.ndarray


class Happenings(NamedTuple):
    """Happenings in order.

    ``entry``: -1: a match that is not pending. ``change``: the change that causes it; -1: none.
    ``at``: the instant of the arrival clock.
    """

    kind: np.ndarray
    entry: np.ndarray
    change: np.ndarray
    at: np.ndarray


class StateChanges(NamedTuple):
    """States of changed matches, per change: before it (``was_...``), and after it."""

    was_confirmed: np.ndarray
    was_chance: np.ndarray
    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray


class Releases(NamedTuple):
    """Released matches: each an ``entry``, or (entry -1) a ``change``; ``n``: their number."""

    entry: np.ndarray
    change: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    n: np.ndarray


def room_for(entries: int, changes: int) -> Releases:
    """Return room for one release per entry and two corrections per change."""
    room = entries + 2 * changes
    return Releases(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_),
        np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(room, np.float64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inline
def _observe(state: Record, spoilt: int) -> None:
    """Update the rate with a released match or, if ``spoilt``, one changed by a later row."""
    if state.adapts:
        state.rate_ppm += ((_ONE if spoilt else 0) - state.rate_ppm) // _SMOOTHING
        if state.rate_ppm > _WAIT_ABOVE_PPM:
            state.waits = 1
        elif state.rate_ppm < _AT_ONCE_BELOW_PPM:
            state.waits = 0


@inline
def _write(
    out: Releases, entry: int, change: int, plus: bool, at: int, confirmed: bool, chance: float
) -> None:
    n = out.n[0]
    out.entry[n], out.change[n], out.plus[n], out.at[n] = entry, change, plus, at
    out.confirmed[n], out.chance[n] = confirmed, chance
    out.n[0] = n + 1


@inline
def _release(e: ReplayEntries, entry: int, at: int, state: Record, out: Releases) -> None:
    _observe(state, 0)
    e.where[entry] = DONE
    _write(out, entry, -1, True, at, e.confirmed[entry], e.chance[entry])


@inline
def _release_ordered(e: ReplayEntries, size: int, at: int, state: Record, out: Releases) -> int:
    """Release due matches that no pending or future match precedes; return the heap's new size.

    They leave in order of their last event, then of their number.
    """
    while size > 0:
        first = e.heap[0]
        if e.where[first] == PENDING:
            if not (e.due[first] and e.last_due[first]):
                return size
            _release(e, first, at, state, out)
        heap.pop(e.heap, size, e.last_ns)
        size -= 1
    return size


@kernel
def replay(
    happenings: Happenings,
    e: ReplayEntries,
    states: StateChanges,
    ordered: bool,
    fates: np.ndarray,
    out: Releases,
) -> None:
    """Apply ``happenings`` in order, and write the releases.

    Args:
        happenings: in order.
        e: the matches; those of earlier batches are PENDING.
        states: the states per change.
        ordered: whether matches leave in order of their last event's time.
        fates: one FATES.
        out: output, with room (``room_for``).
    """
    state, size = fates[0], 0
    if ordered:
        for entry in range(len(e.where)):
            if e.where[entry] == PENDING:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
    for i in range(len(happenings.kind)):
        kind, entry, at = happenings.kind[i], happenings.entry[i], happenings.at[i]
        if kind == NEW:
            e.where[entry] = PENDING
            if ordered:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
            if not state.waits:
                e.due[entry] = True
        elif kind == CHANGED:
            _observe(state, 1)
            change = happenings.change[i]
            if entry < 0 or e.where[entry] != PENDING:
                state.corrected += 1
                _write(
                    out, -1, change, False, at, states.was_confirmed[change],
                    states.was_chance[change],
                )  # fmt: skip
                if states.stands[change]:
                    _write(
                        out, -1, change, True, at, states.confirmed[change], states.chance[change]
                    )
            elif states.stands[change]:
                e.confirmed[entry], e.chance[entry] = (
                    states.confirmed[change],
                    states.chance[change],
                )
            else:
                e.where[entry] = DONE
                state.dropped += 1
        elif kind == DUE:
            e.due[entry] = True
        else:
            e.last_due[entry] = True
        if ordered:
            size = _release_ordered(e, size, at, state, out)
        elif entry >= 0 and e.where[entry] == PENDING and e.due[entry]:
            _release(e, entry, at, state, out)


_NEVER: Final = 2**63 - 1


class _PendingMatches(NamedTuple):
    """Pending matches as columns; ``target`` and ``last_target``: (matches, clocks)."""

    number: np.ndarray
    rows: np.ndarray
    branch: np.ndarray
    known_at: np.ndarray
    last_ns: np.ndarray
    deadline: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    due: np.ndarray
    last_due: np.ndarray
    target: np.ndarray
    last_target: np.ndarray


class Holding:
    """A barrier that releases matches by a policy.

    Args:
        policy: decides when matches are due.
        requirements: the requirements of the query.
        ordered: whether matches leave in order of their last event's time.
    """

    def __init__(self, policy: Policy, requirements: BarrierRequirements, *, ordered: bool) -> None:
        self._policy = policy
        self._ordered = ordered
        self._purged = requirements.purged
        self._fates = one(FATES, adapts=policy.adapts, waits=not policy.adapts)
        self._pending: _PendingMatches | None = None
        self._number = 0
        self._broken = 0

    def counters(self) -> dict[str, int]:
        """Return counters.

        ``promises_broken``: rows below a promise. ``matches_dropped``: matches invalidated while
        pending. ``matches_corrected``: matches changed after release. ``matches_held``: pending.
        """
        return {
            "promises_broken": self._broken,
            "matches_dropped": int(self._fates["dropped"][0]),
            "matches_corrected": int(self._fates["corrected"][0]),
            "matches_held": 0 if self._pending is None else len(self._pending.number),
        }

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        broken = self._policy.broken(timeline)
        if self._purged:
            broken = broken | timeline.below_promises()
        self._broken += int(broken.sum())
        pending = self._pending
        old = 0 if pending is None else len(pending.number)
        if changes is not None:
            fresh = self._new_matches(changes, store)
            pending = fresh if pending is None else joined(pending, fresh)
        if pending is None or not (len(pending.number) or changes):
            return None
        due = self._due_parts(pending, changes, timeline, store)
        parts = [*due, _deadlines(pending, timeline.now)]
        if changes is not None:
            parts.insert(0, _change_parts(pending, old, changes, store))
        return self._replay(pending, old, changes, parts)

    def advance(self, now: int) -> ReleasedMatches | None:
        pending = self._pending
        if pending is None or not (pending.deadline < now).any():
            return None
        return self._replay(pending, len(pending.number), None, [_deadlines(pending, now)])

    def finish(self, at: int) -> ReleasedMatches | None:
        """Release every match: at its deadline if that is before ``at``, else at ``at``."""
        pending = self._pending
        if pending is None:
            return None
        every = np.arange(len(pending.number))
        parts = [_deadlines(pending, at)]
        parts += [
            _Parts.of(kind, every, at, _NEVER, what, pending.number)
            for what, kind in enumerate((LAST_DUE, DUE))
        ]
        return self._replay(pending, len(every), None, parts)

    def _new_matches(self, changes: Changes, store: EventTable) -> _PendingMatches:
        is_new = ~changes.before.stands
        new = slice(None) if is_new.all() else np.flatnonzero(is_new)  # a slice makes no copies
        rows = changes.rows[new]
        n = len(rows)
        known = changes.known_at[new]
        hold = self._policy.hold_ns()
        release = store.columns["release"][changes.completing[new]]
        number = np.arange(self._number, self._number + n)
        self._number += n
        closes = changes.closes[new]
        return _PendingMatches(
            number, rows, changes.branch[new], known, changes.last_ns[new],
            np.full(n, _NEVER) if hold is None else np.maximum(known + hold, release),
            changes.after.confirmed[new].copy(), changes.after.chance[new].copy(),
            np.zeros(n, np.bool_), np.zeros(n, np.bool_), self._policy.targets(closes),
            self._policy.last_targets(closes) if self._ordered else closes[:, :0],
        )  # fmt: skip

    def _due_parts(
        self,
        pending: _PendingMatches,
        changes: Changes | None,
        timeline: StreamTimeline,
        store: EventTable,
    ) -> list[_Parts]:
        """Return the places at which the clocks reach the targets of pending matches."""
        known, known_moment = (
            np.full(len(pending.number), LONG_AGO),
            np.full(len(pending.number), -1),
        )
        if changes is not None:
            new = np.flatnonzero(~changes.before.stands)
            first = len(pending.number) - len(new)
            completing = changes.completing[new]
            known[first:] = store.columns["release"][completing]
            known_moment[first:] = 2 * store.columns[ORDER][completing] + 1
        parts = []
        waiting = ~pending.due & (pending.deadline == _NEVER)
        targets = [(DUE, self._policy.clocks(timeline.closed), pending.target, waiting)]
        if self._ordered:
            clocks = self._policy.last_clocks(timeline.passed)
            targets.append((LAST_DUE, clocks, pending.last_target, ~pending.last_due))
        for kind, clocks, target, waits in targets:
            some = np.flatnonzero(waits)
            at, moment = known[some], known_moment[some]
            reached = np.ones(len(some), np.bool_)
            for number, steps in enumerate(clocks):
                place = np.searchsorted(steps.value, target[some, number])
                reached &= place < len(steps.value)
                place = np.minimum(place, len(steps.value) - 1)
                at = np.maximum(at, steps.at[place])
                moment = np.maximum(moment, steps.moment[place])
            some, at, moment = some[reached], at[reached], moment[reached]
            parts.append(_Parts.of(kind, some, at, moment, 1, pending.number[some]))
        return parts

    def _replay(
        self, pending: _PendingMatches, old: int, changes: Changes | None, parts: list[_Parts]
    ) -> ReleasedMatches:
        n = len(pending.number)
        every = joined(*parts)
        order = np.lexsort((every.number, every.what, every.moment, every.late, every.at))
        happenings = Happenings(
            every.kind[order], every.entry[order], every.change[order], every.at[order]
        )
        states = _state_changes(changes)
        out = room_for(n, len(states.stands))
        where = np.full(n, FUTURE)
        where[:old] = PENDING
        entries = ReplayEntries(
            where, pending.due, pending.last_due, pending.last_ns, pending.confirmed,
            pending.chance, np.empty(n, np.int64),
        )  # fmt: skip
        replay(happenings, entries, states, self._ordered, self._fates, out)
        released = _released_matches(pending, changes, out)
        self._pending = take_rows(pending, where == PENDING)
        return released

    def held_rows(self) -> np.ndarray:
        if self._pending is None:
            return np.empty(0, np.int64)
        return self._pending.rows[self._pending.rows >= 0]

    def renumber(self, number: np.ndarray) -> None:
        if self._pending is not None:
            rows = self._pending.rows
            self._pending = self._pending._replace(rows=np.where(rows >= 0, number[rows], -1))

    def snapshot(self) -> dict[str, Any]:
        return {
            "held": None if self._pending is None else [column.copy() for column in self._pending],
            "fates": self._fates.copy(),
            "number": self._number,
            "broken": self._broken,
        }

    def restore(self, state: dict[str, Any]) -> None:
        pending = state["held"]
        self._pending = (
            None if pending is None else _PendingMatches(*(column.copy() for column in pending))
        )
        self._fates = state["fates"].copy()
        self._number, self._broken = state["number"], state["broken"]


class _Parts(NamedTuple):
    """Unsorted ``Happenings`` with their sort keys: ``at late moment what number``.

    ``late``: 1 for deadlines, which come after all records of their instant. ``what``: 0 for the
    changes of a row, 1 for matches that become due at it.
    """

    kind: np.ndarray
    entry: np.ndarray
    change: np.ndarray
    at: np.ndarray
    late: np.ndarray
    moment: np.ndarray
    what: np.ndarray
    number: np.ndarray

    @classmethod
    def of(
        cls, kind: int, entry: np.ndarray, at: np.ndarray | int, moment: np.ndarray | int,
        what: int, number: np.ndarray, late: int = 0,
    ) -> _Parts:  # fmt: skip
        n = len(entry)

        def full(value: np.ndarray | int) -> np.ndarray:
            return np.broadcast_to(np.asarray(value, np.int64), n)

        return cls(
            full(kind), entry, full(-1), full(at), full(late), full(moment), full(what), number
        )


def _deadlines(pending: _PendingMatches, now: int) -> _Parts:
    """Return the matches whose deadline is before ``now``, as due."""
    past = np.flatnonzero(pending.deadline < now)
    return _Parts.of(DUE, past, pending.deadline[past], 0, 1, pending.number[past], late=1)


def _change_parts(
    pending: _PendingMatches, old: int, changes: Changes, store: EventTable
) -> _Parts:
    """Return the changes with the entries of their matches; new matches start at ``old``."""
    is_new = ~changes.before.stands
    entry = np.full(len(changes), -1)
    entry[is_new] = old + np.arange(int(is_new.sum()))
    others = np.flatnonzero(~is_new)
    if len(others):
        entry[others] = _entries_of(pending, old, changes, others)
    cause = changes.cause
    every = np.arange(len(changes))
    return _Parts(
        np.where(is_new, NEW, CHANGED), entry, every, store.columns["release"][cause],
        np.zeros(len(changes), np.int64), 2 * store.columns[ORDER][cause] + 1,
        np.zeros(len(changes), np.int64), every,
    )  # fmt: skip


def _entries_of(
    pending: _PendingMatches, old: int, changes: Changes, others: np.ndarray
) -> np.ndarray:
    """Return per change of ``others`` the entry of its match, or -1.

    An operator may retract a match and find it again in one batch, so the entry is the newest one
    before the change.
    """
    identities = np.column_stack([changes.branch[others], changes.rows[others]])
    names = numbered(identities)
    first = np.unique(names, return_index=True)[1]
    of = places_of(identities[first], np.column_stack([pending.branch, pending.rows]))
    some = np.flatnonzero(of >= 0)
    came = np.concatenate([np.zeros(old, np.int64), np.flatnonzero(~changes.before.stands) + 1])
    moment = of[some] * (len(changes) + 1) + came[some]
    order = np.argsort(moment)
    place = np.searchsorted(moment[order], names * (len(changes) + 1) + others, "right") - 1
    found = np.append(some[order], -1)[place]  # -1 is the last place, too
    return np.where(np.append(of, -1)[found] == names, found, -1)


def _state_changes(changes: Changes | None) -> StateChanges:
    if changes is None:
        none = np.empty(0, np.bool_)
        real = np.empty(0, np.float64)
        return StateChanges(none, real, none, none, real)
    before, after = changes.before, changes.after
    return StateChanges(
        before.confirmed, before.chance, after.stands, after.confirmed, after.chance
    )


def _released_matches(
    pending: _PendingMatches, changes: Changes | None, out: Releases
) -> ReleasedMatches:
    n = int(out.n[0])
    entry, rows, branch, known = out.entry[:n], pending.rows, pending.branch, pending.known_at
    if changes is not None and (entry < 0).any():
        entry = np.where(entry < 0, len(rows) + out.change[:n], entry)
        rows = np.concatenate([rows, changes.rows])
        branch = np.concatenate([branch, changes.branch])
        known = np.concatenate([known, changes.known_at])
    return ReleasedMatches(
        rows[entry], branch[entry], out.plus[:n].copy(), out.at[:n].copy(), known[entry],
        out.confirmed[:n].copy(), out.chance[:n].copy(),
    )  # fmt: skip
