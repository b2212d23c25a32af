"""Sequence construction: the matches that each new event completes or changes, depth first."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR, INT_MAX, NONE, record
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.operators.match.compiler.records import LOW, UNSORTED, Tables
from slackwater.engine.operators.match.search.machine import widest_of
from slackwater.engine.operators.match.search.purge import (
    admit,
    cascade,
    drop,
    purge_until,
    set_floors,
)
from slackwater.engine.operators.match.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    Search,
    among,
    conditions_hold,
    conditions_met,
    find,
    first_not_below,
    insert,
    key_of,
    keys_equal,
    lasts_within,
    matched,
    needed,
    possible_times,
    relations_hold,
    slack_of,
    spread_of,
)

# Bounds of a search by events of negated steps.
#
# A probe looks for one end of a scope; the other end, or an event in the scope, is known. The
# nearest event of the negated step that certainly counts bounds the probe: it invalidates every
# match beyond it. Thus the work is in proportion to the output.


@inline
def narrow(s: Search, bound: int, row: int, low: int, high: int) -> tuple[int, int]:
    """Return the range ``low`` to ``high`` of times [ns], bounded by the nearest negated event.

    Args:
        s: the search.
        bound: number of the bound: its scope, and the end of the scope to find.
        row: the event that the join order starts from.
        low: least time.
        high: largest time.
    """
    of = s.t.bounds[bound]
    scope, side, now = s.t.scopes[of.scope], of.side, s.state[0]
    found = _nearest(s, of, scope, row)
    if found < 0:
        return low, high
    ref, slack = s.events[found].ref, slack_of(now, s.events, found)
    for r in range(scope.relations_from, scope.relations_to):
        relation = s.t.relations[r]
        if side == LOW and relation.right == scope.step:
            low = max(low, ref + relation.bound - slack + 1 - relation.strict)
        elif side != LOW and relation.left == scope.step:
            high = min(high, ref - relation.bound + slack - 1 + relation.strict)
    return low, high


@inline
def _limit(s: Search, bound: np.record, scope: np.record) -> int:
    """Return the time [ns] beyond which, from the known end, negated events are certainly in the
    scope.
    """
    now, e, side = s.state[0], s.events, bound.side
    if bound.by_event:
        # An event that far beyond the scope's event is in the scope if it is relevant at all.
        ref = e[s.partial[scope.step]].ref
        return int(ref - 3 * spread_of(now) if side == LOW else ref + 3 * spread_of(now))
    limit = 0
    for r in range(scope.relations_from, scope.relations_to):
        relation = s.t.relations[r]
        if side == LOW and relation.left == scope.step:
            end = s.partial[relation.right]
            limit = e[end].ref + relation.bound - slack_of(now, e, end) - relation.strict
        elif side != LOW and relation.right == scope.step:
            end = s.partial[relation.left]
            limit = e[end].ref - relation.bound + slack_of(now, e, end) + relation.strict
    return int(limit)


@inline
def _nearest(s: Search, bound: np.record, scope: np.record, row: int) -> int:
    """Return the stored event of the negated step that is nearest to the known end, of those
    certainly in the scope by that end; -1: there is none.
    """
    from_, to, entry = bound.keys_from, bound.keys_to, s.stacks.entry
    stack = find(s.stacks, scope.index, key_of(s.t.keys, s.same, s.partial, from_, to))
    if stack < 0:
        return -1
    first, last = s.t.branches[scope.branch].members_from, s.t.branches[scope.branch].members_to
    limit = _limit(s, bound, scope)
    start, size = s.stacks.stack[stack].start, s.stacks.stack[stack].size
    at, step = first_not_below(entry, start, size, limit), 1
    if bound.side == LOW:
        at, step = first_not_below(entry, start, size, limit + 1) - 1, -1
    while start <= at < start + size:
        found = entry[at].row
        fits = s.events[found].expires >= s.events[row].horizon
        fits = fits and not s.events[found].doubted
        fits = fits and not among(s.t.members, s.partial, first, last, found)
        if fits and keys_equal(s.t.keys, s.same, s.tag, s.partial, from_, to, found):
            return int(found)
        at += step
    return -1


# Events of negated steps in the scopes of a match, certainly or possibly.
#
# L09's WinNeg for one match at a time, with clock errors.


DOUBT: Final = record("match", "event", "scope")
"""An event that may lie in a scope of a match; ``match``: a row of ``Search.found``."""


@kernel
def lies_in(s: Search, scope: int, event: int, t_a: int) -> int:
    """Return the certainty that ``event`` lies in the scope; POSSIBLE at most if it is doubted."""
    of = s.t.scopes[scope]
    found = relations_hold(
        s.t.pairs, s.t.relations, s.state[0], s.events, s.partial, of.pairs_from, of.pairs_to,
        event, t_a,
    )  # fmt: skip
    if found == IMPOSSIBLE or not keys_equal(
        s.t.keys, s.same, s.tag, s.partial, of.keys_from, of.keys_to, event
    ):
        return IMPOSSIBLE
    found = min(found, lasts_within(s.events[event], s.state[0].longest_negated))
    before = s.partial[of.step]
    s.partial[of.step] = event
    met = conditions_met(s, of.conditions_from, of.conditions_to, t_a)
    s.partial[of.step] = before
    doubted = s.events[event].doubted
    if doubted > 1:
        met = max(met, POSSIBLE)
    found = min(found, met)
    return min(found, POSSIBLE) if doubted else found


@kernel
def note_doubt(now: np.record, doubts: np.ndarray, event: int, scope: int) -> bool:
    """Write a DOUBT about the match that is written next; False: no room."""
    if now.doubts_n == len(doubts):
        return False
    doubt = doubts[now.doubts_n]
    doubt.match, doubt.event, doubt.scope = now.found_n, event, scope
    now.doubts_n += 1
    return True


@kernel
def alive_until(
    members: np.ndarray, e: np.ndarray, partial: np.ndarray, from_: int, to: int, keep: int
) -> int:
    """Return the last progress at which a new negated event can still change the match of a range
    of ``members``: before any of its events expires, by the worst clock errors.
    """
    if keep < 0:
        return INT_MAX
    first, slack = INT_MAX, 0
    for m in range(from_, to):
        event = e[partial[members[m].step]]
        first, slack = min(first, event.ref), max(slack, widest_of(event), event.t_a)
    return first - slack + keep


@inline
def meeting_of(e: np.ndarray, event: int, completing: int, until: int) -> int:
    """Return the later one of an event and a match, if the earlier one had not expired then; else
    -1.
    """
    if e[event].order < e[completing].order:
        return completing if e[event].expires >= e[completing].horizon else -1
    return event if until >= e[event].horizon else -1


@inline
def is_excluded_by_probes(t: Tables, join_order: int, scope: int) -> bool:
    """Return whether the probes, without clock errors, exclude every match with an event in this
    scope.
    """
    for p in range(t.join_orders[join_order].probes_from, t.join_orders[join_order].probes_to):
        for b in range(t.probes[p].bounds_from, t.probes[p].bounds_to):
            if t.bounds[b].scope == scope and not t.bounds[b].by_event:
                return True
    return False


@kernel
def scan(s: Search, scope: int, completing: int, until: int) -> int:
    """Check the stored events that may lie in the scope, and note the doubts.

    Returns:
        1: one certainly does; 0: none does; -1: no room for doubts.
    """
    e, entry, now, of = s.events, s.stacks.entry, s.state[0], s.t.scopes[scope]
    key = key_of(s.t.keys, s.same, s.partial, of.keys_from, of.keys_to)
    found = find(s.stacks, of.index, key)
    if found < 0:
        return 0
    first, last = s.t.branches[of.branch].members_from, s.t.branches[of.branch].members_to
    from_, to = of.pairs_from, of.pairs_to
    low, high = possible_times(s.t.pairs, s.t.relations, now, e, s.partial, from_, to, 0)
    stack = s.stacks.stack[found]
    at, stop = first_not_below(entry, stack.start, stack.size, low), stack.start + stack.size
    while at < stop and entry[at].time <= high:
        event = entry[at].row
        at += 1
        meets = meeting_of(e, event, completing, until)
        if meets >= 0 and not among(s.t.members, s.partial, first, last, event):
            lies = lies_in(s, scope, event, e[meets].t_a)
            if lies == CERTAIN:
                return 1
            if lies == POSSIBLE and not note_doubt(now, s.doubts, event, scope):
                return -1
    return 0


# Sequence construction, event by event, depth first.
#
# A new event of a positive step completes matches with earlier events; one of a negated step
# changes matches in whose scope it lies or may lie (L09 VII, Algorithms 3 and 4; L10 4.5). Both are
# enumerated along the probes of a join order (``match.compiler.tables``). Each probe reads a range
# of one stack, bounded by the order of steps, by WITHIN, and by the nearest event of a negated
# step. Without clock errors, and if only order, WITHIN and keys join the steps, every candidate
# belongs to a match: the work is in proportion to the output.


# Why ``construct`` stopped.
DONE: Final = 0
STACKS_FULL: Final = 1
FOUND_FULL: Final = 2

FOUND: Final = record(
    "branch", "cause", "completing", "new", "sure_before", "sure", "stands", "t_a_before", "t_a_now"
)
"""A change of a match; its events are in ``Search.rows``. ``cause``: the row that completes or
changes it. ``sure``: certain without its doubts. ``stands``: 0: the cause invalidates it.
``t_a_now``: T_a in force at its last change. ``..._before``: the same before the cause.
"""


@inline
def _open(s: Search, probe: np.record, depth: int, row: int) -> None:
    """Set the range of candidates for the probe at ``depth``."""
    candidates, now = s.depths[depth], s.state[0]
    candidates.low = candidates.high = 0
    key = key_of(s.t.keys, s.same, s.partial, probe.keys_from, probe.keys_to)
    found = find(s.stacks, probe.index, key)
    if found < 0:
        return
    from_, to = probe.pairs_from, probe.pairs_to
    low, high, by_end = -FAR, FAR, probe.sorted_by
    if by_end != UNSORTED:
        low, high = possible_times(
            s.t.pairs, s.t.relations, now, s.events, s.partial, from_, to, by_end
        )
    low = max(low, s.floor[probe.step])
    for b in range(probe.bounds_from, probe.bounds_to):
        low, high = narrow(s, b, row, low, high)
    if low > high:
        return
    entry, stack, frontier = s.stacks.entry, s.stacks.stack[found], s.events[row].horizon
    start, size = stack.start, stack.size
    taken = 0
    while taken < size and s.events[entry[start + taken].row].expires < frontier:
        taken += 1
    if taken:
        start, size = start + taken, size - taken
        stack.start, stack.size = start, size
        stack.room -= taken
    first = first_not_below(entry, start, size, low)
    stop = first_not_below(entry, start, size, high + 1)
    candidates.low, candidates.high = first, max(first, stop)


@inline
def _fits(s: Search, probe: np.record, mine: int, row: int, t_a: int, implied: bool) -> bool:
    """Return whether ``mine`` may take the probe's step, by the events so far; ``implied``: the
    relation is known to hold. Conditions on a negated ``row`` with uncertain values are not checked
    here (``lies_in``).
    """
    if s.events[mine].expires < s.events[row].horizon:
        return False
    if not implied and not relations_hold(
        s.t.pairs, s.t.relations, s.state[0], s.events, s.partial, probe.pairs_from,
        probe.pairs_to, mine, t_a,
    ):  # fmt: skip
        return False
    from_, to = probe.keys_from, probe.keys_to
    if not keys_equal(s.t.keys, s.same, s.tag, s.partial, from_, to, mine):
        return False
    s.partial[probe.step] = mine
    asked_to = probe.negated_from if s.events[row].doubted > 1 else probe.conditions_to
    if conditions_hold(s, probe.conditions_from, asked_to, t_a):
        return True
    s.partial[probe.step] = -1
    return False


@inline
def latest_t_a(
    e: np.ndarray, doubts: np.ndarray, now: np.record, completing: int, first_doubt: int
) -> int:
    """T_a in force at the last change of the match that is written next."""
    latest = completing
    for d in range(first_doubt, now.doubts_n):
        row = doubts[d].event
        if e[row].order > e[latest].order:
            latest = row
    return int(e[latest].t_a)


@inline
def _write(s: Search, branch: int, cause: int, completing: int) -> int:
    """Write a row of ``found`` without its certainty; returns the row."""
    at, t = s.state[0].found_n, s.t
    if t.branches[branch].members_to - t.branches[branch].members_from < s.rows.shape[1]:
        for step in range(s.rows.shape[1]):
            s.rows[at, step] = NONE
    for m in range(t.branches[branch].members_from, t.branches[branch].members_to):
        step = t.members[m].step
        s.rows[at, step] = s.partial[step]
    found = s.found[at]
    found.branch, found.cause, found.completing = branch, cause, completing
    s.state[0].found_n += 1
    return int(at)


@inline
def _write_new(s: Search, join_order: int, row: int) -> bool:
    """Write a new match, unless stored events invalidate it; False: no room."""
    now = s.state[0]
    if now.found_n == len(s.found):
        return False
    number, first_doubt = s.t.join_orders[join_order].branch, now.doubts_n
    branch = s.t.branches[number]
    for scope in range(branch.scopes_from, branch.scopes_to):
        if spread_of(now) or now.doubted or not is_excluded_by_probes(s.t, join_order, scope):
            killed = scan(s, scope, row, INT_MAX)
            if killed:
                now.doubts_n = first_doubt
                return killed > 0
    t_a = latest_t_a(s.events, s.doubts, now, row, first_doubt)
    verdict = matched(s, number, t_a)
    if verdict == IMPOSSIBLE:
        now.doubts_n = first_doubt
        return True
    found = s.found[_write(s, number, row, row)]
    found.new = found.stands = 1
    found.sure, found.sure_before = verdict == CERTAIN, 0
    found.t_a_now, found.t_a_before = t_a, 0
    return True


@inline
def _is_negated_step(s: Search, scope: int, row: int) -> bool:
    """Return whether ``row`` may be an event of the scope's negated step."""
    return bool((s.events[row].member >> s.t.scopes[scope].step) & 1 == 1)


@kernel
def _write_changed(s: Search, join_order: int, row: int) -> bool:
    """Write the change of an older match by ``row``, of a negated step; False: no room."""
    e, now = s.events, s.state[0]
    if now.found_n == len(s.found):
        return False
    number, scope = s.t.join_orders[join_order].branch, s.t.join_orders[join_order].scope
    branch = s.t.branches[number]
    first, stop = branch.scopes_from, branch.scopes_to
    from_, to = branch.members_from, branch.members_to
    completing = -1
    for m in range(from_, to):
        mine = s.partial[s.t.members[m].step]
        if completing < 0 or e[mine].order > e[completing].order:
            completing = mine
    for m in range(from_, to):
        if e[s.partial[s.t.members[m].step]].expires < e[completing].horizon:
            return True
    until = alive_until(s.t.members, e, s.partial, from_, to, now.keep)
    if until < e[row].horizon:
        return True
    if now.max_delay and not matched(s, number, e[completing].t_a):
        return True
    for other in range(first, scope + 1):
        # One change per match: it is written for the first scope that the event lies in.
        lies = lies_in(s, other, row, e[row].t_a) if _is_negated_step(s, other, row) else IMPOSSIBLE
        if (lies != IMPOSSIBLE) == (other < scope):
            return True
    first_doubt = now.doubts_n
    for other in range(first, stop):
        killed = scan(s, other, completing, until)
        if killed:
            now.doubts_n = first_doubt
            return killed > 0
    t_a_before = latest_t_a(e, s.doubts, now, completing, first_doubt)
    stands = 1
    for other in range(scope, stop):
        lies = lies_in(s, other, row, e[row].t_a) if _is_negated_step(s, other, row) else IMPOSSIBLE
        if lies == CERTAIN:
            stands = 0
        elif lies == POSSIBLE and not note_doubt(now, s.doubts, row, other):
            now.doubts_n = first_doubt
            return False
    t_a = latest_t_a(e, s.doubts, now, completing, first_doubt)
    sure_before = matched(s, number, t_a_before) == CERTAIN
    sure = matched(s, number, t_a) == CERTAIN
    found = s.found[_write(s, number, row, completing)]
    found.new, found.stands = 0, stands
    found.sure, found.sure_before = sure, sure_before
    found.t_a_now, found.t_a_before = t_a, t_a_before
    return True


@inline
def _walk(s: Search, number: int, row: int) -> bool:
    """Follow one join order from ``row``; False: no room in ``found``."""
    join_order = s.t.join_orders[number]
    negative, now = join_order.scope >= 0, s.state[0]
    members = s.t.branches[join_order.branch]
    members_from, members_to = members.members_from, members.members_to
    # Without clock errors the searched range implies all relations except those of ends.
    exact = now.divider != 0 and spread_of(now) == 0
    first, probes = join_order.probes_from, join_order.probes_to - join_order.probes_from
    for step in range(len(s.partial)):
        s.partial[step] = -1
    s.partial[join_order.step] = row
    if not set_floors(s, join_order, row):
        return True
    # Matches are tested again with the T_a in force at their last change.
    t_a = now.widest_t_a if negative else s.events[row].t_a
    depth, opens, room = 0, probes > 0, True
    while depth >= 0 and room:
        ends = probes == 0
        if not ends:
            probe, candidates = s.t.probes[first + depth], s.depths[depth]
            s.partial[probe.step] = -1
            if opens:
                _open(s, probe, depth, row)
                opens = False
            if candidates.low == candidates.high:
                depth -= 1
                continue
            candidate = s.stacks.entry[candidates.low].row
            candidates.low += 1
            s.stacks.used[0].looked += 1
            implied = exact and not (now.spans and probe.tested) and probe.sorted_by != UNSORTED
            member = s.events[candidate].member
            if member & (member - 1) and among(
                s.t.members, s.partial, members_from, members_to, candidate
            ):  # an event cannot be two steps of a match
                continue
            if not _fits(s, probe, candidate, row, t_a, implied):
                continue
            ends = depth + 1 == probes
        if ends:
            room = _write_changed(s, number, row) if negative else _write_new(s, number, row)
            depth = depth if probes else -1
        else:
            depth += 1
            opens = True
    return room


@kernel
def construct(s: Search, first: int, stop: int) -> tuple[int, int]:
    """Process the new events ``first`` to ``stop`` of the store, in release order.

    Returns:
        the first row that is not processed, and why: DONE, STACKS_FULL or FOUND_FULL. A call with
        more room continues there.
    """
    now, used = s.state[0], s.stacks.used[0]
    for row in range(first, stop):
        event = s.events[row]
        if now.moves_n < len(s.moves):  # checked first, as a kernel call copies all arrays
            purge_until(s, 2 * event.order, row)
        if now.begun_n < len(s.begun):
            admit(s, event.order)
        if event.ref_end != event.ref:
            now.spans = 1
        now.doubted |= event.doubted
        now.widest = max(now.widest, widest_of(event))
        now.widest_t_a = max(now.widest_t_a, event.t_a)
        if not _has_room(s, row):
            return row, STACKS_FULL
        written, doubts, looked = now.found_n, now.doubts_n, used.looked
        for j in range(now.join_orders_n):
            if (event.member >> s.t.join_orders[j].step) & 1 and not _walk(s, j, row):
                now.found_n, now.doubts_n, used.looked = written, doubts, looked
                return row, FOUND_FULL
        steps = event.member
        if now.drops:
            steps &= ~drop(s, row)
        for i in range(now.indexes_n):
            if (steps >> s.t.indexes[i].step) & 1:
                time = event.ref_end if s.t.indexes[i].by_end else event.ref
                insert(s.stacks, i, _own_key(s.t, s.same, i, row), time, row)
        now.unpurged += 1
        if now.drops:
            cascade(s, row + 1)
    purge_until(s, INT_MAX, stop)
    return stop, DONE


@inline
def _has_room(s: Search, row: int) -> bool:
    """Return whether all stacks of ``row`` have room for it."""
    stacks, entries, used = 0, 0, s.stacks.used[0]
    for i in range(s.state[0].indexes_n):
        if (s.events[row].member >> s.t.indexes[i].step) & 1:
            stacks += 1
            entries += needed(s.stacks, i, _own_key(s.t, s.same, i, row))
    fits = used.stacks + stacks <= len(s.stacks.stack)
    return bool(fits and used.pool + entries <= len(s.stacks.entry))


@inline
def _own_key(t: Tables, same: np.ndarray, index: int, row: int) -> int:
    """Return the key of ``row`` in an index of its step."""
    found = 0
    for r in range(t.indexes[index].registers_from, t.indexes[index].registers_to):
        found = mixed(found, same[t.registers[r].number, row])
    return found
