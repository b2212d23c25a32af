"""Floats as texts by columns, as Python and so JSON writes them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ALIKE: Final = (1e-4, 1e10)
"""Between these Arrow writes a fraction as Python does: without an exponent."""
_EXACT: Final = 1e15
"""Below it Python writes whole numbers without an exponent."""


def float_texts(values: np.ndarray) -> pa.Array:
    """``repr`` of each of float64 ``values``; Arrow says 97 for 97.0 and has other exponents."""
    size = np.abs(values)
    whole = values == np.floor(values)
    fraction = ~whole & (size >= _ALIKE[0]) & (size < _ALIKE[1])
    whole &= (size < _EXACT) & ~np.signbit(values)
    text = pc.cast(pa.array(values), pa.string())
    if whole.any():
        numbers = pc.cast(pa.array(values[whole].astype(np.int64)), pa.string())
        told = pc.binary_join_element_wise(numbers, ".0", "")
        text = pc.replace_with_mask(text, pa.array(whole), told)
    other = ~(whole | fraction)
    if other.any():
        told = pa.array([repr(value) for value in values[other].tolist()], pa.string())
        text = pc.replace_with_mask(text, pa.array(other), told)
    return text
