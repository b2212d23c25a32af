"""Records: what kernels read by name, and ways to move many of them fast."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Record: TypeAlias = Any
"""A record at hand, in a kernel: its fields are attributes. (``np.record`` would do, but for mypy,
which takes what was assigned to an attribute for anything that NumPy takes.)"""


def record(*fields: str, narrow: tuple[str, ...] = ()) -> np.dtype[np.void]:
    """A record of int64 ``fields``, and of an even number of int32 behind them."""
    assert len(narrow) % 2 == 0, "records are moved as int64"
    return np.dtype([(field, np.int64) for field in fields] + [(each, np.int32) for each in narrow])


def numbers_of(records: np.ndarray) -> np.ndarray:
    """The same memory as int64 (records, fields), or int32 if records are no whole number of int64:
    NumPy copies records field by field, which takes several times as long.
    """
    number = np.int32 if records.dtype.itemsize % 8 else np.int64
    fields = math.prod(records.shape[1:]) * records.dtype.itemsize // np.dtype(number).itemsize
    return records.view(number).reshape(len(records), fields)


def copy_of(records: np.ndarray) -> np.ndarray:
    """A copy of contiguous ``records``."""
    made = np.empty_like(records)
    numbers_of(made)[:] = numbers_of(records)
    return made


def one(kind: np.dtype[np.void], **values: int) -> np.ndarray:
    """An array of one record with these ``values``, and 0 elsewhere."""
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
