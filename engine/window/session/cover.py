"""Whether the events of a session stay one session however wrong their clocks are.

With a gap g, an event known to lie in [low, high] keeps a session from being parted at x, between
events up to x and events from x + g on, if it surely lies between the two: high - g < x < low. If
each event's clock errs by itself, a session can be parted exactly where no event does that. The
places that some event keeps are a few stretches (of integers); most often one. They do not depend
on the order in which the events came, and those of two sessions that merge are put together.
"""

from __future__ import annotations

from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel
from engine.kernels.records import Record
from engine.window.session.held import Sessions


@inline
def cover(sessions: Sessions, one: Record, start: int, end: int) -> None:
    """Session ``one`` is kept from being parted in [start, end], too."""
    if start > end:
        return
    if one.seams == NONE and start <= one.solid_to + 1 and end >= one.solid_from - 1:
        one.solid_from = min(one.solid_from, start)
        one.solid_to = max(one.solid_to, end)
    else:
        _put(sessions, one, start, end)


@kernel
def _put(sessions: Sessions, one: Record, start: int, end: int) -> None:
    seam = sessions.seam
    before, place = NONE, one.seams
    while place != NONE:
        following = seam[place].next
        if start <= seam[place].end + 1 and end >= seam[place].start - 1:
            start, end = min(start, seam[place].start), max(end, seam[place].end)
            if before == NONE:
                one.seams = following
            else:
                seam[before].next = following
            _free(sessions, place)
        else:
            before = place
        place = following
    if one.solid_from > one.solid_to:
        one.solid_from, one.solid_to = start, end
    elif start <= one.solid_to + 1 and end >= one.solid_from - 1:
        one.solid_from = min(one.solid_from, start)
        one.solid_to = max(one.solid_to, end)
    elif start > one.solid_to:
        _chain(sessions, one, one.solid_from, one.solid_to)
        one.solid_from, one.solid_to = start, end
    else:
        _chain(sessions, one, start, end)


@inline
def _chain(sessions: Sessions, one: Record, start: int, end: int) -> None:
    place = sessions.tally[0].free
    seam = sessions.seam[place]
    sessions.tally[0].free = seam.next
    sessions.tally[0].live += 1
    seam.start, seam.end, seam.next = start, end, one.seams
    one.seams = place


@inline
def _free(sessions: Sessions, place: int) -> None:
    sessions.seam[place].next = sessions.tally[0].free
    sessions.tally[0].free = place
    sessions.tally[0].live -= 1


@kernel
def uncover(sessions: Sessions, one: Record) -> None:
    """Forget the stretches of a session."""
    while one.seams != NONE:
        place = one.seams
        one.seams = sessions.seam[place].next
        _free(sessions, place)


@kernel
def cover_all(sessions: Sessions, one: Record, other: Record) -> None:
    """What keeps session ``other`` together keeps ``one``, too."""
    cover(sessions, one, other.solid_from, other.solid_to)
    while other.seams != NONE:
        place = other.seams
        start, end = sessions.seam[place].start, sessions.seam[place].end
        other.seams = sessions.seam[place].next
        _free(sessions, place)
        cover(sessions, one, start, end)


@kernel
def is_whole(sessions: Sessions, one: Record, gap: int) -> bool:
    """Whether nothing can part session ``one``, which has several events."""
    start, end = one.low, one.high - gap
    if start > end or (one.solid_from <= start and one.solid_to >= end):
        return True
    place = one.seams
    while place != NONE:
        if sessions.seam[place].start <= start and sessions.seam[place].end >= end:
            return True
        place = sessions.seam[place].next
    return False
