"""The kernels of SESSION: insert an event into a session of its group, and emit a session."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.kernels.tables import (
    POOL,
    Heap,
    chained,
    free_place,
    new_heap,
    put_in,
    take_place,
)
from slackwater.engine.operators.window.assign import IN_BATCH, PassBatch, clocks_of, keeps_all
from slackwater.engine.operators.window.emission import PassState, update_result
from slackwater.engine.operators.window.settings import PART_BITS, SURE, WHOLE
from slackwater.engine.operators.window.state.accumulate import clear
from slackwater.engine.operators.window.state.cells import (
    find_or_add,
    free_window,
    keep,
    merge_cell,
)
from slackwater.engine.operators.window.state.content import (
    EVERY_PASS,
    STAGE_LAST,
    is_refuted,
    put_extent,
    read_content,
    without_bounds,
)
from slackwater.engine.operators.window.uncertainty.missing import missing_between

# The state of each session, and whether it is one session under every clock error.


# The extent of each session, and what its clock errors leave open. Its sums are in its cell.
#
# A session is a cell of ``window.state.cells``; its record here has the cell's number. The sessions
# of a group are chained in order of time from the group's cell, whose tag has no part.


SESSION: Final = record(
    "first", "last", "low", "high", "far_low", "far_high", "seams", "vague", "clock", "epoch",
    "group", "before", "after", "emitted", "stale", "merged",
)  # fmt: skip
"""``first``, ``last``: times of its first and last event; ``low``, ``high``: the least and largest
possible times of its events [ns]. ``far_low``: the least ``low`` of it and of all later sessions of
the group; ``far_high``: the largest ``high`` of it and of all earlier ones. ``seams``: the first
range where its events keep it together, or -1. ``vague``: 1: it is uncertain for another reason
than the gaps. ``clock``, ``epoch``: of all its events, or ``SEVERAL``. ``group``: the group's cell.
``before``, ``after``: its neighbours, or -1. ``emitted``: 1: closed, with its result emitted.
``stale``: 1: its missing events have changed since. ``merged``: 1: it is part of another one now.
Of a group's cell ``before`` is its newest session.
"""
SEVERAL: Final = -2
SEAM: Final = record("start", "end")
REQUEST: Final = record("session", "exists")
SNAPSHOT_FIELDS: Final = (
    "frontier", "frontier_at", "widest", "reach", "sessions", "stale", "too_late", "refused",
    *EVERY_PASS,
)  # fmt: skip
STATE: Final = record(*SNAPSHOT_FIELDS, *IN_BATCH, "ticked", "queued", "flush")
"""``frontier``: progress, and its instant. ``reach``: the largest uncertainty so far [ns];
``widest``: the same, at most half of the gap: the additional time before a session closes.
``sessions``: number so far. ``stale``: 1: emitted sessions are stale. Counters. And the position of
the pass in its batch: ``ticked`` open sessions with early results, ``queued`` sessions, and the
place up to which stale ones were searched.
"""
SPARE: Final = 8
"""More cells, seams, kept events and results than one step of the pass can need."""


class Sessions(NamedTuple):
    """The state of the SESSION assigner.

    ``of``: SESSION per cell. ``open``: sessions that are not emitted, by the time at which they
    close; ``kept``: emitted ones, by the time at which they are dropped. ``seam``: SEAM, a pool
    with ``next`` and ``tally``. ``queue``: REQUEST, the next sessions to emit and whether each may
    have a result.
    """

    of: np.ndarray
    open: Heap
    kept: Heap
    seam: np.ndarray
    next: np.ndarray
    tally: np.ndarray
    queue: np.ndarray


def new_sessions(cells: int, seams: int) -> Sessions:
    """No sessions, with room for ``cells`` cells and ``seams`` seams."""
    return Sessions(
        np.zeros(cells, SESSION), new_heap(cells), new_heap(cells), np.zeros(seams, SEAM),
        chained(seams), np.zeros(1, POOL), np.zeros(SPARE, REQUEST),
    )  # fmt: skip


# Whether the events of a session are one session under every clock error.
#
# With a gap g, a session may split at x, into events up to x and events from x + g on. An event in
# [low, high] prevents that if it is certainly between the two: high - g < x < low. With independent
# clock errors a session can split exactly where no event prevents it. The places that events
# protect are a few ranges of integers (seams), mostly one. They do not depend on the order of
# arrival; those of two sessions that merge are united.


@kernel
def cover(sessions: Sessions, one: Record, start: int, end: int) -> None:
    """Add the range [start, end], where session ``one`` cannot split, to its seams."""
    if start > end:
        return
    seam, before, place = sessions.seam, NONE, one.seams
    while place != NONE:
        following = sessions.next[place]
        if start <= seam[place].end + 1 and end >= seam[place].start - 1:
            start, end = min(start, seam[place].start), max(end, seam[place].end)
            if before == NONE:
                one.seams = following
            else:
                sessions.next[before] = following
            free_place(sessions.next, sessions.tally, place)
        else:
            before = place
        place = following
    place = take_place(sessions.next, sessions.tally)
    seam[place].start, seam[place].end, sessions.next[place] = start, end, one.seams
    one.seams = place


@kernel
def is_whole(sessions: Sessions, one: Record, gap: int) -> bool:
    """Return whether session ``one``, of several events, cannot split."""
    start, end = one.low, one.high - gap
    place = one.seams
    while place != NONE and start <= end:
        if sessions.seam[place].start <= start and sessions.seam[place].end >= end:
            return True
        place = sessions.next[place]
    return bool(start > end)


# Insertion of an event into a session of its group, a new one, or one merged from two.


@inline
def enter(i: int, batch: PassBatch, book: PassState, st: Record) -> bool:
    """Insert row ``i``; False: it merges two sessions, whose entries must be added up first."""
    rows, cells, of, gap = batch.rows, book.store.cells, book.assigner.of, batch.geo.size
    r, u, vague = rows.ref[i], rows.unc[i], len(rows.how) > 0 and rows.how[i] != SURE
    nulls = rows.nulls[i] << PART_BITS if len(rows.nulls) > 0 else 0
    live = cells.tally[0].live
    group = find_or_add(cells, 0, nulls, rows.keys, i)
    if group == NONE:
        st.refused += 1
        return True
    if cells.tally[0].live != live:
        of[group].before = NONE
    after, one = NONE, of[group].before
    while one != NONE and of[one].first - gap >= r:
        after, one = one, of[one].before
    final_before, is_new = st.frontier - batch.geo.horizon, True
    if one != NONE and r < of[one].last + gap:
        joins = r < of[one].first and of[one].before != NONE
        joins = joins and r < of[of[one].before].last + gap
        if _is_final(of[one], final_before, gap) or (
            joins and _is_final(of[of[one].before], final_before, gap)
        ):
            st.too_late += 1
            return True
        if joins and st.entries > 0:
            return False
        loose = _is_loose(of[one], i, batch)
        if joins:
            loose = loose or _is_loose(of[of[one].before], i, batch)
            one = _merge(of[one].before, one, book, st)
        vague = vague or loose
        is_new = joins
    else:
        late = r + gap <= final_before
        if not late:
            st.sessions += 1
            one = _begin(group, one, after, i, nulls, batch, book, st)
        if late or one == NONE:
            st.too_late += late
            st.refused += not late
            if of[group].before == NONE:
                free_window(cells, group)
            return True
    st.reach = max(st.reach, u)
    st.widest = max(st.widest, min(u, (gap - 1) // 2))
    changed = (
        _extend(book.assigner, one, r, u, vague, (rows.clock[i], rows.epoch[i]), gap) or is_new
    )
    if changed:
        _mark_reached(one, gap, book.assigner, st)
    cells.rows[one] += 1
    cells.clocks[one] = clocks_of(rows, i, cells.clocks[one])
    book.entries.row[st.entries], book.entries.cell[st.entries] = i, one
    st.entries += 1
    if keeps_all(book.store):
        event = (rows.clock[i], rows.epoch[i], r, u)
        keep(book.store.kept, cells, one, WHOLE, batch.values, i, event)
    if changed or of[one].emitted or batch.on_change:
        _correct(one, changed, batch, book.assigner, st)
    return True


@inline
def _is_loose(one: Record, i: int, batch: PassBatch) -> bool:
    """Return whether row ``i`` is less than the gap away from a session of its clock only if the
    error of the clock's rate is small.
    """
    rows = batch.rows
    if one.clock == SEVERAL or one.clock != rows.clock[i] or one.epoch != rows.epoch[i]:
        return False
    r, u = rows.ref[i], rows.unc[i]
    if r > one.last:
        return bool(r - one.last + abs(u - (one.high - one.last)) >= batch.geo.size)
    return bool(r < one.first and one.first - r + abs(u - (one.first - one.low)) >= batch.geo.size)


@inline
def _is_final(session: Record, final_before: int, gap: int) -> bool:
    """Return whether a session is emitted and final."""
    return bool(session.emitted and session.last + gap <= final_before)


@kernel
def _begin(
    group: int, before: int, after: int, i: int, nulls: int, batch: PassBatch, book: PassState,
    st: Record,
) -> int:  # fmt: skip
    """Return a new session between two of the group; -1: no room."""
    rows, sessions = batch.rows, book.assigner
    one = find_or_add(book.store.cells, st.sessions, nulls | WHOLE, rows.keys, i)
    if one == NONE:
        return int(NONE)
    r, new = rows.ref[i], sessions.of[one]
    new.first, new.last, new.low, new.high = r, r, r, r
    new.far_low = r if after == NONE else min(r, sessions.of[after].far_low)
    new.far_high = r if before == NONE else max(r, sessions.of[before].far_high)
    new.seams = NONE
    new.vague, new.emitted, new.stale, new.merged = 0, 0, 0, 0
    new.clock, new.epoch = rows.clock[i], rows.epoch[i]
    if new.epoch == NO_EPOCH:
        new.clock = SEVERAL
    new.group, new.before, new.after = group, before, after
    if before != NONE:
        sessions.of[before].after = one
    sessions.of[group if after == NONE else after].before = one
    reopen(one, batch.geo.size, sessions, st)
    return int(one)


@inline
def closes_at(session: Record, gap: int, st: Record) -> int:
    """Return the progress [ns] at which a session closes: no event in order can join it, except
    with a clock error beyond ``widest``.
    """
    return int(min(session.high, session.last + st.widest) + gap)


@inline
def reopen(one: int, gap: int, sessions: Sessions, st: Record) -> None:
    """Queue session ``one``, to be emitted when it closes."""
    sessions.of[one].emitted = 0
    put_in(sessions.open, one, closes_at(sessions.of[one], gap, st) + st.widest)


@inline
def _extend(
    sessions: Sessions, place: int, r: int, u: int, vague: bool, clock: tuple[int, int], gap: int
) -> bool:
    """Extend a session by an event; returns whether results of neighbours may change."""
    one = sessions.of[place]
    changed = r - u < one.low or r + u > one.high
    one.first, one.last = min(one.first, r), max(one.last, r)
    one.low, one.high = min(one.low, r - u), max(one.high, r + u)
    cover(sessions, one, r + u - gap + 1, r - u - 1)
    code, epoch = clock
    if one.clock != SEVERAL and (one.clock != code or one.epoch != epoch):
        one.clock = SEVERAL
        changed = True
    if vague:
        one.vague = 1
    return bool(changed)


@kernel
def _mark_reached(place: int, gap: int, sessions: Sessions, st: Record) -> None:
    """Mark emitted sessions as stale that the events of session ``place`` may now reach."""
    of, one = sessions.of, sessions.of[place]
    one.far_low, one.far_high = min(one.far_low, one.low), max(one.far_high, one.high)
    other, goes_on = one.before, True
    while other != NONE and goes_on:
        goes_on = of[other].far_low > one.low or one.low - of[other].far_high < gap
        of[other].far_low = min(of[other].far_low, one.low)
        if other != one.before and of[other].emitted and one.low - of[other].high < gap:
            of[other].stale = st.stale = 1
        other = of[other].before
    other, goes_on = one.after, True
    while other != NONE and goes_on:
        goes_on = of[other].far_high < one.high or of[other].far_low - one.high < gap
        of[other].far_high = max(of[other].far_high, one.high)
        if other != one.after and of[other].emitted and of[other].low - one.high < gap:
            of[other].stale = st.stale = 1
        other = of[other].after


@inline
def request_emission(sessions: Sessions, st: Record, place: int, exists: bool) -> None:
    """Queue session ``place``, to be emitted next; ``exists``: whether it may have a result."""
    request = sessions.queue[st.queued]
    request.session, request.exists = place, exists
    st.queued += 1


@kernel
def _merge(one: int, other: int, book: PassState, st: Record) -> int:
    """Merge session ``other`` into ``one``, the one before it."""
    store, sessions = book.store, book.assigner
    into, lost = sessions.of[one], sessions.of[other]
    if lost.emitted or store.cells.slot[other] != NONE:  # early
        request_emission(sessions, st, other, False)
    into.last, into.high = max(into.last, lost.last), max(into.high, lost.high)
    into.first, into.low = min(into.first, lost.first), min(into.low, lost.low)
    into.far_high = max(into.far_high, lost.far_high)
    into.vague = max(into.vague, lost.vague)
    if into.clock != lost.clock or into.epoch != lost.epoch:
        into.clock = SEVERAL
    while lost.seams != NONE:  # seams of one are seams of both
        place = lost.seams
        start, end = sessions.seam[place].start, sessions.seam[place].end
        lost.seams = sessions.next[place]
        free_place(sessions.next, sessions.tally, place)
        cover(sessions, into, start, end)
    into.after = lost.after
    sessions.of[lost.group if lost.after == NONE else lost.after].before = one
    cells = store.cells
    merge_cell(cells, store.sums, other, cells, store.sums, one)
    clear(store.sums, other)
    if cells.first[other] != NONE:
        if cells.first[one] == NONE:
            cells.first[one] = cells.first[other]
        else:
            store.kept.next[cells.last[one]] = cells.first[other]
        cells.last[one] = cells.last[other]
        cells.first[other] = cells.last[other] = NONE
    lost.merged, lost.emitted, lost.stale = 1, 0, 0
    return one


@inline
def _correct(
    place: int, changed: bool, batch: PassBatch, sessions: Sessions, st: Record
) -> None:  # fmt: skip
    """Request corrections of the emitted sessions that a row changes."""
    of, gap, every = sessions.of, batch.geo.size, batch.on_change
    one, before, after = of[place], of[place].before, of[place].after
    near = changed and before != NONE and one.low - of[before].high < gap
    if near and (of[before].emitted or every):
        request_emission(sessions, st, before, True)
    if one.emitted:
        ended = closes_at(one, gap, st) <= st.frontier
        request_emission(sessions, st, place, ended or every)
        if not ended:
            one.emitted = 0
            if not sessions.open.has[place]:
                reopen(place, gap, sessions, st)
    elif every:
        request_emission(sessions, st, place, True)
    near = changed and after != NONE and of[after].low - one.high < gap
    if near and (of[after].emitted or every):
        request_emission(sessions, st, after, True)


# Result of a session: its values, its extent, and its certainty.


@inline
def is_separate(one: Record, other: Record, gap: int) -> bool:
    """Return whether ``one`` and the later ``other`` are separate under every clock error."""
    if one.clock != SEVERAL and one.clock == other.clock and one.epoch == other.epoch:
        differ = abs((one.high - one.last) - (other.first - other.low))
        return bool(other.first - one.last - differ >= gap)
    return bool(other.low - one.high >= gap)


@inline
def _is_uncertain(place: int, book: PassState, gap: int) -> bool:
    of = book.assigner.of
    one, before, after = of[place], of[place].before, of[place].after
    if one.vague:
        return True
    several = one.clock == SEVERAL and book.store.cells.rows[place] > 1
    if several and not is_whole(book.assigner, one, gap):
        return True
    if before != NONE and not is_separate(of[before], one, gap):
        return True
    if after != NONE and not is_separate(one, of[after], gap):
        return True
    far_before = of[before].before if before != NONE else NONE
    far_after = of[after].after if after != NONE else NONE
    return bool(
        (far_before != NONE and one.low - of[far_before].far_high < gap)
        or (far_after != NONE and of[far_after].far_low - one.high < gap)
    )


@kernel
def emit_session(
    place: int, exists: bool, batch: PassBatch, book: PassState, st: Record, at: int
) -> None:
    """Update the emitted result of a session; ``exists``: whether it may have one."""
    scratch, gap, one = book.scratch, batch.geo.size, book.assigner.of[place]
    there = exists
    if there:
        known = batch.known + st.gap
        missing = missing_between(batch.gaps, known, one.first - gap, one.last + gap)
        read_content(book.store, place, STAGE_LAST, missing, (0, 0), scratch)
        refuted = is_refuted(st, one.first - gap, one.last + gap)
        if refuted or _is_uncertain(place, book, gap):
            without_bounds(book.store, scratch)
        put_extent(book.store, scratch, one.first, one.last + gap)
    update_result(book, place, STAGE_LAST, 0, there, at)
