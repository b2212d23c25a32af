"""Which matches are asked for: the first few with one last event (LIMIT), the first with one first
event (SKIP TO NEXT), or those that begin after the one before has ended (SKIP PAST LAST EVENT).

In a stream in order an event chooses among the matches that it completes. A late one may change
what was chosen about it and, as one match makes way for another, behind it: the matches chosen
there without it and with it are both written, and the difference is what it changes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.kernels.jit import kernel
from engine.pattern.search.stacks import first_not_below
from engine.repetition.asking import key_equal, spread_of
from engine.repetition.records import (
    ANY,
    APART,
    FAR,
    FIRST_OF_END,
    FIRST_OF_START,
    Chase,
)
from engine.repetition.walk import NEW, OLD, Wanted, walk

_KEPT: Final = 1
"""Bits of ``Chase.chosen``: of a match that is chosen this is the event that the rule goes by;"""
_NOW: Final = 2
"""in the sweep at hand."""
_DEAD: Final = 4
"""Bits of an event with which no later one can make a match: every run from it has been ended, by
contiguity or as it is complete;"""
_DYING: Final = 8
"""by the event at hand."""
_NO_ROOM: Final = -FAR - 1


@kernel
def starts_from(s: Chase, stack: int, time: int) -> int:
    """The first place of the stack at which a match may begin that reaches to ``time``."""
    now, of = s.setting[0], s.stacks.stack[stack]
    low = -FAR if now.within < 0 else time - now.within - spread_of(s)
    return first_not_below(s.stacks.entry, of.start, of.size, low)


@kernel
def walks(s: Chase, w: Wanted, place: int) -> int:
    """``walk`` from an entry, as each step that a match may begin with."""
    row, written, now = s.stacks.entry[place].row, 0, s.setting[0]
    if not s.events[row].member & now.firsts or (w.newest and s.chosen[row] & _DEAD):
        return 0
    if row == w.left_out or s.events[row].expires < s.events[w.cause].horizon:
        return 0
    if not key_equal(s, row, w.cause):
        return 0
    now.is_open = 0
    for step in range(now.steps):
        if s.events[row].member & now.firsts & (1 << step) and written < w.most:
            wanted = Wanted(
                w.stack,
                w.cause,
                w.row,
                w.last,
                w.left_out,
                w.changed,
                w.most - written,
                w.phase,
                w.newest,
            )
            made = walk(s, wanted, place, step)
            if made < 0:
                return -1
            written += made
    if w.newest and not now.is_open and now.contiguity != ANY and not spread_of(s):
        s.chosen[row] |= _DYING
        now.dying += 1
    return written


@kernel
def bury(s: Chase, stack: int, low: int, fine: bool) -> None:
    """From the place ``low`` on, what has been found dead is so, or has been found in vain."""
    of = s.stacks.stack[stack]
    if s.setting[0].dying:
        for place in range(low, of.start + of.size):
            row = s.stacks.entry[place].row
            if s.chosen[row] & _DYING:
                s.chosen[row] = (s.chosen[row] & ~_DYING) | (_DEAD if fine else 0)
    s.setting[0].dying = 0


@kernel
def revive(s: Chase, stack: int, low: int) -> None:
    """From the place ``low`` on, later events may make matches: one has come between them."""
    of = s.stacks.stack[stack]
    for place in range(low, of.start + of.size):
        s.chosen[s.stacks.entry[place].row] &= ~_DEAD


class Region(NamedTuple):
    """Matches of a partition's ``stack`` that begin at places from ``low`` on up to the time
    ``high``; ``cause``: the event that has come, ``newest``: behind all others.
    """

    stack: int
    cause: int
    low: int
    high: int
    newest: int


@kernel
def _ending(s: Chase, of: Region, left_out: int, phase: int, place: int, after: int) -> int:
    """Chooses among the matches that end with the entry at ``place`` and, of those kept apart,
    begin after the time ``after``; gives the latter anew, or _NO_ROOM.
    """
    now, entry, stack = s.setting[0], s.stacks.entry, s.stacks.stack[of.stack]
    last = entry[place].row
    if last == left_out or not s.events[last].member & now.lasts:
        return after
    left = now.limit if now.rule == FIRST_OF_END else 1
    at = max(starts_from(s, of.stack, s.events[last].ref), of.low)
    high = min(s.events[last].ref + spread_of(s), of.high)
    while at < stack.start + stack.size and entry[at].time <= high and left > 0:
        row = entry[at].row
        fits = not (now.rule == APART and entry[at].time <= after)
        if fits and not (now.rule == FIRST_OF_START and s.chosen[row] & _NOW):
            wanted = Wanted(of.stack, of.cause, last, last, left_out, 0, left, phase, of.newest)
            made = walks(s, wanted, at)
            if made < 0:
                return _NO_ROOM
            if made and now.rule == FIRST_OF_START:
                s.chosen[row] |= _NOW
            elif made and now.rule == APART:
                s.chosen[last] |= _NOW
                return int(entry[place].time)
            elif now.rule == FIRST_OF_END:
                left -= made
        at += 1
    return after


@kernel
def _sweep(
    s: Chase, of: Region, left_out: int, phase: int, first: int, to: int, after: int
) -> bool:
    """Chooses among the matches that end at the places ``first`` to ``to``; False: no room."""
    for place in range(first, to):
        after = _ending(s, of, left_out, phase, place, after)
        if after == _NO_ROOM:
            return False
    return True


@kernel
def _settle(s: Chase, first: int, to: int, keep: bool, beside: bool) -> None:
    """Of the sweep at hand keeps what it has marked, perhaps ``beside`` what was kept, or forgets
    it.
    """
    for place in range(first, to):
        row = s.stacks.entry[place].row
        if keep and s.chosen[row] & _NOW:
            s.chosen[row] |= _KEPT
        elif keep and not beside:
            s.chosen[row] &= ~_KEPT
        s.chosen[row] &= ~_NOW


@kernel
def _last_kept(s: Chase, stack: int, time: int, low: int) -> int:
    """The place behind the last event of the last match kept that ends before ``time``; ``low``, if
    there is none from there on.
    """
    of = s.stacks.stack[stack]
    at = first_not_below(s.stacks.entry, of.start, of.size, time)
    while at > low and not s.chosen[s.stacks.entry[at - 1].row] & _KEPT:
        at -= 1
    return at


@kernel
def choose_newest(s: Chase, stack: int, row: int) -> bool:
    """What ``row``, behind all others, does to the matches chosen; False: there is no room."""
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    if not s.events[row].member & now.lasts:
        return True
    low, stop = starts_from(s, stack, s.events[row].ref), of.start + of.size
    if now.rule == APART:
        kept = _last_kept(s, stack, FAR, low)
        if kept > low:
            after = entry[kept - 1].time
    elif now.rule == FIRST_OF_START:
        for place in range(low, stop):
            if s.chosen[entry[place].row] & _KEPT:
                s.chosen[entry[place].row] |= _NOW
    fine = _ending(s, Region(stack, row, low, FAR, 1), -1, NEW, stop - 1, after) != _NO_ROOM
    _settle(s, low, stop, fine, True)
    bury(s, stack, low, fine)
    return fine


@kernel
def choose_late(s: Chase, stack: int, row: int) -> bool:
    """What ``row``, which lies between others, does to them; False: there is no room."""
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    spread, ref, stop = spread_of(s), s.events[row].ref, of.start + of.size
    within = now.within if now.within >= 0 else FAR // 4
    time = ref - spread - (within if now.trailing else 0)
    reach = ref + within + spread + (within if now.leading else 0)
    high = ref + spread + (within if now.leading else 0)
    low = starts_from(s, stack, time)
    revive(s, stack, low)
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
    region = Region(stack, row, low, high, 0)
    fine = _sweep(s, region, row, OLD, begin, end, after)
    if fine:
        _settle(s, first, to, False, False)
        fine = _sweep(s, region, -1, NEW, begin, end, after)
    _settle(s, first, to, fine, False)
    return fine
