"""Puts an event in its place among its group's, which shifts windows behind it by one."""

from __future__ import annotations

from engine.kernels.heap import push
from engine.kernels.integers import INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.window.counted.held import EVERY, PERHAPS, TOLD, CountedBook
from engine.window.counted.order_statistics import forget_sorted
from engine.window.drift import PART_BITS, SURE, WHOLE
from engine.window.held.cells import find_or_add, free_window
from engine.window.own.batch import OwnBatch


@inline
def enter(i: int, batch: OwnBatch, book: CountedBook, st: Record) -> None:
    """Enter row ``i``; told windows that it shifts are asked for.

    A group begins with its first event, and as much before it as windows are corrected: what was
    missing before that may be forgotten, so an event from there is too late.
    """
    rows, cells, kept, of = batch.rows, book.held.cells, book.held.kept, book.counted.of
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
        mine.floor, mine.reach = max(st.frontier, r) - batch.horizon, INT_MIN
        mine.begin, mine.limit, mine.oldest, mine.newest = NONE, NONE, NONE, NONE
        mine.in_open, mine.in_kept = 0, 0
        mine.opened, mine.running, mine.is_group = 0, NONE, 1
        forget_sorted(book.sorted, group)
    if r < mine.floor:
        st.too_late += 1
        if cells.tally[0].live != live:
            free_window(cells, group)
        return
    before, rank = cells.last[group], mine.base + mine.count
    while before != NONE and kept.ref[before] > r:
        before, rank = book.counted.prev[before], rank - 1
    place = _put(i, group, before, batch, book)
    mine.count += 1
    if kept.next[place] != NONE:
        forget_sorted(book.sorted, group)
    st.vague |= kept.part[place] != WHOLE
    total, first = mine.base + mine.count, mine.next * batch.step
    if mine.begin != NONE:
        mine.begin = book.counted.prev[mine.begin] if rank <= first else mine.begin
    elif total == first + 1:
        mine.begin = cells.last[group]
    if mine.limit != NONE:
        late = rank <= first + batch.size - 1
        mine.limit = book.counted.prev[mine.limit] if late else mine.limit
        if late and mine.in_open:
            _sooner(group, book, st)
    elif total == first + batch.size:
        mine.limit = cells.last[group]
    wider = kept.unc[place] > st.widest
    st.widest = max(st.widest, kept.unc[place])
    if mine.limit != NONE and not mine.in_open:
        wait(group, book, st)
    # What was told before clocks erred by so much may be overtaken even by the latest event.
    near = st.widest > 0 and r - kept.unc[place] - st.widest <= mine.reach
    moved = wider or near or rank < total - 1 or batch.on_change
    if moved and mine.newest != NONE:
        _shift_windows(mine.newest, rank, place, batch, book, st)
    if batch.in_advance and total - 1 == mine.opened * batch.step:
        _open(group, batch, book, st)


@kernel
def _put(i: int, group: int, before: int, batch: OwnBatch, book: CountedBook) -> int:
    """A kept event behind ``before``, or in front."""
    rows, cells, kept, prev = batch.rows, book.held.cells, book.held.kept, book.counted.prev
    place = kept.tally[0].free
    kept.tally[0].free = kept.next[place]
    kept.tally[0].live += 1
    kept.part[place] = PERHAPS if len(rows.how) > 0 and rows.how[i] != SURE else WHOLE
    kept.clock[place], kept.epoch[place] = rows.clock[i], rows.epoch[i]
    kept.ref[place], kept.unc[place] = rows.ref[i], rows.unc[i]
    for m in range(kept.ints.shape[1]):
        kept.ints[place, m] = batch.values.ints[m, i]
        kept.valid[place, m] = batch.values.valid[m, i]
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
def due(ref: int, widest: int) -> int:
    """Progress with which no event can overtake one at ``ref`` any more, nor come at its time."""
    return ref + 2 * widest + (widest > 0)


@inline
def wait(group: int, book: CountedBook, st: Record) -> None:
    """The group's next window is to be told when none of its events can be overtaken any more."""
    counted, kept = book.counted, book.held.kept
    limit = counted.of[group].limit
    counted.closes[group] = due(kept.ref[limit], st.widest)
    push(counted.open, st.open, counted.closes, group)
    counted.of[group].in_open = 1
    st.open += 1


@kernel
def _sooner(group: int, book: CountedBook, st: Record) -> None:
    """The group's next window, which waits, ends earlier now."""
    counted, kept, place = book.counted, book.held.kept, 0
    while counted.open[place] != group:
        place += 1
    sooner = due(kept.ref[counted.of[group].limit], st.widest)
    if sooner < counted.closes[group]:
        counted.closes[group] = sooner
        push(counted.open, place, counted.closes, group)  # up from its own place


@inline
def runs(window: int, book: CountedBook) -> bool:
    """Whether it is not full yet, or may still be another."""
    one = book.counted.of[window]
    return bool(one.number >= book.counted.of[one.group].next)


@kernel
def last_of(window: int, rows: int, book: CountedBook) -> int:
    """The place of its last event; of one that runs, of its latest."""
    kept, place = book.held.kept, book.counted.of[window].first
    if book.counted.of[window].last != NONE:
        return int(book.counted.of[window].last)
    for _ in range(rows - 1):
        if kept.next[place] == NONE:
            break
        place = kept.next[place]
    return int(place)


@kernel
def new_window(group: int, number: int, first: int, book: CountedBook, st: Record) -> int:
    """A cell for a window behind those that the group has, or -1 without room."""
    counted, cells = book.counted, book.held.cells
    mine = counted.of[group]
    st.windows += 1
    nulls = cells.tag[group] >> PART_BITS << PART_BITS
    window = find_or_add(cells, st.windows, nulls | WHOLE, cells.keys, group)
    if window == NONE:
        st.refused += 1
        return int(NONE)
    one = counted.of[window]
    one.number, one.first, one.group, one.stale, one.is_group = number, first, group, 0, 0
    one.last = NONE
    one.before, one.after = mine.newest, NONE
    if mine.newest == NONE:
        mine.oldest = window
    else:
        counted.of[mine.newest].after = window
    mine.newest = window
    return int(window)


@inline
def _open(group: int, batch: OwnBatch, book: CountedBook, st: Record) -> None:
    """The group's latest event is the first one of another window."""
    mine = book.counted.of[group]
    window = new_window(group, mine.opened, book.held.cells.last[group], book, st)
    mine.opened += 1
    if window == NONE:
        return
    if mine.running == NONE:
        mine.running = window
    if batch.on_change and st.asked == NONE:
        st.asked, st.follow = window, EVERY


@kernel
def _shift_windows(
    newest: int, rank: int, event: int, batch: OwnBatch, book: CountedBook, st: Record
) -> None:
    """Told windows are others now that end with event number ``rank`` or later; those before it
    may be, whose last event ``event`` may have overtaken.
    """
    of, kept, window = book.counted.of, book.held.kept, newest
    earliest = kept.ref[event] - kept.unc[event] - st.widest
    while window != NONE:
        if rank <= of[window].number * batch.step:
            of[window].first = book.counted.prev[of[window].first]
        behind = of[window].number * batch.step + batch.size > rank
        if behind and of[window].last != NONE:
            of[window].last = book.counted.prev[of[window].last]
        if not behind and kept.ref[last_of(window, batch.size, book)] < earliest:
            break
        if batch.on_change:
            st.asked, st.follow = window, EVERY
        elif not runs(window, book):
            st.asked, st.follow = window, TOLD
        window = of[window].before
