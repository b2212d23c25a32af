"""Active instance stacks: per step and key, the events held, sorted by event time.

Source: SASE's AIS (L10 4.2) with insertion in event time order (L10 Algorithm 6). A stack is a
range of a pool with room to grow; it is found by its key in a hash table. A newcomer with the
largest time is appended, any other one moves those above it up. What has expired is taken off at
the low end when a stack is looked at (lazily), and everywhere when the stacks are rebuilt.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import inline, kernel
from engine.kernels.hashing import mixed

# Places in ``Stacks.used``.
STACKS: Final = 0
POOL: Final = 1
MOVED: Final = 2
"""Entries shifted by insertions, so far."""
LOOKED: Final = 3
"""Candidates looked at, so far."""
_USED: Final = 4

# Columns of ``Stacks.stack``.
INDEX: Final = 0
KEY: Final = 1
START: Final = 2
SIZE: Final = 3
ROOM: Final = 4
GONE: Final = 5
"""Entries taken off at the low end so far: places that others keep count from there."""
# Columns of ``Stacks.entry``.
TIME: Final = 0
ROW: Final = 1
RIP_PLACE: Final = 2
"""How many entries of the stack before are older (L10: the most recent one is the last of them)."""
RIN_PLACE: Final = 3
"""How many entries of the stack after are not newer."""
_WIDTH: Final = 4

_EMPTY: Final = -1
_LEAST_ROOM: Final = 4


class Stacks(NamedTuple):
    """Arrays of all stacks, int64.

    ``table``: open addressing, a power of two long; numbers of stacks or -1. ``stack``: (stacks,
    6), its range in the pool among them; ``entry``: (pool, 4). ``used``: how much of these.
    """

    table: np.ndarray
    stack: np.ndarray
    entry: np.ndarray
    used: np.ndarray


class Beside(NamedTuple):
    """Of an index, and of the event that is put in one of its stacks.

    ``own``: the index; ``before``, ``after``: those of the neighbouring steps with the same key, or
    -1. ``rip``, ``rin``: which places are kept. ``newest``: it is, so it shifts nobody's place.
    """

    own: int
    before: int
    after: int
    rip: int
    rin: int
    newest: int


def empty_stacks(stacks: int = 16, pool: int = 128) -> Stacks:
    """With room for ``stacks`` stacks and ``pool`` entries."""
    length = 1 << max(stacks * 2, 2).bit_length()
    return Stacks(
        np.full(length, _EMPTY, np.int64), np.zeros((stacks, 6), np.int64),
        np.zeros((pool, _WIDTH), np.int64), np.zeros(_USED, np.int64),
    )  # fmt: skip


@kernel
def _place(table: np.ndarray, stack: np.ndarray, index: int, key: int) -> int:
    """Where the stack stands in the table, or would stand."""
    mask = len(table) - 1
    place = mixed(key, index + 1) & mask
    while True:
        found = table[place]
        if found == _EMPTY or (stack[found, KEY] == key and stack[found, INDEX] == index):
            return place
        place = (place + 1) & mask


@inline
def find(stacks: Stacks, index: int, key: int) -> int:
    """The stack, or -1."""
    return int(stacks.table[_place(stacks.table, stacks.stack, index, key)])


@kernel
def first_not_below(entry: np.ndarray, start: int, size: int, ref: int) -> int:
    """The lowest of ``size`` entries from ``start`` on that has at least the time ``ref``."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if entry[middle, TIME] < ref:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def needed(stacks: Stacks, index: int, key: int) -> int:
    """How much of the pool one more entry takes."""
    found = find(stacks, index, key)
    if found == _EMPTY:
        return _LEAST_ROOM
    size, room = stacks.stack[found, SIZE], stacks.stack[found, ROOM]
    return 2 * size + _LEAST_ROOM if size == room else 0


@kernel
def insert(stacks: Stacks, key: int, ref: int, row: int, beside: Beside) -> None:
    """Put an entry in, above those of equal time; there is room (``needed``)."""
    place = _place(stacks.table, stacks.stack, beside.own, key)
    stack, entry = stacks.stack, stacks.entry
    found = stacks.table[place]
    if found == _EMPTY:
        found = stacks.used[STACKS]
        stacks.used[STACKS] += 1
        stacks.table[place] = found
        stack[found, INDEX], stack[found, KEY] = beside.own, key
        stack[found, START] = stack[found, SIZE] = stack[found, ROOM] = stack[found, GONE] = 0
    size = stack[found, SIZE]
    if size == stack[found, ROOM]:
        _move(stacks, found)
    low = stack[found, START]
    at = low + size
    while at > low and entry[at - 1, TIME] > ref:
        _copy(entry, at - 1, at)
        at -= 1
        stacks.used[MOVED] += 1
    entry[at, TIME], entry[at, ROW] = ref, row
    stack[found, SIZE] = size + 1
    if beside.rip or beside.rin:
        _place_beside(stacks, at, key, ref, beside)


@kernel
def _place_beside(stacks: Stacks, at: int, key: int, ref: int, beside: Beside) -> None:
    """The places that a new entry keeps, and those that others keep and it has shifted."""
    if beside.rip and beside.before >= 0:
        before = find(stacks, beside.before, key)
        stacks.entry[at, RIP_PLACE] = _number_below(stacks, before, ref, beside.newest)
    if beside.rin and beside.after >= 0:
        after = find(stacks, beside.after, key)
        stacks.entry[at, RIN_PLACE] = _number_below(stacks, after, ref + 1, beside.newest)
    if not beside.newest:
        if beside.rip and beside.after >= 0:
            _shift(stacks, find(stacks, beside.after, key), RIP_PLACE, ref + 1)
        if beside.rin and beside.before >= 0:
            _shift(stacks, find(stacks, beside.before, key), RIN_PLACE, ref)


@inline
def _copy(entry: np.ndarray, source: int, target: int) -> None:
    for column in range(_WIDTH):
        entry[target, column] = entry[source, column]


@kernel
def _number_below(stacks: Stacks, found: int, ref: int, newest: int) -> int:
    """How many entries there ever were below ``ref``; all, if it is the newest time."""
    if found == _EMPTY:
        return 0
    start, size = stacks.stack[found, START], stacks.stack[found, SIZE]
    if not newest:
        size = first_not_below(stacks.entry, start, size, ref) - start
    return int(stacks.stack[found, GONE] + size)


@kernel
def _shift(stacks: Stacks, found: int, column: int, ref: int) -> None:
    """A late entry moved what those from time ``ref`` on point to up by one."""
    if found == _EMPTY:
        return
    start = stacks.stack[found, START]
    at = start + stacks.stack[found, SIZE] - 1
    while at >= start and stacks.entry[at, TIME] >= ref:
        stacks.entry[at, column] += 1
        stacks.used[MOVED] += 1
        at -= 1


@inline
def _move(stacks: Stacks, found: int) -> None:
    """To the end of the pool, with twice the room."""
    stack, entry = stacks.stack, stacks.entry
    start, size, end = stack[found, START], stack[found, SIZE], stacks.used[POOL]
    for i in range(size):
        _copy(entry, start + i, end + i)
    stack[found, START] = end
    stack[found, ROOM] = 2 * size if size else _LEAST_ROOM
    stacks.used[POOL] = end + stack[found, ROOM]


@kernel
def _fill(old: Stacks, number: np.ndarray, new: Stacks) -> None:
    """Into the empty ``new`` the entries of ``old`` whose row stays."""
    for found in range(old.used[STACKS]):
        start = old.stack[found, START]
        kept, stop = 0, start + old.stack[found, SIZE]
        for at in range(start, stop):
            if number[old.entry[at, ROW]] >= 0:
                kept += 1
        if not kept:
            continue
        made, at_new = new.used[STACKS], new.used[POOL]
        index, key = old.stack[found, INDEX], old.stack[found, KEY]
        new.table[_place(new.table, new.stack, index, key)] = made
        new.stack[made, INDEX], new.stack[made, KEY] = index, key
        new.stack[made, START], new.stack[made, SIZE] = at_new, kept
        new.stack[made, ROOM] = kept + (kept >> 1) + 1
        new.used[STACKS] += 1
        new.used[POOL] += new.stack[made, ROOM]
        for at in range(start, stop):
            row = number[old.entry[at, ROW]]
            if row >= 0:
                new.entry[at_new, TIME], new.entry[at_new, ROW] = old.entry[at, TIME], row
                at_new += 1


@kernel
def _point(stacks: Stacks, beside: np.ndarray) -> None:
    """The places that entries keep, anew."""
    for found in range(stacks.used[STACKS]):
        index, key = stacks.stack[found, INDEX], stacks.stack[found, KEY]
        start = stacks.stack[found, START]
        for at in range(start, start + stacks.stack[found, SIZE]):
            ref = stacks.entry[at, TIME]
            if beside[index, 0] >= 0:
                before = find(stacks, beside[index, 0], key)
                stacks.entry[at, RIP_PLACE] = _number_below(stacks, before, ref, 0)
            if beside[index, 1] >= 0:
                after = find(stacks, beside[index, 1], key)
                stacks.entry[at, RIN_PLACE] = _number_below(stacks, after, ref + 1, 0)


def rebuilt(
    old: Stacks, number: np.ndarray, stacks: int, pool: int, beside: np.ndarray | None
) -> Stacks:
    """``old`` with rows renamed, in arrays with room for more.

    Args:
        old: stacks.
        number: what row i is called from now on, -1 if it goes.
        stacks: room for as many new stacks.
        pool: room for as many new entries.
        beside: (indexes, 2): the index before and after each, if places of entries are kept.
    """
    known = int(old.used[STACKS])
    held = int(old.stack[:known, SIZE].sum())
    new = empty_stacks(known + stacks, held + held // 2 + known + pool)
    _fill(old, number, new)
    new.used[MOVED:] = old.used[MOVED:]
    if beside is not None:
        _point(new, beside)
    return new
