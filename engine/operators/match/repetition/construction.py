"""What each new event does to matches with repeated steps, event by event (SPEC 4.2).

A partition's events stand in one stack, by time. Of all matches asked for, an event completes those
that it is in, and breaks or puts in doubt those in whose gaps it lies; where some are chosen,
``repetition.choosing`` says what it changes. As in SASE+ (Agrawal et al. 2008, "Efficient
pattern matching over event streams") matches are made from one shared buffer when their last event
is there: a late event is then an event like any other. Under contiguity, while events come in order
and clocks are exact, they are kept as runs (``engine.operators.match.repetition.runs``).
"""

from __future__ import annotations

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.operators.match.repetition.choosing import (
    choose_late,
    choose_newest,
)
from slackwater.engine.operators.match.repetition.compiled import ALL_MATCHES, ANY, SearchState
from slackwater.engine.operators.match.repetition.runs import go_on, is_alike, place_of
from slackwater.engine.operators.match.repetition.starts import (
    latest_start,
    may_begin,
    open_from,
    own_place,
    pass_by,
    revive,
    skipped_to,
    starts_from,
    walks,
)
from slackwater.engine.operators.match.repetition.walk import NEW, OLD, MatchFilter, is_exact
from slackwater.engine.operators.match.search.construction import DONE, FOUND_FULL, STACKS_FULL
from slackwater.engine.operators.match.search.machine import widest_of
from slackwater.engine.operators.match.search.stacks import find, insert, needed
from slackwater.engine.operators.match.search.state import spread_of


@inline
def _key(s: SearchState, row: int) -> int:
    found = 0
    for k in range(s.setting[0].keys):
        found = mixed(mixed(found, s.same[k, row]), s.tag[k, row])
    return found


@inline
def _may_complete(s: SearchState, stack: int, row: int) -> bool:
    """Whether a match with ``row`` can have its last event by now."""
    now, of, entry = s.setting[0], s.stacks.stack[stack], s.stacks.entry
    if s.events[row].member & now.lasts:
        return True
    at, since = of.start + of.size - 1, s.events[row].ref - spread_of(now)
    while at >= of.start and entry[at].time >= since:
        if entry[at].row != row and s.events[entry[at].row].member & now.lasts:
            return True
        at -= 1
    return False


@kernel
def _from_all(s: SearchState, w: MatchFilter, low: int, high: int) -> bool:
    """``walks`` from all entries from the place ``low`` to the time ``high``."""
    of, entry, at = s.stacks.stack[w.stack], s.stacks.entry, low
    own = own_place(s, w)
    while at < of.start + of.size and entry[at].time <= high:
        at = skipped_to(s, at, own)
        if may_begin(s, w, at) and walks(s, w, at) < 0:
            return False
        at += 1
    return True


@kernel
def _from_ready(s: SearchState, w: MatchFilter) -> bool:
    """``walks`` from all entries whose runs may end with the newest event."""
    place = -1
    for n in range(1, s.ready[0] + 1):
        place = place_of(s, w.stack, s.ready[n], place)
        if may_begin(s, w, place) and walks(s, w, place) < 0:
            return False
    return True


@kernel
def _all_matches(s: SearchState, stack: int, row: int, newest: bool, runs: bool) -> bool:
    """The matches that ``row`` changes and completes; ``runs``: runs tell with which events these
    begin. False: there is no room.
    """
    now, event, of = s.setting[0], s.events[row], s.stacks.stack[stack]
    spread, within = spread_of(now), max(now.within, 0)
    harms = event.member & now.trailing
    if not newest:
        harms |= event.member & (now.breakable | now.leading)
    if harms:
        reach = -FAR if event.member & now.trailing else event.ref
        low = starts_from(s, stack, event.ref) if reach < 0 else open_from(s, stack, event.ref)
        high = event.ref + spread
        if event.member & now.leading:
            high += within
        if not _from_all(s, MatchFilter(stack, row, -1, -1, row, 1, FAR, OLD, reach), low, high):
            return False
    if not event.member & now.positive or not _may_complete(s, stack, row):
        return True
    last = row if newest else -1
    low, high = open_from(s, stack, event.ref), event.ref + spread
    if newest:
        high = latest_start(s, stack, of.start + of.size - 1)
    wanted = MatchFilter(stack, row, row, last, -1, 0, FAR, NEW, event.ref)
    if runs:
        return _from_ready(s, wanted)
    return _from_all(s, wanted, low, high)


@inline
def _put_in(s: SearchState, row: int) -> int:
    """Puts ``row`` in its stack, and gives that; -1: there is no room."""
    key, used, entry, time = _key(s, row), s.stacks.used[0], s.stacks.entry, s.events[row].ref
    stack = find(s.stacks, 0, key)
    if stack >= 0:
        of = s.stacks.stack[stack]
        end = of.start + of.size
        if of.size < of.room and entry[end - 1].time <= time:
            entry[end].time, entry[end].row = time, row
            of.size += 1
            return stack
    entries = needed(s.stacks, 0, key)
    if used.stacks == len(s.stacks.stack) or used.pool + entries > len(s.stacks.entry):
        return -1
    insert(s.stacks, 0, key, time, row)
    return find(s.stacks, 0, key)


@kernel
def construct(s: SearchState, first: int, stop: int) -> tuple[int, int]:
    """Go through the new events ``first`` to ``stop`` of the store, in release order.

    Returns:
        the first row that was not gone through, and why: DONE, STACKS_FULL or FOUND_FULL. Called
        again with more room it goes on there.
    """
    now, entry = s.setting[0], s.stacks.entry
    for row in range(first, stop):
        event = s.events[row]
        now.widest = max(now.widest, widest_of(event))
        now.doubted |= event.doubted
        if now.max_delay and not now.widest_t_a and event.t_a:
            s.ended[:] = FAR
        now.widest_t_a = max(now.widest_t_a, event.t_a)
        if row > now.inserted:
            stack = _put_in(s, row)
            if stack < 0:
                return row, STACKS_FULL
            now.inserted = row
        else:
            stack = find(s.stacks, 0, _key(s, row))
        of = s.stacks.stack[stack]
        end = of.start + of.size
        # Events of equal times are in no match together and lie in no gap of one another.
        newest = entry[end - 1].row == row
        if newest and spread_of(now) and of.size > 1:
            newest = entry[end - 2].time < event.ref - spread_of(now)
        same = of.size > 1 and entry[end - 2].time == event.ref
        if now.contiguity != ANY and (same or not newest):
            at = event.ref
            low = open_from(s, stack, at) if newest else starts_from(s, stack, at)
            revive(s, stack, low, at)
        if now.quiet:
            continue
        found, path, doubts = now.found_n, now.path_n, now.doubts_n
        runs = newest and not same and now.contiguity != ANY and not now.leading
        runs = runs and is_exact(s) and is_alike(s, stack, row)
        if runs and not go_on(s, stack, row) and not event.member & now.trailing:
            fine = True
        elif now.rule == ALL_MATCHES:
            fine = _all_matches(s, stack, row, newest, runs)
        elif newest and not event.member & now.trailing:
            fine = choose_newest(s, stack, row)
        else:
            fine = choose_late(s, stack, row, False)
        if not fine:
            now.found_n, now.path_n, now.doubts_n = found, path, doubts
            return row, FOUND_FULL
        if newest and now.contiguity != ANY:
            pass_by(s, stack, event.ref)
    return stop, DONE


@kernel
def choose_again(s: SearchState, first: int, stop: int) -> tuple[int, int]:
    """Choose again among the matches of the partitions that the rows ``first`` to ``stop``, which
    are in no stack, are of. As ``construct``.
    """
    now = s.setting[0]
    for row in range(first, stop):
        found, path, doubts = now.found_n, now.path_n, now.doubts_n
        stack = find(s.stacks, 0, _key(s, row))
        if stack >= 0 and not choose_late(s, stack, row, True):
            now.found_n, now.path_n, now.doubts_n = found, path, doubts
            return row, FOUND_FULL
    return stop, DONE
