"""A sketch of delays that forgets: which delay a share of them does not exceed.

Counts in bins of 1 ns up to 8 ns, then 8 bins per octave up to 9 years, so that a quantile is told
to an eighth. All counts are halved every ``REMEMBERED`` delays, so that half of them are of the
last that many.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.log_bins import bin_start, count_in, log_bin, tail_bin

_BITS: Final = 3
DELAY_BINS: Final = 8 + 8 * 56
REMEMBERED: Final = 4096
_DELAY_MAX_NS: Final = (1 << 58) - 1


@inline
def bin_of(delay_ns: int) -> int:
    """The bin of a delay of at least 0, which is cut at 9 years."""
    return min(log_bin(min(delay_ns, _DELAY_MAX_NS), _BITS), DELAY_BINS - 1)


@inline
def bin_end(index: int) -> int:
    """The longest delay of a bin [ns]."""
    return bin_start(index + 1, _BITS) - 1


@inline
def learn_delay(bins: np.ndarray, total: int, delay_ns: int) -> int:
    """Count a delay; returns how many are counted now."""
    return count_in(bins, total, bin_of(delay_ns), REMEMBERED)


@kernel
def delay_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """The delay [ns] that at most ``tail_ppm`` millionths of those counted exceed; 0 of none."""
    return bin_end(max(tail_bin(bins, total, tail_ppm), 0))
