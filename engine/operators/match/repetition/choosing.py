"""Which matches are asked for: the first few with one last event (LIMIT), the first with one first
event (SKIP TO NEXT), or those that begin after the one before has ended (SKIP PAST LAST EVENT).

In a stream in order an event chooses among the matches that it completes. A late one may change
what was chosen about it and, as one match makes way for another, behind it: the matches chosen
there without it and with it are both written, and the difference is what it changes. A chosen match
stays once events that bear on it may have expired, as what is left does not say what else there
was; those about it are chosen beside it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR
from slackwater.engine.operators.match.repetition.compiled import (
    APART,
    FIRST_OF_END,
    FIRST_OF_START,
    KEPT,
    KEPT_NOW,
    SearchState,
)
from slackwater.engine.operators.match.repetition.starts import (
    latest_start,
    may_begin,
    open_from,
    skipped_to,
    starts_from,
    walks,
)
from slackwater.engine.operators.match.repetition.walk import NEW, OLD, MatchFilter
from slackwater.engine.operators.match.search.stacks import first_not_below
from slackwater.engine.operators.match.search.state import spread_of

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


@inline
def _is_final(s: SearchState, of: Region, row: int) -> bool:
    """Whether the match chosen by the event ``row`` stays, whatever comes."""
    chosen = s.chosen[row]
    return bool(chosen.kept & KEPT and chosen.until < s.events[of.cause].horizon)


@inline
def _choose(s: SearchState, row: int) -> None:
    """The matches written last are chosen by the event ``row``."""
    chosen, until = s.chosen[row], s.setting[0].until
    chosen.until_now = min(chosen.until_now, until) if chosen.kept & KEPT_NOW else until
    chosen.kept |= KEPT_NOW


@kernel
def _ending(s: SearchState, of: Region, left_out: int, phase: int, place: int, after: int) -> int:
    """Chooses among the matches that end with the entry at ``place`` and, of those kept apart,
    begin after the time ``after``; returns the new ``after``, or _NO_ROOM.
    """
    now, entry, stack = s.setting[0], s.stacks.entry, s.stacks.stack[of.stack]
    last = entry[place].row
    if last == left_out or not s.events[last].member & now.lasts:
        return after
    if now.rule == FIRST_OF_END and _is_final(s, of, last):
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
        given = now.rule == FIRST_OF_START and (
            s.chosen[row].kept & of.given or _is_final(s, of, row)
        )
        if not given and may_begin(s, wanted, at):
            now.until = FAR
            made = walks(s, wanted, at)
            if made < 0:
                return _NO_ROOM
            if made and now.rule == FIRST_OF_START:
                _choose(s, row)
            elif made and now.rule == APART:
                _choose(s, last)
                return int(entry[place].time)
            elif made and now.limit < FAR:
                _choose(s, last)
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
def _settle(
    s: SearchState, of: Region, first: int, to: int, keep: bool, beside: bool
) -> None:  # fmt: skip
    """Of the sweep at hand keeps what it has marked, perhaps ``beside`` what was kept, or forgets
    it.
    """
    for place in range(first, to):
        row = s.stacks.entry[place].row
        chosen = s.chosen[row]
        if keep and chosen.kept & KEPT_NOW:
            chosen.kept |= KEPT
            chosen.until = chosen.until_now
        elif keep and not beside and not _is_final(s, of, row):
            chosen.kept &= ~KEPT
        chosen.kept &= ~KEPT_NOW


@kernel
def _last_kept(s: SearchState, stack: int, time: int, low: int) -> int:
    """The place behind the last event of the last match kept that ends before ``time``; ``low``, if
    there is none from there on.
    """
    of = s.stacks.stack[stack]
    at = first_not_below(s.stacks.entry, of.start, of.size, time)
    while at > low and not s.chosen[s.stacks.entry[at - 1].row].kept & KEPT:
        at -= 1
    return at


@kernel
def _last_final(s: SearchState, of: Region, low: int) -> int:
    """The place behind the last event of the last match that stays; ``low``, if there is none from
    there on.
    """
    stack = s.stacks.stack[of.stack]
    at = stack.start + stack.size
    while at > low and not _is_final(s, of, s.stacks.entry[at - 1].row):
        at -= 1
    return int(at)


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
    if now.rule == APART and fine and s.chosen[row].kept & KEPT_NOW:
        mark.kept = of.size
    _settle(s, region, low if now.rule == FIRST_OF_START else stop - 1, stop, fine, True)
    return fine


@kernel
def choose_late(s: SearchState, stack: int, row: int, again: bool) -> bool:
    """What ``row``, which lies between others, does to them; False: there is no room. ``again``: it
    is none of the events, and names the partition, where matches are chosen again but those that
    stay.
    """
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    spread, ref, stop = spread_of(now), s.events[row].ref, of.start + of.size
    within = now.within if now.within >= 0 else FAR // 4
    time, reach, high = -FAR, FAR, FAR
    if not again:
        time = ref - spread - (within if now.trailing else 0)
        reach = ref + within + spread + (within if now.leading else 0)
        high = ref + spread + (within if now.leading else 0)
    low = starts_from(s, stack, time)
    first, to = low, first_not_below(entry, of.start, of.size, reach + 1)
    begin, end = low, to
    if now.rule == APART:
        begin, end, high = _last_kept(s, stack, time, of.start), stop, FAR
        begin = _last_final(s, Region(stack, row, low, high, KEPT_NOW), begin)
        low = of.start
        if begin > of.start:
            after = entry[begin - 1].time
        first, to = begin, end
    elif now.rule == FIRST_OF_END:
        first = begin = first_not_below(entry, of.start, of.size, time)
        low, high = of.start, FAR
    else:
        to = first_not_below(entry, of.start, of.size, high + 1)
    region, fine = Region(stack, row, low, high, KEPT_NOW), True
    if not again:
        fine = _sweep(s, region, row, OLD, begin, end, after)
        _settle(s, region, first, to, False, False)
    fine = fine and _sweep(s, region, -1, NEW, begin, end, after)
    _settle(s, region, first, to, fine, False)
    s.marks[stack].known = 0
    return fine
