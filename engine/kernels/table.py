"""A hash table of numbers by key: open addressing with linear probing, at most half full.

Entry n has the key ``keys[n]``, a row of int64; a key asked for is a row of another table, or a
tuple of as many integers. A free slot holds NONE.

Source: Knuth, The Art of Computer Programming 3, 6.4, algorithm L.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.hashing import mixed
from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel

Key = np.ndarray | tuple[int, ...]
_LEAST: Final = 4


def empty_slots(entries: int) -> np.ndarray:
    """Slots for so many entries."""
    return np.full(1 << max(_LEAST, (2 * entries).bit_length()), NONE, np.int32)


@inline
def slot_of(slots: np.ndarray, keys: np.ndarray, key: Key) -> int:
    """The slot of the entry with this key, or the free one where it belongs."""
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
    """The entry with this key, or -1."""
    return int(slots[slot_of(slots, keys, key)])


@kernel
def enter(slots: np.ndarray, keys: np.ndarray, first: int) -> None:
    """Enter ``keys`` from entry ``first`` on; all of them differ."""
    for entry in range(first, len(keys)):
        slots[slot_of(slots, keys, keys[entry])] = entry


@kernel
def _look_up(slots: np.ndarray, keys: np.ndarray, wanted: np.ndarray, found: np.ndarray) -> None:
    for i in range(len(wanted)):
        found[i] = slots[slot_of(slots, keys, wanted[i])]


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


def places_of(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per row of ``wanted`` the place of an equal row of ``known`` (whose rows differ), or -1.

    Args:
        known: (n, columns) int64.
        wanted: (m, columns) int64.
    """
    slots, found = empty_slots(len(known)), np.empty(len(wanted), np.int64)
    enter(slots, known, 0)
    _look_up(slots, known, wanted, found)
    return found


def numbered(rows: np.ndarray) -> np.ndarray:
    """Equal numbers, from 0 on in order of appearance, for equal rows of (n, columns) int64."""
    found = np.empty(len(rows), np.int64)
    _number(empty_slots(len(rows)), np.empty_like(rows), rows, found)
    return found
