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

# Places in ``Stacks.used``.
SLOTS: Final = 0
POOL: Final = 1
MOVED: Final = 2
"""Entries shifted by insertions, so far."""
LOOKED: Final = 3
"""Candidates looked at, so far."""
_USED: Final = 4

_EMPTY: Final = -1
_LEAST_ROOM: Final = 4
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)


class Stacks(NamedTuple):
    """Arrays of all stacks.

    ``table``: open addressing, a power of two long; numbers of stacks or -1. Per stack: ``index``,
    ``key``, its range ``start``, ``size``, ``room`` in the pool. Per entry: ``ref``, ``row``.
    """

    table: np.ndarray
    index: np.ndarray
    key: np.ndarray
    start: np.ndarray
    size: np.ndarray
    room: np.ndarray
    ref: np.ndarray
    row: np.ndarray
    used: np.ndarray


def empty_stacks(slots: int = 64, pool: int = 1024) -> Stacks:
    """Stacks with room for ``slots`` stacks and ``pool`` entries."""
    length = 1 << max(slots * 2, 2).bit_length()

    def ints(size: int) -> np.ndarray:
        return np.zeros(size, np.int64)

    return Stacks(
        np.full(length, _EMPTY, np.int64), ints(slots), ints(slots), ints(slots), ints(slots),
        ints(slots), ints(pool), ints(pool), ints(_USED),
    )  # fmt: skip


@inline
def mixed(key: int, value: int) -> int:
    """``key`` with one more value mixed in."""
    bits = (np.uint64(key) ^ np.uint64(value)) * _MULTIPLIER
    return np.int64(bits ^ (bits >> np.uint64(32)))


@inline
def _place(stacks: Stacks, index: int, key: int) -> int:
    """Where the stack stands in the table, or would stand."""
    mask = len(stacks.table) - 1
    place = (mixed(key, index + 1)) & mask
    while True:
        stack = stacks.table[place]
        if stack == _EMPTY or (stacks.key[stack] == key and stacks.index[stack] == index):
            return place
        place = (place + 1) & mask


@inline
def find(stacks: Stacks, index: int, key: int) -> int:
    """The stack, or -1."""
    return stacks.table[_place(stacks, index, key)]


@inline
def first_not_below(stacks: Stacks, stack: int, ref: int) -> int:
    """The place in the pool of the lowest entry with at least ``ref``."""
    low = stacks.start[stack]
    high = low + stacks.size[stack]
    while low < high:
        middle = (low + high) >> 1
        if stacks.ref[middle] < ref:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def trim(stacks: Stacks, stack: int, expires: np.ndarray, frontier: int) -> None:
    """Take off what has expired, from the low end."""
    start, size = stacks.start[stack], stacks.size[stack]
    while size > 0 and expires[stacks.row[start]] < frontier:
        start += 1
        size -= 1
        stacks.room[stack] -= 1
    stacks.start[stack] = start
    stacks.size[stack] = size


@inline
def needed(stacks: Stacks, index: int, key: int) -> int:
    """How much of the pool one more entry takes."""
    stack = find(stacks, index, key)
    if stack == _EMPTY:
        return _LEAST_ROOM
    full = stacks.size[stack] == stacks.room[stack]
    return 2 * stacks.size[stack] + _LEAST_ROOM if full else 0


@inline
def insert(stacks: Stacks, index: int, key: int, ref: int, row: int) -> None:
    """Put an entry in, above those of equal time; there is room."""
    place = _place(stacks, index, key)
    stack = stacks.table[place]
    if stack == _EMPTY:
        stack = stacks.used[SLOTS]
        stacks.used[SLOTS] += 1
        stacks.table[place] = stack
        stacks.index[stack], stacks.key[stack] = index, key
        stacks.start[stack], stacks.size[stack], stacks.room[stack] = 0, 0, 0
    size = stacks.size[stack]
    if size == stacks.room[stack]:
        _move(stacks, stack)
    at = stacks.start[stack] + size
    low = stacks.start[stack]
    while at > low and stacks.ref[at - 1] > ref:
        stacks.ref[at], stacks.row[at] = stacks.ref[at - 1], stacks.row[at - 1]
        at -= 1
        stacks.used[MOVED] += 1
    stacks.ref[at], stacks.row[at] = ref, row
    stacks.size[stack] = size + 1


@inline
def _move(stacks: Stacks, stack: int) -> None:
    """To the end of the pool, with twice the room."""
    start, size = stacks.start[stack], stacks.size[stack]
    end = stacks.used[POOL]
    for i in range(size):
        stacks.ref[end + i], stacks.row[end + i] = stacks.ref[start + i], stacks.row[start + i]
    stacks.start[stack] = end
    stacks.room[stack] = 2 * size if size else _LEAST_ROOM
    stacks.used[POOL] = end + stacks.room[stack]


@kernel
def rebuild(old: Stacks, number: np.ndarray, new: Stacks) -> None:
    """Fill the empty ``new`` with the entries of ``old`` whose row stays.

    Args:
        old: stacks.
        number: what row i is called from now on, -1 if it goes.
        new: empty, with room for all of it (``needs``).
    """
    for stack in range(old.used[SLOTS]):
        kept = 0
        for at in range(old.start[stack], old.start[stack] + old.size[stack]):
            if number[old.row[at]] >= 0:
                kept += 1
        if not kept:
            continue
        made, at_new = new.used[SLOTS], new.used[POOL]
        new.table[_place(new, old.index[stack], old.key[stack])] = made
        new.index[made], new.key[made] = old.index[stack], old.key[stack]
        new.start[made], new.size[made], new.room[made] = at_new, kept, kept + (kept >> 1) + 1
        new.used[SLOTS] += 1
        new.used[POOL] += new.room[made]
        for at in range(old.start[stack], old.start[stack] + old.size[stack]):
            row = number[old.row[at]]
            if row >= 0:
                new.ref[at_new], new.row[at_new] = old.ref[at], row
                at_new += 1


def rebuilt(old: Stacks, number: np.ndarray, slots: int, pool: int) -> Stacks:
    """``old`` with rows renamed (``rebuild``), in arrays with room for that much more.

    Args:
        old: stacks.
        number: what row i is called from now on, -1 if it goes.
        slots: room for as many new stacks.
        pool: room for as many new entries.
    """
    held = int(old.size[: int(old.used[SLOTS])].sum())
    stacks = int(old.used[SLOTS])
    new = empty_stacks(stacks + slots, held + held // 2 + stacks + pool)
    rebuild(old, number, new)
    new.used[MOVED:] = old.used[MOVED:]
    return new
