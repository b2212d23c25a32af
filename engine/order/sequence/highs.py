"""Memory of when a lane's highest number grew: since when a late one was behind a larger one.

An event has waited for a smaller number since the first arrival of any larger one. Those first
arrivals are the records of the highest number; level 0 keeps the newest 128 of them, level ``i``
every ``4 ** i``-th one, again the newest 128. So a wait is known exactly where it is short, and
else to within a thirtieth of the time since, evened out by reading off between the neighbours.
"""

from __future__ import annotations

from typing import Final

from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.order.sequence.state import HIGH_LEVELS, HIGHS_KEPT

_MASK: Final = HIGHS_KEPT - 1


@inline
def saw_high(of: Record, memory: Record, seq: int, now: int) -> None:
    """``seq`` is the lane's new highest number, arrived ``now``."""
    n = of.highs_n
    highs = memory.highs
    last = highs[(n - 1) & _MASK]
    if n > 0 and last.at == now:  # the larger one stands for both
        last.seq = seq
        return
    passed, base = n, 0
    for _ in range(1, HIGH_LEVELS):  # the record before this one is final
        if passed == 0 or passed & 3:
            break
        passed >>= 2
        base += HIGHS_KEPT
        highs[base + ((passed - 1) & _MASK)] = last
    highs[n & _MASK].seq = seq
    highs[n & _MASK].at = now
    of.highs_n = n + 1


@kernel
def first_larger(of: Record, memory: Record, seq: int) -> int:
    """When a number larger than ``seq`` first arrived; there is one."""
    highs = memory.highs
    n = of.highs_n
    base, step = 0, 1.0
    for level in range(HIGH_LEVELS):
        oldest = max(0, n - HIGHS_KEPT)
        if oldest == 0 or highs[base + (oldest & _MASK)].seq <= seq or level == HIGH_LEVELS - 1:
            break
        n = (of.highs_n - 1) >> (2 * (level + 1))
        base += HIGHS_KEPT
        step *= 4.0
    low, high = max(0, n - HIGHS_KEPT), n
    first = low
    while low < high:
        middle = (low + high) // 2
        if highs[base + (middle & _MASK)].seq > seq:
            high = middle
        else:
            low = middle + 1
    found = highs[base + (low & _MASK)]
    if base == 0 or low == first:
        return int(found.at)
    before = highs[base + ((low - 1) & _MASK)]
    span = found.at - before.at
    share = (seq - before.seq) / (found.seq - before.seq) + 0.5 / step
    return int(before.at + min(int(share * span), span))
