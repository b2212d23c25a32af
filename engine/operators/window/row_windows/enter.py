"""The kernels of ROWS: insert an event into its group, and emit a window."""

from __future__ import annotations

from slackwater.engine.core.released import LATEST, NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, NONE, Record
from slackwater.engine.kernels.tables import push, put_in
from slackwater.engine.operators.window.assign import PassBatch, clocks_of
from slackwater.engine.operators.window.emission import PassState, update_result
from slackwater.engine.operators.window.row_windows.bounds import (
    DOUBTS_MAX,
    DoubtfulPlaces,
    bound,
    read_doubts,
)
from slackwater.engine.operators.window.row_windows.state import (
    EVERY,
    FULL,
    PERHAPS,
    forget_sorted,
    put_quantiles,
    sort_window,
)
from slackwater.engine.operators.window.settings import DOUBTED, PART_BITS, SURE, WHOLE
from slackwater.engine.operators.window.state.accumulate import RowValues, add_rows, clear, put_null
from slackwater.engine.operators.window.state.aggregate import MAX, QUANTILE, summarise
from slackwater.engine.operators.window.state.cells import Kept, find_or_add, free_window, new_event
from slackwater.engine.operators.window.state.content import (
    LEAST,
    MOST,
    NUMBERS,
    STAGE_LAST,
    is_refuted,
    put_extent,
    read_content,
    without_bounds,
)
from slackwater.engine.operators.window.uncertainty.bounds import ALL_ROWS
from slackwater.engine.operators.window.uncertainty.missing import missing_between

# Insertion of an event into its group, in order of time; later windows shift by one event.


@inline
def enter(i: int, batch: PassBatch, book: PassState, st: Record) -> None:
    """Insert row ``i``, and queue the emitted windows that it shifts.

    A new group accepts events back to its first event, less the time for which windows are
    corrected: gaps before that may be forgotten, so earlier events are too late.
    """
    rows, cells, kept, of = batch.rows, book.store.cells, book.store.kept, book.assigner.windows.of
    r = rows.ref[i]
    nulls = rows.nulls[i] << PART_BITS if len(rows.nulls) > 0 else 0
    live = cells.tally[0].live
    group = find_or_add(cells, 0, nulls, rows.keys, i)
    if group == NONE:
        st.refused += 1
        return
    mine = of[group]
    if cells.tally[0].live != live:
        mine.base, mine.count, mine.next = 0, 0, 0
        mine.floor, mine.reach = max(st.frontier, r) - batch.geo.horizon, INT_MIN
        mine.begin, mine.limit, mine.oldest, mine.newest = NONE, NONE, NONE, NONE
        mine.opened, mine.running, mine.is_group, mine.loose = 0, NONE, 1, LATEST
        forget_sorted(book.assigner.sorted, group)
    if r < mine.floor:
        st.too_late += 1
        if cells.tally[0].live != live:
            free_window(cells, group)
        return
    before, rank = cells.last[group], mine.base + mine.count
    while before != NONE and kept.ref[before] > r:
        before, rank = book.assigner.windows.prev[before], rank - 1
    place = _insert_event(i, group, before, batch, book, st)
    _count_event(mine, rank, len(rows.how) == 0 or rows.how[i] == SURE or rows.how[i] == DOUBTED)
    if kept.next[place] != NONE:
        forget_sorted(book.assigner.sorted, group)
    st.vague |= kept.part[place] != WHOLE
    total, first = mine.base + mine.count, mine.next * batch.geo.step
    if mine.begin != NONE:
        mine.begin = book.assigner.windows.prev[mine.begin] if rank <= first else mine.begin
    elif total == first + 1:
        mine.begin = cells.last[group]
    if mine.limit != NONE:
        late = rank <= first + batch.geo.size - 1
        mine.limit = book.assigner.windows.prev[mine.limit] if late else mine.limit
        if late and book.assigner.windows.open.has[group]:
            _advance_due(group, book, st)
    elif total == first + batch.geo.size:
        mine.limit = cells.last[group]
    wider = kept.unc[place] > st.widest
    st.widest = max(st.widest, kept.unc[place])
    if mine.limit != NONE and not book.assigner.windows.open.has[group]:
        queue_window(group, book, st)
    # With a larger clock error than before, even the latest event may change emitted results.
    near = st.widest > 0 and r - kept.unc[place] - st.widest <= mine.reach
    moved = wider or near or rank < total - 1 or batch.on_change
    if moved and mine.newest != NONE:
        _shift_windows(mine.newest, rank, place, batch, book, st)
    if batch.in_advance and total - 1 == mine.opened * batch.geo.step:
        _open_window(group, batch, book, st)


@inline
def _count_event(group: Record, rank: int, counts: bool) -> None:
    """Count an event with number ``rank`` in its group; ``counts``: under any clock error."""
    group.count += 1
    group.loose += rank <= group.loose < LATEST
    if not counts:
        group.loose = min(group.loose, rank)


@kernel
def _insert_event(
    i: int, group: int, before: int, batch: PassBatch, book: PassState, st: Record
) -> int:
    """Insert row ``i`` into the group's chain after ``before`` (NONE: first); returns its place."""
    rows, cells, kept, prev = (
        batch.rows,
        book.store.cells,
        book.store.kept,
        book.assigner.windows.prev,
    )
    part = PERHAPS if len(rows.how) > 0 and rows.how[i] != SURE else WHOLE
    event = (rows.clock[i], rows.epoch[i], rows.ref[i], rows.unc[i])
    place = new_event(kept, part, batch.values, i, event)
    kept.clocks[place] = clocks_of(rows, i)
    st.worst = max(st.worst, kept.clocks[place])
    after = cells.first[group] if before == NONE else kept.next[before]
    prev[place], kept.next[place] = before, after
    if before == NONE:
        cells.first[group] = place
    else:
        kept.next[before] = place
    if after == NONE:
        cells.last[group] = place
    else:
        prev[after] = place
    return int(place)


@inline
def due_at(ref: int, widest: int) -> int:
    """Return the progress [ns] from which no later event can be at or before ``ref`` by clock
    errors.
    """
    return ref + 2 * widest + (widest > 0)


@inline
def queue_window(group: int, book: PassState, st: Record) -> None:
    """Queue the group's next window: it is emitted once its last event is certainly in order."""
    windows, kept = book.assigner.windows, book.store.kept
    limit = windows.of[group].limit
    put_in(windows.open, group, due_at(kept.ref[limit], st.widest))


@kernel
def _advance_due(group: int, book: PassState, st: Record) -> None:
    """Move the group's queued window forward, as it ends earlier now."""
    heap, limit, place = book.assigner.windows.open, book.assigner.windows.of[group].limit, 0
    while heap.cells[place] != group:
        place += 1
    sooner = due_at(book.store.kept.ref[limit], st.widest)
    if sooner < heap.at[group]:
        heap.at[group] = sooner
        push(heap.cells, place, heap.at, group)  # moves it up from its place


@inline
def is_running(window: int, book: PassState) -> bool:
    """Return whether a window is not full yet, or its events may still change before it closes."""
    one = book.assigner.windows.of[window]
    return bool(one.number >= book.assigner.windows.of[one.group].next)


@kernel
def last_of(window: int, rows: int, book: PassState) -> int:
    """Return the place of a window's last event so far."""
    kept, place = book.store.kept, book.assigner.windows.of[window].first
    if book.assigner.windows.of[window].last != NONE:
        return int(book.assigner.windows.of[window].last)
    for _ in range(rows - 1):
        if kept.next[place] == NONE:
            break
        place = kept.next[place]
    return int(place)


@kernel
def new_window(group: int, number: int, first: int, book: PassState, st: Record) -> int:
    """Return the cell of a new window after all windows of the group; -1: no room."""
    windows, cells = book.assigner.windows, book.store.cells
    mine = windows.of[group]
    st.windows += 1
    nulls = cells.tag[group] >> PART_BITS << PART_BITS
    window = find_or_add(cells, st.windows, nulls | WHOLE, cells.keys, group)
    if window == NONE:
        st.refused += 1
        return int(NONE)
    one = windows.of[window]
    one.number, one.first, one.group, one.stale, one.is_group = number, first, group, 0, 0
    one.last = NONE
    one.before, one.after = mine.newest, NONE
    if mine.newest == NONE:
        mine.oldest = window
    else:
        windows.of[mine.newest].after = window
    mine.newest = window
    return int(window)


@inline
def _open_window(group: int, batch: PassBatch, book: PassState, st: Record) -> None:
    """Open a window that begins with the group's latest event."""
    mine = book.assigner.windows.of[group]
    window = new_window(group, mine.opened, book.store.cells.last[group], book, st)
    mine.opened += 1
    if window == NONE:
        return
    if mine.running == NONE:
        mine.running = window
    if batch.on_change and st.request == NONE:
        st.request, st.follow = window, EVERY


@kernel
def _shift_windows(
    newest: int, rank: int, event: int, batch: PassBatch, book: PassState, st: Record
) -> None:
    """Shift emitted windows that end with event number ``rank`` or later.

    Queues them, and earlier windows that may contain ``event`` by clock errors.
    """
    of, kept, window = book.assigner.windows.of, book.store.kept, newest
    earliest = kept.ref[event] - kept.unc[event] - st.widest
    while window != NONE:
        if rank <= of[window].number * batch.geo.step:
            of[window].first = book.assigner.windows.prev[of[window].first]
        behind = of[window].number * batch.geo.step + batch.geo.size > rank
        if behind and of[window].last != NONE:
            of[window].last = book.assigner.windows.prev[of[window].last]
        if not behind and kept.ref[last_of(window, batch.geo.size, book)] < earliest:
            break
        if batch.on_change:
            st.request, st.follow = window, EVERY
        elif not is_running(window, book):
            st.request, st.follow = window, FULL
        window = of[window].before


# Result of a window of ROWS: its values, and which of its events depend on the clocks.
#
# The number of an event in its group is certain if no event can change places with it. A later one
# can if its earliest possible time is not after the latest possible time of this one, and their
# clock errors are independent. Events of equal times keep the order of release only with exact
# clocks. So each event has a least and a largest number, by which it is certainly, possibly or not
# in the window. Each event is judged alone; shared errors of others are not used. An event that may
# not exist has a number, but is certainly in no window. Bounds of values:
# ``engine.operators.window.row_windows.bounds``.


@inline
def _overtakes(kept: Kept, late: int, early: int) -> bool:
    """Return whether event ``late`` may precede ``early``, the earlier one by measured times."""
    alike = kept.clock[late] == kept.clock[early] and kept.epoch[late] == kept.epoch[early]
    if alike and kept.epoch[late] != NO_EPOCH:
        return False
    errs = kept.unc[late] + kept.unc[early]
    return bool(errs > 0 and kept.ref[late] - kept.ref[early] <= errs)


@kernel
def _may_move(place: int, by: int, book: PassState, widest: int, ahead: bool) -> bool:
    """Return whether ``by`` events (``ahead``: later ones, else earlier ones) may change places
    with that at ``place``.
    """
    kept, prev = book.store.kept, book.assigner.windows.prev
    n, reach = 0, kept.unc[place] + widest
    other = kept.next[place] if ahead else prev[place]
    while n < by and other != NONE and reach > 0:
        if abs(kept.ref[other] - kept.ref[place]) > reach:
            break
        n += _overtakes(kept, other, place) if ahead else _overtakes(kept, place, other)
        other = kept.next[other] if ahead else prev[other]
    return n >= by


@inline
def _add_doubt(d: DoubtfulPlaces, doubtful: int, place: int, number: int) -> int:
    if doubtful < DOUBTS_MAX:
        d.place[doubtful], d.number[doubtful] = place, number
    return doubtful + 1


@kernel
def _find_doubts(
    first: int, last: int, extent: tuple[int, int], widest: int, book: PassState, lists: bool
) -> tuple[int, int, int, int]:
    """Find the certain and the doubtful events of the window from ``first`` to ``last``.

    ``extent``: (its events so far, its size). ``lists``: write the certain events to ``places``.
    Events that are in the window if they exist are ``free`` doubts. Beyond ``DOUBTS_MAX`` there are
    no bounds, so the search outside the window ends. An event farther from both ends than the clock
    errors is certain.

    Returns:
        numbers of certain events, of doubtful ones, and of these before and in the window.
    """
    kept, prev, d = book.store.kept, book.assigner.windows.prev, book.assigner.doubts
    there, rows = extent
    sure, doubtful, before, place, j = 0, 0, 0, first, 0
    free = d.free[0]
    free.n = 0
    low, high = kept.ref[first] + 2 * widest, kept.ref[last] - 2 * widest
    while j < there:
        within = low < kept.ref[place] < high
        if within and not lists:
            place, left = last, there - 1 - j
            while kept.ref[place] >= high:
                place, left = prev[place], left - 1
            sure, j, lists = sure + left, j + left, True
        holds = within or not _may_move(place, j + 1, book, widest, False)
        holds = within or (holds and not _may_move(place, rows - j, book, widest, True))
        if holds and kept.part[place] == WHOLE:
            book.assigner.windows.places[sure] = place
            sure += 1
        elif holds:
            spare = DOUBTS_MAX + free.n
            d.place[spare] = place
            free.n += 1
        else:
            doubtful = _add_doubt(d, doubtful, place, j)
        place, j = kept.next[place], j + 1
    inside = doubtful
    for ahead in (False, True):  # doubtful events after the window, then before it
        edge, apart = (first if ahead else last), 1
        place = prev[edge] if ahead else kept.next[edge]
        while widest > 0 and place != NONE and doubtful <= DOUBTS_MAX:
            if abs(kept.ref[place] - kept.ref[edge]) > 2 * widest:
                break
            if _may_move(place, apart, book, widest, ahead):
                doubtful = _add_doubt(d, doubtful, place, -apart if ahead else rows - 1 + apart)
                before += ahead
            place, apart = prev[place] if ahead else kept.next[place], apart + 1
    return sure, doubtful, before, inside


@kernel
def _put_bounds(
    window: int, sure: int, extent: tuple[int, int, int], values: RowValues, book: PassState
) -> None:
    """Write the bounds of a window with doubtful events to the scratch."""
    store, scratch, windows = book.store, book.scratch, book.assigner.windows
    clear(store.sums, window)
    add_rows(windows.places[:sure], windows.cells[:sure], values, store.sums)
    windows.cells[0] = window
    doubts = book.assigner.doubts
    vague = doubts.free[0].n > 0
    for i in range(min(extent[0], DOUBTS_MAX)):
        doubts.vague[i] = store.kept.part[doubts.place[i]] != WHOLE
        vague |= doubts.vague[i]
    for a in range(len(store.aggregates.function)):
        function, m = store.aggregates.function[a], store.aggregates.attribute[a]
        if function > MAX or (m == ALL_ROWS and not vague):
            continue
        for j in range(LEAST, MOST + 1):
            put_null(scratch.kinds, scratch.words, a * NUMBERS + j)
        if extent[0] > DOUBTS_MAX:
            continue
        read_doubts(store.kept, extent[0], m, doubts)
        n, is_float = sure, False
        if m != ALL_ROWS:
            n = summarise(store.sums, m, windows.cells[:1], scratch.scratch.sum)
            is_float = store.sums.of[m].is_float
        for j in range(LEAST, MOST + 1):
            bound(
                function, is_float, n, extent, 1 if j == LEAST else -1, doubts, scratch,
                a * NUMBERS + j,
            )  # fmt: skip


@kernel
def emit_window(
    window: int, exists: bool, batch: PassBatch, book: PassState, st: Record, at: int
) -> None:
    """Update the emitted result of a window; ``exists``: whether it may have one."""
    store, scratch, windows, rows = book.store, book.scratch, book.assigner.windows, 0
    kept, cells, one, vague = store.kept, store.cells, windows.of[window], False
    place = first = last = one.first
    sorts = len(book.assigner.sorted.n) > 0 and one.last != NONE and not st.vague
    lists = not sorts or st.worst > 0
    for a in range(len(store.aggregates.function)):  # those that sorted values do not give
        lists |= (
            store.aggregates.function[a] != QUANTILE and store.aggregates.attribute[a] != ALL_ROWS
        )
    if sorts:
        sort_window(
            book.assigner.sorted, store, (one.group, one.number), (first, one.last), batch.geo.step
        )
    if not lists:
        rows, last, place = batch.geo.size, one.last, kept.next[one.last]
    cells.clocks[window] = 0
    while rows < batch.geo.size and place != NONE:
        cells.clocks[window] = max(cells.clocks[window], kept.clocks[place])
        windows.places[rows], windows.cells[rows] = place, window
        vague |= kept.part[place] != WHOLE
        last, place = place, kept.next[place]
        rows += 1
    clear(store.sums, window)
    values = RowValues(kept.ints.T, kept.floats.T, kept.valid.T, kept.ref, windows.nothing)
    if lists:
        add_rows(windows.places[:rows], windows.cells[:rows], values, store.sums)
    cells.rows[window], cells.first[window] = rows, NONE if sorts else first
    kept.next[last] = NONE  # aggregates of all values read to the end of the chain
    known = batch.known + st.gap
    missing = missing_between(batch.gaps, known, kept.ref[first], kept.ref[last])
    read_content(store, window, STAGE_LAST, missing, (0, 0), scratch)
    kept.next[last], cells.first[window] = place, NONE
    if sorts:
        put_quantiles(book.assigner.sorted, store, scratch)
    if st.widest > 0 or vague:
        counts = scratch.counts[0]
        there = (rows, batch.geo.size)
        sure, doubtful, before, inside = _find_doubts(first, last, there, st.widest, book, lists)
        counts.certain, counts.ambiguous = sure, doubtful + book.assigner.doubts.free[0].n
        if counts.ambiguous > 0 and lists:
            _put_bounds(window, sure, (doubtful, before, inside), values, book)
    shifts = windows.of[one.group].loose < one.number * batch.geo.step
    if shifts or is_refuted(st, kept.ref[first], kept.ref[last]):
        without_bounds(store, scratch)
    put_extent(store, scratch, kept.ref[first], kept.ref[last])
    update_result(book, window, STAGE_LAST, 0, exists, at)
