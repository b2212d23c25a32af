"""The effect of each new event on matches with repeated steps (SPEC 4.2).

The events of a partition are in one stack, sorted by time. An event completes the matches that
contain it, and invalidates or makes uncertain the matches with a gap around it; with SKIP or LIMIT
it may change the choice of matches. As in SASE+ (Agrawal et al. 2008, "Efficient pattern matching
over event streams") matches are built from one shared buffer when their last event is there, so a
late event needs no special case. Under contiguity, while events come in order and clocks are exact,
matches are kept as runs (``engine.operators.match.repetition.runs``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.operators.match.repetition.compiler import (
    ALL_MATCHES,
    ANY,
    CHOSEN,
    CHOSEN_NOW,
    DISJOINT,
    FIRST_OF_END,
    FIRST_OF_START,
    SearchState,
)
from slackwater.engine.operators.match.repetition.runs import (
    advance_runs,
    close_starts,
    is_one_partition,
    latest_start,
    may_begin,
    next_start,
    open_from,
    place_of,
    reopen,
    starts_from,
    walk_from,
)
from slackwater.engine.operators.match.repetition.walk import NEW, OLD, MatchFilter, is_exact
from slackwater.engine.operators.match.search.construction import DONE, FOUND_FULL, STACKS_FULL
from slackwater.engine.operators.match.search.machine import widest_of
from slackwater.engine.operators.match.search.state import (
    find,
    first_not_below,
    insert,
    needed,
    spread_of,
)

# The choice among matches: the first few with one last event (LIMIT), the first with one first
# event (SKIP TO NEXT), or those that begin after the end of the previous one (SKIP PAST LAST
# EVENT).
#
# An event in order chooses among the matches that it completes. A late event may change the choice
# around it and, as one match replaces another, after it: the matches chosen without it and with it
# are both written, and the difference is its effect. A chosen match is final once relevant events
# may have expired, as the stored ones no longer show the alternatives; other matches are then
# chosen next to it.


_NO_ROOM: Final = -FAR - 1


class Region(NamedTuple):
    """Matches of a partition's ``stack`` that begin at places from ``low`` on up to the time
    ``high``; ``cause``: the new event. ``chosen_bits``: the bits of ``CHOICE.flags`` that mean: a
    match that begins with the event is chosen already.
    """

    stack: int
    cause: int
    low: int
    high: int
    chosen_bits: int


@inline
def _is_final(s: SearchState, of: Region, row: int) -> bool:
    """Return whether the match chosen by the event ``row`` is final."""
    chosen = s.chosen[row]
    return bool(chosen.flags & CHOSEN and chosen.until < s.events[of.cause].horizon)


@inline
def _choose(s: SearchState, row: int) -> None:
    """Mark the matches written last as chosen by the event ``row``."""
    chosen, until = s.chosen[row], s.setting[0].until
    chosen.until_now = min(chosen.until_now, until) if chosen.flags & CHOSEN_NOW else until
    chosen.flags |= CHOSEN_NOW


@kernel
def _choose_at(
    s: SearchState, of: Region, left_out: int, phase: int, place: int, after: int
) -> int:
    """Choose among the matches that end with the entry at ``place``; those of DISJOINT begin after
    the time ``after``. Returns the new ``after``, or _NO_ROOM.
    """
    now, entry, stack = s.setting[0], s.stacks.entry, s.stacks.stack[of.stack]
    last = entry[place].row
    if last == left_out or not s.events[last].member & now.lasts:
        return after
    if now.rule == FIRST_OF_END and _is_final(s, of, last):
        return after
    left = now.limit if now.rule == FIRST_OF_END else 1
    at = max(starts_from(s, of.stack, s.events[last].ref), of.low)
    if now.rule == DISJOINT and after > -FAR:
        at = max(at, first_not_below(entry, stack.start, stack.size, after + 1))
    high = min(latest_start(s, of.stack, place), of.high)
    while at < stack.start + stack.size and entry[at].time <= high and left > 0:
        at = next_start(s, at, place)
        row = entry[at].row
        search = MatchFilter(
            of.stack, of.cause, last, last, left_out, 0, left, phase, s.events[last].ref
        )
        is_output = now.rule == FIRST_OF_START and (
            s.chosen[row].flags & of.chosen_bits or _is_final(s, of, row)
        )
        if not is_output and may_begin(s, search, at):
            now.until = FAR
            made = walk_from(s, search, at)
            if made < 0:
                return _NO_ROOM
            if made and now.rule == FIRST_OF_START:
                _choose(s, row)
            elif made and now.rule == DISJOINT:
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
    """Choose among the matches that end at the places ``first`` to ``to``; False: no room."""
    for place in range(first, to):
        after = _choose_at(s, of, left_out, phase, place, after)
        if after == _NO_ROOM:
            return False
    return True


@kernel
def _keep_choices(
    s: SearchState, of: Region, first: int, to: int, keep: bool, beside: bool
) -> None:  # fmt: skip
    """End the sweep.

    With ``keep`` its choices replace the earlier ones or (``beside``) are added to them; else they
    are dropped.
    """
    for place in range(first, to):
        row = s.stacks.entry[place].row
        chosen = s.chosen[row]
        if keep and chosen.flags & CHOSEN_NOW:
            chosen.flags |= CHOSEN
            chosen.until = chosen.until_now
        elif keep and not beside and not _is_final(s, of, row):
            chosen.flags &= ~CHOSEN
        chosen.flags &= ~CHOSEN_NOW


@kernel
def _last_chosen(s: SearchState, of: Region, time: int, low: int, final: bool) -> int:
    """Return the place after the end of the last chosen match (if ``final``: the last final one)
    that ends before ``time``; ``low`` if there is none from there on.
    """
    stack, entry = s.stacks.stack[of.stack], s.stacks.entry
    at = first_not_below(entry, stack.start, stack.size, time)
    while at > low and not (s.chosen[entry[at - 1].row].flags & CHOSEN
                            and (not final or _is_final(s, of, entry[at - 1].row))):  # fmt: skip
        at -= 1
    return at


@kernel
def choose_newest(s: SearchState, stack: int, row: int) -> bool:
    """Update the choice for ``row``, the newest event; False: no room."""
    now, of, entry, after = s.setting[0], s.stacks.stack[stack], s.stacks.entry, -FAR
    if not s.events[row].member & now.lasts:
        return True
    mark, time, stop = s.marks[stack], s.events[row].ref, of.start + of.size
    low = open_from(s, stack, time)
    region = Region(stack, row, low, FAR, CHOSEN | CHOSEN_NOW)
    if now.rule == DISJOINT:
        if not mark.has_chosen_end:
            mark.has_chosen_end = 1
            first = starts_from(s, stack, time)
            mark.chosen_end = _last_chosen(s, region, FAR, first, False) - of.start
        if mark.chosen_end:
            after = entry[of.start + mark.chosen_end - 1].time
    fine = _choose_at(s, region, -1, NEW, stop - 1, after) != _NO_ROOM
    if now.rule == DISJOINT and fine and s.chosen[row].flags & CHOSEN_NOW:
        mark.chosen_end = of.size
    _keep_choices(s, region, low if now.rule == FIRST_OF_START else stop - 1, stop, fine, True)
    return fine


@kernel
def choose_late(s: SearchState, stack: int, row: int, again: bool) -> bool:
    """Update the choice for ``row``, a late event; False: no room.

    ``again``: ``row`` is no new event; it names the partition whose matches are chosen again,
    except final ones.
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
    if now.rule == DISJOINT:
        low, end, high = of.start, stop, FAR
        region = Region(stack, row, low, high, CHOSEN_NOW)
        begin = _last_chosen(s, region, time, low, False)
        begin = _last_chosen(s, region, FAR, begin, True)
        if begin > of.start:
            after = entry[begin - 1].time
        first, to = begin, end
    elif now.rule == FIRST_OF_END:
        first = begin = first_not_below(entry, of.start, of.size, time)
        low, high = of.start, FAR
    else:
        to = first_not_below(entry, of.start, of.size, high + 1)
    region, fine = Region(stack, row, low, high, CHOSEN_NOW), True
    if not again:
        fine = _sweep(s, region, row, OLD, begin, end, after)
        _keep_choices(s, region, first, to, False, False)
    fine = fine and _sweep(s, region, -1, NEW, begin, end, after)
    _keep_choices(s, region, first, to, fine, False)
    s.marks[stack].has_chosen_end = 0
    return fine


# The matches that a new event completes, breaks or makes uncertain.


@inline
def _key(s: SearchState, row: int) -> int:
    found = 0
    for k in range(s.setting[0].keys):
        found = mixed(mixed(found, s.same[k, row]), s.tag[k, row])
    return found


@inline
def _may_complete(s: SearchState, stack: int, row: int) -> bool:
    """Return whether the last event of a match with ``row`` may be stored already."""
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
    """Walk from all entries from the place ``low`` up to the time ``high``; False: no room."""
    of, entry, at, last = s.stacks.stack[w.stack], s.stacks.entry, low, -1
    if w.row >= 0:
        last = first_not_below(entry, of.start, of.size, s.events[w.row].ref + 1) - 1
    while at < of.start + of.size and entry[at].time <= high:
        at = next_start(s, at, last)
        if may_begin(s, w, at) and walk_from(s, w, at) < 0:
            return False
        at += 1
    return True


@kernel
def _from_ready(s: SearchState, w: MatchFilter) -> bool:
    """Walk from all entries whose runs may end with the newest event; False: no room."""
    place = -1
    for n in range(1, s.ready[0] + 1):
        place = place_of(s, w.stack, s.ready[n], place)
        if may_begin(s, w, place) and walk_from(s, w, place) < 0:
            return False
    return True


@kernel
def _all_matches(s: SearchState, stack: int, row: int, newest: bool, runs: bool) -> bool:
    """Write the matches that ``row`` changes and completes; False: no room.

    ``newest``: no stored event is later. ``runs``: the runs know where completed matches begin.
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
    search = MatchFilter(stack, row, row, last, -1, 0, FAR, NEW, event.ref)
    if runs:
        return _from_ready(s, search)
    return _from_all(s, search, low, high)


@inline
def _insert_row(s: SearchState, row: int) -> int:
    """Insert ``row`` into its stack; returns the stack, or -1: no room."""
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
    """Process the new events ``first`` to ``stop`` of the store, in release order.

    Returns:
        the first row that is not processed, and why: DONE, STACKS_FULL or FOUND_FULL. A call with
        more room continues there.
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
            stack = _insert_row(s, row)
            if stack < 0:
                return row, STACKS_FULL
            now.inserted = row
        else:
            stack = find(s.stacks, 0, _key(s, row))
        of = s.stacks.stack[stack]
        end = of.start + of.size
        # Events of equal times are not in one match, and not in gaps of one another.
        newest = entry[end - 1].row == row
        if newest and spread_of(now) and of.size > 1:
            newest = entry[end - 2].time < event.ref - spread_of(now)
        same = of.size > 1 and entry[end - 2].time == event.ref
        if now.contiguity != ANY and (same or not newest):
            at = event.ref
            low = open_from(s, stack, at) if newest else starts_from(s, stack, at)
            reopen(s, stack, low, at)
        if now.quiet:
            continue
        found, path, doubts = now.found_n, now.path_n, now.doubts_n
        runs = newest and not same and now.contiguity != ANY and not now.leading
        runs = runs and is_exact(s) and is_one_partition(s, stack, row)
        if runs and not advance_runs(s, stack, row) and not event.member & now.trailing:
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
            close_starts(s, stack, event.ref)
    return stop, DONE


@kernel
def choose_again(s: SearchState, first: int, stop: int) -> tuple[int, int]:
    """Choose again among the matches of partitions; the rows ``first`` to ``stop``, which are in no
    stack, name them. Returns as ``construct``.
    """
    now = s.setting[0]
    for row in range(first, stop):
        found, path, doubts = now.found_n, now.path_n, now.doubts_n
        stack = find(s.stacks, 0, _key(s, row))
        if stack >= 0 and not choose_late(s, stack, row, True):
            now.found_n, now.path_n, now.doubts_n = found, path, doubts
            return row, FOUND_FULL
    return stop, DONE
