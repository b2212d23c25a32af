"""Data structures of kernels: a hash, a heap, a hash table, a pool, and decaying bins."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, put_over, record

# One hash for all tables of the kernels.


MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""Bits of the golden ratio, odd: it spreads consecutive numbers (Knuth, TAOCP 3, 6.4)."""


@inline
def mixed(key: int, value: int) -> int:
    """Return the hash ``key`` with ``value`` mixed in."""
    bits = (np.uint64(np.int64(key)) ^ np.uint64(np.int64(value))) * MULTIPLIER
    return int(np.int64(bits ^ (bits >> np.uint64(32))))


# A binary heap of numbers: the number with the smallest key is at 0; of equal keys the smallest.
#
# Source: Williams 1964, "Algorithm 232: Heapsort". The calling kernel owns the heap (an array with
# room for all numbers) and its size.


@inline
def before(keys: np.ndarray, first: int, second: int) -> bool:
    """Return whether number ``first`` precedes number ``second``."""
    return keys[first] < keys[second] or (keys[first] == keys[second] and first < second)


@inline
def push(heap: np.ndarray, size: int, keys: np.ndarray, number: int) -> None:
    """Add ``number`` to a heap of ``size``."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if not before(keys, number, heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = number


@inline
def pop(heap: np.ndarray, size: int, keys: np.ndarray) -> None:
    """Remove the first number of a heap of ``size``."""
    last = size - 1
    number, place = heap[last], 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and before(keys, heap[below + 1], heap[below]):
            below += 1
        if not before(keys, heap[below], number):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = number


class Heap(NamedTuple):
    """A heap of cells by the progress at which they are due.

    ``at``: per cell, when it is due [ns]. ``cells``: the heap. ``has``: per cell, whether it is in
    the heap. ``size``: (1,), the number of cells in the heap.
    """

    at: np.ndarray
    cells: np.ndarray
    has: np.ndarray
    size: np.ndarray


def new_heap(cells: int) -> Heap:
    """Return an empty heap with room for ``cells`` cells."""
    at, heap = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    return Heap(at, heap, np.zeros(cells, np.bool_), np.zeros(1, np.int64))


@inline
def put_in(heap: Heap, cell: int, at: int) -> None:
    """Add ``cell``, which is not in the heap and is due ``at`` [ns]."""
    heap.at[cell], heap.has[cell] = at, True
    push(heap.cells, heap.size[0], heap.at, cell)
    heap.size[0] += 1


@inline
def take_first(heap: Heap) -> int:
    """Remove and return the first cell."""
    cell = heap.cells[0]
    heap.has[cell] = False
    pop(heap.cells, heap.size[0], heap.at)
    heap.size[0] -= 1
    return int(cell)


@inline
def is_due(heap: Heap, progress: int) -> bool:
    """Return whether the first cell is due at ``progress`` [ns]; False if the heap is empty."""
    return bool(heap.size[0] > 0 and progress >= heap.at[heap.cells[0]])


# A hash table of numbers by key: open addressing with linear probing, at most half full.
#
# Entry n has the key ``keys[n]``, a row of int64. A look-up takes a row of another table or a tuple
# of as many integers. A free slot holds NONE.
#
# Source: Knuth, The Art of Computer Programming 3, 6.4, algorithm L.


Key = np.ndarray | tuple[int, ...]
_LEAST: Final = 4


def empty_slots(entries: int) -> np.ndarray:
    """Return free slots for ``entries`` entries."""
    return np.full(1 << max(_LEAST, (2 * entries).bit_length()), NONE, np.int32)


@inline
def slot_of(slots: np.ndarray, keys: np.ndarray, key: Key) -> int:
    """Return the slot of the entry with this key, or the free slot for it."""
    mask = len(slots) - 1
    hashed = 0
    for part in range(len(key)):
        hashed = mixed(hashed, key[part])
    slot = hashed & mask
    while slots[slot] != NONE and not _same(keys, slots[slot], key):
        slot = (slot + 1) & mask
    return int(slot)


@inline
def _same(keys: np.ndarray, entry: int, key: Key) -> bool:
    same = True
    for part in range(len(key)):
        same = same and keys[entry, part] == key[part]
    return same


@kernel
def entry_of(slots: np.ndarray, keys: np.ndarray, key: Key) -> int:
    """Return the entry with this key, or -1."""
    return int(slots[slot_of(slots, keys, key)])


@kernel
def enter(slots: np.ndarray, keys: np.ndarray, first: int) -> None:
    """Enter ``keys`` from entry ``first`` on; all keys are distinct."""
    for entry in range(first, len(keys)):
        slots[slot_of(slots, keys, keys[entry])] = entry


@kernel
def _look_up(slots: np.ndarray, keys: np.ndarray, lookups: np.ndarray, found: np.ndarray) -> None:
    for i in range(len(lookups)):
        found[i] = slots[slot_of(slots, keys, lookups[i])]


@kernel
def _number(slots: np.ndarray, keys: np.ndarray, rows: np.ndarray, found: np.ndarray) -> None:
    n = 0
    for i in range(len(rows)):
        slot = slot_of(slots, keys, rows[i])
        if slots[slot] == NONE:
            slots[slot] = n
            for part in range(keys.shape[1]):
                keys[n, part] = rows[i, part]
            n += 1
        found[i] = slots[slot]


def places_of(known: np.ndarray, lookups: np.ndarray) -> np.ndarray:
    """Return per row of ``lookups`` the place of the equal row of ``known``, or -1.

    Args:
        known: (n, columns) int64, distinct rows.
        lookups: (m, columns) int64.
    """
    slots, found = empty_slots(len(known)), np.empty(len(lookups), np.int64)
    enter(slots, known, 0)
    _look_up(slots, known, lookups, found)
    return found


def numbered(rows: np.ndarray) -> np.ndarray:
    """Return a number per row of (n, columns) int64, from 0 in order of appearance.

    Equal rows have equal numbers.
    """
    found = np.empty(len(rows), np.int64)
    _number(empty_slots(len(rows)), np.empty_like(rows), rows, found)
    return found


# A pool of places; free places are chained by ``following``; ``tally`` is one POOL.


POOL: Final = record("free", "live")
"""The first free place, and the number of places in use."""


_Pool = TypeVar("_Pool", bound=Any)
"""A named tuple of arrays, including ``next`` and ``tally`` (POOL)."""


def chained(places: int) -> np.ndarray:
    """Return ``following`` of a pool whose places are all free."""
    return np.append(np.arange(1, places), NONE)


def over_pool(made: _Pool, before: _Pool) -> _Pool:
    """Copy the pool ``before`` to ``made``, which is at least as large; return ``made``.

    Places keep their numbers; new places are the first free ones.
    """
    old = len(before.next)
    put_over(made, before)
    if len(made.next) > old:
        made.next[-1], made.tally["free"] = before.tally["free"][0], old
    return made


@inline
def take_place(following: np.ndarray, tally: np.ndarray) -> int:
    """Allocate and return a free place; there is one."""
    place = tally[0].free
    tally[0].free = following[place]
    tally[0].live += 1
    return int(place)


@inline
def free_place(following: np.ndarray, tally: np.ndarray, place: int) -> None:
    """Free ``place``."""
    following[place] = tally[0].free
    tally[0].free = place
    tally[0].live -= 1


# A decaying histogram with logarithmic bins, for cheap quantiles of durations.
#
# With ``bits`` = b, bins have the width 1 up to 2**b; above, there are 2**b per octave, so the
# relative resolution is 2**-b. The number of a bin is the exponent of the value as a float and the
# first b bits of its fraction.


_MILLION: Final = 1_000_000


@inline
def log_bin(value: int, bits: int) -> int:
    """Return the bin of a value of at least 0."""
    if value < 1 << bits:
        return value
    return (int(np.float64(value).view(np.int64)) >> (52 - bits)) - ((1022 + bits) << bits)


@inline
def bin_start(index: int, bits: int) -> int:
    """Return the least value of a bin."""
    if index < 1 << bits:
        return index
    octave = (index >> bits) - 1
    return (index - (octave << bits)) << octave


@inline
def count_in(bins: np.ndarray, total: int, index: int, window: int) -> int:
    """Count one in a bin, and halve all counts when they reach ``window``; return their sum."""
    bins[index] += 1
    total += 1
    if total >= window:
        total = 0
        for each in range(len(bins)):
            bins[each] >>= 1
            total += bins[each]
    return total


@kernel
def tail_bin(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """Return the first bin with at most ``tail_ppm`` millionths of the counts above; -1: none."""
    allowed = total * tail_ppm // _MILLION
    above = 0
    for index in range(len(bins) - 1, -1, -1):
        above += bins[index]
        if above > allowed:
            return index
    return -1
