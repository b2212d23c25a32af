"""A binary heap of numbers: the one with the smallest key is at 0, of equal keys the smallest one.

Source: Williams 1964, "Algorithm 232: Heapsort". Kernels that call these have the heap (an array
with room for all) and its size themselves.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inline


@inline
def before(keys: np.ndarray, first: int, second: int) -> bool:
    """Whether number ``first`` goes before number ``second``."""
    return keys[first] < keys[second] or (keys[first] == keys[second] and first < second)


@inline
def push(heap: np.ndarray, size: int, keys: np.ndarray, number: int) -> None:
    """Put ``number`` into a heap of ``size``."""
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
    """Take the first number off a heap of ``size``."""
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
