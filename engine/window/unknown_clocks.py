"""Windows that hold events of several clocks, one of them unknown (SPEC 2): from when on.

Windows of one source are as certain as ever. All others of the query are unknown that end, or with
early results that begin, after the first event of a second clock: to tell them apart by group and
window would take a place for a clock in every cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_agent import records as r
from engine.clocks.epochs import UNKNOWN_EPOCH
from engine.clocks.seen import MIXED
from engine.query.plan import Emit, WindowPlan
from engine.stream.columns import Columns

_NEVER = 2**62


class MixedWindows:
    """Of the events that a query reads.

    Args:
        plan: of the query.
    """

    def __init__(self, plan: WindowPlan) -> None:
        self._by_source = any(key.name in (r.SOURCE, r.CLOCK) for key in plan.group_by)
        self._early = plan.emit is not Emit.CLOSE
        self._clocks = set[int]()
        self._unknown = False
        self._newest = -_NEVER
        self._since = _NEVER

    def see(self, columns: Columns, ref: np.ndarray, chosen: np.ndarray | None) -> None:
        """Events in order of release.

        Args:
            columns: theirs.
            ref: when they happened.
            chosen: which of them the query reads; None: all.
        """
        if MIXED not in columns or self._by_source or self._since < _NEVER:
            return
        rows = np.arange(len(ref)) if chosen is None else np.flatnonzero(chosen)
        if not len(rows):
            return
        clock, unknown = columns[r.CLOCK][rows], columns["epoch"][rows] == UNKNOWN_EPOCH
        codes, first = np.unique(clock, return_index=True)
        places = sorted(
            place for code, place in zip(codes.tolist(), first.tolist(), strict=True)
            if code not in self._clocks
        )  # fmt: skip
        if len(self._clocks) + len(places) > 1 and (self._unknown or unknown.any()):
            second = places[1 - len(self._clocks)] if len(self._clocks) < 2 else 0
            at = second if self._unknown else max(second, int(unknown.argmax()))
            later = np.flatnonzero(columns[MIXED][rows][at:])
            if len(later):
                before = ref[rows[: at + int(later[0])]]
                self._since = max(self._newest, int(before.max(initial=-_NEVER)))
        self._clocks |= set(codes.tolist())
        self._unknown |= bool(unknown.any())
        self._newest = max(self._newest, int(ref[rows].max()))

    def of(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Which windows are unknown."""
        return np.asarray((start if self._early else end) > self._since)

    def codes(self) -> np.ndarray:
        """Of clocks."""
        return np.array(sorted(self._clocks), np.int64)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "clocks": sorted(self._clocks), "unknown": self._unknown, "newest": self._newest,
            "since": self._since,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._clocks, self._unknown = set(state["clocks"]), state["unknown"]
        self._newest, self._since = state["newest"], state["since"]
