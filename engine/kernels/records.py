"""Records of kernels, fast copies of them, and integer constants of all kernels."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

# Integer constants of all kernels: none, before and after everything, units.


NONE: Final = -1
INT_MIN: Final = -(2**63) + 1
INT_MAX: Final = 2**63 - 1
FAR: Final = 2**62
"""Later than all times, with a safe distance from the ends of int64."""
NS_PER_S: Final = 10**9
PPB: Final = 10**9
"""1, in parts per billion."""


# Records, which kernels read by field name, and fast copies of them.


Record: TypeAlias = Any
"""A record in a kernel; its fields are attributes. (With ``np.record`` mypy gives an assigned
attribute the type of everything that NumPy accepts.)"""


def record(*fields: str, narrow: tuple[str, ...] = ()) -> np.dtype[np.void]:
    """Return the type of a record of int64 ``fields`` and an even number of int32 after them."""
    assert len(narrow) % 2 == 0, "records are moved as int64"
    return np.dtype([(field, np.int64) for field in fields] + [(each, np.int32) for each in narrow])


def numbers_of(records: np.ndarray) -> np.ndarray:
    """Return a view of ``records`` as int64 (records, fields).

    It is int32 if the size of a record is not a multiple of 8 bytes. NumPy copies records field by
    field, which takes several times as long.
    """
    number = np.int32 if records.dtype.itemsize % 8 else np.int64
    fields = math.prod(records.shape[1:]) * records.dtype.itemsize // np.dtype(number).itemsize
    return records.view(number).reshape(len(records), fields)


def copy_of(records: np.ndarray) -> np.ndarray:
    """Return a copy of contiguous ``records``."""
    made = np.empty_like(records)
    numbers_of(made)[:] = numbers_of(records)
    return made


def records_at(records: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return a copy of the records at ``places``."""
    return np.asarray(numbers_of(records)[places].reshape(-1).view(records.dtype))


_Arrays = TypeVar("_Arrays", bound=tuple[Any, ...])


def put_over(made: _Arrays, before: _Arrays) -> _Arrays:
    """Copy the arrays of ``before`` to the beginning of those of ``made``; return ``made``.

    Both are named tuples of arrays or of such tuples. No array of ``before`` is longer.
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
    """Return the ``rows`` (places, a mask or a slice) of a named tuple of equally long columns."""
    return columns._make(column[rows] for column in columns)


def joined(*parts: _Columns) -> _Columns:
    """Concatenate named tuples of columns."""
    return parts[0]._make(map(np.concatenate, zip(*parts, strict=True)))


def longer(array: np.ndarray, room: int) -> np.ndarray:
    """Return a copy of ``array`` of length ``room``, filled up with 0."""
    return put_over((np.zeros((room, *array.shape[1:]), array.dtype),), (array,))[0]


def one(kind: np.dtype[np.void], **values: int) -> np.ndarray:
    """Return an array of one record with these ``values``, and 0 elsewhere."""
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = value
    return made
