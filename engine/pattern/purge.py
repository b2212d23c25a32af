"""Purge by promises: what no future event can use any more is dropped (L09 VI-B).

Source: L09 Algorithms 1 (Singleton-POG-Purge) and 2 (POG-Set-Purge). A positive event is kept only
if a match with it can still be completed or invalidated: every other step has a partner that is
there or may come, in the order and the window that the query asks for, and at least one of these,
or an event of a negated step, may still come. An event of a negated step is kept while a positive
event may come near it. Promises are of event times, so clock errors widen every range.

A set purge looks at all events held; it is done when a promise moves and as many events have come
since the last one as half of those held then, so it costs a constant number of looks per event.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.barrier.timeline import LONG_AGO
from engine.jit import inline, kernel
from engine.pattern.search import (
    EXPIRES,
    FRONTIER,
    MEMBER,
    MOVES_N,
    PURGE_FROM,
    REF,
    TOURS_N,
    UNPURGED,
    WITHIN,
    Search,
    key_of,
    spread_of,
)
from engine.pattern.stacks import ROW, SIZE, START, TIME, find, first_not_below
from engine.pattern.tables import (
    AFTER,
    BEFORE,
    BRANCHES,
    HOPS,
    KEYS,
    MEMBERS,
    RELATIONS,
    SCOPES,
    TOURS,
)

_FAR: Final = 2**61
_FEW: Final = 1024
"""Up to so many events each promise that moves is followed by a purge."""

# Columns of ``Search.moves``.
MOMENT: Final = 0
CLOCK: Final = 1
VALUE: Final = 2


@kernel
def purge_until(s: Search, moment: int, rows: int) -> None:
    """Take in what was promised up to ``moment`` of the stream, and purge where it is worth it.

    Args:
        s: the search; ``moves`` from ``MOVES_N`` on are taken in.
        moment: 2 n before row n of the stream, 2 n + 1 at it.
        rows: how many rows of the store have been put in their stacks.
    """
    n = s.scalars
    while n[MOVES_N] < len(s.moves) and s.moves[n[MOVES_N], MOMENT] <= moment:
        clock, value = s.moves[n[MOVES_N], CLOCK], s.moves[n[MOVES_N], VALUE]
        for step in range(len(s.covered)):
            if s.clock_of[step] == clock:
                s.covered[step] = max(s.covered[step], value)
        n[MOVES_N] += 1
        if n[UNPURGED] >= n[PURGE_FROM]:
            _purge(s, rows)


@inline
def _purge(s: Search, rows: int) -> None:
    n, e, kept = s.scalars, s.events, 0
    # What has expired at the newest row is gone already.
    frontier = e[rows - 1, FRONTIER] if rows else LONG_AGO
    for row in range(rows):
        if e[row, EXPIRES] >= frontier:
            if _useful(s, row, frontier):
                kept += 1
            else:
                e[row, EXPIRES] = LONG_AGO
    n[UNPURGED] = 0
    n[PURGE_FROM] = kept // 2 if kept >= _FEW else 0


@inline
def _useful(s: Search, row: int, frontier: int) -> bool:
    """Whether the event may still be part of what happens to a match."""
    for tour in range(s.scalars[TOURS_N]):
        if (s.events[row, MEMBER] >> s.t[TOURS, tour, 1]) & 1:
            if s.t[TOURS, tour, 2] >= 0:
                if _something_may_come(s, tour, row):
                    return True
            elif _match_may_change(s, tour, row, frontier):
                return True
    return False


@kernel
def _something_may_come(s: Search, tour: int, row: int) -> bool:
    """Near an event of a negated step: a positive one, or a negative one that would take back a
    match which this one invalidated, were it forgotten.
    """
    branch, n = s.t[TOURS, tour, 0], s.scalars
    within = n[WITHIN] if n[WITHIN] >= 0 else _FAR
    near = s.events[row, REF] + within + spread_of(n)
    for m in range(s.t[BRANCHES, branch, 4], s.t[BRANCHES, branch, 5]):
        if s.covered[s.t[MEMBERS, m, 0]] <= near:
            return True
    for scope in range(s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]):
        if s.covered[s.t[SCOPES, scope, 1]] <= near:
            return True
    return False


@kernel
def _match_may_change(s: Search, tour: int, row: int, frontier: int) -> bool:
    """Whether a match with a positive event can still be completed or invalidated."""
    branch, n, ref = s.t[TOURS, tour, 0], s.scalars, s.events[row, REF]
    spread = spread_of(n)
    within = (n[WITHIN] if n[WITHIN] >= 0 else _FAR) + spread
    may_come = False
    for scope in range(s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]):
        may_come = may_come or s.covered[s.t[SCOPES, scope, 1]] <= ref + within
    for step in range(len(s.partial)):
        s.partial[step] = -1
    start = s.t[TOURS, tour, 1]
    s.partial[start] = row
    earliest, latest = ref, ref
    for hop in range(s.t[TOURS, tour, 3], s.t[TOURS, tour, 4]):
        bits = _bits_to(s.t, hop, start)
        low, high = ref - within, ref + within
        if bits & BEFORE:
            high = latest - 1 + spread
        if bits & AFTER:
            low = earliest + 1 - spread
        comes = s.covered[s.t[HOPS, hop, 0]] <= high
        may_come = may_come or comes
        if bits & BEFORE and not spread:
            found = _last_held(s, hop, start, low, high, frontier)
            if not comes and found < low:
                return False
            latest = high if comes else found
        else:
            found = _first_held(s, hop, start, low, high, frontier)
            if not comes and found > high:
                return False
            if bits & AFTER and not spread:
                earliest = min(found, max(low, s.covered[s.t[HOPS, hop, 0]])) if comes else found
    return may_come


@inline
def _bits_to(t: np.ndarray, hop: int, start: int) -> int:
    """How the step that the hop finds is related to the step of the tour."""
    for r in range(t[HOPS, hop, 4], t[HOPS, hop, 5]):
        if t[RELATIONS, r, 0] == start:
            return int(t[RELATIONS, r, 1])
    return 0


@inline
def _stack_of(s: Search, hop: int, start: int) -> int:
    """The stack of the hop's candidates, -1 for none, -2 if the start does not give its key."""
    for k in range(s.t[HOPS, hop, 2], s.t[HOPS, hop, 3]):
        if s.t[KEYS, k, 1] != start:
            return -2
    key = key_of(s.t, s.same, s.partial, s.t[HOPS, hop, 2], s.t[HOPS, hop, 3])
    return find(s.stacks, s.t[HOPS, hop, 1], key)


@inline
def _first_held(s: Search, hop: int, start: int, low: int, high: int, frontier: int) -> int:
    """The least time of a candidate in the range, beyond it if there is none."""
    stack = _stack_of(s, hop, start)
    if stack == -2:
        return low
    if stack < 0:
        return high + 1
    begin, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at = first_not_below(s.stacks.entry, begin, size, low)
    while at < begin + size and s.stacks.entry[at, TIME] <= high:
        if s.events[s.stacks.entry[at, ROW], EXPIRES] >= frontier:
            return int(s.stacks.entry[at, TIME])
        at += 1
    return high + 1


@inline
def _last_held(s: Search, hop: int, start: int, low: int, high: int, frontier: int) -> int:
    """The largest time of a candidate in the range, below it if there is none."""
    stack = _stack_of(s, hop, start)
    if stack == -2:
        return high
    if stack < 0:
        return low - 1
    begin, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at = first_not_below(s.stacks.entry, begin, size, high + 1) - 1
    while at >= begin and s.stacks.entry[at, TIME] >= low:
        if s.events[s.stacks.entry[at, ROW], EXPIRES] >= frontier:
            return int(s.stacks.entry[at, TIME])
        at -= 1
    return low - 1
