"""Which matches are asked for: the first few with one last event (LIMIT), the first with one first
event (SKIP TO NEXT), or those that begin after the one before has ended (SKIP PAST LAST EVENT).

In a stream in order an event chooses among the matches that it completes. A late one may change
what was chosen about it and, as one match makes way for another, behind it: the matches chosen
there without it and with it are both written, and the difference is what it changes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.kernels.jit import kernel
from engine.operators.match.repetition.asking import spread_of
from engine.operators.match.repetition.compiled import (
    APART,
    FAR,
    FIRST_OF_END,
    FIRST_OF_START,
    KEPT,
    KEPT_NOW,
    SearchState,
)
from engine.operators.match.repetition.starts import (
    latest_start,
    may_begin,
    open_from,
    skipped_to,
    starts_from,
    walks,
)
from engine.operators.match.repetition.walk import NEW, OLD, MatchFilter
from engine.operators.match.search.stacks import first_not_below

_NO_ROOM: Final = -FAR - 1


class Region(NamedTuple):
    """Matches of a partition's ``stack`` that begin at places from ``low`` on up to the time
    ``high``; ``cause``: the event that has come. ``given``: bits of ``SearchState.chosen``: a match
    that begins with the event is chosen already.
    """

    stack: int
    cause: int
    low: int
    high: int
    given: int


@kernel
def _ending(s: SearchState, of: Region, left_out: int, phase: int, place: int, after: int) -> int:
    """Chooses among the matches that end with the entry at ``place`` and, of those kept apart,
    begin after the time ``after``; returns the new ``after``, or _NO_ROOM.
    """
    now, entry, stack = s.setting[0], s.stacks.entry, s.stacks.stack[of.stack]
    last = entry[place].row
    if last == left_out or not s.events[last].member & now.lasts:
        return after
    left = now.limit if now.rule == FIRST_OF_END else 1
    at = max(starts_from(s, of.stack, s.events[last].ref), of.low)
    if now.rule == APART and after > -FAR:
        at = max(at, first_not_below(entry, stack.start, stack.size, after + 1))
    high = min(latest_start(s, of.stack, place), of.high)
    while at < stack.start + stack.size and entry[at].time <= high and left > 0:
        at = skipped_to(s, at, place)
        row = entry[at].row
        wanted = MatchFilter(
            of.stack, of.cause, last, last, left_out, 0, left, phase, s.events[last].ref
        )
        given = now.rule == FIRST_OF_START and s.chosen[row] & of.given
        if not given and may_begin(s, wanted, at):
            made = walks(s, wanted, at)
            if made < 0:
                return _NO_ROOM
            if made and now.rule == FIRST_OF_START:
                s.chosen[row] |= KEPT_NOW
            elif made and now.rule == APART:
                s.chosen[last] |= KEPT_NOW
                return int(entry[place].time)
            elif now.rule == FIRST_OF_END:
                left -= made
        at += 1
    return after


@kernel
def _sweep(
    s: SearchState, of: Region, left_out: int, phase: int, first: int, to: int, after: int
) -> bool:
    """Chooses among the matches that end at the places ``first`` to ``to``; False: no room."""
    for place in range(first, to):
        after = _ending(s, of, left_out, phase, place, after)
        if after == _NO_ROOM:
            return False
    return True


@kernel
def _settle(s: SearchState, first: int, to: int, keep: bool, beside: bool) -> None:
    """Of the sweep at hand keeps what it has marked, perhaps ``beside`` what was kept, or forgets
    it.
    """
    for place in range(first, to):
        row = s.stacks.entry[place].row
        if keep and s.chosen[row] & KEPT_NOW:
            s.chosen[row] |= KEPT
        elif keep and not beside:
            s.chosen[row] &= ~KEPT
        s.chosen[row] &= ~KEPT_NOW


@kernel
def _last_kept(s: SearchState, stack: int, time: int, low: int) -> int:
    """The place behind the last event of the last match kept that ends before ``time``; ``low``, if
    there is none from there on.
    """
    of = s.stacks.stack[stack]
    at = first_not_below(s.stacks.entry, of.start, of.size, time)
    while at > low and not s.chosen[s.stacks.entry[at - 1].row] & KEPT:
        at -= 1
    return at


@kernel
def choose_newest(s: SearchState, stack: int, row: int) -> bool:
    """What ``row``, behind all others, does to the matches chosen; False: there is no room."""
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    if not s.events[row].member & now.lasts:
        return True
    mark, time, stop = s.marks[stack], s.events[row].ref, of.start + of.size
    low = open_from(s, stack, time)
    if now.rule == APART:
        if not mark.known:
            mark.known = 1
            mark.kept = _last_kept(s, stack, FAR, starts_from(s, stack, time)) - of.start
        if mark.kept:
            after = entry[of.start + mark.kept - 1].time
    region = Region(stack, row, low, FAR, KEPT | KEPT_NOW)
    fine = _ending(s, region, -1, NEW, stop - 1, after) != _NO_ROOM
    if now.rule == APART and fine and s.chosen[row] & KEPT_NOW:
        mark.kept = of.size
    if now.rule != FIRST_OF_END:  # of which nothing is marked
        _settle(s, stop - 1 if now.rule == APART else low, stop, fine, True)
    return fine


@kernel
def choose_late(s: SearchState, stack: int, row: int) -> bool:
    """What ``row``, which lies between others, does to them; False: there is no room."""
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    spread, ref, stop = spread_of(s), s.events[row].ref, of.start + of.size
    within = now.within if now.within >= 0 else FAR // 4
    time = ref - spread - (within if now.trailing else 0)
    reach = ref + within + spread + (within if now.leading else 0)
    high = ref + spread + (within if now.leading else 0)
    low = starts_from(s, stack, time)
    first, to = low, first_not_below(entry, of.start, of.size, reach + 1)
    begin, end = low, to
    if now.rule == APART:
        begin, end, high = _last_kept(s, stack, time, of.start), stop, FAR
        low = of.start
        if begin > of.start:
            after = entry[begin - 1].time
        first, to = begin, end
    elif now.rule == FIRST_OF_END:
        begin = first_not_below(entry, of.start, of.size, time)
        low, high = of.start, FAR
    else:
        to = first_not_below(entry, of.start, of.size, high + 1)
    region = Region(stack, row, low, high, KEPT_NOW)
    fine = _sweep(s, region, row, OLD, begin, end, after)
    if fine:
        _settle(s, first, to, False, False)
        fine = _sweep(s, region, -1, NEW, begin, end, after)
    _settle(s, first, to, fine, False)
    s.marks[stack].known = 0
    return fine
