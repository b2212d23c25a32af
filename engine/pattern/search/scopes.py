"""Which events of negated steps lie in the scopes of a match, certainly or possibly.

L09's WinNeg for one match at a time, with clocks that err.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.records import record
from engine.pattern.compiled.records import Tables
from engine.pattern.search.stacks import find, first_not_below
from engine.pattern.search.state import (
    CERTAIN,
    IMPOSSIBLE,
    POSSIBLE,
    Search,
    among,
    conditions_met,
    highest,
    key_of,
    keys_equal,
    lowest,
    relations_hold,
)

FOR_EVER: Final = 2**63 - 1

DOUBT: Final = record("match", "event", "scope")
"""The event at a row may lie in a scope of a match, which is a row of ``Search.found``."""


@kernel
def lies_in(s: Search, scope: int, event: int, t_a: int) -> int:
    """Whether ``event`` lies in the scope: impossible, possible or certain; one that may not have
    happened does so possibly at most.
    """
    of = s.t.scopes[scope]
    found = relations_hold(
        s.t.pairs, s.t.relations, s.state[0], s.events, s.partial, of.pairs_from, of.pairs_to,
        event, t_a,
    )  # fmt: skip
    if found == IMPOSSIBLE or not keys_equal(
        s.t.keys, s.same, s.tag, s.partial, of.keys_from, of.keys_to, event
    ):
        return IMPOSSIBLE
    before = s.partial[of.step]
    s.partial[of.step] = event
    found = min(found, conditions_met(s, of.conditions_from, of.conditions_to, t_a))
    s.partial[of.step] = before
    return min(found, POSSIBLE) if s.events[event].doubted else found


@kernel
def note_doubt(now: np.record, doubts: np.ndarray, event: int, scope: int) -> bool:
    """Notes a doubt about the match that is being written; False if there is no room."""
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
    """The last progress at which a new negative event still changes the match with a range of
    ``members``: no later than any of its events expires, even if each clock errs the worst way.
    """
    if keep < 0:
        return FOR_EVER
    first, slack = FOR_EVER, 0
    for m in range(from_, to):
        event = e[partial[members[m].step]]
        first, slack = min(first, event.ref), max(slack, event.unc, event.t_a)
    return first - slack + keep


@inline
def settled(t: Tables, join_order: int, scope: int) -> bool:
    """Whether, if no clock errs, the probes leave out every match with an event in this scope."""
    for p in range(t.join_orders[join_order].probes_from, t.join_orders[join_order].probes_to):
        for b in range(t.probes[p].bounds_from, t.probes[p].bounds_to):
            if t.bounds[b].scope == scope and not t.bounds[b].by_event:
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
    e, entry, now, of = s.events, s.stacks.entry, s.state[0], s.t.scopes[scope]
    key = key_of(s.t.keys, s.same, s.partial, of.keys_from, of.keys_to)
    found = find(s.stacks, of.index, key)
    if found < 0:
        return 0
    first, last = s.t.branches[of.branch].members_from, s.t.branches[of.branch].members_to
    from_, to = of.pairs_from, of.pairs_to
    high = highest(s.t.pairs, s.t.relations, now, e, s.partial, from_, to, 0)
    low = lowest(s.t.pairs, s.t.relations, now, e, s.partial, from_, to, 0)
    stack = s.stacks.stack[found]
    at, stop = first_not_below(entry, stack.start, stack.size, low), stack.start + stack.size
    while at < stop and entry[at].time <= high:
        event = entry[at].row
        at += 1
        meeting = completing
        if e[event].order < e[completing].order:
            held = e[event].expires >= e[completing].horizon
        else:
            held = until >= e[event].horizon
            meeting = event
        if held and not among(s.t.members, s.partial, first, last, event):
            lies = lies_in(s, scope, event, e[meeting].t_a)
            if lies == CERTAIN:
                return 1
            if lies == POSSIBLE and not note_doubt(now, s.doubts, event, scope):
                return -1
    return 0
