"""Of which clocks events have been released, and whether one of them is unknown."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.clocks.choice import ClockChoice
from engine.clocks.epochs import UNKNOWN_EPOCH
from engine.stream.columns import Columns
from engine.stream.released import Strings

MIXED: Final = "mixed"
"""Column of released events: until here events of several clocks came, of which one is unknown.
Left out where the user says that clocks are exact."""


class ClocksSeen:
    """The clocks of one released stream, row by row."""

    def __init__(self, choice: ClockChoice, site: str, strings: Strings) -> None:
        self._declared = {strings.code(name) for name, _, _ in choice.declared}
        self._clocks = set[int]()
        self._unknown = set[int]()
        for of, names, synced in choice.upcoming:
            if of == site:
                self._clocks = set(map(strings.code, names))
                self._unknown = self._clocks - self._declared - set(map(strings.code, synced))
        self.held = [*self._clocks, *self._declared]
        """Codes of texts in use, whatever comes."""

    def mark(self, columns: Columns, known: np.ndarray) -> None:
        """Adds the column ``mixed``.

        Args:
            columns: of released events, in order.
            known: whether an offset of a clock is known by now, by its code.
        """
        clock = columns[r.CLOCK]
        self._unknown = {code for code in self._unknown if code >= len(known) or not known[code]}
        first = 0 if self._is_mixed() else len(clock)
        found, rows = np.unique(clock, return_index=True)
        news = [(row, code, False) for code, row in zip(found.tolist(), rows.tolist(), strict=True)
                if code not in self._clocks]  # fmt: skip
        where = np.flatnonzero(columns["epoch"] == UNKNOWN_EPOCH)
        found, rows = np.unique(clock[where], return_index=True)
        news += [
            (row, code, True)
            for code, row in zip(found.tolist(), where[rows].tolist(), strict=True)
            if code not in self._unknown
        ]
        for row, code, is_unknown in sorted(news):
            self._clocks.add(code)
            if is_unknown:
                self._unknown.add(code)
            if row < first and self._is_mixed():
                first = row
        columns[MIXED] = np.arange(len(clock)) >= first

    def forget(self, codes: list[int]) -> None:
        """Clocks that stamp no event any more."""
        self._clocks.difference_update(codes)
        self._unknown.difference_update(codes)

    @property
    def unknown(self) -> set[int]:
        """Codes of unknown clocks, if events of others came, too."""
        return self._unknown if self._is_mixed() else set()

    def _is_mixed(self) -> bool:
        if not self._unknown or len(self._clocks) == 1:
            return False
        if len(self._unknown) > 1 or len(self._clocks) > len(self._declared) + 1:
            return True
        # What is said of all others is said against the one of which nothing is.
        return not self._clocks - self._unknown <= self._declared

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"clocks": sorted(self._clocks), "unknown": sorted(self._unknown)}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._clocks, self._unknown = set(state["clocks"]), set(state["unknown"])
