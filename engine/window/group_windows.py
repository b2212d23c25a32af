"""Operators of windows that go by the events of each group: SESSION and ROWS.

A group's window has one cell, and no events are near its edge: its edges are events. So there are
no LOW and HIGH; the result's certainty covers what depends on the clocks' errors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np

from edge_agent.records import DEFAULT_SITE
from engine.operator import Result, ResultPieces
from engine.query.plan import WindowPlan
from engine.stream.released import Released
from engine.window import group_batch as b
from engine.window.assign import Agenda, Rows
from engine.window.base import OUTBOX_MAX, Windows
from engine.window.drift import Geometry
from engine.window.held.accumulate import RowValues, no_values
from engine.window.panes.state import Entries
from engine.window.rows_read import no_rows
from engine.window.settings import WindowSettings, horizon_ns

_CHUNK: Final = 1 << 10
OLD_GAPS_MAX: Final = 4096
"""Gaps in windows that began longer ago than windows are corrected. Two of more become one, so that
memory is bounded: its events are missing wherever one of both could lie."""
_TIMES: Final = Geometry(1, 0, 0, 0, 1)
"""Gaps between neighbours as times, not as numbers of windows."""


class OwnWindows(Windows):
    """What both kinds share. Behind the numbers of its aggregates a result has its extent."""

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site, behind=1)
        self._entries = Entries(np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64))
        self._state = self._new_state()

    @property
    def horizon(self) -> int:
        """How long windows are corrected [ns]."""
        return horizon_ns(self.settings, self.plan.size_ns)

    def process(self, released: Released) -> Sequence[Result]:
        results = self._run(*self._read(released, _TIMES))
        if len(self._missing.table.left):
            # A window may have begun long before that: its gaps count until it has gone.
            self._missing.forget(self._corrected_from())
            self._missing.merge(self._corrected(), OLD_GAPS_MAX)
        return results

    def _corrected(self) -> int:
        reach = self.horizon + 4 * self.plan.size_ns
        return int(max(self._state["frontier"][0], b.END + reach - 2**63) - reach)

    def _corrected_from(self) -> int:
        return min(self._corrected(), self._oldest())

    def finish(self, at: int) -> Sequence[Result]:
        results = self._until(at + 1, last=True)
        none, at_once, when = np.empty(0, np.int64), np.zeros(1, np.int64), np.full(1, at)
        # Windows still open have early results at most, which are retracted.
        agenda = Agenda(at_once, np.full(1, b.END), when, none, none, at_once, at_once + 1, when)
        values = no_values(len(self._arguments))
        rows = no_rows(len(self.plan.group_by))
        results.extend(self._run(rows, values, agenda, len(self._missing.table.left)))
        return results

    def _spans(self) -> Geometry:
        return _TIMES

    def _run(self, rows: Rows, values: RowValues, agenda: Agenda, known: int) -> ResultPieces:
        results = ResultPieces()
        self._outbox = self._new_outbox(self._outbox_room)
        # The rest is at rest between batches.
        for field in ("row", "step", "gap", "tick", "entries"):
            self._state[field] = 0
        why = None
        while why != b.DONE:
            size, step = self._size_and_step()
            batch = b.OwnBatch(
                rows, values, agenda, self._missing.table, known, size, step, self.horizon,
                self._can_grow(), self._in_advance, self._on_change,
            )  # fmt: skip
            why = self._pass(batch)
            if why == b.OUTBOX_FULL:
                self._send(results)
                self._more_outbox(min(2 * len(self._outbox.at), OUTBOX_MAX))
            elif why != b.DONE:
                self._grow(why)
        self._send(results)
        self._outbox = self._new_outbox(0)  # of ten thousand sites few are at work
        return results

    @abstractmethod
    def _new_state(self) -> np.ndarray:
        """The pass's state at the beginning."""

    @abstractmethod
    def _size_and_step(self) -> tuple[int, int]:
        """As in ``OwnBatch``."""

    @abstractmethod
    def _pass(self, batch: b.OwnBatch) -> int:
        """Run the pass; gives why it returned."""

    @abstractmethod
    def _oldest(self) -> int:
        """No window that there is, or comes to be of events that are held, begins before [ns]."""

    @abstractmethod
    def _grow_more(self, why: int) -> None:
        """Make room in what a kind has for itself."""

    def _grow(self, why: int) -> None:
        """Double what has too little room."""
        if why == b.GROW_CELLS:
            self._more_cells()
        elif why == b.GROW_KEPT:
            self._more_kept()
        elif why == b.GROW_STANDING:
            self._more_standing()
        self._grow_more(why)
