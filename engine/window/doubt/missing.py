"""Completeness: which numbers are known to be missing, and which windows they could belong to.

Source: SPEC 4.4. A gap's events lie between their neighbours' times, so they could belong to
every window that this range touches. Each such window counts them in its header, and gets a header
if it has none: it may have had events, so it has a result. A late event lowers the count of the gap
it fills, in each of its windows. What changes in a closed window makes it *stale*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel
from engine.stream.released import Gaps
from engine.window.doubt.gap_table import (
    COLUMNS,
    GapTable,
    become_known,
    missing_between,
    searchable,
    take_off,
)
from engine.window.drift import Geometry
from engine.window.held.cells import HEADER, Cells, find, find_or_add

WINDOWS_MAX: Final = 4096
"""A gap over more windows than that gives no result where no event is: one clock that jumped by a
year would else make millions. It is counted in the windows that have one."""


@inline
def header_of(cells: Cells, window: int, gaps: GapTable, known: int, no_key: np.ndarray) -> int:
    """The window's header, made if there is none; -1 where no cell is free."""
    headers = cells.tally[0].headers
    header = find_or_add(cells, window, HEADER, no_key, 0)
    if cells.tally[0].headers != headers:
        cells.missing[header] = missing_between(gaps, known, window - 1, window + 1)
    return header


@inline
def _count(cells: Cells, header: int, change: int, closed: int) -> None:
    cells.missing[header] += change
    if cells.window[header] <= closed:
        cells.stale[header] = 1


@kernel
def _spread(
    cells: Cells, gaps: GapTable, j: int, change: int, closed: int, no_key: np.ndarray
) -> None:
    """Tell those windows of gap ``j`` that have a header."""
    first, last = gaps.first[j], gaps.last[j]
    if last - first < WINDOWS_MAX:
        for window in range(first, last + 1):
            header = find(cells, window, HEADER, no_key, 0)
            if header != NONE:
                _count(cells, header, change, closed)
        return
    for place in range(cells.tally[0].headers):
        header = cells.headers[place]
        if first <= cells.window[header] <= last:
            _count(cells, header, change, closed)


@inline
def know(
    cells: Cells, gaps: GapTable, j: int, closed: int, over: int, no_key: np.ndarray
) -> tuple[int, int]:
    """Gap ``j`` becomes known; gives the windows refused for want of a cell, and 1 if too wide.

    Args:
        cells: the windows.
        gaps: with gap ``j``, all before it known.
        j: see ``gaps``.
        closed: largest window that is closed.
        over: windows up to this one are kept no more.
        no_key: the key of a header: one row of zeros.
    """
    refused, too_wide = 0, 0
    if gaps.last[j] - gaps.first[j] < WINDOWS_MAX:
        for window in range(max(gaps.first[j], over + 1), gaps.last[j] + 1):
            refused += header_of(cells, window, gaps, j, no_key) == NONE
    else:
        too_wide = 1
    _spread(cells, gaps, j, gaps.left[j], closed, no_key)
    become_known(gaps, j)
    return refused, too_wide


@inline
def fill(
    cells: Cells, gaps: GapTable, known: int, event: tuple[int, int, int], closed: int,
    no_key: np.ndarray,
) -> None:  # fmt: skip
    """Take one event off the gap that it fills, and tell that gap's windows."""
    j = take_off(gaps, known, event)
    if j != NONE:
        _spread(cells, gaps, j, -1, closed, no_key)


class Missing:
    """The gaps that still matter to some window."""

    def __init__(self) -> None:
        self._keep([np.empty(0, np.int64) for _ in COLUMNS])

    def _keep(self, columns: Sequence[np.ndarray], known: int | None = None) -> None:
        """``known``: so many are, or all."""
        self.table = searchable(columns, len(columns[0]) if known is None else known)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.table[: len(COLUMNS)]

    def take(self, gaps: Gaps, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
        """Add ``gaps``; gives the rows and steps before they are known."""
        low = gaps.low - geometry.high_shift
        high = gaps.high + geometry.low_shift
        more = (
            gaps.source, gaps.stream, gaps.first_seq, gaps.count, gaps.high,
            (low - geometry.size) // geometry.step + 1, high // geometry.step, gaps.count,
        )  # fmt: skip
        if len(gaps.row):
            columns = [
                np.concatenate((old, new.astype(np.int64)))
                for old, new in zip(self._columns, more, strict=True)
            ]
            self._keep(columns, known=len(self.table.left))
        return gaps.row.astype(np.int64), gaps.steps.astype(np.int64)

    def forget(self, before: int) -> None:
        """Drop gaps that end before ``before`` or are filled."""
        useful = (self.table.high >= before) & (self.table.left > 0)
        if not useful.all():
            self._keep([column[useful] for column in self._columns])

    def merge(self, before: int, most: int) -> None:
        """Make one of each two gaps that follow one another, if more than ``most`` end before
        ``before``. A late event does not fill such a one any more.
        """
        old = np.flatnonzero(self.table.high < before)
        if len(old) <= most:
            return
        old = old[np.argsort(self.table.high[old], kind="stable")]
        one, other = old[: len(old) // 2 * 2].reshape(-1, 2).T
        self.table.first[one] = np.minimum(self.table.first[one], self.table.first[other])
        self.table.last[one] = np.maximum(self.table.last[one], self.table.last[other])
        self.table.left[one] += self.table.left[other]
        self.table.high[one] = self.table.high[other]
        self.table.events[one] = 0
        stays = np.ones(len(self.table.left), bool)
        stays[other] = False
        self._keep([column[stays] for column in self._columns])

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self.table, name).copy() for name in COLUMNS}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._keep([state[name].copy() for name in COLUMNS])
