"""A batch as the passes over a group's own windows read it, and what they do alike."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.stream.released import IN_ORDER
from engine.window.assign import Agenda, Rows
from engine.window.doubt.missing import GapTable
from engine.window.held.accumulate import RowValues, add_rows
from engine.window.held.content import LOW_ONE, NUMBERS, VALUE, Content, Held
from engine.window.held.number import HALF_WORD, LOW_WORD, put_int

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
