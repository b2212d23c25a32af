"""A sketch of delays that forgets: which delay a share of them does not exceed.

Counts in bins of 1 ns up to 8 ns, then 8 bins per octave up to 9 years, so that a quantile is told
to an eighth. All counts are halved every ``REMEMBERED`` delays, so that half of them are of the
last that many.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.jit import inline, kernel

DELAY_BINS: Final = 8 + 8 * 56
REMEMBERED: Final = 4096
_DELAY_MAX_NS: Final = (1 << 58) - 1
_BEFORE_FIRST: Final = (1023 + 3) * 8 - 8
"""What ``bin_of`` would give for 8 ns, less 8."""


@inline
def bin_of(delay_ns: int) -> int:
    """The bin of a delay of at least 0, which is cut at 9 years."""
    if delay_ns < 8:
        return delay_ns
    # A float's exponent and the first three bits of its fraction are just that number.
    exact = int(np.float64(min(delay_ns, _DELAY_MAX_NS)).view(np.int64)) >> 49
    return min(exact - _BEFORE_FIRST, DELAY_BINS - 1)


@kernel
def bin_end(index: int) -> int:
    """The longest delay of a bin [ns]."""
    if index < 8:
        return index
    octave, part = (index - 8) // 8, (index - 8) % 8
    return ((9 + part) << octave) - 1


@inline
def learn_delay(bins: np.ndarray, total: int, delay_ns: int) -> int:
    """Count a delay; returns how many are counted now."""
    bins[bin_of(delay_ns)] += 1
    total += 1
    if total >= REMEMBERED:
        total = 0
        for index in range(DELAY_BINS):
            bins[index] >>= 1
            total += bins[index]
    return total


@kernel
def delay_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """The delay [ns] that at most ``tail_ppm`` millionths of those counted exceed; 0 of none."""
    allowed = total * tail_ppm // 1_000_000
    above = 0
    for index in range(DELAY_BINS - 1, -1, -1):
        above += bins[index]
        if above > allowed:
            return bin_end(index)
    return 0
