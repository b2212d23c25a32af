"""When windows close and emit: each result at its own end, in order of the windows.

LOW ends floor(T_a/2) before the window, MIDDLE with it, HIGH (and every full result)
after it by the margin: ``max(ceil(T_a/2), largest uncertainty among the window's events)``.

*Emitting* continues until nothing is due: closed windows (``CLOSE``), open ones (``TICKED``), or
all at the end (``ENDED``). It stops when a buffer is full and resumes at the same point. The order
of keys within a window is arbitrary.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE, Record
from slackwater.engine.kernels.tables import pop, push
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window.emission import (
    PLACES_SPARE,
    SPARE,
    EmittedResults,
    PassState,
    emit_keys,
    forget_emitted,
)
from slackwater.engine.operators.window.settings import end_of, first_with, last_with, start_of
from slackwater.engine.operators.window.state.accumulate import clear
from slackwater.engine.operators.window.state.cells import HEADER, find, forget, free_window
from slackwater.engine.operators.window.state.content import (
    EACH,
    STAGE_LAST,
    STAGE_LOW,
    WindowStore,
)
from slackwater.engine.operators.window.state.panes import (
    MADE,
    MORE_PANES,
    free_panes,
    make_window,
    pane_of,
    pane_start,
)

# Windows that are final are removed from memory.


@kernel
def free_upto(last: int, store: WindowStore, results: EmittedResults) -> None:
    """Free the windows up to ``last``: their cells, kept events and emitted results."""
    cells = store.cells
    place = cells.tally[0].headers - 1
    while place >= 0:  # downwards: the header that replaces a freed one is already checked
        header = cells.headers[place]
        if cells.window[header] <= last:
            forget_emitted(cells, results, header)
            leader = cells.link[header]
            while leader != NONE:
                forget_emitted(cells, results, leader)
                forget(store.kept, cells, leader)
                cell = leader
                while cell != NONE:
                    clear(store.sums, cell)
                    cell = cells.down[cell]
                leader = cells.link[leader]
            free_window(cells, header)
        place -= 1


# When windows close and emit: each result at its own end, in order of the windows.


NOTHING, CLOSE, TICKED, ENDED = range(4)
_FEW: Final = 8
"""Panes are freed once per so many windows."""


@inline
def begin(what: int, at: int, batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Start to emit ``what`` at the instant ``at`` [ns]."""
    st.emitting, st.emit_at = what, at
    st.at_window, st.at_stage, st.made = a.INT_MIN, STAGE_LAST, st.closed_low
    if what == TICKED:
        st.upto_low, st.upto_middle, st.upto_all = a.NEVER, a.NEVER, a.NEVER
    else:
        _set_reach(what == ENDED, batch, book, st)


@kernel
def _set_reach(ended: bool, batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Set the last window whose LOW, MIDDLE and HIGH result is due; all windows if ``ended``."""
    geo, now, each = batch.geo, st.frontier, book.store.mode == EACH
    st.upto_low, st.upto_middle = st.closed_low, st.closed_middle
    st.upto_all = last = st.closed_all
    if not ended:
        if now < a.INT_MIN + 4 * geo.size:
            return
        last = first_with(geo, now - geo.high_shift) - 1
    cells = book.store.cells
    for place in range(cells.tally[0].headers):
        header = cells.headers[place]
        window = cells.window[header]
        if ended:
            last = max(last, window)
        elif window > st.closed_all and end_of(geo, window) + cells.unc[header] > now:
            last = min(last, window - 1)
    if batch.in_panes:
        cells = book.assigner.panes.cells
        for place in range(cells.tally[0].headers):
            header = cells.headers[place]
            if cells.tag[header] == HEADER:
                start = pane_start(geo, cells.window[header])
                newest = last_with(geo, start)
                if ended:
                    last = max(last, newest)
                else:
                    late = max(first_with(geo, start), first_with(geo, now - cells.unc[header]))
                    late = max(late, st.closed_all + 1)
                    if late <= newest:
                        last = min(last, late - 1)
    st.upto_all = max(st.closed_all, last)
    low, middle = st.upto_all, st.upto_all
    if each and not ended:
        low = first_with(geo, now + geo.low_shift) - 1
        middle = first_with(geo, now) - 1
    st.upto_low, st.upto_middle = max(st.closed_low, low), max(st.closed_middle, middle)


@kernel
def set_close_at(batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Set ``close_at``, the progress at which the next window may close."""
    geo, margin, following = batch.geo, batch.geo.high_shift, st.closed_all + 1
    st.close_at = a.INT_MIN
    if st.closed_all == a.INT_MIN:
        return
    cells, start, end = book.store.cells, start_of(geo, following), end_of(geo, following)
    header = find(cells, following, HEADER, book.assigner.no_key, 0)
    if header != NONE:
        margin = max(margin, cells.unc[header])
    if batch.in_panes:
        cells = book.assigner.panes.cells
        for place in range(cells.tally[0].headers):
            header = cells.headers[place]
            if cells.tag[header] == HEADER:
                inside = start <= pane_start(geo, cells.window[header]) < end
                margin = max(margin, cells.unc[header] if inside else 0)
    st.close_at = end + margin
    if book.store.mode == EACH:
        low = end_of(geo, st.closed_low + 1) - geo.low_shift
        middle = end_of(geo, st.closed_middle + 1)
        st.close_at = min(st.close_at, low, middle)


@njit
def emit(batch: a.PassBatch, book: PassState) -> int:
    """Emit until done; return ``DONE`` or the reason to stop (``window.assign``)."""
    st = book.state[0]
    what, why = st.emitting, a.DONE
    if batch.in_panes and what != TICKED:
        why = _make_due(batch, book, st)
    if why == a.DONE and (what != CLOSE or st.upto_all > st.closed_all):
        why = _emit_stale(batch, book, st)
    if why == a.DONE:
        why = _emit_due(batch, book, st)
    if why == a.DONE:
        st.emitting = NOTHING
        if what != TICKED:
            _close(what == CLOSE and st.upto_all > st.closed_all, batch, book, st)
    return why


@kernel
def _close(frees: bool, batch: a.PassBatch, book: PassState, st: Record) -> None:
    """Close the windows that were due; ``frees``: also free the final ones."""
    before = st.closed_low + 1
    st.closed_low, st.closed_middle = st.upto_low, st.upto_middle
    st.closed_all = st.upto_all
    if frees:
        free_upto(a.over(st, batch.geo), book.store, book.results)
    following = st.closed_low + 1
    if batch.in_panes and following // _FEW > before // _FEW:
        free_panes(book.assigner.panes, pane_of(batch.geo, start_of(batch.geo, following)))
    set_close_at(batch, book, st)


@njit
def _make_due(batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Make cells for the due windows that consist of panes."""
    geo = batch.geo
    while True:
        window, cells = a.NEVER, book.assigner.panes.cells  # the next window that has a pane
        for place in range(cells.tally[0].headers):
            header = cells.headers[place]
            start = pane_start(geo, cells.window[header])
            if cells.tag[header] == HEADER and last_with(geo, start) > st.made:
                window = min(window, max(first_with(geo, start), st.made + 1))
        if window > st.upto_low:
            return a.DONE
        why, refused = make_window(
            window, geo, book.assigner.panes, book.store, batch.gaps, batch.known + st.gap,
            book.assigner.no_key, batch.panes_grow, batch.can_grow,
        )  # fmt: skip
        st.refused += refused
        if why != MADE:
            return a.GROW_MORE if why == MORE_PANES else a.GROW_CELLS
        st.made = window


@inline
def _first_stage(book: PassState) -> int:
    return STAGE_LOW if book.store.mode == EACH else STAGE_LAST


@njit
def _emit_stale(batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Correct the closed windows that are marked."""
    cells = book.store.cells
    while True:
        found = NONE
        for place in range(cells.tally[0].headers):
            header = cells.headers[place]
            first = found == NONE or cells.window[header] < cells.window[found]
            if cells.stale[header] != 0 and first:
                found = header
        if found == NONE:
            return a.DONE
        closed = st.closed_low, st.closed_middle, st.closed_all
        for stage in range(_first_stage(book), STAGE_LAST + 1):
            if stage == STAGE_LAST or cells.window[found] <= closed[stage]:
                why = _emit_window(found, stage, batch, book, st)
                if why != a.DONE:
                    return why


@njit
def _emit_due(batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Emit each due result after the last emitted one."""
    closed = st.closed_low, st.closed_middle, st.closed_all
    due = st.upto_low, st.upto_middle, st.upto_all
    cells, upto = book.store.cells, max(due)
    headers = np.empty(cells.tally[0].headers, np.int64)
    n = 0
    for place in range(cells.tally[0].headers):
        header = cells.headers[place]
        if max(st.closed_all + 1, st.at_window) <= cells.window[header] <= upto:
            push(headers, n, cells.window, header)
            n += 1
    while n > 0:
        header = headers[0]
        window = cells.window[header]
        for stage in range(_first_stage(book), STAGE_LAST + 1):
            to_do = window > st.at_window or stage > st.at_stage
            if to_do and closed[stage] < window <= due[stage]:
                why = _emit_window(header, stage, batch, book, st)
                if why != a.DONE:
                    return why
                st.at_window, st.at_stage = window, stage
        pop(headers, n, cells.window)
        n -= 1
    return a.DONE


@njit
def _emit_window(header: int, stage: int, batch: a.PassBatch, book: PassState, st: Record) -> int:
    """Update the emitted results of one ``stage`` of a window, for all keys.

    Return ``DONE`` or the reason to stop (``window.assign``).
    """
    link, results, keys = book.store.cells.link, book.results, 0
    leader = link[header]
    while leader != NONE:
        keys += 1
        leader = link[leader]
    st.needed = keys + 1 + PLACES_SPARE
    if results.tally[0].live + st.needed > len(results.next):
        return a.GROW_STANDING
    st.needed = 2 * (keys + 1 + SPARE)
    if book.outbox.tally[0] + st.needed > len(book.outbox.results.at):
        return a.OUTBOX_FULL
    leaders, n = np.empty(keys, np.int64), 0
    leader = link[header]
    while leader != NONE:
        leaders[n] = leader
        n += 1
        leader = link[leader]
    window = book.store.cells.window[header]
    extent = (start_of(batch.geo, window), end_of(batch.geo, window))
    emit_keys(book, header, leaders, True, stage, extent, st.emit_at)
    if stage == STAGE_LAST:
        book.store.cells.stale[header] = 0
    return a.DONE
