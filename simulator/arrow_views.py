"""Arrow columns as NumPy arrays, without Arrow's compute functions.

Frames of a quiet world have two rows: there a call of a compute function takes longer than all use
of its result.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def null_rows(column: pa.Array) -> np.ndarray | None:
    """Mask of null rows; None: there are none."""
    if not column.null_count:
        return None
    found: np.ndarray = np.equal(_bits(column, column.buffers()[0]), 0)
    return found


def plain_values(column: pa.Array) -> np.ndarray:
    """The numbers or bools of ``column``, arbitrary where null. Read-only."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _bits(column, column.buffers()[1]).view(np.bool_)
    dtype = np.dtype(kind.to_pandas_dtype())
    rows = len(column)
    if not rows:
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, rows, column.offset * dtype.itemsize)


def _bits(column: pa.Array, packed: pa.Buffer) -> np.ndarray:
    """One bit per row, as uint8."""
    begin, end = column.offset, column.offset + len(column)
    if begin == end:
        return np.zeros(0, np.uint8)
    bits = np.frombuffer(packed, np.uint8)
    return np.unpackbits(bits, count=end, bitorder="little")[begin:]
