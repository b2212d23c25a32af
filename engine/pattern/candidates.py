"""Which buffered events can take a step's place: sorted by (equality key, ref), found by range.

One index per step and set of equality groups, kept sorted by merging each batch's events in. Keys
are hashes, so what is found is checked for equality afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.jit import njit
from engine.query.expression import View, column
from engine.query.plan import Attribute


def _no_ints() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Index:
    """Events of one step: ``key`` (int64 hash), ``ref`` and ``row`` (in the store), sorted."""

    key: np.ndarray = field(default_factory=_no_ints)
    ref: np.ndarray = field(default_factory=_no_ints)
    row: np.ndarray = field(default_factory=_no_ints)

    def add(self, key: np.ndarray, ref: np.ndarray, row: np.ndarray) -> None:
        """Merge more events in."""
        order = np.lexsort((ref, key))
        self.key, self.ref, self.row = _merge(
            self.key, self.ref, self.row, key[order], ref[order], row[order]
        )

    def renumber(self, new_row: np.ndarray) -> None:
        """Rows get the numbers ``new_row[row]``; -1 drops them."""
        row = new_row[self.row]
        kept = row >= 0
        self.key, self.ref, self.row = self.key[kept], self.ref[kept], row[kept]

    def ranges(
        self, key: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(first, count) of the entries with this key and ref in [low, high], per query."""
        return _ranges(self.key, self.ref, key, low, high)


@njit
def latest_before(
    key: np.ndarray, ref: np.ndarray, row: np.ndarray, wanted: np.ndarray, high: np.ndarray,
    limit: np.ndarray, frontier: np.ndarray, order: np.ndarray, expires: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Per query the row of the largest ref <= ``high`` in an index, or -1.

    Only rows released before number ``limit`` that are still held at ``frontier``.
    """
    found = np.full(len(wanted), -1, np.int64)
    for q in range(len(wanted)):
        place = _first_not_below(key, ref, wanted[q], high[q] + 1) - 1
        while place >= 0 and key[place] == wanted[q]:
            candidate = row[place]
            if order[candidate] < limit[q] and expires[candidate] >= frontier[q]:
                found[q] = candidate
                break
            place -= 1
    return found


@njit
def _merge(
    key: np.ndarray, ref: np.ndarray, row: np.ndarray,
    more_key: np.ndarray, more_ref: np.ndarray, more_row: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    n, m = len(key), len(more_key)
    out_key, out_ref = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    out_row = np.empty(n + m, np.int64)
    i, j = 0, 0
    for place in range(n + m):
        from_more = i == n
        if i < n and j < m:
            from_more = more_key[j] < key[i] or (more_key[j] == key[i] and more_ref[j] < ref[i])
        if from_more:
            out_key[place], out_ref[place], out_row[place] = more_key[j], more_ref[j], more_row[j]
            j += 1
        else:
            out_key[place], out_ref[place], out_row[place] = key[i], ref[i], row[i]
            i += 1
    return out_key, out_ref, out_row


@njit
def _first_not_below(key: np.ndarray, ref: np.ndarray, wanted_key: int, wanted_ref: int) -> int:
    low, high = 0, len(key)
    while low < high:
        middle = (low + high) // 2
        if key[middle] < wanted_key or (key[middle] == wanted_key and ref[middle] < wanted_ref):
            low = middle + 1
        else:
            high = middle
    return low


@njit
def _ranges(
    key: np.ndarray, ref: np.ndarray, wanted: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    first = np.zeros(len(wanted), np.int64)
    count = np.zeros(len(wanted), np.int64)
    for q in range(len(wanted)):
        if low[q] <= high[q]:
            first[q] = _first_not_below(key, ref, wanted[q], low[q])
            count[q] = _first_not_below(key, ref, wanted[q], high[q] + 1) - first[q]
    return first, count


def hash_of(attributes: list[Attribute], views: list[View], n: int) -> np.ndarray:
    """One int64 per event: equal where all ``attributes`` are (an int equals its float).

    Args:
        attributes: one per equality group.
        views: the events to look at, one view per attribute.
        n: number of events.
    """
    found = np.zeros(n, np.uint64)
    with np.errstate(over="ignore"):
        for attribute, view in zip(attributes, views, strict=True):
            value = column(attribute.name, view)
            if value.kind == "null":
                continue
            data = value.data
            if value.kind == "float":
                whole = (data == np.floor(data)) & (np.abs(data) < 2.0**63)
                as_int = np.where(whole, data, 0.0).astype(np.int64)
                data = np.where(whole, as_int, data.view(np.int64))
            found = (found ^ data.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            found ^= found >> np.uint64(32)
    return found.view(np.int64)


def has_values(attributes: list[Attribute], view: View, n: int) -> np.ndarray:
    """Where no attribute is null (a NaN is): the others can equal nothing."""
    fine = np.ones(n, np.bool_)
    for attribute in attributes:
        value = column(attribute.name, view)
        if value.kind == "null":
            return np.zeros(n, np.bool_)
        if value.valid is not None:
            fine &= value.valid
        if value.kind == "float":
            fine &= ~np.isnan(value.data)
    return fine
