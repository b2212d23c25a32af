"""WINDOW SESSION: per group, events less than a gap apart."""

from __future__ import annotations

import numpy as np

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import FAR, NONE, Record
from slackwater.engine.kernels.tables import free_place, is_due, over_pool, put_in, take_first
from slackwater.engine.operators.window import assign as a
from slackwater.engine.operators.window.assign import PassBatch
from slackwater.engine.operators.window.base import OwnWindows
from slackwater.engine.operators.window.emission import PassState, forget_emitted
from slackwater.engine.operators.window.session import enter as h
from slackwater.engine.operators.window.session.enter import (
    SPARE,
    Sessions,
    closes_at,
    emit_session,
    enter,
    is_separate,
    request_emission,
)
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.operators.window.state.accumulate import clear
from slackwater.engine.operators.window.state.cells import forget, free_window
from slackwater.engine.operators.window.uncertainty.missing import (
    GapTable,
    become_known,
    filled_by,
    split_gap,
)
from slackwater.engine.query.plan import WindowPlan

# The pass over released rows for sessions: closed sessions, gaps that become known, next row.
#
# Sequential in row order, so results do not depend on how the stream is cut into batches. A session
# is emitted when progress is beyond its last event by the gap plus the largest clock error so far,
# at most half of the gap. It is dropped one gap after it is final, so that a late event of it does
# not start another session, and when no event can join it by clock errors.


@njit
def run(batch: PassBatch, book: PassState) -> int:
    """Continue at the state's row; returns ``DONE`` or why the pass stops (``window.assign``).

    There is one call that emits and one that adds up, as compiling each call takes seconds.
    """
    st, n = book.state[0], len(batch.rows.ref)
    while True:
        if st.flush or st.queued > 0 or st.entries == len(book.entries.row):
            a.add_entries(batch, book, st)
            for j in range(st.queued):
                request = book.assigner.queue[j]
                place = request.session
                emit_session(place, request.exists == 1, batch, book, st, st.emit_at)
                _free_merged(place, book)
            st.queued, st.flush = 0, 0
        why = a.room(batch, book, SPARE)
        if book.assigner.tally[0].live > len(book.assigner.seam) - SPARE:
            why = a.GROW_MORE
        if why == a.DONE and _settled(batch, book, st):
            i = st.row
            what = a.due(i, batch.agenda, st)
            if what == a.GAP:
                become_known(batch.gaps, batch.known + st.gap)
                _mark(batch.gaps, batch.known + st.gap, batch, book, st)
                st.gap += 1
            elif what == a.STEP:
                a.take_step(batch.agenda, st)
            elif what == a.TICK:
                _emit_next_open(batch, book, st)
            elif i < n:
                _take_row(i, batch, book, st)
            elif st.entries == 0:
                return why
            else:
                st.flush = 1
        elif why != a.DONE:
            if st.entries == 0:
                return why
            st.flush = 1


@inline
def _settled(batch: PassBatch, book: PassState, st: Record) -> bool:
    """Return whether progress so far neither closes nor drops a session; else one is processed."""
    sessions = book.assigner
    ended, leaves = is_due(sessions.open, st.frontier), is_due(sessions.kept, st.frontier)
    last = st.frontier == FAR or (leaves and sessions.of[sessions.kept.cells[0]].stale)
    if ended or (st.stale and last):
        _close_first(ended, batch.geo.size, batch.geo.horizon, book, st)
        return False
    if leaves:
        _forget_first(batch.geo.size, batch.geo.horizon, book, st)
        return False
    return True


@inline
def _emit_next_open(batch: PassBatch, book: PassState, st: Record) -> None:
    """Request the early result of the next open session."""
    sessions = book.assigner
    while st.ticked < sessions.open.size[0]:
        place = sessions.open.cells[st.ticked]
        st.ticked += 1
        if not sessions.of[place].merged:
            st.emit_at = batch.agenda.tick_at[st.tick]
            request_emission(sessions, st, place, True)
            return
    st.ticked = 0
    st.tick += 1


@inline
def _take_row(i: int, batch: PassBatch, book: PassState, st: Record) -> None:
    rows = batch.rows
    if len(rows.selected) == 0 or rows.selected[i]:
        st.emit_at = rows.release[i]
        if not enter(i, batch, book, st):
            st.flush = 1
            return
    filled, part = filled_by(batch.gaps, batch.known + st.gap, i)
    if filled != NONE:
        _mark(batch.gaps, filled, batch, book, st)
        split_gap(batch.gaps, filled, part)
    a.row_taken(i, rows, st)


@kernel
def _mark(gaps: GapTable, j: int, batch: PassBatch, book: PassState, st: Record) -> None:
    """Mark emitted sessions next to gap ``j`` as stale, as its missing events have changed."""
    of, gap = book.assigner.of, batch.geo.size
    for place in range(book.assigner.kept.size[0]):
        one = of[book.assigner.kept.cells[place]]
        if one.emitted and gaps.first[j] < one.last + gap and gaps.last[j] > one.first - gap:
            one.stale = 1
            st.stale = 1


@kernel
def _free_merged(place: int, book: PassState) -> None:
    """Free a merged session that is neither queued nor correctable."""
    one = book.assigner.of[place]
    if one.merged:
        forget_emitted(book.store.cells, book.results, place)
        if not book.assigner.open.has[place] and not book.assigner.kept.has[place]:
            free_window(book.store.cells, place)


@kernel
def _close_first(ended: bool, gap: int, horizon: int, book: PassState, st: Record) -> None:
    """Request the emission of the next stale session, or else of the one that closes first."""
    sessions = book.assigner
    place = sessions.open.cells[0]
    one, due = sessions.of[place], sessions.open.at[place]
    closes = closes_at(one, gap, st) + st.widest
    st.emit_at = st.frontier_at
    if st.stale and (not ended or (not one.merged and closes <= due)):
        while st.scanned < sessions.kept.size[0]:
            other = sessions.of[sessions.kept.cells[st.scanned]]
            if other.stale and other.emitted:
                other.stale = 0
                request_emission(sessions, st, sessions.kept.cells[st.scanned], True)
                return  # the place is not advanced: the session may leave it to another one
            other.stale = 0
            st.scanned += 1
        st.stale, st.scanned = 0, 0
        return
    take_first(sessions.open)
    if one.merged:
        _free_merged(place, book)
    elif closes > due:
        put_in(sessions.open, place, closes)
    else:
        one.emitted = 1
        request_emission(sessions, st, place, True)
        if not sessions.kept.has[place]:
            put_in(sessions.kept, place, one.high + st.reach + 2 * gap + horizon)


@kernel
def _forget_first(gap: int, horizon: int, book: PassState, st: Record) -> None:
    """Drop a final session, and its group's cell if it is the last one. Neighbours that it may have
    been one with become vague.
    """
    sessions, store = book.assigner, book.store
    place = take_first(sessions.kept)
    one = sessions.of[place]
    if one.merged:
        _free_merged(place, book)
        return
    due = one.high + st.reach + 2 * gap + horizon
    if not one.emitted:
        return
    if due > sessions.kept.at[place]:
        put_in(sessions.kept, place, due)
        return
    of = sessions.of
    if one.before != NONE:
        of[one.before].after = one.after
    other = one.before
    while other != NONE and one.low - of[other].far_high < gap:
        if not is_separate(of[other], one, gap):
            of[other].vague = 1
        other = of[other].before
    other = one.after
    while other != NONE and of[other].far_low - one.high < gap:
        if not is_separate(one, of[other], gap):
            of[other].vague = 1
        other = of[other].after
    of[one.group if one.after == NONE else one.after].before = one.before
    if of[one.group].before == NONE:
        free_window(store.cells, one.group)
    forget_emitted(store.cells, book.results, place)
    forget(store.kept, store.cells, place)
    while one.seams != NONE:
        seam = one.seams
        one.seams = sessions.next[seam]
        free_place(sessions.next, sessions.tally, seam)
    clear(store.sums, place)
    free_window(store.cells, place)


# WINDOW SESSION: per group, events less than a gap apart.
#
# Source: Akidau et al. 2015 (Dataflow) 2.2, windows that merge. A session is [first, last + gap);
# an event less than a gap from two sessions merges them. A session is emitted when progress is
# beyond its end, and corrected like windows of time. If clock errors may split it or merge it with
# a neighbour (``is_whole``, ``is_separate``), it is uncertain, and all its events are ambiguous.


_SEAMS = 64


class SessionWindows(OwnWindows):
    """Operator of a ``WindowPlan`` of the kind SESSION."""

    state_fields = (*OwnWindows.state_fields, "_sessions")

    run_pass = staticmethod(run)
    snapshot_fields = h.SNAPSHOT_FIELDS
    record = h.STATE

    def __init__(
        self, plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
    ) -> None:
        super().__init__(plan, settings, site)
        self._sessions = h.new_sessions(len(self._store.cells.window), _SEAMS)

    def _assigner_state(self) -> Sessions:
        return self._sessions

    def _oldest(self) -> int:
        cells = self._store.cells
        live = cells.table[cells.table >= 0]
        first = self._sessions.of["first"][live[cells.window[live] > 0]]
        return int(first.min(initial=FAR)) - 2 * self.plan.size_ns

    def _mark_refuted(self, low: int, high: int) -> None:
        gap, heap = self.plan.size_ns, self._sessions.kept
        kept = heap.cells[: int(heap.size[0])]
        of = self._sessions.of[kept]
        self._mark_stale(kept[(of["first"] - gap < high) & (of["last"] + gap >= low)])

    def _mark_stale(self, leaders: np.ndarray) -> None:
        of = self._sessions.of
        mine = leaders[of["emitted"][leaders] == 1]
        of["stale"][mine] = 1
        self._state["stale"] |= len(mine) > 0

    def _grow(self, why: int, needed: int) -> None:
        super()._grow(why, needed)
        if why in (a.GROW_CELLS, a.GROW_MORE):
            seams = len(self._sessions.seam) * (2 if why == a.GROW_MORE else 1)
            cells = len(self._store.cells.window)
            self._sessions = over_pool(h.new_sessions(cells, seams), self._sessions)

    def codes(self) -> np.ndarray:
        return np.concatenate([super().codes(), np.unique(self._sessions.of["clock"])])
