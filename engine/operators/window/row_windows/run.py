"""WINDOW ROWS n [EVERY m]: per group, n events in order of reference time."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import FAR, NONE, Record, put_over
from slackwater.engine.kernels.tables import free_place, is_due, put_in, take_first
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window.assign import PassBatch
from slackwater.engine.operators.window.base import OwnWindows
from slackwater.engine.operators.window.emission import PassState, forget_emitted
from slackwater.engine.operators.window.row_windows import state as h
from slackwater.engine.operators.window.row_windows.bounds import new_doubts
from slackwater.engine.operators.window.row_windows.enter import (
    due_at,
    emit_window,
    enter,
    is_running,
    last_of,
    new_window,
    queue_window,
)
from slackwater.engine.operators.window.row_windows.state import (
    EVERY,
    FULL,
    NONE_BEHIND,
    SPARE,
    RowState,
    forget_sorted,
    new_sorted,
)
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.operators.window.state.accumulate import clear
from slackwater.engine.operators.window.state.aggregate import DISTINCT, QUANTILE
from slackwater.engine.operators.window.state.cells import free_window
from slackwater.engine.operators.window.uncertainty.missing import (
    GapTable,
    become_known,
    filled_by,
    split_gap,
)
from slackwater.engine.query.plan import WindowPlan

# The pass over released rows for windows of ROWS: full windows, gaps that become known, next row.
#
# Sequential in row order, so results do not depend on how the stream is cut into batches. A window
# is emitted when it is full and progress is beyond its last event by the largest clock error so
# far; its events are dropped when it is final and no later window needs them.


@njit
def run(batch: PassBatch, book: PassState) -> int:
    """Continue at the state's row; returns ``DONE`` or why the pass stops (``window.assign``)."""
    st, n = book.state[0], len(batch.rows.ref)
    while True:
        why = a.room(batch, book, SPARE)
        if why != a.DONE:
            return why
        if st.request != NONE:
            emit_window(
                st.request,
                st.frontier != FAR or not is_running(st.request, book),
                batch,
                book,
                st,
                st.emit_at,
            )
            book.assigner.windows.of[st.request].stale = 0
            following = book.assigner.windows.of[st.request].after  # if it is due as well
            is_full = st.follow != FULL or following == NONE or not is_running(following, book)
            st.request = following if st.follow != NONE_BEHIND and is_full else NONE
        elif _settled(batch, book, st):
            i = st.row
            what = a.due(i, batch.agenda, st)
            if what == a.GAP:
                become_known(batch.gaps, batch.known + st.gap)
                _mark(batch.gaps, batch.known + st.gap, batch.geo.size, book, st)
                st.gap += 1
            elif what == a.STEP:
                a.take_step(batch.agenda, st)
            elif what == a.TICK:
                _emit_next_running(batch, book, st)
            elif i < n:
                _take_row(i, batch, book, st)
            else:
                return a.DONE


@inline
def _emit_next_running(batch: PassBatch, book: PassState, st: Record) -> None:
    """Request the emission of the running windows of the next group."""
    of = book.assigner.windows.of
    while st.ticked < len(of):
        one = of[st.ticked]
        st.ticked += 1
        if one.is_group and one.running != NONE:
            st.emit_at = batch.agenda.tick_at[st.tick]
            st.request, st.follow = one.running, EVERY
            return
    st.ticked = 0
    st.tick += 1


@inline
def _take_row(i: int, batch: PassBatch, book: PassState, st: Record) -> None:
    rows = batch.rows
    filled, part = filled_by(batch.gaps, batch.known + st.gap, i)
    if filled != NONE:
        _mark(batch.gaps, filled, batch.geo.size, book, st)
        split_gap(batch.gaps, filled, part)
    if len(rows.selected) == 0 or rows.selected[i]:
        st.emit_at = rows.release[i]
        enter(i, batch, book, st)
    a.row_taken(i, rows, st)


@kernel
def _mark(gaps: GapTable, j: int, rows: int, book: PassState, st: Record) -> None:
    """Mark emitted windows around gap ``j`` as stale, as its missing events have changed."""
    windows, ref = book.assigner.windows, book.store.kept.ref
    for k in range(windows.kept.size[0]):
        window = windows.of[windows.kept.cells[k]].newest
        while window != NONE:
            one = windows.of[window]
            if gaps.first[j] >= ref[last_of(window, rows, book)]:
                break  # earlier windows of a group end no later
            if gaps.last[j] > ref[one.first]:
                one.stale = not is_running(window, book)
                st.stale |= one.stale
            window = one.before


@inline
def _settled(batch: PassBatch, book: PassState, st: Record) -> bool:
    """Return whether progress so far neither closes nor drops a window; else one is processed."""
    windows = book.assigner.windows
    full, leaves = is_due(windows.open, st.frontier), is_due(windows.kept, st.frontier)
    last = leaves and windows.of[windows.of[windows.kept.cells[0]].oldest].stale
    if full or (st.stale and (last or st.frontier == FAR)):
        _close_first(batch, book, st)
        return False
    if leaves:
        _forget_first(batch, book, st)
        return False
    return True


@kernel
def _close_first(batch: PassBatch, book: PassState, st: Record) -> None:
    """Request the emission of the stale windows, then of the full window that is due first."""
    windows, kept = book.assigner.windows, book.store.kept
    st.emit_at, st.follow = st.frontier_at, NONE_BEHIND
    if st.stale:
        while st.scanned < windows.kept.size[0]:
            window = windows.of[windows.kept.cells[st.scanned]].newest
            while window != NONE and not windows.of[window].stale:
                window = windows.of[window].before
            if window != NONE:
                st.request = window
                return
            st.scanned += 1
        st.stale, st.scanned = 0, 0
        return
    group = take_first(windows.open)
    mine = windows.of[group]
    if due_at(kept.ref[mine.limit], st.widest) <= windows.open.at[group]:
        st.request = _begin(group, batch, book, st)
    if mine.limit != NONE:
        queue_window(group, book, st)


@kernel
def _begin(group: int, batch: PassBatch, book: PassState, st: Record) -> int:
    """Move on to the group's next window; return the cell of the current one, -1: no room."""
    windows, kept = book.assigner.windows, book.store.kept
    mine = windows.of[group]
    begin, limit = mine.begin, mine.limit
    if not batch.in_advance:
        window = new_window(group, mine.next, begin, book, st)
    elif mine.running != NONE and windows.of[mine.running].number == mine.next:
        window = mine.running
        mine.running = windows.of[window].after
    else:
        window = NONE
    if window != NONE:
        windows.of[window].last = limit
        mine.reach = max(mine.reach, kept.ref[limit])
        if not windows.kept.has[group]:
            put_in(windows.kept, group, kept.ref[limit] + batch.geo.horizon)
    mine.next += 1
    for _ in range(batch.geo.step):
        begin = kept.next[begin] if begin != NONE else NONE
        limit = kept.next[limit] if limit != NONE else NONE
    mine.begin, mine.limit = begin, limit
    return int(window)


@kernel
def _forget_first(batch: PassBatch, book: PassState, st: Record) -> None:
    """Drop the oldest window of the group that is due first, and the events before the next one."""
    windows, store = book.assigner.windows, book.store
    group = take_first(windows.kept)
    mine = windows.of[group]
    window = mine.oldest
    last = last_of(window, batch.geo.size, book)
    if store.kept.ref[last] + batch.geo.horizon > st.frontier:
        put_in(windows.kept, group, store.kept.ref[last] + batch.geo.horizon)
        return
    mine.floor = store.kept.ref[last]
    one = windows.of[window]
    mine.oldest = one.after
    if one.after == NONE:
        mine.newest = NONE
    else:
        windows.of[one.after].before = NONE
        if not is_running(one.after, book):
            last = last_of(one.after, batch.geo.size, book)
            put_in(windows.kept, group, store.kept.ref[last] + batch.geo.horizon)
    if book.assigner.sorted.of[0].number == one.number:
        forget_sorted(book.assigner.sorted, group)
    following = windows.of[one.after].first if one.after != NONE else mine.begin
    _drop_events(group, (one.number + 1) * batch.geo.step, following, book, st.widest)
    forget_emitted(store.cells, book.results, window)
    clear(store.sums, window)
    free_window(store.cells, window)


@kernel
def _drop_events(group: int, before: int, first: int, book: PassState, widest: int) -> None:
    """Drop a group's events with numbers below ``before``, that of event ``first`` (-1: none yet),
    except events that may be after it by clock errors.
    """
    windows, kept, cells = book.assigner.windows, book.store.kept, book.store.cells
    mine = windows.of[group]
    begin = mine.floor if first == NONE else kept.ref[first]
    while mine.base < before and cells.first[group] != NONE:
        place = cells.first[group]
        if widest > 0 and kept.ref[place] + 2 * widest >= begin:
            return
        cells.first[group] = kept.next[place]
        if kept.next[place] == NONE:
            cells.last[group] = NONE
        else:
            windows.prev[kept.next[place]] = NONE
        free_place(kept.next, kept.tally, place)
        mine.base += 1
        mine.count -= 1


# WINDOW ROWS n [EVERY m]: per group, n events in order of reference time, from every m-th on.
#
# Window k has the events number k * m to k * m + n - 1 of its group; events of equal times are in
# order of release. A late event shifts the numbers of all later ones, so it corrects its window and
# all later emitted ones of the group. Hence events are kept until their windows are final, and a
# window is computed when it is emitted. At the end of the input a window that is not full is not
# emitted. An event that may not exist, as an uncertain result of another statement, has a number
# too; bounds are with it and without it.


class RowWindows(OwnWindows):
    """Operator of a ``WindowPlan`` of the kind ROWS."""

    state_fields = (*OwnWindows.state_fields, "_windows")

    run_pass = staticmethod(run)
    snapshot_fields = h.SNAPSHOT_FIELDS
    record = h.STATE
    initial = MappingProxyType({**OwnWindows.initial, "request": NONE})

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        cells, kept = len(self._store.cells.window), len(self._store.kept.next)
        self._windows = h.new_row_windows(cells, kept, plan.rows)
        self._state["widest"] = self.settings.declared
        self._doubts = new_doubts(plan.rows)
        functions = self._store.aggregates.function
        sorts = (functions == QUANTILE).any() and not (functions == DISTINCT).any()
        self._sorted = new_sorted(len(self._arguments) if sorts else 0, plan.rows, plan.every_rows)

    def counters(self) -> dict[str, int]:
        """Adds ``in_no_full_window``: rows after the last full window of each group."""
        cells = self._store.cells
        live = cells.table[cells.table >= 0]
        of = self._windows.of[live[cells.window[live] == 0]]
        emitted = (of["next"] - 1) * self.plan.every_rows + self.plan.rows
        events = of["base"] + of["count"]
        rest = (events - (of["next"] > 0) * emitted).clip(0)
        return super().counters() | {"in_no_full_window": int(rest.sum())}

    def _assigner_state(self) -> RowState:
        return RowState(self._windows, self._doubts, self._sorted)

    def _oldest(self) -> int:
        cells = self._store.cells
        live = cells.table[cells.table >= 0]
        groups = live[cells.window[live] == 0]
        first = cells.first[groups]  # with EVERY it may be before the end of a dropped window
        earliest = self._store.kept.ref[first[first != NONE]].min(initial=FAR)
        return min(int(earliest), int(self._windows.of["floor"][groups].min(initial=FAR)))

    def _mark_refuted(self, low: int, high: int) -> None:
        cells, ref, of = self._store.cells, self._store.kept.ref, self._windows.of
        live = cells.table[cells.table >= 0]
        emitted = live[(of["is_group"][live] == 0) & (of["last"][live] != NONE)]
        first, last = ref[of["first"][emitted]], ref[of["last"][emitted]]
        self._mark_stale(emitted[(first < high) & (last >= low)])

    def _mark_stale(self, leaders: np.ndarray) -> None:
        of = self._windows.of
        mine = leaders[of["last"][leaders] != NONE]
        of["stale"][mine] = 1
        self._state["stale"] |= len(mine) > 0

    def _grow(self, why: int, needed: int) -> None:
        super()._grow(why, needed)
        if why in (a.GROW_CELLS, a.GROW_KEPT):
            cells, kept = len(self._store.cells.window), len(self._store.kept.next)
            more = h.new_row_windows(cells, kept, self.plan.rows)
            self._windows = put_over(more, self._windows)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._sorted.of["group"] = NONE
