"""Operators of windows that go by the events of each group: SESSION and ROWS.

A group's window has one cell, and no events are near its edge: its edges are events. So there are
no LOW and HIGH; the result's certainty covers what depends on the clocks' errors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.core.operator import Result, ResultPieces
from slackwater.engine.core.released import IN_ORDER, Released
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import Record
from slackwater.engine.operators.window.assign import Agenda, Rows
from slackwater.engine.operators.window.base import OUTBOX_MAX, Windows
from slackwater.engine.operators.window.panes.state import new_entries
from slackwater.engine.operators.window.rows_read import no_rows
from slackwater.engine.operators.window.settings import Geometry, WindowSettings, horizon_ns
from slackwater.engine.operators.window.state.accumulate import RowValues, add_rows, no_values
from slackwater.engine.operators.window.state.content import LOW_ONE, NUMBERS, VALUE, Content, Held
from slackwater.engine.operators.window.state.number import HALF_WORD, LOW_WORD, put_int
from slackwater.engine.operators.window.uncertainty.missing import GapTable
from slackwater.engine.query.plan import WindowPlan

# A batch as the passes over a group's own windows read it, and what they do alike.


DONE, GROW_CELLS, GROW_KEPT, GROW_STANDING, OUTBOX_FULL, GROW_MORE = range(6)
"""Why a pass returned: all rows taken, or something has too little room."""
ROW, GAP, STEP, TICK = range(4)
"""What comes next."""
END: Final = 2**62
"""Progress when the input has ended."""


class OwnBatch(NamedTuple):
    """What a pass reads. ``gaps``: ``known`` ones of earlier batches, then this batch's; their
    ``first`` and ``last`` are times. ``size``: the gap of sessions [ns], the events of a window of
    ROWS, and ``step`` from one to the next; ``horizon``: how long they are corrected [ns].
    ``in_advance``: open ones emit as well; ``on_change``: on each row.
    """

    rows: Rows
    values: RowValues
    agenda: Agenda
    gaps: GapTable
    known: int
    size: int
    step: int
    horizon: int
    can_grow: bool
    in_advance: bool
    on_change: bool


@inline
def due(i: int, batch: OwnBatch, st: Record) -> int:
    """What comes before row ``i``, or that it is next."""
    agenda, gap, step, tick = batch.agenda, st.gap, st.step, st.tick
    ticks = len(agenda.tick_row)
    if tick < ticks and agenda.tick_row[tick] <= i and agenda.tick_steps[tick] <= step:
        return TICK
    if gap < len(agenda.gap_row) and agenda.gap_row[gap] <= i and agenda.gap_steps[gap] <= step:
        return GAP
    if step < len(agenda.step_row) and agenda.step_row[step] <= i:
        return STEP
    return ROW


@inline
def take_step(batch: OwnBatch, st: Record) -> None:
    """Progress takes its next step."""
    st.frontier = max(st.frontier, batch.agenda.step_frontier[st.step])
    st.frontier_at = batch.agenda.step_at[st.step]
    st.step += 1


@inline
def row_taken(i: int, rows: Rows, st: Record) -> None:
    """Row ``i`` is done."""
    if rows.status[i] == IN_ORDER:
        st.frontier = max(st.frontier, rows.ref[i])
    st.frontier_at = rows.release[i]  # a late one too: a gap that it fills may be emitted at once
    st.row = i + 1


@inline
def room(batch: OwnBatch, book: Any, spare: int) -> int:
    """``DONE`` if there is room for ``spare`` cells, kept events and results."""
    cells, kept, standing = book.held.cells, book.held.kept, book.standing
    if batch.can_grow and cells.tally[0].live > len(cells.window) - spare:
        return GROW_CELLS
    if kept.tally[0].live > len(kept.next) - spare:
        return GROW_KEPT
    if standing.tally[0].live > len(standing.next) - spare:
        return GROW_STANDING
    if book.outbox.tally[0] > len(book.outbox.at) - 2 * spare:
        return OUTBOX_FULL
    return DONE


@kernel
def add_entries(batch: OwnBatch, book: Any, st: Record) -> None:
    """Add up what was entered so far."""
    n = st.entries
    if n > 0:
        add_rows(book.entries.row[:n], book.entries.cell[:n], batch.values, book.held.sums)
        st.entries = 0


@inline
def put_extent(held: Held, out: Content, start: int, end: int) -> None:
    """Behind the numbers of the aggregates stand the window's start and end [ns]."""
    at = len(held.asked.function) * NUMBERS
    put_int(out.kinds, out.words, at + VALUE, start >> HALF_WORD, start & LOW_WORD)
    put_int(out.kinds, out.words, at + LOW_ONE, end >> HALF_WORD, end & LOW_WORD)


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
        self._entries = new_entries(0)
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
        return int(max(self._state["frontier"][0], END + reach - 2**63) - reach)

    def _corrected_from(self) -> int:
        return min(self._corrected(), self._oldest())

    def finish(self, at: int) -> Sequence[Result]:
        results = self._until(at + 1, last=True)
        none, at_once, when = np.empty(0, np.int64), np.zeros(1, np.int64), np.full(1, at)
        # Windows still open have early results at most, which are retracted.
        agenda = Agenda(at_once, np.full(1, END), when, none, none, at_once, at_once + 1, when)
        values = no_values(len(self._arguments))
        rows = no_rows(len(self.plan.group_by))
        results.extend(self._run(rows, values, agenda, len(self._missing.table.left)))
        return results

    def _spans(self) -> Geometry:
        return _TIMES

    def _run(self, rows: Rows, values: RowValues, agenda: Agenda, known: int) -> ResultPieces:
        results = ResultPieces()
        self._outbox, self._entries = self._new_outbox(self._outbox_room), new_entries(_CHUNK)
        # The rest is at rest between batches.
        for field in ("row", "step", "gap", "tick", "entries"):
            self._state[field] = 0
        why = None
        while why != DONE:
            size, step = self._size_and_step()
            batch = OwnBatch(
                rows, values, agenda, self._missing.table, known, size, step, self.horizon,
                self._can_grow(), self._in_advance, self._on_change,
            )  # fmt: skip
            why = self._pass(batch)
            if why == OUTBOX_FULL:
                self._send(results)
                self._more_outbox(min(2 * len(self._outbox.at), OUTBOX_MAX))
            elif why != DONE:
                self._grow(why)
        self._send(results)
        # Of ten thousand sites few are at work.
        self._outbox, self._entries = self._new_outbox(0), new_entries(0)
        return results

    @abstractmethod
    def _new_state(self) -> np.ndarray:
        """The pass's state at the beginning."""

    @abstractmethod
    def _size_and_step(self) -> tuple[int, int]:
        """As in ``OwnBatch``."""

    @abstractmethod
    def _pass(self, batch: OwnBatch) -> int:
        """Run the pass; gives why it returned."""

    @abstractmethod
    def _oldest(self) -> int:
        """No window that there is, or comes to be of events that are held, begins before [ns]."""

    @abstractmethod
    def _grow_more(self, why: int) -> None:
        """Make room in what a kind has for itself."""

    def _grow(self, why: int) -> None:
        """Double what has too little room."""
        if why == GROW_CELLS:
            self._more_cells()
        elif why == GROW_KEPT:
            self._more_kept()
        elif why == GROW_STANDING:
            self._more_standing()
        self._grow_more(why)
