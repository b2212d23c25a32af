"""How the events of negated steps bound a search: beyond the nearest one nothing is left to find.

A probe that finds one end of a scope, while the other end (or an event in the scope) is known, need
not look further than the nearest event of the negated step that certainly counts: whatever lies
beyond it was invalidated by it. This is what keeps the work in proportion to the output.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inline
from engine.pattern.compiled.records import LOW
from engine.pattern.search.stacks import find, first_not_below
from engine.pattern.search.state import (
    Search,
    among,
    key_of,
    keys_equal,
    slack_of,
    spread_of,
)


@inline
def narrowed(s: Search, bound: int, row: int, low: int, high: int) -> tuple[int, int]:
    """The range ``low`` to ``high`` of times without what the nearest event rules out.

    Args:
        s: the search.
        bound: number of the bound: which scope, and which end of it is looked for.
        row: the event that the join order started from.
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
    """Where events of the negated step begin to lie in the scope for certain, seen from the end
    that is known.
    """
    now, e, side = s.state[0], s.events, bound.side
    if bound.by_event:
        # Beyond the scope's own event: what lies so far from it lies in the scope if it may.
        own = e[s.partial[scope.step]].ref
        return int(own - 3 * spread_of(now) if side == LOW else own + 3 * spread_of(now))
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
    """The event of the negated step that is held, certainly in the scope as far as the known end
    says, and nearest to that end; -1 if there is none.
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
        held = s.events[found].expires >= s.events[row].horizon
        held = held and not s.events[found].doubted
        held = held and not among(s.t.members, s.partial, first, last, found)
        if held and keys_equal(s.t.keys, s.same, s.tag, s.partial, from_, to, found):
            return int(found)
        at += step
    return -1
