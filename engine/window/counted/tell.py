"""What a window of ROWS says: its values, and which of its events hang on the clocks.

An event's number among its group's is sure if no event can overtake it: one that is later can, if
the earliest that it may be does not lie behind the latest that this one may be, and their clocks
err each by itself. Of equal times only right clocks keep the order of release. So an event has a
least and a largest number, and with them it is in the window for sure, possibly, or not. Each
number counts alone; two that hang on one error are not told apart. One that may not be there has
its number, and is in no window for sure. The bounds of values are those of
``engine.window.counted.bounds``.
"""

from __future__ import annotations

from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.window.counted.bounds import (
    DOUBTS_MAX,
    DoubtfulPlaces,
    bound,
    read_doubts,
    read_vague,
)
from engine.window.counted.held import CountedBook
from engine.window.counted.order_statistics import put_quantiles, sort_window
from engine.window.doubt.assignments import NO_EPOCH
from engine.window.doubt.bounds import ALL_ROWS
from engine.window.doubt.gap_table import missing_between
from engine.window.drift import WHOLE
from engine.window.held.accumulate import Values, add_rows, clear
from engine.window.held.aggregate import MAX, QUANTILE, summarise
from engine.window.held.content import LEAST, MOST, NUMBERS, STAGE_LAST, Held, read_content
from engine.window.held.kept import Kept
from engine.window.held.number import put_null
from engine.window.own.batch import OwnBatch, put_extent
from engine.window.told import settle


@inline
def _overtakes(kept: Kept, late: int, early: int) -> bool:
    """Whether event ``late`` may have come before ``early``, which is measured as the earlier."""
    alike = kept.clock[late] == kept.clock[early] and kept.epoch[late] == kept.epoch[early]
    if alike and kept.epoch[late] != NO_EPOCH:
        return False
    errs = kept.unc[late] + kept.unc[early]
    return bool(errs > 0 and kept.ref[late] - kept.ref[early] <= errs)


@kernel
def _moves(place: int, by: int, book: CountedBook, widest: int, ahead: bool) -> bool:
    """Whether so many events may change places with that at ``place``: later or earlier ones."""
    kept, prev = book.held.kept, book.counted.prev
    n, reach = 0, kept.unc[place] + widest
    other = kept.next[place] if ahead else prev[place]
    while n < by and other != NONE and reach > 0:
        if abs(kept.ref[other] - kept.ref[place]) > reach:
            break
        n += _overtakes(kept, other, place) if ahead else _overtakes(kept, place, other)
        other = kept.next[other] if ahead else prev[other]
    return n >= by


@inline
def _doubt(d: DoubtfulPlaces, doubtful: int, place: int, number: int) -> int:
    if doubtful < DOUBTS_MAX:
        d.place[doubtful], d.number[doubtful] = place, number
    return doubtful + 1


@kernel
def _find_doubts(
    first: int, last: int, extent: tuple[int, int], widest: int, book: CountedBook
) -> tuple[int, int, int, int]:
    """(certain ones, doubtful ones, of them before the window and in it) of the window from
    ``first`` to ``last``, which has so many events of so many (``extent``); the certain ones are in
    ``places``, and those that are in it if they are there at all in ``free`` of the doubts. Once
    they are too many for bounds, no more of those beside the window are looked for.
    """
    kept, prev, d = book.held.kept, book.counted.prev, book.doubts
    there, rows = extent
    sure, doubtful, before, place = 0, 0, 0, first
    free = d.free[0]
    free.n = 0
    for j in range(there):
        holds = not _moves(place, j + 1, book, widest, False)
        holds = holds and not _moves(place, rows - j, book, widest, True)
        if holds and kept.part[place] == WHOLE:
            book.counted.places[sure] = place
            sure += 1
        elif holds:
            spare = DOUBTS_MAX + free.n
            d.place[spare] = place
            free.n += 1
        else:
            doubtful = _doubt(d, doubtful, place, j)
        place = kept.next[place]
    inside = doubtful
    j, place = rows, kept.next[last]
    near = widest > 0 and place != NONE
    while near and doubtful <= DOUBTS_MAX and kept.ref[place] - kept.ref[last] <= 2 * widest:
        if _moves(place, j - rows + 1, book, widest, False):
            doubtful = _doubt(d, doubtful, place, j)
        j, place = j + 1, kept.next[place]
        near = place != NONE
    j, place = -1, prev[first]
    near = widest > 0 and place != NONE
    while near and doubtful <= DOUBTS_MAX and kept.ref[first] - kept.ref[place] <= 2 * widest:
        if _moves(place, -j, book, widest, True):
            doubtful = _doubt(d, doubtful, place, j)
            before += 1
        j, place = j - 1, prev[place]
        near = place != NONE
    return sure, doubtful, before, inside


@kernel
def _put_bounds(
    window: int, sure: int, extent: tuple[int, int, int], values: Values, book: CountedBook
) -> None:
    """The bounds of a window, of which some events are doubtful, in place of its values."""
    held, scratch, counted = book.held, book.scratch, book.counted
    clear(held.sums, window)
    add_rows(counted.places[:sure], counted.cells[:sure], values, held.sums)
    counted.cells[0] = window
    vague = read_vague(held.kept, min(extent[0], DOUBTS_MAX), book.doubts)
    for a in range(len(held.asked.function)):
        function, m = held.asked.function[a], held.asked.attribute[a]
        if function > MAX or (m == ALL_ROWS and not vague):
            continue
        for j in range(LEAST, MOST + 1):
            put_null(scratch.kinds, scratch.words, a * NUMBERS + j)
        if extent[0] > DOUBTS_MAX:
            continue
        read_doubts(held.kept, extent[0], m, book.doubts)
        n, is_float = sure, False
        if m != ALL_ROWS:
            n = summarise(held.sums, m, counted.cells[:1], scratch.scratch.sum)
            is_float = held.sums.of[m].is_float
        for j in range(LEAST, MOST + 1):
            bound(
                function, is_float, n, extent, 1 if j == LEAST else -1, book.doubts, scratch,
                a * NUMBERS + j,
            )  # fmt: skip


@inline
def _adds_up(held: Held) -> bool:
    """Whether an aggregate asks for more than the number of rows and what sorted values tell."""
    for a in range(len(held.asked.function)):
        if held.asked.function[a] != QUANTILE and held.asked.attribute[a] != ALL_ROWS:
            return True
    return False


@kernel
def tell_window(
    window: int, wanted: bool, batch: OwnBatch, book: CountedBook, st: Record, at: int
) -> None:
    """Bring what stands of a window up to date; ``wanted``: whether it may have a result."""
    held, scratch, counted, rows = book.held, book.scratch, book.counted, 0
    kept, cells, one, vague = held.kept, held.cells, counted.of[window], False
    place = first = last = one.first
    sorts = len(book.sorted.n) > 0 and one.last != NONE and st.widest == 0 and not st.vague
    if sorts:
        sort_window(book.sorted, held, (one.group, one.number), (first, one.last), batch.step)
    if sorts and not _adds_up(held):
        rows, last, place = batch.size, one.last, kept.next[one.last]
    while rows < batch.size and place != NONE:
        counted.places[rows], counted.cells[rows] = place, window
        vague |= kept.part[place] != WHOLE
        last, place = place, kept.next[place]
        rows += 1
    clear(held.sums, window)
    values = Values(kept.ints.T, kept.floats.T, kept.valid.T, kept.ref, counted.nothing)
    if not sorts or _adds_up(held):
        add_rows(counted.places[:rows], counted.cells[:rows], values, held.sums)
    cells.rows[window], cells.first[window] = rows, NONE if sorts else first
    kept.next[last] = NONE  # for aggregates of all values, which read on to the end
    known = batch.known + st.gap
    missing = missing_between(batch.gaps, known, kept.ref[first], kept.ref[last])
    read_content(held, window, STAGE_LAST, missing, (0, 0), scratch)
    kept.next[last], cells.first[window] = place, NONE
    if sorts:
        put_quantiles(book.sorted, held, scratch)
    if st.widest > 0 or vague:
        counts = scratch.counts[0]
        there = (rows, batch.size)
        sure, doubtful, before, inside = _find_doubts(first, last, there, st.widest, book)
        counts.certain, counts.ambiguous = sure, doubtful + book.doubts.free[0].n
        if counts.ambiguous > 0:
            _put_bounds(window, sure, (doubtful, before, inside), values, book)
    put_extent(held, scratch, kept.ref[first], kept.ref[last])
    settle(book, window, STAGE_LAST, 0, wanted, at)
