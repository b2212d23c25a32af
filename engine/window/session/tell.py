"""What a session says: its values, where it lies, and whether it is one under every clock error."""

from __future__ import annotations

from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.window.doubt.gap_table import missing_between
from engine.window.held.content import LEAST, MOST, NUMBERS, STAGE_LAST, read_content
from engine.window.held.number import put_null
from engine.window.own.batch import OwnBatch, put_extent
from engine.window.session.cover import is_whole
from engine.window.session.held import SEVERAL, SessionBook
from engine.window.told import settle


@inline
def is_apart(one: Record, other: Record, gap: int) -> bool:
    """Whether session ``other``, after ``one``, is another under every error of their clocks."""
    if one.clock != SEVERAL and one.clock == other.clock and one.epoch == other.epoch:
        differ = abs((one.high - one.last) - (other.first - other.low))
        return bool(other.first - one.last - differ >= gap)
    return bool(other.low - one.high >= gap)


@inline
def _is_unsure(place: int, book: SessionBook, gap: int) -> bool:
    of = book.sessions.of
    one, before, after = of[place], of[place].before, of[place].after
    if one.vague:
        return True
    several = one.clock == SEVERAL and book.held.cells.rows[place] > 1
    if several and not is_whole(book.sessions, one, gap):
        return True
    if before != NONE and not is_apart(of[before], one, gap):
        return True
    if after != NONE and not is_apart(one, of[after], gap):
        return True
    far_before = of[before].before if before != NONE else NONE
    far_after = of[after].after if after != NONE else NONE
    return bool(
        (far_before != NONE and one.low - of[far_before].far_high < gap)
        or (far_after != NONE and of[far_after].far_low - one.high < gap)
    )


@kernel
def tell_session(
    place: int, wanted: bool, batch: OwnBatch, book: SessionBook, st: Record, at: int
) -> None:
    """Bring what stands of a session up to date; ``wanted``: whether it may have a result."""
    scratch, gap, one = book.scratch, batch.size, book.sessions.of[place]
    there = wanted
    if there:
        known = batch.known + st.gap
        missing = missing_between(batch.gaps, known, one.first - gap, one.last + gap)
        read_content(book.held, place, STAGE_LAST, missing, (0, 0), scratch)
        counts = scratch.counts[0]
        if _is_unsure(place, book, gap):
            counts.ambiguous, counts.certain = counts.certain, 0
            for a in range(len(book.held.asked.function)):
                for j in range(LEAST, MOST + 1):
                    put_null(scratch.kinds, scratch.words, a * NUMBERS + j)
        put_extent(book.held, scratch, one.first, one.last + gap)
    settle(book, place, STAGE_LAST, 0, there, at)
