"""The loop of the pass (``engine.window.assign``): row by row, or run by run inside one window."""

from __future__ import annotations

from engine.kernels.jit import inline, njit
from engine.kernels.records import Record
from engine.stream.released import IN_ORDER, LATE
from engine.window import assign as a
from engine.window.doubt.missing import fill
from engine.window.drift import WHOLE
from engine.window.held.cells import SPARE
from engine.window.held.kept import SPARE as KEPT_SPARE
from engine.window.held.kept import keep
from engine.window.told import SPARE as TOLD_SPARE
from engine.window.told import Book


@njit
def run(batch: a.Batch, book: Book) -> int:
    """Go on from the state's row; gives ``DONE`` or why it stopped (``engine.window.assign``)."""
    st = book.state[0]
    n = len(batch.rows.ref)
    while True:
        i = st.row
        why = a.take_agenda(i, batch, book, st)
        if why == a.DONE and i < n:
            why = _room(batch, book)
        if why != a.DONE or i == n:
            a.add_entries(batch, book, st)
            return why
        if st.entries > len(book.entries.row) - SPARE * batch.room:
            a.add_entries(batch, book, st)
        header = _take_row(i, batch, book, st)
        if st.changed > 0:
            a.add_entries(batch, book, st)
            a.correct(batch.rows.release[i], batch, book, st)
        st.row = i + 1
        if batch.rows.status[i] == IN_ORDER and st.frontier >= st.close_at:
            a.add_entries(batch, book, st)
            return a.CLOSING
        window = batch.rows.ref[i] // batch.geo.step
        if batch.geo.step == batch.geo.size and header >= 0 and window > st.closed_low:
            _go_on(header, window, batch, book, st)


@inline
def _room(batch: a.Batch, book: Book) -> int:
    """``DONE`` if there is room for whatever one row may ask for."""
    cells = book.held.cells
    if batch.can_grow and cells.tally[0].live > len(cells.window) - SPARE * batch.room:
        return a.GROW_CELLS
    if book.held.kept.tally[0].live > len(book.held.kept.next) - KEPT_SPARE * batch.room:
        return a.GROW_KEPT
    if book.standing.tally[0].live > len(book.standing.next) - TOLD_SPARE * batch.room:
        return a.GROW_STANDING
    if book.outbox.tally[0] > len(book.outbox.at) - TOLD_SPARE * batch.room:
        return a.OUTBOX_FULL
    return a.DONE


@inline
def _take_row(i: int, batch: a.Batch, book: Book, st: Record) -> int:
    """Any one row; gives the header of its own window, -1 if it entered none."""
    rows = batch.rows
    u, header = rows.unc[i], -1
    if rows.status[i] >= LATE:
        event = (rows.source[i], rows.stream[i], rows.seq[i])
        known = batch.known + st.gap
        fill(book.held.cells, batch.gaps, known, event, st.closed_all, book.no_key)
    if len(rows.selected) == 0 or rows.selected[i]:
        if u > batch.geo.size:
            u = batch.geo.size
            st.capped += 1
        header = a.enter(i, u, batch, book, st)
    if rows.status[i] == IN_ORDER:
        st.frontier = max(st.frontier, rows.ref[i])
        st.frontier_at = rows.release[i]
    return header


@inline
def _go_on(header: int, window: int, batch: a.Batch, book: Book, st: Record) -> None:
    """Take the rows that follow as long as they are well inside the open ``window``."""
    rows, geo, out = batch.rows, batch.geo, book.entries
    cells, kept = book.held.cells, book.held.kept
    i, before = st.row, st.entries
    keeps = a.keeps_all(book.held)
    stop = min(len(rows.ref), a.next_agenda(batch.agenda, st), i + len(out.row) - SPARE - before)
    if keeps:
        stop = min(stop, i + len(kept.next) - KEPT_SPARE - kept.tally[0].live)
    start = window * geo.size
    i, entries, frontier, widest, moved = a.run_inside(
        i, stop, rows.ref, rows.reach, rows.status, rows.selected, rows.keys, rows.nulls,
        cells.table, cells.window, cells.tag, cells.keys, cells.rows, out.row, out.cell,
        (window, start, start + geo.size, geo.high_shift, geo.low_shift),
        (before, st.frontier, st.close_at, cells.unc[header]),
    )  # fmt: skip
    st.row, st.entries, st.frontier, cells.unc[header] = i, entries, frontier, widest
    if moved >= 0:
        st.frontier_at = rows.release[moved]
    if keeps:
        for j in range(before, entries):
            row = out.row[j]
            event = (rows.source[row], rows.epoch[row], rows.ref[row], rows.unc[row])
            keep(kept, cells, cells.lead[out.cell[j]], WHOLE, batch.values, row, event)
