"""What happens to matches that are held, one after another: the loop behind every barrier.

Matches are numbered as entries; whether one is held, due and so on stands in columns. The fates of
matches steer ``adaptive``: their rate is smoothed here, at their places in the stream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.hashing import mixed
from engine.kernels.jit import inline, kernel

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

# Places in ``Fates.state``.
RATE_PPM: Final = 0
WAITS: Final = 1
"""1: new matches wait until they are due; 0: they leave at once."""
ADAPTS: Final = 2
DROPPED: Final = 3
CORRECTED: Final = 4
FATES: Final = 5

_ONE: Final = 1_000_000
_SMOOTHING: Final = 64
_WAIT_ABOVE_PPM: Final = 100_000
_AT_ONCE_BELOW_PPM: Final = 50_000


class Entries(NamedTuple):
    """Matches, by entry. ``heap``: scratch of as many entries."""

    where: np.ndarray
    due: np.ndarray
    last_due: np.ndarray
    number: np.ndarray
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


class Turns(NamedTuple):
    """Changes of older matches, by change: as they stood, and as they stand now."""

    was_confirmed: np.ndarray
    was_chance: np.ndarray
    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray


class Let(NamedTuple):
    """What is let go: an entry, or (-1) the match of a change; ``n``: how many."""

    entry: np.ndarray
    change: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
    n: np.ndarray


def room_for(entries: int, changes: int) -> Let:
    """Each entry is let go once at most, each change corrects with two results at most."""
    room = entries + 2 * changes
    return Let(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.bool_),
        np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(room, np.float64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inline
def _observe(state: np.ndarray, spoilt: int) -> None:
    """A match was let go or, ``spoilt``, changed by a later row."""
    if state[ADAPTS]:
        state[RATE_PPM] += ((_ONE if spoilt else 0) - state[RATE_PPM]) // _SMOOTHING
        if state[RATE_PPM] > _WAIT_ABOVE_PPM:
            state[WAITS] = 1
        elif state[RATE_PPM] < _AT_ONCE_BELOW_PPM:
            state[WAITS] = 0


@inline
def _write(
    let: Let, entry: int, change: int, plus: bool, at: int, confirmed: bool, chance: float
) -> None:
    n = let.n[0]
    let.entry[n], let.change[n], let.plus[n], let.at[n] = entry, change, plus, at
    let.confirmed[n], let.chance[n] = confirmed, chance
    let.n[0] = n + 1


@inline
def _let_go(e: Entries, entry: int, at: int, state: np.ndarray, let: Let) -> None:
    _observe(state, 0)
    e.where[entry] = GONE
    _write(let, entry, -1, True, at, e.confirmed[entry], e.chance[entry])


@inline
def _earlier(e: Entries, first: int, second: int) -> bool:
    """Whether ``first`` leaves before ``second``: by its last event, then by number."""
    if e.last_ns[first] != e.last_ns[second]:
        return bool(e.last_ns[first] < e.last_ns[second])
    return bool(e.number[first] < e.number[second])


@inline
def _push(e: Entries, size: int, entry: int) -> None:
    at = size
    while at > 0 and _earlier(e, entry, e.heap[(at - 1) >> 1]):
        e.heap[at] = e.heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    e.heap[at] = entry


@inline
def _pop(e: Entries, size: int) -> None:
    """Takes the first off a heap of ``size``."""
    entry, at, size = e.heap[size - 1], 0, size - 1
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _earlier(e, e.heap[child + 1], e.heap[child]):
            child += 1
        if not _earlier(e, e.heap[child], entry):
            break
        e.heap[at] = e.heap[child]
        at = child
    if size > 0:
        e.heap[at] = entry


@inline
def _let_go_ordered(e: Entries, size: int, at: int, state: np.ndarray, let: Let) -> int:
    """Those that are due and before which none is held or can come; the heap's new size."""
    while size > 0:
        first = e.heap[0]
        if e.where[first] == HELD:
            if not (e.due[first] and e.last_due[first]):
                return size
            _let_go(e, first, at, state, let)
        _pop(e, size)
        size -= 1
    return size


@kernel
def replay(
    happens: Happenings, e: Entries, turns: Turns, ordered: bool, state: np.ndarray, let: Let
) -> None:
    """Go through ``happens``.

    Args:
        happens: in order.
        e: the matches; those held already are HELD.
        turns: by change.
        ordered: whether matches leave by their last event's time.
        state: FATES numbers.
        let: has room (``room_for``).
    """
    size = 0
    if ordered:
        for entry in range(len(e.where)):
            if e.where[entry] == HELD:
                _push(e, size, entry)
                size += 1
    for i in range(len(happens.kind)):
        kind, entry, at = happens.kind[i], happens.entry[i], happens.at[i]
        if kind == NEW:
            e.where[entry] = HELD
            if ordered:
                _push(e, size, entry)
                size += 1
            if not state[WAITS]:
                e.due[entry] = True
        elif kind == CHANGED:
            _observe(state, 1)
            change = happens.change[i]
            if entry < 0 or e.where[entry] != HELD:
                state[CORRECTED] += 1
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
                state[DROPPED] += 1
        elif kind == DUE:
            e.due[entry] = True
        else:
            e.last_due[entry] = True
        if ordered:
            size = _let_go_ordered(e, size, at, state, let)
        elif entry >= 0 and e.where[entry] == HELD and e.due[entry]:
            _let_go(e, entry, at, state, let)


@kernel
def _look_up(known: np.ndarray, wanted: np.ndarray, table: np.ndarray, found: np.ndarray) -> None:
    mask = len(table) - 1
    for i in range(len(known)):
        place = _hash(known, i) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = i
    for i in range(len(wanted)):
        place = _hash(wanted, i) & mask
        while table[place] >= 0 and not _equal(known, table[place], wanted, i):
            place = (place + 1) & mask
        found[i] = table[place]


@inline
def _hash(rows: np.ndarray, i: int) -> int:
    found = 0
    for column in range(rows.shape[1]):
        found = mixed(found, rows[i, column])
    return found


@inline
def _equal(first: np.ndarray, i: int, second: np.ndarray, j: int) -> bool:
    same = True
    for column in range(first.shape[1]):
        same = same and first[i, column] == second[j, column]
    return bool(same)


def same_rows(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per row of ``wanted`` the place of an equal row of ``known`` (whose rows differ), or -1.

    Args:
        known: (n, columns) int64.
        wanted: (m, columns) int64.
    """
    table = np.full(1 << (2 * len(known) + 1).bit_length(), -1)
    found = np.empty(len(wanted), np.int64)
    _look_up(known, wanted, table, found)
    return found
