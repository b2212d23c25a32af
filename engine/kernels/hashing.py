"""One hash for all tables of the kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline

MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd bits of the golden ratio: neighbours come to lie far apart (Knuth, TAOCP 3, 6.4)."""


@inline
def mixed(key: int, value: int) -> int:
    """``key`` with one more value mixed in."""
    bits = (np.uint64(np.int64(key)) ^ np.uint64(np.int64(value))) * MULTIPLIER
    return int(np.int64(bits ^ (bits >> np.uint64(32))))
