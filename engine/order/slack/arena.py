"""Rows that stay where they are while they are held, and move together once in a while.

What the slack orders keep their events in. New rows are written behind the old ones; when there is
no room, the rows still held are moved to the front, or into larger arrays. Room is made for half
as many rows again as are held, so that a row is moved a constant number of times at most per two
rows that come, however many are held.

Rows keep their order, so that the number of a row says which of two came first.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.stream.columns import Columns, fill_missing, is_valued, join, mask_name

_LEAST: Final = 1 << 12


class Arena:
    """Columns of equal capacity, filled up to ``used``."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self.used = 0
        self.capacity = 0

    @property
    def row_bytes(self) -> int:
        """Bytes that one row takes."""
        return sum(column.itemsize for column in self.columns.values())

    def fits(self, columns: Columns, rows: int) -> bool:
        """Whether ``rows`` more rows with these columns can be written without moving any."""
        return self.used + rows <= self.capacity and self._alike(columns)

    def _alike(self, columns: Columns) -> bool:
        mine = self.columns
        if any(n not in mine or mine[n].dtype != column.dtype for n, column in columns.items()):
            return False
        return all(
            name in columns or not is_valued(name) or mask_name(name) in mine for name in mine
        )

    def append(self, columns: Columns, rows: int) -> None:
        """Write rows that fit."""
        end = self.used + rows
        for name, mine in self.columns.items():
            if name in columns:
                mine[self.used : end] = columns[name]
            else:
                mine[self.used : end] = fill_missing(name, columns, rows, mine.dtype)
        self.used = end

    def move(self, kept: np.ndarray, columns: Columns, rows: int) -> None:
        """Keep only the rows ``kept`` (ascending), now numbered from 0, and append new ones.

        Args:
            kept: rows that are still held.
            columns: the new rows, which need not have the columns of the old.
            rows: how many they are.
        """
        held = len(kept)
        need = held + rows
        self._resize(need)
        if self._alike(columns) and all(len(c) == self.capacity for c in self.columns.values()):
            for mine in self.columns.values():
                mine[:held] = mine[kept]
            self.used = held
            self.append(columns, rows)
            return
        old = {name: column[kept] for name, column in self.columns.items()}
        joined = join([old, columns], [held, rows]) if held else columns
        self.columns = {}
        for name, column in joined.items():
            self.columns[name] = np.empty(self.capacity, column.dtype)
            self.columns[name][:need] = column
        self.used = need

    def _resize(self, need: int) -> None:
        if not need + need // 2 <= self.capacity <= 8 * max(need, _LEAST):
            self.capacity = max(need + need // 2, _LEAST)

    def rows(self, numbers: np.ndarray) -> Columns:
        """Copies of the rows with these numbers."""
        # "clip" only spares a check: every number is one of a row.
        return {name: column.take(numbers, mode="clip") for name, column in self.columns.items()}
