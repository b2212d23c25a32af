"""Windows that go by the events of each group: what SESSION and ROWS share.

A group's window has one cell, and no events are near its edge: its edges are events. So there are
no LOW and HIGH; the result's certainty covers what depends on the clocks' errors.
"""

from __future__ import annotations

from abc import abstractmethod
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import IN_ORDER
from slackwater.engine.kernels.jit import inline
from slackwater.engine.kernels.records import Record
from slackwater.engine.kernels.tables import pop, push
from slackwater.engine.operators.window.assign import INT_MIN, Agenda, Rows
from slackwater.engine.operators.window.base import Windows
from slackwater.engine.operators.window.settings import Geometry
from slackwater.engine.operators.window.state.content import LOW_ONE, NUMBERS, VALUE, Content, Held
from slackwater.engine.operators.window.state.number import put_int

END: Final = 2**62
"""Progress when the input has ended."""


@inline
def row_taken(i: int, rows: Rows, st: Record) -> None:
    """Row ``i`` is done."""
    if rows.status[i] == IN_ORDER:
        st.frontier = max(st.frontier, rows.ref[i])
    st.frontier_at = rows.release[i]  # a late one too: a gap that it fills may be emitted at once
    st.row = i + 1


@inline
def put_extent(held: Held, out: Content, start: int, end: int) -> None:
    """Behind the numbers of the aggregates stand the window's start and end [ns]."""
    at = len(held.asked.function) * NUMBERS
    put_int(out.kinds, out.words, at + VALUE, 0, start)
    put_int(out.kinds, out.words, at + LOW_ONE, 0, end)


class Heap(NamedTuple):
    """Cells by the progress [ns] at which something is due: ``at``, of each cell that the heap
    ``has``; ``cells``: these, the first one first, ``size`` (1,) of them.
    """

    at: np.ndarray
    cells: np.ndarray
    has: np.ndarray
    size: np.ndarray


def new_heap(cells: int) -> Heap:
    """Nothing yet, with room for so many."""
    at, heap = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    return Heap(at, heap, np.zeros(cells, np.bool_), np.zeros(1, np.int64))


@inline
def put_in(heap: Heap, cell: int, at: int) -> None:
    """Something of ``cell``, which the heap has not, is due ``at``."""
    heap.at[cell], heap.has[cell] = at, True
    push(heap.cells, heap.size[0], heap.at, cell)
    heap.size[0] += 1


@inline
def take_first(heap: Heap) -> int:
    """The first cell, which leaves."""
    cell = heap.cells[0]
    heap.has[cell] = False
    pop(heap.cells, heap.size[0], heap.at)
    heap.size[0] -= 1
    return int(cell)


@inline
def is_due(heap: Heap, progress: int) -> bool:
    """Whether that of the first cell is."""
    return bool(heap.size[0] > 0 and progress >= heap.at[heap.cells[0]])


OLD_GAPS_MAX: Final = 4096
"""Gaps in windows that began longer ago than windows are corrected. Two of more become one, so that
memory is bounded: its events are missing wherever one of both could lie."""
_TIMES: Final = Geometry(1, 0, 0, 0, 1)
"""Gaps between neighbours as times, not as numbers of windows."""


class OwnWindows(Windows):
    """What both kinds share. Behind the numbers of its aggregates a result has its extent."""

    behind = 1
    initial = MappingProxyType({"frontier": INT_MIN // 2, "frontier_at": INT_MIN})

    def counters(self) -> dict[str, int]:
        """Rows too late, or without room."""
        st = self._state
        return {"too_late": int(st["too_late"][0]), "refused_groups": int(st["refused"][0])}

    def _forget(self) -> None:
        if len(self._missing.table.left):
            # A window may have begun long before that: its gaps count until it has gone.
            self._missing.forget(self._corrected_from())
            self._missing.merge(self._corrected(), OLD_GAPS_MAX)

    def _corrected(self) -> int:
        reach = self._geo.horizon + 4 * self.plan.size_ns
        return int(max(self._state["frontier"][0], END + reach - 2**63) - reach)

    def _corrected_from(self) -> int:
        return min(self._corrected(), self._oldest())

    def _ending(self, at: int) -> Agenda:
        # Windows still open have early results at most, which are retracted.
        none, at_once, when = np.empty(0, np.int64), np.zeros(1, np.int64), np.full(1, at)
        return Agenda(at_once, np.full(1, END), when, none, none, at_once, at_once + 1, when)

    def _spans(self) -> Geometry:
        return _TIMES

    @abstractmethod
    def _oldest(self) -> int:
        """No window that there is, or comes to be of events that are held, begins before [ns]."""
