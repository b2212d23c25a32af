"""Completeness: which numbers are known to be missing, and which windows they could belong to.

Source: SPEC 4.4. A gap's events lie between their neighbours' times, so they could belong to
every window that this range touches. A late event lowers the count of the gap it fills.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from engine.jit import njit
from engine.released import Gaps


class GapTable(NamedTuple):
    """Gaps in the order in which they became known; ``left``: events still missing."""

    source: np.ndarray
    stream: np.ndarray
    first_seq: np.ndarray
    events: np.ndarray
    low: np.ndarray
    high: np.ndarray
    left: np.ndarray


@njit
def fill(gaps: GapTable, known: int, source: int, stream: int, seq: int) -> None:
    """Take one event off the newest gap that it fills, among the first ``known``."""
    for j in range(known - 1, -1, -1):
        if (
            gaps.source[j] == source
            and gaps.stream[j] == stream
            and gaps.first_seq[j] <= seq < gaps.first_seq[j] + gaps.events[j]
            and gaps.left[j] > 0
        ):
            gaps.left[j] -= 1
            return


class Missing:
    """The gaps that still matter to some window."""

    def __init__(self) -> None:
        self.table = GapTable(*(np.empty(0, np.int64) for _ in GapTable._fields))

    def take(self, gaps: Gaps, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add the gaps marked in ``read``; gives the rows and steps before they are known."""
        more = [
            getattr(gaps, name)[read]
            for name in ("source", "stream", "first_seq", "count", "low", "high", "count")
        ]
        self.table = GapTable(
            *(
                np.concatenate((old, new.astype(np.int64)))
                for old, new in zip(self.table, more, strict=True)
            )
        )
        return gaps.row[read].astype(np.int64), gaps.steps[read].astype(np.int64)

    def between(self, low: int, high: int, known: int) -> int:
        """Events missing that could lie in [low, high), by the first ``known`` gaps."""
        gaps = self.table
        touching = (gaps.low[:known] < high) & (gaps.high[:known] >= low)
        return int(gaps.left[:known][touching].sum())

    def forget(self, before: int) -> None:
        """Drop gaps that end before ``before`` or are filled."""
        useful = (self.table.high >= before) & (self.table.left > 0)
        self.table = GapTable(*(column[useful] for column in self.table))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {name: column.copy() for name, column in self.table._asdict().items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.table = GapTable(*(state[name].copy() for name in GapTable._fields))
