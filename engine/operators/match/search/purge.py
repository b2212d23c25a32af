"""Purge: by promises, IBPs and floors (L09 VI-B; L10 5.3, 5.4)."""

from __future__ import annotations

from typing import Final

import numpy as np

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.timeline import LONG_AGO
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR, INT_MAX, NS_PER_S
from slackwater.engine.operators.match.search.state import (
    Search,
    find,
    first_not_below,
    key_of,
    spread_of,
)

# Floors of an ISEQ's search: the least end points of events that can be in a match (L10 5.3.1).
#
# From the begin of the window upwards: for each place of the indexed chain, the least event above
# the least one of the previous place. Every event from there on has a complete chain below it.


@inline
def least_stored(s: Search, number: int, least: int, horizon: int) -> int:
    """Return the least end point from ``least`` on of the stored events at a place of the chain
    that have not expired at ``horizon``; FAR: there is none.
    """
    floor, entry, e = s.t.floors[number], s.stacks.entry, s.events
    key = key_of(s.t.keys, s.same, s.partial, floor.keys_from, floor.keys_to)
    found = find(s.stacks, floor.index, key)
    if found < 0:
        return FAR
    start, size = s.stacks.stack[found].start, s.stacks.stack[found].size
    at, stop = first_not_below(entry, start, size, least), start + size
    while at < stop and e[entry[at].row].expires < horizon:
        at += 1
    return int(entry[at].time) if at < stop else FAR


@inline
def set_floors(s: Search, join_order: np.record, row: int) -> bool:
    """Set the floors of a search that begins at ``row``; False: it can find no match.

    With clock errors there are no floors.
    """
    now, e = s.state[0], s.events
    for step in range(len(s.floor)):
        s.floor[step] = -FAR
    if spread_of(now):
        return True
    low = e[row].ref_end - now.within if now.within >= 0 else -FAR
    for f in range(join_order.floors_from, join_order.floors_to):
        floor = s.t.floors[f]
        least = low + floor.strict
        if floor.index < 0:
            low = e[row].ref_end if floor.by_end else e[row].ref
            if low < least:
                return False
            continue
        low = least_stored(s, f, least, e[row].horizon)
        if low == FAR:
            return False
        s.floor[floor.step] = low
    return True


# On-the-fly dropping and cascading purge of an ISEQ, by promises and by IBPs (L10 5.3.2, 5.4.1).
#
# An interval is useful only if its place on the indexed chain of end points can have a complete
# chain below it: at each place an event that is stored or may still come. Promises say which may
# come: every later interval ends at the horizon or later, so an earlier end is stored by now or
# never comes. Only an IBP bounds the start of a later interval: once a type is announced, a start
# below the horizon is stored, or its IBP has arrived. Without IBPs any start is assumed possible.
# Useless intervals are not inserted; one that loses its chain as others expire is dropped at the
# next set purge, and so are those above it.
#
# Only under ``purge=promises``, and without clock errors. Rows that break a promise meet the
# remaining events, as with every purge by promises (``engine.query.pattern_settings``).


_FEW: Final = 1024
"""The least number of events between two set purges."""


@kernel
def admit(s: Search, order: int) -> None:
    """Insert the starts announced by IBPs before row ``order`` of the stream, sorted, by step."""
    now = s.state[0]
    while now.begun_n < len(s.begun) and s.begun[now.begun_n].order <= order:
        begun = s.begun[now.begun_n]
        starts, at = s.open_at[begun.step], s.open_n[begun.step]
        while at > 0 and starts[at - 1] > begun.time:
            starts[at] = starts[at - 1]
            at -= 1
        starts[at] = begun.time
        s.open_n[begun.step] += 1
        now.begun_n += 1


@kernel
def drop(s: Search, row: int) -> int:
    """Return the steps, as bits, for which the new event at ``row`` is useless; 0: none."""
    now, event = s.state[0], s.events[row]
    useless = 0
    if spread_of(now) == 0:
        for j in range(now.join_orders_n):
            step = s.t.join_orders[j].step
            if (event.member >> step) & 1 and not _is_useful_interval(s, j, row, row):
                useless |= 1 << step
        if useless:
            now.dropped += 1
        if useless == event.member:
            event.expires = LONG_AGO
    return useless


@kernel
def cascade(s: Search, rows: int) -> None:
    """A set purge, once the new events are half as many as were stored after the last one."""
    now = s.state[0]
    if now.unpurged < now.purge_from or spread_of(now):
        return
    kept, latest = 0, rows - 1
    for row in range(rows):
        event = s.events[row]
        if event.expires >= s.events[latest].horizon:
            useful = False
            for j in range(now.join_orders_n):
                if (event.member >> s.t.join_orders[j].step) & 1:
                    useful = useful or _is_useful_interval(s, j, row, latest)
            if useful:
                kept += 1
            else:
                event.expires = LONG_AGO
                now.cascaded += 1
    now.unpurged = 0
    now.purge_from = max(_FEW, kept // 2)


@kernel
def _is_useful_interval(s: Search, number: int, row: int, latest: int) -> bool:
    """Return whether the event at ``row``, at the place of a join order, may be in a match that an
    event after ``latest`` completes.
    """
    now, join_order, e = s.state[0], s.t.join_orders[number], s.events
    horizon, floor = e[latest].horizon, -1
    for f in range(join_order.floors_from, join_order.floors_to):
        if s.t.floors[f].index < 0:
            floor = f
    if floor < 0:
        return True
    mine = e[row].ref_end if s.t.floors[floor].by_end else e[row].ref
    if horizon < mine + 1 - s.t.floors[floor].strict:
        return True
    for step in range(len(s.partial)):
        s.partial[step] = -1
    s.partial[join_order.step] = row
    low = max(e[row].ref_end, horizon) - now.within if now.within >= 0 else -FAR
    for f in range(join_order.floors_from, floor):
        low = _least(s, f, low + s.t.floors[f].strict, latest)
        if low == FAR:
            return False
    return bool(mine >= low + s.t.floors[floor].strict)


@inline
def _least(s: Search, number: int, least: int, latest: int) -> int:
    """Return the least end point from ``least`` on that is stored or may still come at a place of
    the chain; FAR: there is none.
    """
    floor, e = s.t.floors[number], s.events
    found = FAR
    if not floor.by_end:
        order = e[latest].order
        if not s.heard[floor.step] <= order < s.lost[floor.step]:
            return least
        starts = s.open_at[floor.step]
        for i in range(s.open_n[floor.step]):
            if starts[i] >= least:
                found = starts[i]
                break
    return min(found, least_stored(s, number, least, e[latest].horizon))


# Purge by promises: events that no future event can need are dropped (L09 VI-B).
#
# Source: L09 Algorithms 1 (Singleton-POG-Purge) and 2 (POG-Set-Purge). A positive event is kept
# only if a match with it can still be completed or invalidated: every other step has a partner that
# is stored or may come, in the order and the window of the query, and at least one of these, or an
# event of a negated step, may still come. An event of a negated step is kept while a positive event
# may come near it. Promises are in event time, so clock errors widen every range.
#
# A set purge tests all stored events. It runs when a promise moves and the new events since the
# last one are half as many as were stored then, so its cost per event is constant.


_SMALL: Final = 32
"""Fewer events than this are tested whenever a promise moves."""
_FAR: Final = 2**61
_ENDED: Final = 2**62
"""A promise up to here: no event will come."""
_COMPARED: Final = 3
"""The most uncertain comparisons between two events of a match."""
_FURTHER: Final = 16
"""The most clock errors by which a relevant event may lie beyond the match."""


@kernel
def purge_until(s: Search, moment: int, rows: int) -> None:
    """Process the promises up to ``moment`` of the stream, and purge if enough events are new.

    Args:
        s: the search; ``moves`` from ``moves_n`` on are processed.
        moment: 2 n before row n of the stream, 2 n + 1 at it.
        rows: number of rows of the store that are in their stacks.
    """
    now = s.state[0]
    while now.moves_n < len(s.moves) and s.moves[now.moves_n].moment <= moment:
        move = s.moves[now.moves_n]
        for step in range(len(s.covered)):
            if s.clock_of[step] == move.clock:
                s.covered[step] = max(s.covered[step], move.value)
        now.moves_n += 1
        if now.unpurged >= now.purge_from:
            _purge(s, rows)


@inline
def _purge(s: Search, rows: int) -> None:
    e, kept = s.events, 0
    # Events that have expired at the newest row are dropped already.
    horizon = e[rows - 1].horizon if rows else LONG_AGO
    for row in range(rows):
        if e[row].expires >= horizon:
            if _useful(s, row, horizon):
                kept += 1
            else:
                e[row].expires = LONG_AGO
    s.state[0].unpurged = 0
    s.state[0].purge_from = kept // 2 if kept >= _SMALL else 0


@inline
def _useful(s: Search, row: int, horizon: int) -> bool:
    """Return whether the event may still be in a match, or invalidate one."""
    for number in range(s.state[0].join_orders_n):
        join_order = s.t.join_orders[number]
        if (s.events[row].member >> join_order.step) & 1:
            if join_order.scope >= 0:
                if _partner_may_come(s, number, row):
                    return True
            elif _match_may_change(s, number, row, horizon):
                return True
    return False


@kernel
def _spread(s: Search, ref: int) -> int:
    """Return the largest error of the difference of two times [ns], of stored and future events
    that are relevant to a match with an event at ``ref``.
    """
    now = s.state[0]
    at = ref + max(now.within, 0)
    for step in range(len(s.covered)):
        if s.covered[step] < _ENDED:
            at = max(at, s.covered[step])
    at = min(at, _ENDED - 1)
    # A growing error is larger at later, or earlier, times, to which other errors may move events.
    later = _error_at(now, at + _FURTHER * _error_at(now, at))
    at = max(ref - max(now.within, 0), 1 - _ENDED)
    spread = 2 * max(later, _error_at(now, at - _FURTHER * _error_at(now, at)))
    return max(spread, int(now.largest_t_a)) if now.max_delay else spread


@inline
def _error_at(now: np.record, ref: int) -> int:
    """Return the bound of clock errors at ``ref`` [ns] (``engine.core.released.ClockBound.at``)."""
    grown = 0
    if now.bound_rate > 0:
        age = max(min(ref, _ENDED), now.bound_since) - now.bound_since
        grown = age // NS_PER_S * now.bound_rate + age % NS_PER_S * now.bound_rate // NS_PER_S
    if ref < now.bound_until:
        age = now.bound_until - max(ref, -_ENDED)
        before = age // NS_PER_S * now.bound_back + age % NS_PER_S * now.bound_back // NS_PER_S
        grown = max(grown, before)
    return int(min(grown + now.bound_unc, UNC_MAX_NS))


@kernel
def _partner_may_come(s: Search, number: int, row: int) -> bool:
    """Return whether an event may come near the event ``row`` of a negated step: a positive one, or
    a negated one that would retract a match which ``row`` has invalidated, if ``row`` were dropped.
    """
    within_ns, ref, join_order = s.state[0].within, s.events[row].ref, s.t.join_orders[number]
    branch = s.t.branches[join_order.branch]
    within = (within_ns if within_ns >= 0 else _FAR) + _COMPARED * _spread(s, ref)
    near = ref + min(within, INT_MAX - abs(ref))
    for m in range(branch.members_from, branch.members_to):
        if s.covered[s.t.members[m].step] <= near:
            return True
    negated, in_front = s.t.scopes[join_order.scope], False
    for r in range(negated.relations_from, negated.relations_to):
        in_front |= s.t.relations[r].right == negated.step and not s.t.relations[r].strict
    if within_ns >= 0 and in_front:  # the scope lies before the whole match
        # The match begins up to WITHIN later, and a negated step at its end another WITHIN.
        near += min(within_ns, INT_MAX - max(near, 0))
    for scope in range(branch.scopes_from, branch.scopes_to):
        if s.covered[s.t.scopes[scope].step] <= near:
            return True
    return False


@kernel
def _match_may_change(s: Search, number: int, row: int, horizon: int) -> bool:
    """Return whether a match with a positive event can still be completed or invalidated.

    ``depths``: by step, the least and the largest time that its event can have in such a match.
    """
    within, ref, join_order = s.state[0].within, s.events[row].ref, s.t.join_orders[number]
    branch = s.t.branches[join_order.branch]
    spread = _spread(s, ref)
    within = (within if within >= 0 else _FAR) + _COMPARED * spread
    within = min(within, INT_MAX - abs(ref))
    may_come = False
    for scope in range(branch.scopes_from, branch.scopes_to):
        may_come = may_come or s.covered[s.t.scopes[scope].step] <= ref + within
    for step in range(len(s.partial)):
        s.partial[step] = -1
    start = join_order.step
    s.partial[start] = row
    s.depths[start].low = s.depths[start].high = ref
    for p in range(join_order.probes_from, join_order.probes_to):
        probe = s.t.probes[p]
        step = probe.step
        low, high, before = _range_of(s, probe, ref - within, ref + within, spread)
        if low > high:
            return False
        comes = s.covered[step] <= high
        may_come = may_come or comes
        s.depths[step].low, s.depths[step].high = low, high
        if comes and low >= s.covered[step]:
            continue
        found = _nearest_stored(s, probe, start, low, high, before, horizon)
        if not before:
            s.depths[step].low = min(found, s.covered[step]) if comes else found
        elif not comes:
            s.depths[step].high = found
        if not comes and (found < low or found > high):
            return False
    return may_come


@inline
def _range_of(
    s: Search, probe: np.record, low: int, high: int, spread: int
) -> tuple[int, int, bool]:
    """Return the least and the largest time [ns] of the probe's step, by the order of its start and
    of those of the earlier steps; and whether it must begin before one of these.
    """
    before, apart = False, -spread if spread else 1
    for p in range(probe.pairs_from, probe.pairs_to):
        other = s.depths[s.t.pairs[p].other]
        for r in range(s.t.pairs[p].relations_from, s.t.pairs[p].relations_to):
            relation = s.t.relations[r]
            # An event that ends before another one starts also begins before it.
            if relation.strict and relation.bound == 0 == relation.right_end:
                if relation.left == probe.step:
                    high, before = min(high, other.high - apart), True
                else:
                    low = max(low, other.low + apart)
    return low, high, before


@inline
def _nearest_stored(
    s: Search, probe: np.record, start: int, low: int, high: int, before: bool, horizon: int
) -> int:
    """Return the least time [ns] of a candidate in the range (``before``: the largest), or a time
    beyond the range: there is none. If the key is unknown, the nearest possible time.
    """
    for k in range(probe.keys_from, probe.keys_to):
        if s.t.keys[k].other != start:
            return high if before else low
    key = key_of(s.t.keys, s.same, s.partial, probe.keys_from, probe.keys_to)
    stack, beyond = find(s.stacks, probe.index, key), low - 1 if before else high + 1
    if stack < 0:
        return beyond
    begin, size, entry = s.stacks.stack[stack].start, s.stacks.stack[stack].size, s.stacks.entry
    at, step = first_not_below(entry, begin, size, low), 1
    if before:
        at, step = first_not_below(entry, begin, size, high + 1) - 1, -1
    while begin <= at < begin + size and low <= entry[at].time <= high:
        if s.events[entry[at].row].expires >= horizon:
            return int(entry[at].time)
        at += step
    return beyond
