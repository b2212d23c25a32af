"""Records, ways to move many of them fast, and integers with one meaning in every kernel."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

# Integers with one meaning in every kernel: none, before and after everything, units.


NONE: Final = -1
INT_MIN: Final = -(2**63) + 1
INT_MAX: Final = 2**63 - 1
FAR: Final = 2**62
"""Beyond all times, and as far from the ends of int64."""
NS_PER_S: Final = 10**9
PPB: Final = 10**9
"""1, in parts per billion."""


# Records: what kernels read by name, and ways to move many of them fast.


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


def records_at(records: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A copy of those at ``places``."""
    return np.asarray(numbers_of(records)[places].reshape(-1).view(records.dtype))


_Arrays = TypeVar("_Arrays", bound=tuple[Any, ...])


def put_over(made: _Arrays, before: _Arrays) -> _Arrays:
    """``made``, a named tuple of arrays or of such tuples, whose first places have what those of
    ``before`` have, of which none is longer.
    """
    for new, old in zip(made, before, strict=True):
        if isinstance(old, tuple):
            put_over(new, old)
        elif old.dtype.names:
            numbers_of(new)[: len(old)] = numbers_of(old)
        else:
            new[: len(old)] = old
    return made


_Columns = TypeVar("_Columns", bound=NamedTuple)


def take_rows(columns: _Columns, rows: np.ndarray | slice) -> _Columns:
    """The ``rows`` (places, a mask or a slice) of a named tuple of equally long columns."""
    return columns._make(column[rows] for column in columns)


def joined(*parts: _Columns) -> _Columns:
    """Named tuples of columns, one below the other."""
    return parts[0]._make(map(np.concatenate, zip(*parts, strict=True)))


def longer(array: np.ndarray, room: int) -> np.ndarray:
    """``array`` with room for so many, 0 behind what there is."""
    return put_over((np.zeros((room, *array.shape[1:]), array.dtype),), (array,))[0]


def one(kind: np.dtype[np.void], **values: int) -> np.ndarray:
    """An array of one record with these ``values``, and 0 elsewhere."""
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
