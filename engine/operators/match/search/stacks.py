"""Active instance stacks: per step and key, the events held, sorted by event time.

Source: SASE's AIS (L10 4.2) with insertion in event time order (L10 Algorithm 6). A stack is a
range of a pool with room to grow; it is found by its key in a hash table. A newcomer with the
largest time is appended, any other one moves those above it up. What has expired is taken off at
the low end when a stack is looked at (lazily), and everywhere when the stacks are rebuilt.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import copy_of, record
from slackwater.engine.kernels.tables import mixed

STACK: Final = record("index", "key", "start", "size", "room")
"""A range of the pool: ``size`` entries from ``start`` on, with ``room`` for so many."""
ENTRY: Final = record("time", "row")
USED: Final = record("stacks", "pool", "moved", "looked")
"""How much of the arrays is used; entries that insertions shifted and candidates looked at, so far.
"""

_EMPTY: Final = -1
_LEAST_ROOM: Final = 4
_MANY: Final = 1 << 12
_HUGE: Final = 1 << 22
"""Entries. Fewer share their pages; of more, the system may refuse the room."""


class Stacks(NamedTuple):
    """Arrays of all stacks.

    ``table``: int64, open addressing, a power of two long; numbers of stacks or -1. ``stack``: of
    STACK; ``entry``: the pool, of ENTRY; ``used``: one USED.
    """

    table: np.ndarray
    stack: np.ndarray
    entry: np.ndarray
    used: np.ndarray


def empty_stacks(stacks: int = 16, pool: int = 128) -> Stacks:
    """With room for ``stacks`` stacks and ``pool`` entries."""
    length = 1 << max(stacks * 2, 2).bit_length()
    return Stacks(
        np.full(length, _EMPTY, np.int64), np.zeros(stacks, STACK), np.zeros(pool, ENTRY),
        np.zeros(1, USED),
    )  # fmt: skip


@kernel
def _place(table: np.ndarray, stack: np.ndarray, index: int, key: int) -> int:
    """Place of the stack in the table, or its insertion place."""
    mask = len(table) - 1
    place = mixed(key, index + 1) & mask
    while True:
        found = table[place]
        if found == _EMPTY or (stack[found].key == key and stack[found].index == index):
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
        if entry[middle].time < ref:
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
    stack = stacks.stack[found]
    return 2 * stack.size + _LEAST_ROOM if stack.size == stack.room else 0


@kernel
def insert(stacks: Stacks, index: int, key: int, ref: int, row: int) -> None:
    """Put an entry in, above those of equal time; there is room (``needed``)."""
    place = _place(stacks.table, stacks.stack, index, key)
    entry, used = stacks.entry, stacks.used[0]
    found = stacks.table[place]
    if found == _EMPTY:
        found = used.stacks
        used.stacks += 1
        stacks.table[place] = found
        new = stacks.stack[found]
        new.index, new.key = index, key
        new.start = new.size = new.room = 0
    stack = stacks.stack[found]
    if stack.size == stack.room:
        _move(stacks, found)
    low = stack.start
    at = low + stack.size
    while at > low and entry[at - 1].time > ref:
        entry[at] = entry[at - 1]
        at -= 1
        used.moved += 1
    entry[at].time, entry[at].row = ref, row
    stack.size += 1


@inline
def _move(stacks: Stacks, found: int) -> None:
    """To the end of the pool, with twice the room."""
    stack, entry = stacks.stack[found], stacks.entry
    start, size, end = stack.start, stack.size, stacks.used[0].pool
    for i in range(size):
        entry[end + i] = entry[start + i]
    stack.start = end
    stack.room = 2 * size if size else _LEAST_ROOM
    stacks.used[0].pool = end + stack.room


@kernel
def _fill(old: Stacks, number: np.ndarray, new: Stacks) -> None:
    """Into the empty ``new`` the entries of ``old`` whose row stays."""
    used = new.used[0]
    for found in range(old.used[0].stacks):
        stack = old.stack[found]
        kept, stop = 0, stack.start + stack.size
        for at in range(stack.start, stop):
            if number[old.entry[at].row] >= 0:
                kept += 1
        if not kept:
            continue
        at_new = used.pool
        new.table[_place(new.table, new.stack, stack.index, stack.key)] = used.stacks
        made = new.stack[used.stacks]
        made.index, made.key, made.start, made.size = stack.index, stack.key, at_new, kept
        made.room = kept + (kept >> 1) + 1
        used.stacks += 1
        used.pool += made.room
        for at in range(stack.start, stop):
            row = number[old.entry[at].row]
            if row >= 0:
                new.entry[at_new].time, new.entry[at_new].row = old.entry[at].time, row
                at_new += 1


def packed(stacks: Stacks) -> list[tuple[int, np.ndarray]]:
    """Plain data: of each array its length and what is used of it, which may be far less."""
    (used,) = stacks.used[["stacks", "pool"]].tolist()
    ends = (len(stacks.table), used[0], used[1], 1)
    return [(len(part), copy_of(part[:end])) for part, end in zip(stacks, ends, strict=True)]


def unpacked(state: list[tuple[int, np.ndarray]]) -> Stacks:
    """What was ``packed``."""
    parts = [np.zeros(length, used.dtype) for length, used in state]
    for part, (_, used) in zip(parts, state, strict=True):
        part[: len(used)] = used
    return Stacks(*parts)


def rebuilt(old: Stacks, number: np.ndarray, stacks: int, pool: int) -> Stacks:
    """``old`` with rows renamed, in arrays with room for more.

    Args:
        old: stacks.
        number: what row i is called from now on, -1 if it goes.
        stacks: room for as many new stacks.
        pool: room for as many new entries.
    """
    known = int(old.used["stacks"][0])
    held = int(old.stack["size"][:known].sum())
    # Pages that nothing was written to take no memory, and each time all of this is gone through.
    spare = 3 * held if _MANY <= held < _HUGE else held // 2
    room = held + spare + known + pool
    new = empty_stacks(known + stacks, room)
    _fill(old, number, new)
    for counter in ("moved", "looked"):
        new.used[counter] = old.used[counter]
    return new
