"""A sketch of waiting times: how long all but a wanted share of the events have to wait.

Counts in bins of equal width up to ``FINE`` resolutions, then ``FINE`` bins per octave up to the
latency threshold, above which no timeout goes. The resolution is a power of two so that the
threshold is about a million of them (0.5 us for 500 ms, 1 ns for 1 ms or less). Inside a bin events
are taken as evenly spread, so that the share that a wait leaves out is met far better than the bin
is wide (1.6 %); counts are kept in 1/64 of an event, so that halving them forgets nothing else.

A value is a waiting time in 1/1024 of the resolution: it and a quotient of two fit in int64.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.log_bins import bin_start, log_bin
from engine.order.sequence.state import WAIT_BINS

ONE: Final = 64
"""Units of one event."""
FINE: Final = 64
_FINE_BITS: Final = FINE.bit_length() - 1
_RANGE_BITS: Final = 20
assert WAIT_BINS == FINE + (_RANGE_BITS - _FINE_BITS) * FINE + 1  # the last: all that is longer
_VALUE_BITS: Final = 10
LONGEST: Final = (1 << _RANGE_BITS + _VALUE_BITS) - 1
"""The largest value that stands for a waiting time."""


def resolution_bits(latency_ns: int) -> int:
    """The resolution is ``2 ** bits`` ns."""
    return max(0, latency_ns.bit_length() - _RANGE_BITS)


@inline
def wait_bin(wait_ns: int, bits: int) -> int:
    """The bin of a waiting time."""
    return min(log_bin(wait_ns >> bits, _FINE_BITS), WAIT_BINS - 1)


@kernel
def exceeded_by(counts: np.ndarray, bins: int, units: int) -> int:
    """The value that ``units`` of the ``counts`` exceed, all in the first ``bins``.

    0 when no more than ``units`` lie above bin 0.
    """
    above = 0
    for index in range(bins - 1, 0, -1):
        count = int(counts[index])
        if above + count > units:
            end = bin_start(index + 1, _FINE_BITS)
            width = end - bin_start(index, _FINE_BITS)
            return (end << _VALUE_BITS) - (width << _VALUE_BITS) * (units - above) // count
        above += count
    return 0


@inline
def in_ns(value: int, bits: int) -> int:
    """The longest waiting time [ns] that does not exceed ``value``."""
    if value == 0:
        return (1 << bits) - 1
    if bits >= _VALUE_BITS:
        return (value << (bits - _VALUE_BITS)) - 1
    return -(-(value << bits) >> _VALUE_BITS) - 1
