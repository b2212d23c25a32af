"""Where the matches stand that have begun with an event, while events come in order.

Under contiguity, with exact clocks, what begins with an event is one run: each event is taken as
the one step that it can be, breaks the run or is passed over. Such a run needs not be walked anew
when an event comes: it goes on from where it stands, as an automaton with its registers (Agrawal et
al. 2008, 4.2), and only one that the event may complete is walked for its matches. The run says
nothing of negated steps or of what is asked of whole matches, so it may end in no match; it never
leaves one out. Where an event can be taken in two ways, times are equal, an event is late or what a
run has looked at is not held any more, the run is made anew or given up, and the start is walked.

Runs are no state of their own: they are not in snapshots, and are made anew from the stack.
"""

from __future__ import annotations

from typing import Final

from engine.kernels.jit import inline
from engine.pattern.search.state import CERTAIN, POSSIBLE
from engine.repetition.asking import key_equal, role_of, spread_of, tried
from engine.repetition.gaps import follows
from engine.repetition.records import ANY, CUR, FAR, STRICT, Chase

UNKNOWN: Final = 0
"""What is known of a run: it is to be made from its first event on,"""
RUNNING: Final = 1
"""it is in step with its stack,"""
GIVEN_UP: Final = 2
"""it is not kept: its start is walked,"""
OVER: Final = 3
"""or no later event is of it."""

_ALIKE: Final = 1
_MIXED: Final = 2


@inline
def keeps_runs(s: Chase) -> bool:
    """Whether runs are kept at all."""
    now = s.setting[0]
    return now.contiguity != ANY and not now.leading and not spread_of(s)


@inline
def is_alike(s: Chase, stack: int, row: int) -> bool:
    """Whether all events of the stack are of the partition of ``row``, its newest."""
    mark, of, keys = s.marks[stack], s.stacks.stack[stack], s.setting[0].keys
    if mark.alike == _ALIKE:
        for k in range(keys):
            if s.own[stack, 2 * k] != s.same[k, row] or s.own[stack, 2 * k + 1] != s.tag[k, row]:
                mark.alike = _MIXED
    elif not mark.alike:
        mark.alike = _ALIKE
        for at in range(of.start, of.start + of.size):
            if not key_equal(s, s.stacks.entry[at].row, row):
                mark.alike = _MIXED
        for k in range(keys):
            s.own[stack, 2 * k], s.own[stack, 2 * k + 1] = s.same[k, row], s.tag[k, row]
    return bool(mark.alike == _ALIKE)


@inline
def is_ready(s: Chase, run: int, row: int) -> bool:
    """Whether matches that begin with the event ``run`` may end with ``row``, the newest."""
    its, now = s.runs[run], s.setting[0]
    if its.seen != row + 1 or its.status == GIVEN_UP:
        return True
    ends = now.lasts >> its.step & 1 and its.count >= s.t.steps[its.step].least
    return bool(its.last == row and ends)


@inline
def _begin(s: Chase, run: int) -> None:
    its = s.runs[run]
    its.status, its.step, its.count, its.present, its.closed = RUNNING, 0, 0, 0, 0
    its.last, its.end, its.expires = -1, -FAR, FAR


@inline
def _end(s: Chase, run: int, time: int) -> None:
    """No event beyond ``time`` is of the run."""
    s.runs[run].status = OVER
    s.ended[run] = min(s.ended[run], time)


@inline
def _options(s: Chase, run: int, row: int) -> tuple[int, int]:
    """In how many ways ``row`` can be taken next, and the step of the last of them."""
    its, now, member = s.runs[run], s.setting[0], s.events[row].member
    ways, taken = 0, -1
    if row == run:
        member &= now.firsts
    elif s.events[row].ref <= its.end:
        return 0, -1
    for q in range(its.step, now.steps):
        if not member >> q & 1:
            continue
        again = its.present and q == its.step
        if its.present and not follows(s, its.step, its.count, q) or (again and its.closed):
            continue
        if s.t.steps[q].take_from < s.t.steps[q].take_to:
            for p in range(its.step + 1):
                if its.present >> p & 1:
                    s.rows[role_of(p, CUR)] = s.taken[run, p]
        fits = tried(s, q, row, its.last if again else -1, its.present, now.widest_t_a)
        if fits == POSSIBLE:
            return 2, q
        if fits == CERTAIN:
            ways, taken = ways + 1, q
    return ways, taken


@inline
def _take(s: Chase, run: int, row: int, step: int) -> None:
    its, time = s.runs[run], s.events[row].ref
    its.count = its.count + 1 if its.present and step == its.step else 1
    its.step, its.last, its.end, its.closed = step, row, s.events[row].ref_end, 0
    its.present |= 1 << step
    s.taken[run, step] = row
    later = s.t.steps[step].later
    if its.count == s.t.steps[step].most:
        later &= ~(1 << step)
    if not later:
        _end(s, run, time)


@inline
def _pass(s: Chase, run: int, row: int) -> None:
    """``row``, which comes behind what was taken, is not taken."""
    its, member = s.runs[run], s.events[row].member
    until = s.t.steps[its.step].until
    if until >= 0 and member >> until & 1:
        its.closed = 1
    if s.setting[0].contiguity == STRICT:
        _end(s, run, s.events[row].ref)


@inline
def _goes_on(s: Chase, run: int, place: int, at: int) -> None:
    """The run, which begins with the entry at ``place``, with the entry ``at`` that is next."""
    entry, its, now = s.stacks.entry, s.runs[run], s.setting[0]
    row, time = entry[at].row, entry[at].time
    if at > place and time == entry[place].time:
        return
    if now.within >= 0 and time > entry[place].time + now.within:
        _end(s, run, entry[place].time + now.within)
        return
    if at > place + 1 and time == entry[at - 1].time:
        its.status = GIVEN_UP
        return
    its.expires = min(its.expires, s.events[row].expires)
    ways, step = _options(s, run, row)
    if ways > 1:
        its.status = GIVEN_UP
    elif ways:
        _take(s, run, row, step)
    elif row == run:
        _end(s, run, time)
    else:
        _pass(s, run, row)


@inline
def go_on(s: Chase, stack: int, row: int) -> bool:
    """All open runs of the stack go on with ``row``, its newest, which is later than all others.

    Returns:
        whether matches may end with it.
    """
    entry, of, found = s.stacks.entry, s.stacks.stack[stack], False
    stop = of.start + of.size
    before = entry[stop - 2].row + 1 if of.size > 1 else 0
    for place in range(of.start + s.marks[stack].open, stop):
        run = entry[place].row
        its = s.runs[run]
        if its.status == UNKNOWN and s.ended[run] != FAR:
            its.status = OVER
        if its.status == OVER and its.seen != row + 1:
            continue
        if its.seen != row + 1:
            at = stop - 1
            if its.status == UNKNOWN or (its.seen != before and its.status != GIVEN_UP):
                _begin(s, run)
                at = place
            while at < stop and its.status == RUNNING:
                _goes_on(s, run, place, at)
                at += 1
            its.seen = row + 1
            if its.expires < s.events[row].horizon:
                its.status = GIVEN_UP
        if is_ready(s, run, row):
            found = True
    return found
