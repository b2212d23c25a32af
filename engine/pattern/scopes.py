"""Which events of negated steps lie in the scopes of a match, certainly or possibly.

L09's WinNeg for one match at a time, with clocks that err.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.jit import kernel
from engine.pattern.search import (
    CERTAIN,
    DOUBTS_N,
    EXPIRES,
    FOUND_N,
    HORIZON,
    IMPOSSIBLE,
    ORDER,
    POSSIBLE,
    REF,
    T_A,
    UNC,
    Search,
    among,
    conditions_met,
    highest,
    key_of,
    keys_equal,
    lowest,
    relations_hold,
)
from engine.pattern.stacks import ROW, SIZE, START, TIME, find, first_not_below
from engine.pattern.tables import BRANCHES, HOPS, MEMBERS, PRUNES, SCOPES, TOURS

FOR_EVER: Final = 2**63 - 1

# Columns of ``Search.doubts``.
OF_MATCH: Final = 0
BY_ROW: Final = 1
IN_SCOPE: Final = 2
DOUBT: Final = 3


@kernel
def lies_in(s: Search, scope: int, event: int, t_a: int) -> int:
    """Whether ``event`` lies in the scope: impossible, possible or certain."""
    from_, to = s.t[SCOPES, scope, 5], s.t[SCOPES, scope, 6]
    found = relations_hold(s.t, s.scalars, s.events, s.partial, from_, to, event, t_a)
    from_, to = s.t[SCOPES, scope, 3], s.t[SCOPES, scope, 4]
    if found == IMPOSSIBLE or not keys_equal(s.t, s.same, s.tag, s.partial, from_, to, event):
        return IMPOSSIBLE
    step = s.t[SCOPES, scope, 1]
    before = s.partial[step]
    s.partial[step] = event
    found = min(found, conditions_met(s, s.t[SCOPES, scope, 7], s.t[SCOPES, scope, 8], t_a))
    s.partial[step] = before
    return found


@kernel
def note_doubt(n: np.ndarray, doubts: np.ndarray, event: int, scope: int) -> bool:
    """Notes a doubt about the match that is being written; False if there is no room."""
    at = n[DOUBTS_N]
    if at == len(doubts):
        return False
    doubts[at, OF_MATCH], doubts[at, BY_ROW], doubts[at, IN_SCOPE] = n[FOUND_N], event, scope
    n[DOUBTS_N] = at + 1
    return True


@kernel
def alive_until(t: np.ndarray, e: np.ndarray, partial: np.ndarray, branch: int, keep: int) -> int:
    """The last progress at which a new negative event still changes the match: no later than any
    of its events expires, even if each clock errs the worst way.
    """
    if keep < 0:
        return FOR_EVER
    first, slack = FOR_EVER, 0
    for m in range(t[BRANCHES, branch, 4], t[BRANCHES, branch, 5]):
        row = partial[t[MEMBERS, m, 0]]
        first, slack = min(first, e[row, REF]), max(slack, e[row, UNC], e[row, T_A])
    return first - slack + keep


@kernel
def settled(t: np.ndarray, tour: int, scope: int) -> bool:
    """Whether the hops have left out every match with an event in this scope, if no clock errs."""
    for h in range(t[TOURS, tour, 3], t[TOURS, tour, 4]):
        for p in range(t[HOPS, h, 8], t[HOPS, h, 9]):
            if t[PRUNES, p, 0] == scope and not t[PRUNES, p, 2]:
                return True
    return False


@kernel
def scan(s: Search, scope: int, completing: int, until: int) -> int:
    """Looks at the events held that may lie in the scope, and notes the doubts.

    A match and such an event meet when the later of the two is there. It counts if neither was too
    old then: progress had not passed what the earlier one is kept for.

    Returns:
        1 if one certainly does, 0 if none, -1 without room for doubts.
    """
    e, entry = s.events, s.stacks.entry
    key = key_of(s.t, s.same, s.partial, s.t[SCOPES, scope, 3], s.t[SCOPES, scope, 4])
    stack = find(s.stacks, s.t[SCOPES, scope, 2], key)
    if stack < 0:
        return 0
    from_, to = s.t[SCOPES, scope, 5], s.t[SCOPES, scope, 6]
    high = highest(s.t, s.scalars, e, s.partial, from_, to)
    low = lowest(s.t, s.scalars, e, s.partial, from_, to)
    start, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at = first_not_below(entry, start, size, low)
    while at < start + size and entry[at, TIME] <= high:
        event = entry[at, ROW]
        at += 1
        meeting = completing
        if e[event, ORDER] < e[completing, ORDER]:
            held = e[event, EXPIRES] >= e[completing, HORIZON]
        else:
            held = until >= e[event, HORIZON]
            meeting = event
        if held and not among(s.t, s.partial, s.t[SCOPES, scope, 0], event):
            lies = lies_in(s, scope, event, e[meeting, T_A])
            if lies == CERTAIN:
                return 1
            if lies == POSSIBLE and not note_doubt(s.scalars, s.doubts, event, scope):
                return -1
    return 0
