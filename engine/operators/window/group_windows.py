"""Windows that go by the events of each group: what SESSION and ROWS share.

A group's window has one cell, and no events are near its edge: its edges are events. So there are
no LOW and HIGH; the result's certainty covers what depends on the clocks' errors.
"""

from __future__ import annotations

from abc import abstractmethod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from slackwater.engine.core.released import IN_ORDER
from slackwater.engine.kernels.jit import inline
from slackwater.engine.kernels.records import Record
from slackwater.engine.kernels.tables import pop, push
from slackwater.engine.operators.window.assign import INT_MIN, Agenda, Rows
from slackwater.engine.operators.window.base import Windows
from slackwater.engine.operators.window.settings import Geometry
from slackwater.engine.operators.window.state.content import LOW_ONE, NUMBERS, VALUE, Content, Held
from slackwater.engine.operators.window.state.number import HALF_WORD, LOW_WORD, put_int

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
    put_int(out.kinds, out.words, at + VALUE, start >> HALF_WORD, start & LOW_WORD)
    put_int(out.kinds, out.words, at + LOW_ONE, end >> HALF_WORD, end & LOW_WORD)


# Two heaps of cells: what is emitted next, and what leaves memory next.
#
# ``own`` has them: ``open`` by ``closes`` and ``kept`` by ``leaves``, progress [ns] of each cell,
# and in ``of`` of each cell whether they have it, ``in_open`` and ``in_kept``.


@inline
def put_open(place: int, closes: int, own: Any, st: Record) -> None:
    """Cell ``place`` is emitted at the progress ``closes``."""
    own.closes[place] = closes
    push(own.open, st.open, own.closes, place)
    own.of[place].in_open = 1
    st.open += 1


@inline
def take_open(own: Any, st: Record) -> None:
    """The first one leaves."""
    own.of[own.open[0]].in_open = 0
    pop(own.open, st.open, own.closes)
    st.open -= 1


@inline
def put_kept(place: int, leaves: int, own: Any, st: Record) -> None:
    """Cell ``place`` leaves memory at the progress ``leaves``."""
    own.leaves[place] = leaves
    push(own.kept, st.kept, own.leaves, place)
    own.of[place].in_kept = 1
    st.kept += 1


@inline
def take_kept(own: Any, st: Record) -> None:
    """The first one leaves."""
    own.of[own.kept[0]].in_kept = 0
    pop(own.kept, st.kept, own.leaves)
    st.kept -= 1


OLD_GAPS_MAX: Final = 4096
"""Gaps in windows that began longer ago than windows are corrected. Two of more become one, so that
memory is bounded: its events are missing wherever one of both could lie."""
_TIMES: Final = Geometry(1, 0, 0, 0, 1)
"""Gaps between neighbours as times, not as numbers of windows."""


class OwnWindows(Windows):
    """What both kinds share. Behind the numbers of its aggregates a result has its extent."""

    behind = 1
    initial = MappingProxyType({"frontier": INT_MIN // 2, "frontier_at": INT_MIN})

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
