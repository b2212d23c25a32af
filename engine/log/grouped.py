"""Running values within groups of rows, on whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct


class Groups(Struct, frozen=True):
    """Rows by group: ``order`` sorts rows by group, keeping theirs within each.

    ``starts``: position in ``order`` of each group's first row; ``code``: group of each row of
    ``order``; ``first_row``: one row of each group, to read its key from.
    """

    order: np.ndarray
    starts: np.ndarray
    code: np.ndarray
    first_row: np.ndarray


def group_rows(keys: list[np.ndarray]) -> Groups:
    """Groups of rows with equal ``keys`` (int columns of one length), numbered from 0."""
    rows = len(keys[0])
    code, groups = np.zeros(rows, np.int64), 1
    for key in keys:
        inverse, values = _numbered(key)
        if values > 1:
            code, groups = _numbered(code * values + inverse)
    # NumPy sorts numbers of 16 bits by radix.
    order = np.argsort(code.astype(np.uint16) if groups <= 1 << 16 else code, kind="stable")
    ordered = code[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Groups(order, starts, ordered, order[starts])


def _numbered(key: np.ndarray) -> tuple[np.ndarray, int]:
    """Each value's rank among the distinct ones, and how many these are."""
    if not len(key):
        return np.zeros(0, np.int64), 0
    low, high = int(key.min()), int(key.max())
    if high - low > 4 * len(key):
        values, inverse = np.unique(key, return_inverse=True)
        return inverse.astype(np.int64), len(values)
    present = np.zeros(high - low + 1, np.int64)
    present[key - low] = 1
    return (np.cumsum(present) - 1)[key - low], int(present.sum())


def carry_forward(
    groups: Groups, values: np.ndarray, given: np.ndarray, initial: np.ndarray
) -> np.ndarray:
    """Each row's last given value of its group so far; before any: ``initial[group]``.

    ``values`` and ``given`` are in the groups' order, and so is the result.
    """
    at = np.arange(len(values))
    last = np.maximum.accumulate(np.where(given, at, -1))
    started = groups.starts[groups.code]
    return np.where(last >= started, values[np.maximum(last, 0)], initial[groups.code])


def string_codes(column: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Codes (int64, -1 = null) and texts of a string or dictionary column."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def ints(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Values (int64, 0 = null) and whether each is given."""
    given = column.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False), given
