"""Counts in bins whose width grows with the value, and forgets: quantiles of times, cheaply.

With ``bits`` = b, bins are 1 wide up to 2**b, then there are 2**b per octave: a value is told to
one part in 2**b, by a number that is its float's exponent and the first b bits of its fraction.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel

_MILLION: Final = 1_000_000


@inline
def log_bin(value: int, bits: int) -> int:
    """The bin of a value of at least 0."""
    if value < 1 << bits:
        return value
    return (int(np.float64(value).view(np.int64)) >> (52 - bits)) - ((1022 + bits) << bits)


@inline
def bin_start(index: int, bits: int) -> int:
    """The least value of a bin."""
    if index < 1 << bits:
        return index
    octave = (index >> bits) - 1
    return (index - (octave << bits)) << octave


@inline
def count_in(bins: np.ndarray, total: int, index: int, window: int) -> int:
    """Count one in a bin, and halve all counts when there are ``window``; gives their sum."""
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
    """The first bin that has at most ``tail_ppm`` millionths of the counts above it; -1 of none."""
    allowed = total * tail_ppm // _MILLION
    above = 0
    for index in range(len(bins) - 1, -1, -1):
        above += bins[index]
        if above > allowed:
            return index
    return -1
