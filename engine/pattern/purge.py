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

from edge_agent.limits import UNC_MAX_NS
from engine.jit import inline, kernel
from engine.kernels.integers import NS_PER_S
from engine.pattern.search import (
    BOUND_RATE,
    BOUND_SINCE,
    BOUND_UNC,
    EXPIRES,
    HORIZON,
    LARGEST_T_A,
    MAX_DELAY,
    MEMBER,
    MOVES_N,
    PURGE_FROM,
    REF,
    TOURS_N,
    UNPURGED,
    WITHIN,
    Search,
    key_of,
)  # fmt: skip
from engine.pattern.stacks import ROW, SIZE, START, TIME, find, first_not_below
from engine.pattern.tables import (
    AFTER,
    BEFORE,
    BRANCHES,
    HOPS,
    KEYS,
    MEMBERS,
    NOT_LONG_BEFORE,
    RELATIONS,
    SCOPES,
    TOURS,
)
from engine.stream.timeline import LONG_AGO

_FAR: Final = 2**61
_ENDED: Final = 2**62
"""What is promised up to there never comes."""
_COMPARED: Final = 3
"""So many uncertain comparisons may lie between two events of a match."""
_FURTHER: Final = 16
"""So many errors further on an event may lie that still bears on the match."""
_LATEST: Final = 2**63 - 1
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
    horizon = e[rows - 1, HORIZON] if rows else LONG_AGO
    for row in range(rows):
        if e[row, EXPIRES] >= horizon:
            if _useful(s, row, horizon):
                kept += 1
            else:
                e[row, EXPIRES] = LONG_AGO
    n[UNPURGED] = 0
    n[PURGE_FROM] = kept // 2 if kept >= _FEW else 0


@inline
def _useful(s: Search, row: int, horizon: int) -> bool:
    """Whether the event may still be part of what happens to a match."""
    for tour in range(s.scalars[TOURS_N]):
        if (s.events[row, MEMBER] >> s.t[TOURS, tour, 1]) & 1:
            if s.t[TOURS, tour, 2] >= 0:
                if _something_may_come(s, tour, row):
                    return True
            elif _match_may_change(s, tour, row, horizon):
                return True
    return False


@kernel
def _spread(s: Search, ref: int) -> int:
    """How far the difference of any two times may be off [ns], of events held and to come, that
    may be part of what happens to a match with an event at ``ref``.
    """
    n = s.scalars
    if n[MAX_DELAY]:
        return int(n[LARGEST_T_A])
    at = ref + max(n[WITHIN], 0)
    for step in range(len(s.covered)):
        if s.covered[step] < _ENDED:
            at = max(at, s.covered[step])
    at = min(at, _ENDED - 1)
    # Errors that grow are larger where other errors make events lie later.
    return 2 * _error_at(n, at + _FURTHER * _error_at(n, at))


@inline
def _error_at(n: np.ndarray, ref: int) -> int:
    """How wrong a clock may be at ``ref`` (``engine.clocks.bound.ClockBound.at``)."""
    if n[BOUND_RATE] == 0:
        return int(min(n[BOUND_UNC], UNC_MAX_NS))
    age = max(min(ref, _ENDED), n[BOUND_SINCE]) - n[BOUND_SINCE]
    grown = age // NS_PER_S * n[BOUND_RATE] + age % NS_PER_S * n[BOUND_RATE] // NS_PER_S
    return int(min(grown + n[BOUND_UNC], UNC_MAX_NS))


@kernel
def _something_may_come(s: Search, tour: int, row: int) -> bool:
    """Near an event of a negated step: a positive one, or a negative one that would take back a
    match which this one invalidated, were it forgotten.
    """
    branch, n, ref = s.t[TOURS, tour, 0], s.scalars, s.events[row, REF]
    within = (n[WITHIN] if n[WITHIN] >= 0 else _FAR) + _COMPARED * _spread(s, ref)
    near = ref + min(within, _LATEST - abs(ref))
    for m in range(s.t[BRANCHES, branch, 4], s.t[BRANCHES, branch, 5]):
        if s.covered[s.t[MEMBERS, m, 0]] <= near:
            return True
    if n[WITHIN] >= 0 and _in_front(s.t, s.t[TOURS, tour, 2]):
        # The match begins up to WITHIN after it, and what is negated at its end another WITHIN.
        near += min(n[WITHIN], _LATEST - max(near, 0))
    for scope in range(s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]):
        if s.covered[s.t[SCOPES, scope, 1]] <= near:
            return True
    return False


@inline
def _in_front(t: np.ndarray, scope: int) -> bool:
    """Whether the scope lies before the whole match."""
    for r in range(t[SCOPES, scope, 5], t[SCOPES, scope, 6]):
        if t[RELATIONS, r, 1] & NOT_LONG_BEFORE:
            return True
    return False


@kernel
def _match_may_change(s: Search, tour: int, row: int, horizon: int) -> bool:
    """Whether a match with a positive event can still be completed or invalidated.

    ``depths``: by step, the least and the largest time that its event can have in such a match.
    """
    branch, n, ref = s.t[TOURS, tour, 0], s.scalars, s.events[row, REF]
    spread = _spread(s, ref)
    within = (n[WITHIN] if n[WITHIN] >= 0 else _FAR) + _COMPARED * spread
    within = min(within, _LATEST - abs(ref))
    may_come = False
    for scope in range(s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]):
        may_come = may_come or s.covered[s.t[SCOPES, scope, 1]] <= ref + within
    for step in range(len(s.partial)):
        s.partial[step] = -1
    start = s.t[TOURS, tour, 1]
    s.partial[start] = row
    s.depths[start, 0] = s.depths[start, 1] = ref
    for hop in range(s.t[TOURS, tour, 3], s.t[TOURS, tour, 4]):
        step = s.t[HOPS, hop, 0]
        low, high, bits = _range_of(s, hop, ref - within, ref + within, spread)
        if low > high:
            return False
        comes = s.covered[step] <= high
        may_come = may_come or comes
        s.depths[step, 0], s.depths[step, 1] = low, high
        if comes and low >= s.covered[step]:
            continue
        if bits & BEFORE:
            found = _last_held(s, hop, start, low, high, horizon)
            if not comes:
                s.depths[step, 1] = found
        else:
            found = _first_held(s, hop, start, low, high, horizon)
            s.depths[step, 0] = min(found, s.covered[step]) if comes else found
        if not comes and (found < low or found > high):
            return False
    return may_come


@inline
def _range_of(s: Search, hop: int, low: int, high: int, spread: int) -> tuple[int, int, int]:
    """The least and the largest time of the step that the hop finds, by its relations to the steps
    before, and all bits of these.
    """
    all_bits, apart = 0, -spread if spread else 1
    for r in range(s.t[HOPS, hop, 4], s.t[HOPS, hop, 5]):
        other, bits = s.t[RELATIONS, r, 0], s.t[RELATIONS, r, 1]
        if bits & BEFORE:
            high = min(high, s.depths[other, 1] - apart)
        if bits & AFTER:
            low = max(low, s.depths[other, 0] + apart)
        all_bits |= bits
    return low, high, all_bits


@inline
def _stack_of(s: Search, hop: int, start: int) -> int:
    """The stack of the hop's candidates, -1 for none, -2 if the start does not give its key."""
    for k in range(s.t[HOPS, hop, 2], s.t[HOPS, hop, 3]):
        if s.t[KEYS, k, 1] != start:
            return -2
    key = key_of(s.t, s.same, s.partial, s.t[HOPS, hop, 2], s.t[HOPS, hop, 3])
    return find(s.stacks, s.t[HOPS, hop, 1], key)


@inline
def _first_held(s: Search, hop: int, start: int, low: int, high: int, horizon: int) -> int:
    """The least time of a candidate in the range, beyond it if there is none."""
    stack = _stack_of(s, hop, start)
    if stack == -2:
        return low
    if stack < 0:
        return high + 1
    begin, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at = first_not_below(s.stacks.entry, begin, size, low)
    while at < begin + size and s.stacks.entry[at, TIME] <= high:
        if s.events[s.stacks.entry[at, ROW], EXPIRES] >= horizon:
            return int(s.stacks.entry[at, TIME])
        at += 1
    return high + 1


@inline
def _last_held(s: Search, hop: int, start: int, low: int, high: int, horizon: int) -> int:
    """The largest time of a candidate in the range, below it if there is none."""
    stack = _stack_of(s, hop, start)
    if stack == -2:
        return high
    if stack < 0:
        return low - 1
    begin, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at = first_not_below(s.stacks.entry, begin, size, high + 1) - 1
    while at >= begin and s.stacks.entry[at, TIME] >= low:
        if s.events[s.stacks.entry[at, ROW], EXPIRES] >= horizon:
            return int(s.stacks.entry[at, TIME])
        at -= 1
    return low - 1
