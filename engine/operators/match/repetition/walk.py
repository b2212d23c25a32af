"""Searches the matches that begin with one event, depth first, forwards in time.

Each level holds a taken event; its candidates are the later events of the partition, as every step
that may follow. With contiguity or UNTIL, the first event that certainly ends the gap ends the
search after it; events that only possibly lie in a gap are checked when a match is complete
(``engine.operators.match.repetition.gaps``).

Matches are found in order of their events' times, compared from the first event on: of the matches
with one last event, those with the earliest events come first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR, INT_MAX
from slackwater.engine.operators.match.repetition.compiler import (
    ALL_MATCHES,
    FIRST_OF_END,
    NEXT,
    STRICT,
    SearchState,
)
from slackwater.engine.operators.match.repetition.conditions import (
    conditions_hold,
    has_prefix_conditions,
    is_within,
    key_equal,
    order_of,
    path_holds,
    place_events,
    step_holds,
    trial_holds,
)
from slackwater.engine.operators.match.repetition.gaps import alive_until, effect_of, follows, scan
from slackwater.engine.operators.match.search.construction import latest_t_a
from slackwater.engine.operators.match.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    first_not_below,
    spread_of,
)

NEW: Final = 1
OLD: Final = 0


class MatchFilter(NamedTuple):
    """The matches to find: all of the partition ``stack`` that fulfil these conditions.

    ``cause``: the new event. ``row``: only matches with this event; ``last``: only matches that end
    with this one; -1: any. ``left_out``: an event to ignore, or -1. ``changed``: 1: only matches
    that ``cause`` changes. ``most``: at most this many. ``phase``: NEW or OLD, written with them.
    ``reach``: only matches that extend to this time.
    """

    stack: int
    cause: int
    row: int
    last: int
    left_out: int
    changed: int
    most: int
    phase: int
    reach: int


@inline
def _open_level(s: SearchState, w: MatchFilter, depth: int) -> None:
    """Set the first candidate and the limits of a level."""
    level, of = s.levels[depth], s.stacks.stack[w.stack]
    level.fresh, level.option, level.relevant = 0, level.step, 0
    level.stop = level.ended = FAR
    if level.count > 1:
        level.ended = s.levels[depth - 1].ended
    level.at = level.place + 1
    spread, entry, time = spread_of(s.setting[0]), s.stacks.entry, s.events[level.row].ref
    ended_before = level.count > 1 and s.t.steps[level.step].until >= 0
    if spread:
        level.at = first_not_below(entry, of.start, of.size, time - spread)
    elif level.at < of.start + of.size and entry[level.at].time == time and not ended_before:
        level.at = first_not_below(entry, of.start, of.size, time + 1)


@inline
def _push(s: SearchState, depth: int, row: int, step: int, count: int, place: int) -> None:
    level = s.levels[depth]
    level.row, level.step, level.count, level.place, level.fresh = row, step, count, place, 1


@inline
def _can_follow(s: SearchState, depth: int, row: int, t_a: int) -> bool:
    """Return whether ``row`` may come after all taken events."""
    if not spread_of(s.setting[0]):
        return bool(s.events[row].ref > s.events[s.levels[depth].row].ref_end)
    for d in range(depth + 1):
        mine = s.levels[d].row
        if mine == row or order_of(s, mine, 1, row, t_a) == IMPOSSIBLE:
            return False
    return True


@kernel
def _prefix_holds(s: SearchState, depth: int, row: int, step: int, t_a: int) -> int:
    """Return the certainty that the prefix conditions hold for the taken events and ``row``.

    ``step``: the step of ``row``.
    """
    for d in range(depth + 1):
        s.trial[d].row, s.trial[d].step = s.levels[d].row, s.levels[d].step
    s.trial[depth + 1].row, s.trial[depth + 1].step = row, step
    return int(trial_holds(s, depth + 2, t_a))


@inline
def _next_option(s: SearchState, w: MatchFilter, depth: int, row: int, t_a: int, has: bool) -> int:
    """Return the next step that ``row`` can be taken as after the event at ``depth``, or -1.

    ``has``: whether the taken events include ``MatchFilter.row``.
    """
    level, now, member = s.levels[depth], s.setting[0], s.events[row].member
    if not _can_follow(s, depth, row, t_a):
        return -1
    present, before = 0, level.row
    for d in range(depth + 1):
        present |= 1 << s.levels[d].step
    while level.option < now.steps:
        q = level.option
        level.option += 1
        if not member >> q & 1 or not follows(s, level.step, level.count, q):
            continue
        ended = q == level.step and s.events[row].ref > level.ended
        if ended and now.contiguity != NEXT:
            continue
        fits = step_holds(s, q, row, before if q == level.step else -1, present, t_a)
        if fits != IMPOSSIBLE and has_prefix_conditions(s, q):
            fits = min(fits, _prefix_holds(s, depth, row, q, t_a))
        if fits == CERTAIN:
            level.relevant = 1
        if fits != IMPOSSIBLE and not ended:
            now.reach = max(now.reach, s.events[row].ref)
            later = s.t.steps[q].later
            # The event that must be in the match is taken, or can be taken later.
            if has or w.row in (-1, row) or later & s.events[w.row].member:
                return int(q)
            if later:
                now.is_open = 1
    return -1


@inline
def _skip_event(s: SearchState, depth: int, row: int, t_a: int) -> None:
    """Limit the later candidates by ``row``, which was tried and is not taken."""
    level, now = s.levels[depth], s.setting[0]
    level.option = level.step
    relevant, level.relevant = level.relevant, 0
    until = s.t.steps[level.step].until
    ends = until >= 0 and s.events[row].member >> until & 1
    if now.contiguity == NEXT and relevant and spread_of(now):
        # It breaks a match that it could extend; not if it may begin before the end of its event.
        relevant = int(order_of(s, level.row, 1, row, t_a) == CERTAIN)
    breaks = now.contiguity == STRICT or (now.contiguity == NEXT and relevant)
    beyond, follows_it = s.events[row].ref + spread_of(now), order_of(s, level.row, 0, row, t_a)
    if s.events[row].doubted:
        return
    if breaks and follows_it == CERTAIN:
        level.stop = min(level.stop, beyond)
    if ends:  # a repetition that has begun before it
        first = s.levels[depth - level.count + 1].row
        if max(follows_it, order_of(s, first, 0, row, t_a)) == CERTAIN:
            level.ended = min(level.ended, beyond)


@kernel
def verdict_of(s: SearchState, from_: int, size: int, present: int, t_a: int) -> int:
    """Return the certainty that the events are a match by times and conditions, without gaps."""
    now, found, first = s.setting[0], CERTAIN, s.path[from_].row
    if spread_of(now):
        for i in range(from_, from_ + size):
            row = s.path[i].row
            found = min(found, is_within(s, first, row, 1, t_a))
            for j in range(from_, i):
                found = min(found, order_of(s, s.path[j].row, 1, row, t_a))
        if found != IMPOSSIBLE:
            found = min(found, path_holds(s, from_, size, t_a))
        place_events(s, s.path, from_, size)
    elif now.within >= 0:
        last = s.path[from_ + size - 1].row
        found = is_within(s, first, last, 1, t_a)
    if found != IMPOSSIBLE:
        start, to = now.finals_from, now.finals_to
        found = min(found, conditions_hold(s, s.path, from_, size, present, start, to, -1, t_a))
        place_events(s, s.path, from_, size)
    return found


@inline
def note_match(
    s: SearchState, w: MatchFilter, completing: int, size: int, sure_before: int, sure: int,
    stands: int, t_a_before: int, t_a: int,
) -> None:  # fmt: skip
    """Write a MATCH_CHANGE for the match whose ``size`` events are next in the path."""
    now = s.setting[0]
    run = s.found[now.found_n]
    run.cause, run.completing, run.new = w.cause, completing, w.phase
    run.sure_before, run.sure, run.stands = sure_before == CERTAIN, sure == CERTAIN, stands
    run.t_a_before, run.t_a_now = t_a_before, t_a
    run.from_, run.size = now.path_n, size
    now.until = min(now.until, alive_until(s, now.path_n, size, True))
    now.path_n += size
    now.found_n += 1


@inline
def is_exact(s: SearchState) -> bool:
    """Return whether all stored events certainly happened, at exactly known times."""
    return bool(not spread_of(s.setting[0]) and not s.setting[0].doubted)


@inline
def is_scanned(s: SearchState, w: MatchFilter, completing: int, exact: bool) -> bool:
    """Return whether the gaps of a found match must be scanned.

    With exact clocks the walk itself has checked all events in gaps, except for negated steps, if
    they were stored before the match was complete.
    """
    now = s.setting[0]
    between = now.breakable
    if exact and completing == w.cause and w.left_out < 0:
        between &= ~now.positive & ((1 << now.steps) - 1)
    return bool(between or now.leading or now.trailing)


@kernel
def _reading_certainty(
    s: SearchState, w: MatchFilter, from_: int, size: int, completing: int
) -> int:
    """Return the certainty that the events of the path are a match as the steps of ``reading``; -1:
    no room.
    """
    now, first_doubt, t_a = s.setting[0], s.setting[0].doubts_n, s.setting[0].widest_t_a
    for i in range(size):
        s.path[from_ + i].step = s.reading[i].step
    found = path_holds(s, from_, size, t_a)
    present = place_events(s, s.path, from_, size)
    if found != IMPOSSIBLE:
        found = min(found, verdict_of(s, from_, size, present, t_a))
    if found != IMPOSSIBLE:
        broken = scan(s, from_, size, w.stack, completing, w.left_out, present)
        doubtful = now.doubts_n > first_doubt
        now.doubts_n = first_doubt
        if broken < 0:
            return -1
        found = IMPOSSIBLE if broken else min(found, POSSIBLE) if doubtful else found
    return int(found)


@inline
def _may_read(s: SearchState, row: int, place: int, step: int) -> bool:
    """Return whether ``row`` may be of ``step`` at this place of a reading, by type and number."""
    before = s.reading[place - 1]
    fits = follows(s, before.step, before.count, step) if place else s.setting[0].firsts >> step & 1
    return bool(s.events[row].member >> step & 1 and fits)


@kernel
def _has_better_reading(
    s: SearchState, w: MatchFilter, from_: int, size: int, completing: int, certainty: int
) -> int:
    """Return 1 if another reading of the same events replaces the walked one, else 0; -1: no room.

    It does if it has a higher ``certainty``, or the same and earlier steps.
    """
    now, place, is_past_walked, found = s.setting[0], 0, False, 0
    s.reading[0].step = -1
    while place >= 0 and not found:
        row, step = s.path[from_ + place].row, s.reading[place].step + 1
        while step < now.steps and not _may_read(s, row, place, step):
            step += 1
        if step == now.steps:
            place -= 1
            continue
        again = place > 0 and s.reading[place - 1].step == step
        count = s.reading[place - 1].count + 1 if again else 1
        s.reading[place].step, s.reading[place].count = step, count
        if place + 1 < size:
            place += 1
            s.reading[place].step = step - 1
            continue
        if count < s.t.steps[step].least or not now.lasts >> step & 1:
            continue
        same = True
        for d in range(size):
            same = same and s.reading[d].step == s.levels[d].step
        if same and certainty == CERTAIN:
            break
        if same:
            is_past_walked = True
            continue
        other = _reading_certainty(s, w, from_, size, completing)
        if other < 0:
            found = -1
        elif other > certainty or (other == certainty and not is_past_walked):
            found = 1
    for d in range(size):
        s.path[from_ + d].step = s.levels[d].step
    place_events(s, s.path, from_, size)
    return found


@inline
def is_settled(s: SearchState, w: MatchFilter, completing: int, from_: int, size: int) -> bool:
    """Return whether the match is final, as relevant events may have expired.

    A final match is not chosen either, even if the new event completes it: matches that would
    replace it may have expired.
    """
    now = s.setting[0]
    chooses = now.rule > FIRST_OF_END or (now.rule != ALL_MATCHES and now.limit < FAR)
    if w.cause == completing and not chooses:
        return False
    return bool(alive_until(s, from_, size, not now.again) < s.events[w.cause].horizon)


@inline
def has_room(s: SearchState, size: int) -> bool:
    """Return whether a match of ``size`` events can be written."""
    now = s.setting[0]
    now.lacks_path = int(now.path_n + size > len(s.path))
    return bool(now.found_n < len(s.found) and not now.lacks_path)


@kernel
def _write_match(s: SearchState, w: MatchFilter, depth: int) -> int:
    """Write the match that ends at ``depth``; 1: written; 0: there is none; -1: no room."""
    now, e, size = s.setting[0], s.events, depth + 1
    from_, first_doubt = now.path_n, now.doubts_n
    if not has_room(s, size):
        return -1
    completing = s.levels[0].row
    for d in range(size):
        s.path[from_ + d].row, s.path[from_ + d].step = s.levels[d].row, s.levels[d].step
        if e[s.levels[d].row].order > e[completing].order:
            completing = s.levels[d].row
    for d in range(size):
        if e[s.levels[d].row].expires < e[completing].horizon:
            return 0
    if is_settled(s, w, completing, from_, size):
        return 0
    t_a = now.widest_t_a
    present = place_events(s, s.path, from_, size)
    verdict = verdict_of(s, from_, size, present, t_a)
    if verdict == IMPOSSIBLE:
        return 0
    exact = is_exact(s)
    past = now.max_delay and completing != w.cause and not exact
    if past and verdict_of(s, from_, size, present, e[completing].t_a) == IMPOSSIBLE:
        return 0  # it was no match by T_a at the arrival of its last event
    if is_scanned(s, w, completing, exact):
        broken = scan(s, from_, size, w.stack, completing, w.left_out, present)
        if broken:
            now.doubts_n = first_doubt
            return -1 if broken < 0 else 0
    t_a_before = latest_t_a(e, s.doubts, now, completing, first_doubt)
    stands, before = 1, now.doubts_n
    if w.changed:
        broken = effect_of(s, from_, size, w.cause, present)
        stands = int(broken == 0)
        if broken < 0 or (stands and now.doubts_n == before):
            now.doubts_n = first_doubt
            return -1 if broken < 0 else 0
    t_a = latest_t_a(e, s.doubts, now, completing, first_doubt)
    sure_before = sure = verdict
    if not exact:
        sure_before = sure = verdict_of(s, from_, size, present, t_a_before)
        if t_a != t_a_before:
            sure = verdict_of(s, from_, size, present, t_a)
    if sure_before == IMPOSSIBLE:
        now.doubts_n = first_doubt
        return 0
    if now.again and alive_until(s, from_, size, True) < e[w.cause].horizon:
        sure_before = sure = POSSIBLE  # events that may lie in it have expired
    if now.readings:
        certainty = sure if now.doubts_n == first_doubt else min(sure, POSSIBLE)
        better = _has_better_reading(s, w, from_, size, completing, certainty)
        if better:
            now.doubts_n = first_doubt
            return -1 if better < 0 else 0
    note_match(s, w, completing, size, sure_before, sure, stands, t_a_before, t_a)
    return 1


@inline
def _may_extend(s: SearchState, depth: int) -> bool:
    """Return whether an event after all stored ones may follow the one at ``depth``."""
    level = s.levels[depth]
    if level.stop != FAR:
        return False
    later = s.t.steps[level.step].later
    if level.count == s.t.steps[level.step].most:
        later &= ~(1 << level.step)
    return bool(later)


@inline
def _may_end(s: SearchState, w: MatchFilter, depth: int, has: bool) -> bool:
    """Return whether the taken events may be a complete match that passes the filter."""
    level, lasts = s.levels[depth], s.setting[0].lasts
    ends = level.count >= s.t.steps[level.step].least and lasts >> level.step & 1
    return bool(ends and (has or w.row < 0) and (w.last < 0 or level.row == w.last))


@inline
def _is_beyond(
    s: SearchState, depth: int, time: int, within: int, until: int, bounded: bool
) -> bool:
    """Return whether no event from ``time`` on is a candidate after the one at ``depth``.

    ``until``: if ``bounded``, later events are in no match that passes the filter.
    """
    level, now = s.levels[depth], s.setting[0]
    if time > level.stop or time > within:
        now.reach = max(now.reach, min(level.stop, within) - spread_of(now))
        return True
    if bounded and time > until:
        now.is_open = 1
        return True
    return False


@kernel
def walk(s: SearchState, w: MatchFilter, place: int, step: int, most: int) -> int:
    """Write at most ``most`` matches that begin with the entry at ``place``, taken as ``step``.

    Returns:
        how many were written; -1: no room.
    """
    now, e, entry, of = s.setting[0], s.events, s.stacks.entry, s.stacks.stack[w.stack]
    row, stop, spread, written = entry[place].row, of.start + of.size, spread_of(s.setting[0]), 0
    t_a = now.widest_t_a
    if step_holds(s, step, row, -1, 0, t_a) == IMPOSSIBLE:
        return 0
    _push(s, 0, row, step, 1, place)
    within = INT_MAX if now.within < 0 else e[row].ref + now.within + spread
    until = INT_MAX if w.row < 0 else e[w.row].ref + spread
    depth, has_from = 0, 0 if row == w.row else FAR
    while depth >= 0:
        level = s.levels[depth]
        if level.fresh:
            if _may_end(s, w, depth, has_from <= depth):
                made = _write_match(s, w, depth)
                if made < 0:
                    return -1
                written += made
                if written >= most:
                    now.is_open = 1
                    return written
            _open_level(s, w, depth)
        next_step = -1
        while level.at < stop and next_step < 0:
            time, candidate = entry[level.at].time, entry[level.at].row
            if _is_beyond(s, depth, time, within, until, w.last >= 0 or has_from > depth):
                break
            now.looked += 1
            lasts = e[candidate].expires >= e[w.cause].horizon
            if candidate != w.left_out and lasts and key_equal(s, candidate, w.cause):
                next_step = _next_option(s, w, depth, candidate, t_a, has_from <= depth)
                if next_step < 0:
                    _skip_event(s, depth, candidate, t_a)
            if next_step < 0:
                level.at += 1
                level.option = level.step
        if next_step < 0:
            if level.at == stop:
                if _may_extend(s, depth):
                    now.is_open = 1
                elif level.stop < FAR:
                    now.reach = max(now.reach, level.stop - spread)
            if has_from == depth:
                has_from = FAR
            depth -= 1
            continue
        candidate, at = entry[level.at].row, level.at
        count = level.count + 1 if next_step == level.step else 1
        depth += 1
        _push(s, depth, candidate, next_step, count, at)
        if candidate == w.row:
            has_from = depth
    return written
