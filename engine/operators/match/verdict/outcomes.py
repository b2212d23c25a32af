"""How two numbers compare, and floats as the bit patterns that programs keep them in."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline

# Outcomes of a comparison; none of them when a side is a NaN.
LESS: Final = 1
EQUAL: Final = 2
MORE: Final = 4

_EXACT: Final = 2**53
_EDGE: Final = 2.0**63


@inline
def real_of(bits: int) -> float:
    """The float64 whose bit pattern an int64 is."""
    return np.int64(bits).view(np.float64)


@inline
def bits_of(real: float) -> int:
    """The bit pattern of a float64, as an int64."""
    return int(np.float64(real).view(np.int64))


@inline
def outcome_int(left: int, right: int) -> int:
    """Of two integers."""
    if left < right:
        return LESS
    return EQUAL if left == right else MORE


@inline
def outcome_float(left: float, right: float) -> int:
    """Of two floats; 0 if one is a NaN."""
    if left < right:
        return LESS
    if left > right:
        return MORE
    return EQUAL if left == right else 0


@inline
def outcome_mixed(whole: int, real: float) -> int:
    """Exactly: beyond 2**53 an int64 need not be a float64."""
    if -_EXACT <= whole <= _EXACT:
        return outcome_float(float(whole), real)
    if real >= _EDGE:
        return LESS
    if real < -_EDGE:
        return MORE
    if np.isnan(real):
        return 0
    floor = np.floor(real)
    base = np.int64(floor)
    if whole == base:
        return LESS if real > floor else EQUAL
    return LESS if whole < base else MORE
