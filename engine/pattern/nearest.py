"""How the events of negated steps bound a search: beyond the nearest one nothing is left to find.

A hop that finds one end of a scope, while the other end (or an event in the scope) is known, need
not look further than the nearest event of the negated step that certainly counts: whatever lies
beyond it was invalidated by it. This is what keeps the work in proportion to the output.
"""

from __future__ import annotations

from engine.jit import inline, kernel
from engine.pattern.search import (
    EXPIRES,
    HORIZON,
    REF,
    WITHIN,
    Search,
    among,
    key_of,
    keys_equal,
    slack_of,
    spread_of,
)  # fmt: skip
from engine.pattern.stacks import ROW, SIZE, START, find, first_not_below
from engine.pattern.tables import (
    AFTER,
    BEFORE,
    LOW,
    NOT_LONG_AFTER,
    NOT_LONG_BEFORE,
    PRUNES,
    RELATIONS,
    SCOPES,
)  # fmt: skip


@kernel
def narrowed(s: Search, prune: int, row: int, low: int, high: int) -> tuple[int, int]:
    """The range ``low`` to ``high`` of times without what the nearest event rules out.

    Args:
        s: the search.
        prune: which scope, and which end of it is looked for.
        row: the event that the tour started from.
        low: least time.
        high: largest time.
    """
    found = _nearest(s, prune, row)
    if found < 0:
        return low, high
    scope, side, n = s.t[PRUNES, prune, 0], s.t[PRUNES, prune, 1], s.scalars
    ref, slack = s.events[found, REF], slack_of(n, s.events, found)
    for r in range(s.t[SCOPES, scope, 5], s.t[SCOPES, scope, 6]):
        bits = s.t[RELATIONS, r, 1]
        if side == LOW and bits & AFTER:
            low = max(low, ref - slack)
        elif side == LOW and bits & NOT_LONG_BEFORE:
            low = max(low, ref + n[WITHIN] - slack + 1)
        elif side != LOW and bits & BEFORE:
            high = min(high, ref + slack)
        elif side != LOW and bits & NOT_LONG_AFTER:
            high = min(high, ref - n[WITHIN] + slack - 1)
    return low, high


@inline
def _limit(s: Search, prune: int, scope: int, side: int) -> int:
    """Where events of the negated step begin to lie in the scope for certain, seen from the end
    that is known.
    """
    n, e = s.scalars, s.events
    if s.t[PRUNES, prune, 2]:
        # Beyond the scope's own event: what lies so far from it lies in the scope if it may.
        own = e[s.partial[s.t[SCOPES, scope, 1]], REF]
        return int(own - 3 * spread_of(n) if side == LOW else own + 3 * spread_of(n))
    limit = 0
    for r in range(s.t[SCOPES, scope, 5], s.t[SCOPES, scope, 6]):
        end, bits = s.partial[s.t[RELATIONS, r, 0]], s.t[RELATIONS, r, 1]
        if side == LOW and bits & BEFORE:
            limit = e[end, REF] - slack_of(n, e, end) - 1
        elif side == LOW and bits & NOT_LONG_AFTER:
            limit = e[end, REF] + n[WITHIN] - slack_of(n, e, end)
        elif side != LOW and bits & AFTER:
            limit = e[end, REF] + slack_of(n, e, end) + 1
        elif side != LOW and bits & NOT_LONG_BEFORE:
            limit = e[end, REF] - n[WITHIN] + slack_of(n, e, end)
    return int(limit)


@inline
def _nearest(s: Search, prune: int, row: int) -> int:
    """The event of the negated step that is held, certainly in the scope as far as the known end
    says, and nearest to that end; -1 if there is none.
    """
    scope, side = s.t[PRUNES, prune, 0], s.t[PRUNES, prune, 1]
    from_, to = s.t[PRUNES, prune, 3], s.t[PRUNES, prune, 4]
    stack = find(s.stacks, s.t[SCOPES, scope, 2], key_of(s.t, s.same, s.partial, from_, to))
    if stack < 0:
        return -1
    limit = _limit(s, prune, scope, side)
    start, size = s.stacks.stack[stack, START], s.stacks.stack[stack, SIZE]
    at, step = first_not_below(s.stacks.entry, start, size, limit), 1
    if side == LOW:
        at, step = first_not_below(s.stacks.entry, start, size, limit + 1) - 1, -1
    while start <= at < start + size:
        found = s.stacks.entry[at, ROW]
        held = s.events[found, EXPIRES] >= s.events[row, HORIZON]
        held = held and not among(s.t, s.partial, s.t[SCOPES, scope, 0], found)
        if held and keys_equal(s.t, s.same, s.tag, s.partial, from_, to, found):
            return int(found)
        at += step
    return -1
