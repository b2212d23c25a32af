"""Sequence construction: what each new event does to matches, event by event, depth first.

A new event of a positive step completes matches with events that came before it; one of a negated
step meets matches in whose scope it lies or may lie (L09 VII, Algorithms 3 and 4; L10 4.5). Both
are enumerated along the hops of a tour (``engine.pattern.tables``): a hop looks up a range of one
stack, bounded by the order of steps, WITHIN, and by the nearest event of a negated step, beyond
which everything has been invalidated. Where clocks do not err and nothing but order, WITHIN and
keys joins the steps, every candidate belongs to a match: the work is in proportion to the output.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.jit import inline, kernel
from engine.kernels.hashing import mixed
from engine.pattern.nearest import narrowed
from engine.pattern.purge import purge_until
from engine.pattern.scopes import BY_ROW, FOR_EVER, alive_until, lies_in, note_doubt, scan, settled
from engine.pattern.search import (
    AIS_CLOCK,
    CERTAIN,
    CLOCK,
    DOUBTS_N,
    EXPIRES,
    FOUND_N,
    HORIZON,
    IMPOSSIBLE,
    INDEXES_N,
    KEEP,
    LAZY,
    MAX_DELAY,
    MEMBER,
    ORDER,
    POSSIBLE,
    REF,
    RIN,
    RIP,
    T_A,
    TOURS_N,
    UNC,
    UNPURGED,
    WIDEST,
    WIDEST_T_A,
    Search,
    among,
    conditions_hold,
    highest,
    key_of,
    keys_equal,
    lowest,
    matched,
    relations_hold,
    spread_of,
)  # fmt: skip
from engine.pattern.stacks import (
    GONE,
    LOOKED,
    POOL,
    RIN_PLACE,
    RIP_PLACE,
    ROOM,
    ROW,
    SIZE,
    STACKS,
    START,
    TIME,
    Beside,
    find,
    first_not_below,
    insert,
    needed,
)
from engine.pattern.tables import (
    BRANCHES,
    FROM_RIN,
    FROM_RIP,
    HOPS,
    INDEXES,
    MEMBERS,
    REGISTERS,
    SCOPES,
    TOURS,
)

# Why ``construct`` stopped.
DONE: Final = 0
STACKS_FULL: Final = 1
FOUND_FULL: Final = 2

# Columns of ``Search.found``; the rows by step stand behind them.
BRANCH: Final = 0
CAUSE: Final = 1
"""The row that completes the match or changes it."""
COMPLETING: Final = 2
NEW: Final = 3
SURE_BEFORE: Final = 4
"""Certain in itself, doubts apart."""
SURE: Final = 5
STANDS: Final = 6
"""0: invalidated by the cause."""
T_A_BEFORE: Final = 7
"""T_a in force when it had changed last."""
T_A_NOW: Final = 8
FACTS: Final = 9


@inline
def _open(s: Search, hop: int, depth: int, row: int) -> None:
    """Set the range of candidates for the hop at ``depth``."""
    s.depths[depth, 0] = s.depths[depth, 1] = 0
    key = key_of(s.t, s.same, s.partial, s.t[HOPS, hop, 2], s.t[HOPS, hop, 3])
    stack = find(s.stacks, s.t[HOPS, hop, 1], key)
    if stack < 0:
        return
    from_, to = s.t[HOPS, hop, 4], s.t[HOPS, hop, 5]
    low = lowest(s.t, s.scalars, s.events, s.partial, from_, to)
    high = highest(s.t, s.scalars, s.events, s.partial, from_, to)
    for p in range(s.t[HOPS, hop, 8], s.t[HOPS, hop, 9]):
        low, high = narrowed(s, p, row, low, high)
    if low > high:
        return
    entry, frontier = s.stacks.entry, s.events[row, HORIZON]
    start, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    taken, most = 0, size if s.scalars[LAZY] else 0
    while taken < most and s.events[entry[start + taken, ROW], EXPIRES] < frontier:
        taken += 1
    if taken:
        start, size = start + taken, size - taken
        s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE] = start, size
        s.stacks.stack[stack, ROOM] -= taken
        s.stacks.stack[stack, GONE] += taken
    kept = _kept_place(s, hop, depth, low, high)
    at = start + max(0, kept - s.stacks.stack[stack, GONE])
    from_rip = s.t[HOPS, hop, 10] == FROM_RIP
    first, stop = at, at
    if kept < 0 or from_rip:
        first = first_not_below(entry, start, size, low)
    if kept < 0 or not from_rip:
        stop = first_not_below(entry, start, size, high + 1)
    s.depths[depth, 0], s.depths[depth, 1] = first, max(first, stop)


@inline
def _kept_place(s: Search, hop: int, depth: int, low: int, high: int) -> int:
    """What the event found by the hop before keeps of the place where this range ends or begins,
    as a number of entries; -1 if nothing or if the range is bounded otherwise.
    """
    side = s.t[HOPS, hop, 10]
    if depth == 0 or side == 0 or spread_of(s.scalars):
        return -1
    at = s.depths[depth - 1, 0] - 1
    ref = s.stacks.entry[at, TIME]
    if side == FROM_RIP and s.scalars[RIP] and high == ref - 1:
        return int(s.stacks.entry[at, RIP_PLACE])
    if side == FROM_RIN and s.scalars[RIN] and low == ref + 1:
        return int(s.stacks.entry[at, RIN_PLACE])
    return -1


@inline
def _fits(s: Search, hop: int, branch: int, mine: int, row: int, t_a: int) -> bool:
    """Whether ``mine`` can take the hop's step, as far as can be told yet."""
    if s.events[mine, EXPIRES] < s.events[row, HORIZON] or among(s.t, s.partial, branch, mine):
        return False
    from_, to = s.t[HOPS, hop, 4], s.t[HOPS, hop, 5]
    if not relations_hold(s.t, s.scalars, s.events, s.partial, from_, to, mine, t_a):
        return False
    from_, to = s.t[HOPS, hop, 2], s.t[HOPS, hop, 3]
    if not keys_equal(s.t, s.same, s.tag, s.partial, from_, to, mine):
        return False
    s.partial[s.t[HOPS, hop, 0]] = mine
    if conditions_hold(s, s.t[HOPS, hop, 6], s.t[HOPS, hop, 7], t_a):
        return True
    s.partial[s.t[HOPS, hop, 0]] = -1
    return False


@inline
def _latest_t_a(s: Search, completing: int, first_doubt: int) -> int:
    """T_a in force when the match changed last."""
    latest = completing
    for d in range(first_doubt, s.scalars[DOUBTS_N]):
        row = s.doubts[d, BY_ROW]
        if s.events[row, ORDER] > s.events[latest, ORDER]:
            latest = row
    return int(s.events[latest, T_A])


@kernel
def _write(
    t: np.ndarray, n: np.ndarray, partial: np.ndarray, found: np.ndarray, branch: int, cause: int,
    completing: int,
) -> int:  # fmt: skip
    """The match's row in ``found``, written but for its verdicts."""
    at = n[FOUND_N]
    for column in range(found.shape[1]):
        found[at, column] = -1
    for m in range(t[BRANCHES, branch, 4], t[BRANCHES, branch, 5]):
        step = t[MEMBERS, m, 0]
        found[at, FACTS + step] = partial[step]
    found[at, BRANCH], found[at, CAUSE], found[at, COMPLETING] = branch, cause, completing
    n[FOUND_N] = at + 1
    return int(at)


@inline
def _completed(s: Search, tour: int, row: int) -> bool:
    """A new match, unless it is invalidated already; False without room."""
    n = s.scalars
    if n[FOUND_N] == len(s.found):
        return False
    branch, first_doubt = s.t[TOURS, tour, 0], n[DOUBTS_N]
    for scope in range(s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]):
        if spread_of(n) or not settled(s.t, tour, scope):
            killed = scan(s, scope, row, FOR_EVER)
            if killed:
                n[DOUBTS_N] = first_doubt
                return killed > 0
    t_a = _latest_t_a(s, row, first_doubt)
    verdict = matched(s, branch, t_a)
    if verdict == IMPOSSIBLE:
        n[DOUBTS_N] = first_doubt
        return True
    sure = verdict == CERTAIN
    at = _write(s.t, n, s.partial, s.found, branch, row, row)
    s.found[at, NEW] = s.found[at, STANDS] = 1
    s.found[at, SURE], s.found[at, SURE_BEFORE] = sure, 0
    s.found[at, T_A_NOW], s.found[at, T_A_BEFORE] = t_a, 0
    return True


@inline
def _is(s: Search, scope: int, row: int) -> bool:
    """Whether ``row`` can be the scope's negated step."""
    return bool((s.events[row, MEMBER] >> s.t[SCOPES, scope, 1]) & 1 == 1)


@kernel
def _changed(s: Search, tour: int, row: int) -> bool:
    """An older match that ``row``, of a negated step, invalidates or puts in doubt; False without
    room.
    """
    e, n = s.events, s.scalars
    if n[FOUND_N] == len(s.found):
        return False
    branch, scope = s.t[TOURS, tour, 0], s.t[TOURS, tour, 2]
    first, stop = s.t[BRANCHES, branch, 0], s.t[BRANCHES, branch, 1]
    completing = -1
    for m in range(s.t[BRANCHES, branch, 4], s.t[BRANCHES, branch, 5]):
        mine = s.partial[s.t[MEMBERS, m, 0]]
        if completing < 0 or e[mine, ORDER] > e[completing, ORDER]:
            completing = mine
    for m in range(s.t[BRANCHES, branch, 4], s.t[BRANCHES, branch, 5]):
        if e[s.partial[s.t[MEMBERS, m, 0]], EXPIRES] < e[completing, HORIZON]:
            return True
    until = alive_until(s.t, e, s.partial, branch, n[KEEP])
    if until < e[row, HORIZON]:
        return True
    if n[MAX_DELAY] and not matched(s, branch, e[completing, T_A]):
        return True
    for other in range(first, scope + 1):
        # One change, however many scopes it lies in: the first of them tells.
        lies = lies_in(s, other, row, e[row, T_A]) if _is(s, other, row) else IMPOSSIBLE
        if (lies != IMPOSSIBLE) == (other < scope):
            return True
    first_doubt = n[DOUBTS_N]
    for other in range(first, stop):
        killed = scan(s, other, completing, until)
        if killed:
            n[DOUBTS_N] = first_doubt
            return killed > 0
    t_a_before = _latest_t_a(s, completing, first_doubt)
    stands = 1
    for other in range(scope, stop):
        lies = lies_in(s, other, row, e[row, T_A]) if _is(s, other, row) else IMPOSSIBLE
        if lies == CERTAIN:
            stands = 0
        elif lies == POSSIBLE and not note_doubt(n, s.doubts, row, other):
            n[DOUBTS_N] = first_doubt
            return False
    t_a = _latest_t_a(s, completing, first_doubt)
    sure_before = matched(s, branch, t_a_before) == CERTAIN
    sure = matched(s, branch, t_a) == CERTAIN
    at = _write(s.t, n, s.partial, s.found, branch, row, completing)
    s.found[at, NEW], s.found[at, STANDS] = 0, stands
    s.found[at, SURE], s.found[at, SURE_BEFORE] = sure, sure_before
    s.found[at, T_A_NOW], s.found[at, T_A_BEFORE] = t_a, t_a_before
    return True


@inline
def _walk(s: Search, tour: int, row: int) -> bool:
    """One tour from ``row``; False when there is no room in ``found``."""
    branch, negative = s.t[TOURS, tour, 0], s.t[TOURS, tour, 2] >= 0
    first, hops = s.t[TOURS, tour, 3], s.t[TOURS, tour, 4] - s.t[TOURS, tour, 3]
    for step in range(len(s.partial)):
        s.partial[step] = -1
    s.partial[s.t[TOURS, tour, 1]] = row
    # What it finds is tested again with the T_a in force then.
    t_a = s.scalars[WIDEST_T_A] if negative else s.events[row, T_A]
    depth, opens, room = 0, hops > 0, True
    while depth >= 0 and room:
        hop, ends = first + depth, hops == 0
        if not ends:
            s.partial[s.t[HOPS, hop, 0]] = -1
            if opens:
                _open(s, hop, depth, row)
                opens = False
            if s.depths[depth, 0] == s.depths[depth, 1]:
                depth -= 1
                continue
            candidate = s.stacks.entry[s.depths[depth, 0], ROW]
            s.depths[depth, 0] += 1
            s.stacks.used[LOOKED] += 1
            if not _fits(s, hop, branch, candidate, row, t_a):
                continue
            ends = depth + 1 == hops
        if ends:
            room = _changed(s, tour, row) if negative else _completed(s, tour, row)
            depth = depth if hops else -1
        else:
            depth += 1
            opens = True
    return room


@kernel
def construct(s: Search, first: int, stop: int) -> tuple[int, int]:
    """Go through the new events ``first`` to ``stop`` of the store, in release order.

    Returns:
        the first row that was not gone through, and why: DONE, STACKS_FULL or FOUND_FULL. Called
        again with more room it goes on there.
    """
    n = s.scalars
    for row in range(first, stop):
        purge_until(s, 2 * s.events[row, ORDER], row)
        n[WIDEST] = max(n[WIDEST], s.events[row, UNC])
        n[WIDEST_T_A] = max(n[WIDEST_T_A], s.events[row, T_A])
        member = s.events[row, MEMBER]
        if not _has_room(s, row):
            return row, STACKS_FULL
        written, doubts, looked = n[FOUND_N], n[DOUBTS_N], s.stacks.used[LOOKED]
        for tour in range(n[TOURS_N]):
            if (member >> s.t[TOURS, tour, 1]) & 1 and not _walk(s, tour, row):
                n[FOUND_N], n[DOUBTS_N], s.stacks.used[LOOKED] = written, doubts, looked
                return row, FOUND_FULL
        for i in range(n[INDEXES_N]):
            if (member >> s.t[INDEXES, i, 0]) & 1:
                key = _own_key(s.t, s.same, i, row)
                insert(s.stacks, key, s.events[row, REF], row, _beside(s, i, row))
        n[CLOCK] = max(n[CLOCK], s.events[row, REF])
        n[UNPURGED] += 1
    purge_until(s, FOR_EVER, stop)
    return stop, DONE


@inline
def _beside(s: Search, index: int, row: int) -> Beside:
    newest = s.scalars[AIS_CLOCK] * (s.events[row, REF] > s.scalars[CLOCK])
    return Beside(
        index, s.t[INDEXES, index, 3], s.t[INDEXES, index, 4], s.scalars[RIP], s.scalars[RIN],
        newest,
    )  # fmt: skip


@inline
def _has_room(s: Search, row: int) -> bool:
    """Whether ``row`` can be put in all its stacks."""
    stacks, entries = 0, 0
    for i in range(s.scalars[INDEXES_N]):
        if (s.events[row, MEMBER] >> s.t[INDEXES, i, 0]) & 1:
            stacks += 1
            entries += needed(s.stacks, i, _own_key(s.t, s.same, i, row))
    fits = s.stacks.used[STACKS] + stacks <= len(s.stacks.stack)
    return bool(fits and s.stacks.used[POOL] + entries <= len(s.stacks.entry))


@kernel
def _own_key(t: np.ndarray, same: np.ndarray, index: int, row: int) -> int:
    """The key of ``row`` in an index of its step."""
    found = 0
    for r in range(t[INDEXES, index, 1], t[INDEXES, index, 2]):
        found = mixed(found, same[t[REGISTERS, r, 0], row])
    return found
