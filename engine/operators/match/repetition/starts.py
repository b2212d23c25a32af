"""From which events a later one may still make a match.

Under contiguity a match that begins with an event ends soon: the first event that all that was
begun there must take, or may not leave out, ends it. The time of that, less what clocks may err, is
``SearchState.ended``; an event beyond it need not be matched with that start. Where all starts
below a place have ended, ``SearchState.marks`` says so of the stack, so that an event in order
looks only at those that are open, however many are held.
"""

from __future__ import annotations

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR
from slackwater.engine.operators.match.repetition.asking import key_equal
from slackwater.engine.operators.match.repetition.compiled import (
    ANY,
    FIRST_OF_START,
    KEPT,
    SearchState,
)
from slackwater.engine.operators.match.repetition.runs import (
    RUNNING,
    UNKNOWN,
    match_of,
    may_end,
    stands,
)
from slackwater.engine.operators.match.repetition.walk import MatchFilter, walk
from slackwater.engine.operators.match.search.stacks import first_not_below
from slackwater.engine.operators.match.search.state import spread_of


@inline
def starts_from(s: SearchState, stack: int, time: int) -> int:
    """The first place of the stack at which a match may begin that reaches to ``time``."""
    now, of = s.setting[0], s.stacks.stack[stack]
    low = -FAR if now.within < 0 else time - now.within - spread_of(now)
    return first_not_below(s.stacks.entry, of.start, of.size, low)


@inline
def open_from(s: SearchState, stack: int, time: int) -> int:
    """As ``starts_from``, without places at which all matches have ended before ``time``."""
    now, mark, of = s.setting[0], s.marks[stack], s.stacks.stack[stack]
    if not mark.open or mark.ended + spread_of(now) >= time:
        return starts_from(s, stack, time)
    place, stop = of.start + mark.open, of.start + of.size
    low = -FAR if now.within < 0 else time - now.within - spread_of(now)
    while place < stop and s.stacks.entry[place].time < low:
        place += 1
    return int(place)


@inline
def latest_start(s: SearchState, stack: int, place: int) -> int:
    """The time up to which a match may begin that ends with the entry at ``place``."""
    of, entry, spread = s.stacks.stack[stack], s.stacks.entry, spread_of(s.setting[0])
    if spread:
        return int(entry[place].time + spread)
    first = place + 1 - s.setting[0].fewest  # beyond it there are too few events
    return int(entry[first].time) if first >= of.start else -FAR


@inline
def own_place(s: SearchState, w: MatchFilter) -> int:
    """Place of the event that must be in the wanted matches and has just come; -1: none."""
    of = s.stacks.stack[w.stack]
    if w.row < 0:
        return -1
    return first_not_below(s.stacks.entry, of.start, of.size, s.events[w.row].ref + 1) - 1


@inline
def skipped_to(s: SearchState, at: int, own: int) -> int:
    """The first place from ``at`` on at which a match may begin with the entry at ``own``: with
    exact clocks no other one of its time does.
    """
    entry = s.stacks.entry
    if at < own and entry[at].time == entry[own].time and not spread_of(s.setting[0]):
        return own
    return at


@inline
def may_begin(s: SearchState, w: MatchFilter, place: int) -> bool:
    """Whether matches wanted may begin with an entry."""
    row, now = s.stacks.entry[place].row, s.setting[0]
    if stands(s, w, row):
        return may_end(s, row, w.last)
    if not s.events[row].member & now.firsts or s.ended[row] + spread_of(now) < w.reach:
        return False
    held = s.events[row].expires >= s.events[w.cause].horizon
    return bool(row != w.left_out and held and key_equal(s, row, w.cause))


@kernel
def walks(s: SearchState, w: MatchFilter, place: int) -> int:
    """``walk`` from an entry, as each step that a match may begin with, unless its run stands."""
    row, written, now = s.stacks.entry[place].row, 0, s.setting[0]
    if stands(s, w, row):
        return match_of(s, w, row)
    now.is_open, now.reach = 0, -FAR
    for step in range(now.steps):
        if s.events[row].member & now.firsts & (1 << step) and written < w.most:
            made = walk(s, w, place, step, w.most - written)
            if made < 0:
                return -1
            written += made
    # Under max-delay what is certain between two events changes with T_a.
    lasting = not now.max_delay or not now.widest_t_a
    if not now.is_open and now.contiguity != ANY and lasting and w.left_out < 0:
        s.ended[row] = max(now.reach, s.events[row].ref)
    return written


@inline
def _has_its_match(s: SearchState, row: int) -> bool:
    """Whether nothing in order changes which match is given of those that begin with it."""
    return s.setting[0].rule == FIRST_OF_START and bool(s.chosen[row].kept & KEPT)


@inline
def _is_done(s: SearchState, row: int, time: int) -> bool:
    """Whether no event from ``time`` on, less what clocks err, begins anything with ``row``."""
    now, event, apart = s.setting[0], s.events[row], 2 * spread_of(s.setting[0])
    if not event.member & now.firsts or s.ended[row] + apart < time:
        return True
    return _has_its_match(s, row) or bool(now.within >= 0 and event.ref + now.within + apart < time)


@inline
def pass_by(s: SearchState, stack: int, time: int) -> None:
    """The newest event is of ``time``: starts that have ended are not looked at again."""
    of, mark, now = s.stacks.stack[stack], s.marks[stack], s.setting[0]
    if not mark.open:
        mark.ended = -FAR
    while mark.open < of.size:
        row = s.stacks.entry[of.start + mark.open].row
        its = s.runs[row]
        runs = its.status == RUNNING and now.rule != FIRST_OF_START
        if (runs and its.seen == mark.seen) or not _is_done(s, row, time):
            break
        if s.events[row].member & now.firsts and not _has_its_match(s, row):
            ended = s.ended[row]
            if now.within >= 0:
                ended = min(ended, s.events[row].ref + now.within)
            mark.ended = max(mark.ended, ended)
        mark.open += 1


@kernel
def revive(s: SearchState, stack: int, low: int, time: int) -> None:
    """An event of ``time`` has come in, perhaps between others: starts from the place ``low`` on
    whose matches it may lie in are open again. With exact clocks none that begins at its time is.
    """
    of, spread, mark = s.stacks.stack[stack], spread_of(s.setting[0]), s.marks[stack]
    place = first_not_below(s.stacks.entry, of.start, of.size, time + 1) - 1 - of.start
    mark.open = min(mark.open, place)
    mark.seen = 0
    if place < mark.kept:
        mark.known = 0
    latest = time + spread if spread else time - 1
    for at in range(low, of.start + of.size):
        if s.stacks.entry[at].time > latest:
            break
        row = s.stacks.entry[at].row
        if s.ended[row] + spread >= time:
            s.ended[row] = FAR
            s.runs[row].status = UNKNOWN
            mark.open = min(mark.open, at - of.start)
