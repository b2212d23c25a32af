"""Holds matches until they are due: what every barrier but ``immediate`` has in common.

A policy says when a match is due: when clocks have come to given values, or at an instant of the
arrival clock. A later row that invalidates a match which is held removes it without a word; one
that changes a match which was let go corrects it (``-`` and, if it is still valid, ``+``). At one
instant records go before what is due, and a row's own changes before what it makes due.

``ordered``: what is due leaves by its last event's time, when no earlier match is held and none
can come, as the policy's clocks say.
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

# What happens to matches that are held, one after another.
#
# Matches are numbered as entries; whether one is held, due and so on is in columns. The fates of
# matches steer ``adaptive``: their rate is smoothed here, at their places in the stream.


# What happens.
NEW: Final = 0
CHANGED: Final = 1
DUE: Final = 2
LAST_DUE: Final = 3
"""No earlier match can come any more."""

# Where a match is.
TO_COME: Final = 0
HELD: Final = 1
GONE: Final = 2

FATES: Final = record("rate_ppm", "waits", "adapts", "dropped", "corrected")
"""``rate_ppm``: of matches that a later row changed. ``waits``: 1: new matches wait until they are
due; 0: they leave at once; ``adapts``: 1: the rate decides that. Counters.
"""

_ONE: Final = 1_000_000
_SMOOTHING: Final = 64
_WAIT_ABOVE_PPM: Final = 100_000
_AT_ONCE_BELOW_PPM: Final = 50_000


class ReplayEntries(NamedTuple):
    """Matches, by entry, in order of their numbers. ``heap``: scratch of as many entries."""

    where: np.ndarray
    due: np.ndarray
    last_due: np.ndarray
    last_ns: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    heap: np.ndarray


class Happenings(NamedTuple):
    """What happens, in order: ``kind``, to which ``entry`` (-1: one that is not held), by which
    ``change`` (-1: none), ``at`` which instant of the arrival clock.
    """

    kind: np.ndarray
    entry: np.ndarray
    change: np.ndarray
    at: np.ndarray


class StateChanges(NamedTuple):
    """Changes of older matches, by change: as they stood, and as they stand now."""

    was_confirmed: np.ndarray
    was_chance: np.ndarray
    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray


class Releases(NamedTuple):
    """What is let go: an entry, or (-1) the match of a change; ``n``: how many."""

    entry: np.ndarray
    change: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    n: np.ndarray


def room_for(entries: int, changes: int) -> Releases:
    """Each entry is let go once at most, each change corrects with two results at most."""
    room = entries + 2 * changes
    return Releases(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_),
        np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(room, np.float64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inline
def _observe(state: Record, spoilt: int) -> None:
    """A match was let go or, ``spoilt``, changed by a later row."""
    if state.adapts:
        state.rate_ppm += ((_ONE if spoilt else 0) - state.rate_ppm) // _SMOOTHING
        if state.rate_ppm > _WAIT_ABOVE_PPM:
            state.waits = 1
        elif state.rate_ppm < _AT_ONCE_BELOW_PPM:
            state.waits = 0


@inline
def _write(
    let: Releases, entry: int, change: int, plus: bool, at: int, confirmed: bool, chance: float
) -> None:
    n = let.n[0]
    let.entry[n], let.change[n], let.plus[n], let.at[n] = entry, change, plus, at
    let.confirmed[n], let.chance[n] = confirmed, chance
    let.n[0] = n + 1


@inline
def _let_go(e: ReplayEntries, entry: int, at: int, state: Record, let: Releases) -> None:
    _observe(state, 0)
    e.where[entry] = GONE
    _write(let, entry, -1, True, at, e.confirmed[entry], e.chance[entry])


@inline
def _let_go_ordered(e: ReplayEntries, size: int, at: int, state: Record, let: Releases) -> int:
    """Those that are due and before which none is held or can come; the heap's new size.

    By their last event, then by number, in which order entries are.
    """
    while size > 0:
        first = e.heap[0]
        if e.where[first] == HELD:
            if not (e.due[first] and e.last_due[first]):
                return size
            _let_go(e, first, at, state, let)
        heap.pop(e.heap, size, e.last_ns)
        size -= 1
    return size


@kernel
def replay(
    happens: Happenings,
    e: ReplayEntries,
    turns: StateChanges,
    ordered: bool,
    fates: np.ndarray,
    let: Releases,
) -> None:
    """Go through ``happens``.

    Args:
        happens: in order.
        e: the matches; those held already are HELD.
        turns: by change.
        ordered: whether matches leave by their last event's time.
        fates: one FATES.
        let: has room (``room_for``).
    """
    state, size = fates[0], 0
    if ordered:
        for entry in range(len(e.where)):
            if e.where[entry] == HELD:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
    for i in range(len(happens.kind)):
        kind, entry, at = happens.kind[i], happens.entry[i], happens.at[i]
        if kind == NEW:
            e.where[entry] = HELD
            if ordered:
                heap.push(e.heap, size, e.last_ns, entry)
                size += 1
            if not state.waits:
                e.due[entry] = True
        elif kind == CHANGED:
            _observe(state, 1)
            change = happens.change[i]
            if entry < 0 or e.where[entry] != HELD:
                state.corrected += 1
                _write(
                    let, -1, change, False, at, turns.was_confirmed[change],
                    turns.was_chance[change],
                )  # fmt: skip
                if turns.stands[change]:
                    _write(let, -1, change, True, at, turns.confirmed[change], turns.chance[change])
            elif turns.stands[change]:
                e.confirmed[entry], e.chance[entry] = turns.confirmed[change], turns.chance[change]
            else:
                e.where[entry] = GONE
                state.dropped += 1
        elif kind == DUE:
            e.due[entry] = True
        else:
            e.last_due[entry] = True
        if ordered:
            size = _let_go_ordered(e, size, at, state, let)
        elif entry >= 0 and e.where[entry] == HELD and e.due[entry]:
            _let_go(e, entry, at, state, let)


_NEVER: Final = 2**63 - 1


class _Held(NamedTuple):
    """Matches in columns; ``target`` and ``last_target``: (matches, clocks)."""

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
    """A barrier made of a policy.

    Args:
        policy: when matches are due.
        asked: of the query.
        ordered: whether they leave by their last event's time.
    """

    def __init__(self, policy: Policy, asked: BarrierRequirements, *, ordered: bool) -> None:
        self._policy = policy
        self._ordered = ordered
        self._purged = asked.purged
        self._fates = one(FATES, adapts=policy.adapts, waits=not policy.adapts)
        self._held: _Held | None = None
        self._number = 0
        self._broken = 0

    def counters(self) -> dict[str, int]:
        """``promises_broken``: rows below what was promised. ``matches_dropped``: invalidated while
        they were held; ``matches_corrected``: after they had been let go; ``matches_held``: now.
        """
        return {
            "promises_broken": self._broken,
            "matches_dropped": int(self._fates["dropped"][0]),
            "matches_corrected": int(self._fates["corrected"][0]),
            "matches_held": 0 if self._held is None else len(self._held.number),
        }

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        broken = self._policy.broken(timeline)
        if self._purged:
            broken = broken | timeline.below_promises()
        self._broken += int(broken.sum())
        held = self._held
        old = 0 if held is None else len(held.number)
        if changes is not None:
            fresh = self._taken_in(changes, store)
            held = fresh if held is None else joined(held, fresh)
        if held is None or not (len(held.number) or changes):
            return None
        due = self._becoming_due(held, changes, timeline, store)
        parts = [*due, _deadlines(held, timeline.now)]
        if changes is not None:
            parts.insert(0, _changing(held, old, changes, store))
        return self._replayed(held, old, changes, parts)

    def advance(self, now: int) -> ReleasedMatches | None:
        held = self._held
        if held is None or not (held.deadline < now).any():
            return None
        return self._replayed(held, len(held.number), None, [_deadlines(held, now)])

    def finish(self, at: int) -> ReleasedMatches | None:
        """Everything is due: what has a deadline until then at that, the rest at the end."""
        held = self._held
        if held is None:
            return None
        every = np.arange(len(held.number))
        parts = [_deadlines(held, at)]
        parts += [
            _Parts.of(kind, every, at, _NEVER, what, held.number)
            for what, kind in enumerate((LAST_DUE, DUE))
        ]
        return self._replayed(held, len(every), None, parts)

    def _taken_in(self, changes: Changes, store: EventTable) -> _Held:
        """The new matches."""
        is_new = ~changes.before.stands
        new = slice(None) if is_new.all() else np.flatnonzero(is_new)  # of all, no copies are made
        rows = changes.rows[new]
        n = len(rows)
        known = changes.known_at[new]
        hold = self._policy.hold_ns()
        release = store.columns["release"][changes.completing[new]]
        number = np.arange(self._number, self._number + n)
        self._number += n
        closes = changes.closes[new]
        return _Held(
            number, rows, changes.branch[new], known, changes.last_ns[new],
            np.full(n, _NEVER) if hold is None else np.maximum(known + hold, release),
            changes.after.confirmed[new].copy(), changes.after.chance[new].copy(),
            np.zeros(n, np.bool_), np.zeros(n, np.bool_), self._policy.targets(closes),
            self._policy.last_targets(closes) if self._ordered else closes[:, :0],
        )  # fmt: skip

    def _becoming_due(
        self, held: _Held, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> list[_Parts]:
        """Where the clocks come to what the matches wait for."""
        known, known_moment = np.full(len(held.number), LONG_AGO), np.full(len(held.number), -1)
        if changes is not None:
            new = np.flatnonzero(~changes.before.stands)
            first = len(held.number) - len(new)
            completing = changes.completing[new]
            known[first:] = store.columns["release"][completing]
            known_moment[first:] = 2 * store.columns[ORDER][completing] + 1
        parts = []
        waiting = ~held.due & (held.deadline == _NEVER)
        wanted = [(DUE, self._policy.clocks(timeline.closed), held.target, waiting)]
        if self._ordered:
            clocks = self._policy.last_clocks(timeline.passed)
            wanted.append((LAST_DUE, clocks, held.last_target, ~held.last_due))
        for kind, clocks, target, waits in wanted:
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
            parts.append(_Parts.of(kind, some, at, moment, 1, held.number[some]))
        return parts

    def _replayed(
        self, held: _Held, old: int, changes: Changes | None, parts: list[_Parts]
    ) -> ReleasedMatches:
        n = len(held.number)
        every = joined(*parts)
        order = np.lexsort((every.number, every.what, every.moment, every.late, every.at))
        happens = Happenings(
            every.kind[order], every.entry[order], every.change[order], every.at[order]
        )
        turns = _turns(changes)
        let = room_for(n, len(turns.stands))
        where = np.full(n, TO_COME)
        where[:old] = HELD
        entries = ReplayEntries(
            where, held.due, held.last_due, held.last_ns, held.confirmed, held.chance,
            np.empty(n, np.int64),
        )  # fmt: skip
        replay(happens, entries, turns, self._ordered, self._fates, let)
        given = _given(held, changes, let)
        self._held = take_rows(held, where == HELD)
        return given

    def held_rows(self) -> np.ndarray:
        if self._held is None:
            return np.empty(0, np.int64)
        return self._held.rows[self._held.rows >= 0]

    def renumber(self, number: np.ndarray) -> None:
        if self._held is not None:
            rows = self._held.rows
            self._held = self._held._replace(rows=np.where(rows >= 0, number[rows], -1))

    def snapshot(self) -> dict[str, Any]:
        return {
            "held": None if self._held is None else [column.copy() for column in self._held],
            "fates": self._fates.copy(),
            "number": self._number,
            "broken": self._broken,
        }

    def restore(self, state: dict[str, Any]) -> None:
        held = state["held"]
        self._held = None if held is None else _Held(*(column.copy() for column in held))
        self._fates = state["fates"].copy()
        self._number, self._broken = state["number"], state["broken"]


class _Parts(NamedTuple):
    """Things that happen: as ``Happenings``, and what says in which order.

    ``late``: 1 for deadlines, which come after all records of their instant. ``what``: 0 for the
    changes of a row, 1 for what becomes due at it.
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


def _deadlines(held: _Held, now: int) -> _Parts:
    """The deadlines before ``now``."""
    past = np.flatnonzero(held.deadline < now)
    return _Parts.of(DUE, past, held.deadline[past], 0, 1, held.number[past], late=1)


def _changing(held: _Held, old: int, changes: Changes, store: EventTable) -> _Parts:
    """The changes, each with the entry it is of; entries from ``old`` on are the new matches."""
    is_new = ~changes.before.stands
    entry = np.full(len(changes), -1)
    entry[is_new] = old + np.arange(int(is_new.sum()))
    others = np.flatnonzero(~is_new)
    if len(others):
        entry[others] = _found(held, old, changes, others)
    cause = changes.cause
    every = np.arange(len(changes))
    return _Parts(
        np.where(is_new, NEW, CHANGED), entry, every, store.columns["release"][cause],
        np.zeros(len(changes), np.int64), 2 * store.columns[ORDER][cause] + 1,
        np.zeros(len(changes), np.int64), every,
    )  # fmt: skip


def _found(held: _Held, old: int, changes: Changes, others: np.ndarray) -> np.ndarray:
    """Per change of ``others`` the entry of its match, or -1: the newest that was there before it,
    as an operator may take a match back and give it again in one batch.
    """
    asked = np.column_stack([changes.branch[others], changes.rows[others]])
    names = numbered(asked)
    first = np.unique(names, return_index=True)[1]
    of = places_of(asked[first], np.column_stack([held.branch, held.rows]))
    some = np.flatnonzero(of >= 0)
    came = np.concatenate([np.zeros(old, np.int64), np.flatnonzero(~changes.before.stands) + 1])
    moment = of[some] * (len(changes) + 1) + came[some]
    order = np.argsort(moment)
    place = np.searchsorted(moment[order], names * (len(changes) + 1) + others, "right") - 1
    found = np.append(some[order], -1)[place]  # -1 is the last place, too
    return np.where(np.append(of, -1)[found] == names, found, -1)


def _turns(changes: Changes | None) -> StateChanges:
    if changes is None:
        none = np.empty(0, np.bool_)
        real = np.empty(0, np.float64)
        return StateChanges(none, real, none, none, real)
    before, after = changes.before, changes.after
    return StateChanges(
        before.confirmed, before.chance, after.stands, after.confirmed, after.chance
    )


def _given(held: _Held, changes: Changes | None, let: Releases) -> ReleasedMatches:
    n = int(let.n[0])
    entry, rows, branch, known = let.entry[:n], held.rows, held.branch, held.known_at
    if changes is not None and (entry < 0).any():
        entry = np.where(entry < 0, len(rows) + let.change[:n], entry)
        rows = np.concatenate([rows, changes.rows])
        branch = np.concatenate([branch, changes.branch])
        known = np.concatenate([known, changes.known_at])
    return ReleasedMatches(
        rows[entry], branch[entry], let.plus[:n].copy(), let.at[:n].copy(), known[entry],
        let.confirmed[:n].copy(), let.chance[:n].copy(),
    )  # fmt: skip
