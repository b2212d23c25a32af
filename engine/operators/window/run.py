"""The loop of the pass over rows, with a fast path for runs of rows in one window."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.core.released import IN_ORDER, LATE
from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE, Record
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window import closing
from slackwater.engine.operators.window.emission import PassState
from slackwater.engine.operators.window.settings import (
    PART_BITS,
    SURE,
    WHOLE,
    end_of,
    first_with,
    last_with,
    start_of,
)
from slackwater.engine.operators.window.state.accumulate import add_rows
from slackwater.engine.operators.window.state.cells import SPARE, Cells, hash_place, keep
from slackwater.engine.operators.window.state.panes import (
    PANES_SPARE,
    SPAN_MAX,
    Entries,
    add_to_pane,
    pane_of,
    pane_start,
)
from slackwater.engine.operators.window.uncertainty.missing import fill_gap

# A row enters a pane for future windows that contain it entirely, and other windows directly.


NOWHERE: Final = (1, 0)
"""No windows."""


@inline
def enter_row(i: int, u: int, batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Enter row ``i``; return the header of its window (with panes: of its pane), or -1.

    It has a single call that enters windows, as each takes long to compile.
    """
    rows, geo, r = batch.rows, batch.geo, batch.rows.ref[i]
    first, last = NOWHERE
    pane, span, header = 0, NONE, NONE
    if batch.in_panes and (len(rows.how) == 0 or rows.how[i] == SURE):
        early, late = r - max(u, geo.high_shift), r + max(u, geo.low_shift)
        pane = pane_of(geo, early)
        span = pane_of(geo, late) - pane
        first, last = max(first_with(geo, late), st.closed_low + 1), last_with(geo, early)
        if span > SPAN_MAX or first > last:
            first, last = NOWHERE
            span = NONE
    if span != 0 or first_with(geo, r) < first:
        header = a.enter(i, u, batch, book, st, (first, last))
    if span >= 0:
        nulls = rows.nulls[i] if len(rows.nulls) > 0 else 0
        header = add_to_pane(
            book.assigner.panes,
            pane,
            span,
            u,
            nulls,
            a.clocks_of(rows, i),
            rows.keys,
            i,
            book.assigner.no_key,
        )
        st.refused += header == NONE
    return NONE if batch.in_panes and span != 0 else header


# The fast path of most rows: they are well inside one open window whose cells exist already.


@kernel
def run_inside(
    i: int, stop: int, ref: np.ndarray, unc: np.ndarray, status: np.ndarray, selected: np.ndarray,
    keys: np.ndarray, nulls: np.ndarray, table: np.ndarray, windows: np.ndarray, tags: np.ndarray,
    cell_keys: np.ndarray, counts: np.ndarray, clocks: np.ndarray, worst: np.ndarray,
    out_row: np.ndarray, out_cell: np.ndarray, span: tuple[int, int, int, int, int],
    so_far: tuple[int, int, int, int],
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """Follow the fast path: rows well inside the open window whose cells exist already.

    The arguments are plain arrays, as reading them from named tuples per row costs more than the
    rest. The path starts with row ``i`` and ends before ``stop`` or the first row that needs more.
    ``span``: the window, its start, its end, and the shifts of HIGH and LOW [ns]. ``so_far``:
    entries, frontier, frontier at which windows close, largest uncertainty.

    Returns:
        (next row, entries, frontier, largest uncertainty, last row that moved the clock or -1).
    """
    window, start, end, back, on = span
    entries, frontier, close_at, widest = so_far
    mask = len(table) - 1
    columns = keys.shape[1]
    all_rows, no_nulls, all_good = len(selected) == 0, len(nulls) == 0, len(clocks) == 0
    moved = -1
    while i < stop:
        r, u, state = ref[i], unc[i], status[i]
        if state >= LATE or (state == IN_ORDER and r >= close_at):
            break
        if all_rows or selected[i]:
            if r - max(u, back) < start or r + max(u, on) >= end:
                break
            tag = WHOLE
            if not no_nulls:
                tag |= nulls[i] << PART_BITS
            place = hash_place(window, tag, keys, i, mask)
            cell = table[place]
            while cell != NONE:
                same = windows[cell] == window and tags[cell] == tag
                for j in range(columns):
                    same = same and cell_keys[cell, j] == keys[i, j]
                if same:
                    break
                place = (place + 1) & mask
                cell = table[place]
            if cell == NONE:
                break
            counts[cell] += 1
            if not all_good:
                worst[cell] = max(worst[cell], clocks[i])
            widest = max(widest, u)
            out_row[entries] = i
            out_cell[entries] = cell
            entries += 1
        if state == IN_ORDER:
            frontier = max(frontier, r)
            moved = i
        i += 1
    return i, entries, frontier, widest, moved


# The loop of the pass (``window.assign``): row by row, or run by run inside one window.


@njit
def run(batch: a.PassBatch, book: PassState) -> int:
    """Continue at the state's row; return ``DONE`` or why it stopped (``window.assign``)."""
    st = book.state[0]
    n, ended = len(batch.rows.ref), batch.ends_at == a.INT_MIN
    closing.set_close_at(batch, book, st)
    while True:
        if st.emitting != closing.NOTHING:
            ended = ended or st.emitting == closing.ENDED
            why = closing.emit(batch, book)
            if why != a.DONE:
                return why
        i = st.row
        why = a.take_agenda(i, batch, book, st)
        if why == a.DONE and i < n:
            why = a.room(batch, book, SPARE * batch.room)
            cells = book.assigner.panes.cells
            if batch.panes_grow and cells.tally[0].live > len(cells.window) - PANES_SPARE:
                why = a.GROW_MORE
        if why != a.DONE or i == n:
            _add_entries(batch, book, st)
            if why == a.CLOSING:
                closing.begin(closing.CLOSE, st.frontier_at, batch, book, st)
            elif why == a.TICK:
                at = batch.agenda.tick_at[st.tick - 1]
                closing.begin(closing.TICKED, at, batch, book, st)
            elif why == a.DONE and not ended:
                closing.begin(closing.ENDED, batch.ends_at, batch, book, st)
            else:
                return why
            continue
        full = (
            book.assigner.panes.tally[0].entries
            > len(book.assigner.panes.entries.row) - PANES_SPARE
        )
        if full or st.entries > len(book.entries.row) - SPARE * batch.room:
            _add_entries(batch, book, st)
        header = _take_row(i, batch, book, st)
        st.row = i + 1
        if st.changed > 0:
            _add_entries(batch, book, st)
            a.correct(batch.rows.release[i], batch, book, st)
        if batch.rows.status[i] == IN_ORDER and st.frontier >= st.close_at:
            _add_entries(batch, book, st)
            closing.begin(closing.CLOSE, st.frontier_at, batch, book, st)
        elif header >= 0 and not batch.on_change:
            _go_on(i, header, batch, book, st)


@kernel
def _add_entries(batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Add the pending entries to the sums, in panes as well."""
    a.add_entries(batch, book, st)
    panes = book.assigner.panes
    n = panes.tally[0].entries
    if n > 0:
        add_rows(panes.entries.row[:n], panes.entries.cell[:n], batch.values, panes.sums)
        panes.tally[0].entries = 0


@inline
def _take_row(i: int, batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Process row ``i``; return the header of its own window, -1 if it entered none."""
    rows = batch.rows
    u, header = rows.unc[i], -1
    if rows.status[i] >= LATE:
        known = batch.known + st.gap
        fill_gap(
            book.store.cells, batch.gaps, known, i, a.emitted_upto(batch, st), book.assigner.no_key
        )
    if len(rows.selected) == 0 or rows.selected[i]:
        if u > a.widest_of(batch.geo.size, batch.geo.step):
            u = a.widest_of(batch.geo.size, batch.geo.step)
            st.capped += 1
        header = enter_row(i, u, batch, book, st)
    if rows.status[i] == IN_ORDER:
        st.frontier = max(st.frontier, rows.ref[i])
        st.frontier_at = rows.release[i]
    return header


@inline
def _go_on(row: int, header: int, batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Process following rows while they are well inside the open window or pane of ``row``.

    ``header``: the header of that window or pane.
    """
    geo, panes = batch.geo, book.assigner.panes
    if batch.in_panes:
        place = pane_of(geo, batch.rows.ref[row])
        start, end = pane_start(geo, place), pane_start(geo, place + 1)
        if place >= panes.tally[0].built and first_with(geo, start) > st.closed_low:
            entries = panes.tally[0].entries
            cells, out = panes.cells, panes.entries
            panes.tally[0].entries = _inside(
                header, (place, start, end), entries, cells, out, batch, st, a.NEVER
            )
        return
    place = last_with(geo, batch.rows.ref[row])
    start, end = start_of(geo, place), end_of(geo, place)
    if end == start_of(geo, place + 1) and place > st.closed_low:  # no other window holds it
        before, at_most = st.entries, a.NEVER
        keeps = a.keeps_all(book.store)
        if keeps:
            at_most = len(book.store.kept.next) - SPARE - book.store.kept.tally[0].live
        where = (place, start, end)
        st.entries = _inside(
            header, where, before, book.store.cells, book.entries, batch, st, at_most
        )
        for j in range(before, st.entries if keeps else before):
            row, rows, store = book.entries.row[j], batch.rows, book.store
            event = (rows.clock[row], rows.epoch[row], rows.ref[row], rows.unc[row])
            leader = store.cells.lead[book.entries.cell[j]]
            keep(store.kept, store.cells, leader, WHOLE, batch.values, row, event)


@kernel
def _inside(
    header: int, place: tuple[int, int, int], before: int, cells: Cells, out: Entries,
    batch: a.PassBatch, st: Record, at_most: int,
) -> int:  # fmt: skip
    """Enter rows of ``place`` (index, start, end) whose cells exist; return the entries."""
    rows, geo, i = batch.rows, batch.geo, st.row
    stop = min(len(rows.ref), a.next_agenda(batch.agenda, st), i + len(out.row) - SPARE - before)
    index, start, end = place
    i, entries, frontier, widest, moved = run_inside(
        i, min(stop, i + at_most), rows.ref, rows.reach, rows.status, rows.selected, rows.keys,
        rows.nulls, cells.table, cells.window, cells.tag, cells.keys, cells.rows, rows.clocks,
        cells.clocks, out.row, out.cell,
        (index, start, end, geo.high_shift, geo.low_shift),
        (before, st.frontier, st.close_at, cells.unc[header]),
    )  # fmt: skip
    st.row, st.frontier, cells.unc[header] = i, frontier, widest
    if moved >= 0:
        st.frontier_at = rows.release[moved]
    return int(entries)
