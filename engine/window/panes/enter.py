"""Enters a row in a pane, for the windows to come that it is wholly in; in the others by itself."""

from __future__ import annotations

from typing import Final

from engine.kernels.jit import inline
from engine.kernels.records import NONE, Record
from engine.window import assign as a
from engine.window.drift import SURE, first_with
from engine.window.emitted import PassState
from engine.window.panes.state import SPAN_MAX, add_to_pane, pane_of

NOWHERE: Final = (1, 0)
"""No windows."""


@inline
def enter_row(i: int, u: int, batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Enter row ``i``; gives the header of its window, or pane if rows go there, or -1.

    One place that enters it in windows, as that takes long to compile.
    """
    rows, geo, r = batch.rows, batch.geo, batch.rows.ref[i]
    first, last = NOWHERE
    pane, span, header = 0, NONE, NONE
    if batch.in_panes and (len(rows.how) == 0 or rows.how[i] == SURE):
        early, late = r - max(u, geo.high_shift), r + max(u, geo.low_shift)
        pane = pane_of(geo, early)
        span = pane_of(geo, late) - pane
        first, last = max(first_with(geo, late), st.closed_low + 1), early // geo.step
        if span > SPAN_MAX or first > last:
            first, last = NOWHERE
            span = NONE
    if span != 0 or first_with(geo, r) < first:
        header = a.enter(i, u, batch, book, st, (first, last))
    if span >= 0:
        nulls = rows.nulls[i] if len(rows.nulls) > 0 else 0
        header = add_to_pane(book.panes, pane, span, u, nulls, rows.keys, i, book.no_key)
        st.refused += header == NONE
    return NONE if batch.in_panes and span != 0 else header
