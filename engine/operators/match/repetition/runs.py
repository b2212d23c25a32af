"""Runs: the state of the matches that begin with an event; and the events that may begin one.

Under contiguity, with exact clocks, one run begins with an event: each later event is taken as its
only possible step, breaks the run or is skipped. A new event does not repeat the search: the run
continues from its last state, like an automaton with registers (Agrawal et al. 2008, 4.2), and its
events are the match. If an event can be taken in two ways, times are equal, or a processed event
has expired, the run is abandoned, and matches are searched from its start. A late event rebuilds
the run. If an event may not have happened, matches are searched from all starts.

Runs are derived from the stack: snapshots do not contain them, and a restore rebuilds them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR
from slackwater.engine.operators.match.repetition.compiler import (
    ANY,
    CHOSEN,
    CUR,
    FIRST_OF_START,
    STRICT,
    SearchState,
)
from slackwater.engine.operators.match.repetition.conditions import (
    has_prefix_conditions,
    key_equal,
    place_events,
    role_of,
    step_holds,
    trial_holds,
)
from slackwater.engine.operators.match.repetition.gaps import follows, scan
from slackwater.engine.operators.match.repetition.walk import (
    MatchFilter,
    has_room,
    is_scanned,
    is_settled,
    note_match,
    verdict_of,
    walk,
)
from slackwater.engine.operators.match.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    first_not_below,
    spread_of,
)

UNKNOWN: Final = 0
"""The status of a run: it must be rebuilt from its first event,"""
RUNNING: Final = 1
"""it has processed all events of its stack,"""
ABANDONED: Final = 2
"""matches are searched from its start instead,"""
FINISHED: Final = 3
"""or no later event can extend it."""

_ONE: Final = 1
_MIXED: Final = 2


@inline
def is_one_partition(s: SearchState, stack: int, row: int) -> bool:
    """Return whether all events of the stack are of the partition of its newest one, ``row``."""
    mark, of, keys = s.marks[stack], s.stacks.stack[stack], s.setting[0].keys
    if mark.partitions == _ONE:
        for k in range(keys):
            if (
                s.stack_keys[stack, 2 * k] != s.same[k, row]
                or s.stack_keys[stack, 2 * k + 1] != s.tag[k, row]
            ):
                mark.partitions = _MIXED
    elif not mark.partitions:
        mark.partitions = _ONE
        for at in range(of.start, of.start + of.size):
            if not key_equal(s, s.stacks.entry[at].row, row):
                mark.partitions = _MIXED
        for k in range(keys):
            s.stack_keys[stack, 2 * k], s.stack_keys[stack, 2 * k + 1] = (
                s.same[k, row],
                s.tag[k, row],
            )
    return bool(mark.partitions == _ONE)


@inline
def is_current(s: SearchState, w: MatchFilter, run: int) -> bool:
    """Return whether the run of event ``run`` says all about matches that end with the newest
    event.
    """
    its = s.runs[run]
    return bool(w.last >= 0 and w.last == w.cause and its.seen == w.last + 1
                and its.status != ABANDONED)  # fmt: skip


@inline
def may_end(s: SearchState, run: int, row: int) -> bool:
    """Return whether a current run may be a match that ends with the newest event ``row``."""
    its, now = s.runs[run], s.setting[0]
    ends = now.lasts >> its.step & 1 and its.count >= s.t.steps[its.step].least
    return bool(its.last == row and ends)


@inline
def _begin(s: SearchState, run: int) -> None:
    its = s.runs[run]
    its.status, its.step, its.count, its.present, its.closed = RUNNING, 0, 0, 0, 0
    its.last, its.end, its.expires, its.begun = -1, -FAR, FAR, s.events[run].ref
    its.link, its.size = 0, 0


@inline
def _end(s: SearchState, run: int, time: int) -> None:
    """Finish the run: no event after ``time`` can extend it."""
    s.runs[run].status = FINISHED
    s.ended[run] = min(s.ended[run], time)


@inline
def _write_path(s: SearchState, link: int, path: np.ndarray, from_: int, size: int) -> None:
    """Write the ``size`` events that end with ``link`` to ``path``, from ``from_`` on."""
    for i in range(from_ + size - 1, from_ - 1, -1):
        path[i].row, path[i].step = s.links[link].row, s.links[link].step
        link = s.links[link].before


@kernel
def _prefix_holds(s: SearchState, run: int, row: int, step: int) -> int:
    """Return the certainty that the prefix conditions hold for the run and ``row`` as ``step``."""
    its = s.runs[run]
    _write_path(s, its.link, s.trial, 0, its.size)
    s.trial[its.size].row, s.trial[its.size].step = row, step
    return int(trial_holds(s, its.size + 1, s.setting[0].widest_t_a))


@inline
def _options(s: SearchState, run: int, row: int) -> tuple[int, int]:
    """Return the number of ways to take ``row`` next, and the step of the last one.

    A number of -1: there is none, and ``row`` would extend a repetition that UNTIL has ended.
    """
    its, now, member = s.runs[run], s.setting[0], s.events[row].member
    ways, last, shut = 0, -1, 0
    if row == run:
        member &= now.firsts
    elif s.events[row].ref <= its.end:
        return 0, -1
    for q in range(its.step, now.steps):
        if not member >> q & 1:
            continue
        again = its.present and q == its.step
        if its.present and not follows(s, its.step, its.count, q):
            continue
        if s.t.steps[q].take_from < s.t.steps[q].take_to:
            for p in range(its.step + 1):
                if its.present >> p & 1:
                    s.rows[role_of(p, CUR)] = s.step_rows[run, p]
        fits = step_holds(s, q, row, its.last if again else -1, its.present, now.widest_t_a)
        if fits != IMPOSSIBLE and has_prefix_conditions(s, q):
            fits = min(fits, _prefix_holds(s, run, row, q))
        if fits == POSSIBLE:
            return 2, q
        if fits == CERTAIN and again and its.closed:
            shut = -1
        elif fits == CERTAIN:
            ways, last = ways + 1, q
    return ways or shut, last


@inline
def _take(s: SearchState, run: int, row: int, step: int) -> None:
    its, event, link = s.runs[run], s.events[row], s.links[0].row + 1
    if link == len(s.links):
        its.status = ABANDONED
        return
    s.links[0].row = link
    s.links[link].row, s.links[link].step, s.links[link].before = row, step, its.link
    its.link, its.size = link, its.size + 1
    its.count = its.count + 1 if its.present and step == its.step else 1
    its.step, its.last, its.end, its.closed = step, row, event.ref_end, 0
    its.present |= 1 << step
    s.step_rows[run, step] = row
    later = s.t.steps[step].later
    if its.count == s.t.steps[step].most:
        later &= ~(1 << step)
    if not later:
        _end(s, run, event.ref)


@inline
def _skip(s: SearchState, run: int, row: int) -> None:
    """Skip ``row``: a later event than the run's that is not taken."""
    its, event = s.runs[run], s.events[row]
    until = s.t.steps[its.step].until
    if until >= 0 and event.member >> until & 1:
        its.closed = 1
    if s.setting[0].contiguity == STRICT:
        _end(s, run, event.ref)


@inline
def _advance(s: SearchState, run: int, row: int) -> None:
    """Continue the run with ``row``, the next event of its stack."""
    its, event, within = s.runs[run], s.events[row], s.setting[0].within
    if within >= 0 and event.ref > its.begun + within:
        _end(s, run, its.begun + within)
        return
    its.expires = min(its.expires, event.expires)
    ways, step = _options(s, run, row)
    if ways > 1:
        its.status = ABANDONED
    elif ways > 0:
        _take(s, run, row, step)
    elif ways or row == run:
        _end(s, run, event.ref)
    else:
        _skip(s, run, row)


@inline
def place_of(s: SearchState, stack: int, row: int, after: int) -> int:
    """Return the place of an event in its stack, after the place ``after``."""
    of, entry = s.stacks.stack[stack], s.stacks.entry
    place = max(after + 1, first_not_below(entry, of.start, of.size, s.events[row].ref))
    while entry[place].row != row:
        place += 1
    return int(place)


@inline
def _append_run(s: SearchState, stack: int, row: int) -> None:
    """Append the run that begins with ``row`` to the open ones."""
    mark = s.marks[stack]
    s.runs[row].next = 0
    if mark.last_run:
        s.runs[mark.last_run - 1].next = row + 1
    else:
        mark.first_run = row + 1
    mark.last_run = row + 1


@kernel
def _list_open_runs(s: SearchState, stack: int) -> None:
    """List the open runs of the stack, except that of its newest event."""
    mark, of = s.marks[stack], s.stacks.stack[stack]
    mark.first_run = mark.last_run = 0
    for place in range(of.start + mark.open, of.start + of.size - 1):
        row = s.stacks.entry[place].row
        if s.events[row].member & s.setting[0].firsts and s.ended[row] == FAR:
            _append_run(s, stack, row)


@inline
def _is_over(s: SearchState, run: int, time: int) -> bool:
    its, within = s.runs[run], s.setting[0].within
    if its.status == ABANDONED and s.ended[run] != FAR:
        its.status = FINISHED
    if its.status != UNKNOWN and within >= 0 and time > its.begun + within:
        _end(s, run, its.begun + within)
    return bool(its.status == FINISHED)


@inline
def advance_runs(s: SearchState, stack: int, row: int) -> bool:
    """Continue all open runs of the stack with its newest event ``row``, later than all others.

    Writes to ``SearchState.ready`` the number of runs that may end with it or are abandoned, and
    then these runs, in order.

    Returns:
        whether there are any.
    """
    entry, of, mark, ready = s.stacks.entry, s.stacks.stack[stack], s.marks[stack], s.ready
    if mark.seen == row + 1:
        return bool(ready[0])  # a repeated call, as there was no room for matches
    stop, event = of.start + of.size, s.events[row]
    before = entry[stop - 2].row + 1 if of.size > 1 else 0
    if mark.seen != before:
        _list_open_runs(s, stack)
    if event.member & s.setting[0].firsts:
        s.runs[row].status = UNKNOWN
        _append_run(s, stack, row)
    mark.seen, ready[0] = row + 1, 0
    last, run = -1, mark.first_run - 1
    while run >= 0:
        its = s.runs[run]
        over = _is_over(s, run, event.ref)
        if not over:
            at = stop - 1
            if its.status == UNKNOWN or (its.seen != before and its.status != ABANDONED):
                _begin(s, run)
                _advance(s, run, run)
                at = first_not_below(entry, of.start, of.size, its.begun + 1)
            while at < stop and its.status == RUNNING:
                new = entry[at].row
                if entry[at].time == entry[at - 1].time:
                    its.status = ABANDONED
                else:
                    _advance(s, run, new)
                at += 1
            its.seen = row + 1
            if its.expires < event.horizon:
                its.status = ABANDONED
            if its.status == ABANDONED or may_end(s, run, row):
                ready[0] += 1
                ready[ready[0]] = run
            over = its.status == FINISHED
        if not over:
            last = run
        elif last >= 0:
            s.runs[last].next = its.next
        else:
            mark.first_run = its.next
        run = its.next - 1
    mark.last_run = last + 1
    return bool(ready[0])


@kernel
def write_match(s: SearchState, w: MatchFilter, run: int) -> int:
    """Write the match that ends the run at the newest event; 1: written; 0: there is none; -1: no
    room.
    """
    its, now = s.runs[run], s.setting[0]
    from_, first_doubt, size = now.path_n, now.doubts_n, its.size
    if not has_room(s, size):
        return -1
    _write_path(s, its.link, s.path, from_, size)
    if is_settled(s, w, w.cause, from_, size):
        return 0
    present = place_events(s, s.path, from_, size)
    verdict = verdict_of(s, from_, size, present, now.widest_t_a)
    if verdict == IMPOSSIBLE:
        return 0
    if is_scanned(s, w, w.cause, True):
        broken = scan(s, from_, size, w.stack, w.cause, w.left_out, present)
        if broken:
            now.doubts_n = first_doubt
            return -1 if broken < 0 else 0
    t_a = int(s.events[w.cause].t_a)
    note_match(s, w, w.cause, size, verdict, verdict, 1, t_a, t_a)
    return 1


# Open starts: events with which a later one may still form a match.
#
# Under contiguity the matches that begin with an event end soon: at the first event that every one
# of them must take or must not skip. Its time, less clock errors, is ``SearchState.ended``; later
# events are not matched with that start. ``SearchState.marks`` has the place below which all starts
# of a stack have ended, so that the work per event depends only on the number of open starts.


@inline
def starts_from(s: SearchState, stack: int, time: int) -> int:
    """Return the first place of the stack at which a match that extends to ``time`` may begin."""
    now, of = s.setting[0], s.stacks.stack[stack]
    low = -FAR if now.within < 0 else time - now.within - spread_of(now)
    return first_not_below(s.stacks.entry, of.start, of.size, low)


@inline
def open_from(s: SearchState, stack: int, time: int) -> int:
    """As ``starts_from``, without places whose matches have all ended before ``time``."""
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
    """Return the latest begin [ns] of a match that ends with the entry at ``place``."""
    of, entry, spread = s.stacks.stack[stack], s.stacks.entry, spread_of(s.setting[0])
    if spread:
        return int(entry[place].time + spread)
    first = place + 1 - s.setting[0].fewest  # beyond it there are too few events
    return int(entry[first].time) if first >= of.start else -FAR


@inline
def next_start(s: SearchState, at: int, newest: int) -> int:
    """Return the first place from ``at`` on where a match with the entry at ``newest`` may begin:
    with exact clocks none begins at another entry of the same time.
    """
    entry = s.stacks.entry
    if at < newest and entry[at].time == entry[newest].time and not spread_of(s.setting[0]):
        return newest
    return at


@inline
def may_begin(s: SearchState, w: MatchFilter, place: int) -> bool:
    """Return whether matches that pass the filter may begin with the entry at ``place``."""
    row, now = s.stacks.entry[place].row, s.setting[0]
    if is_current(s, w, row):
        return may_end(s, row, w.last)
    if not s.events[row].member & now.firsts or s.ended[row] + spread_of(now) < w.reach:
        return False
    lasts = s.events[row].expires >= s.events[w.cause].horizon
    return bool(row != w.left_out and lasts and key_equal(s, row, w.cause))


@kernel
def walk_from(s: SearchState, w: MatchFilter, place: int) -> int:
    """Write the matches that begin with an entry: by its run if it is current, else by ``walk``.

    Returns:
        how many were written; -1: no room.
    """
    row, written, now = s.stacks.entry[place].row, 0, s.setting[0]
    if is_current(s, w, row):
        return write_match(s, w, row)
    now.is_open, now.reach = 0, -FAR
    for step in range(now.steps):
        if s.events[row].member & now.firsts & (1 << step) and written < w.most:
            made = walk(s, w, place, step, w.most - written)
            if made < 0:
                return -1
            written += made
    # Under max-delay the certain order of two events depends on T_a.
    lasting = not now.max_delay or not now.widest_t_a
    if not now.is_open and now.contiguity != ANY and lasting and w.left_out < 0:
        s.ended[row] = max(now.reach, s.events[row].ref)
    return written


@inline
def _has_its_match(s: SearchState, row: int) -> bool:
    """Return whether no event in order changes the choice among the matches that begin with
    ``row``.
    """
    return s.setting[0].rule == FIRST_OF_START and bool(s.chosen[row].flags & CHOSEN)


@inline
def _is_done(s: SearchState, row: int, time: int) -> bool:
    """Return whether no event from ``time`` on, less clock errors, can be in a match with this
    start.
    """
    now, event, apart = s.setting[0], s.events[row], 2 * spread_of(s.setting[0])
    if not event.member & now.firsts or s.ended[row] + apart < time:
        return True
    return _has_its_match(s, row) or bool(now.within >= 0 and event.ref + now.within + apart < time)


@inline
def close_starts(s: SearchState, stack: int, time: int) -> None:
    """Move the place of the first open start past those that have ended before ``time``."""
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
def reopen(s: SearchState, stack: int, low: int, time: int) -> None:
    """Open the starts again, from the place ``low`` on, whose matches a new event of ``time`` may
    be in. With exact clocks no start of the same time is.
    """
    of, spread, mark = s.stacks.stack[stack], spread_of(s.setting[0]), s.marks[stack]
    place = first_not_below(s.stacks.entry, of.start, of.size, time + 1) - 1 - of.start
    mark.open = min(mark.open, place)
    mark.seen = 0
    if place < mark.chosen_end:
        mark.has_chosen_end = 0
    latest = time + spread if spread else time - 1
    for at in range(low, of.start + of.size):
        if s.stacks.entry[at].time > latest:
            break
        row = s.stacks.entry[at].row
        if s.ended[row] + spread >= time:
            s.ended[row] = FAR
            s.runs[row].status = UNKNOWN
            mark.open = min(mark.open, at - of.start)
