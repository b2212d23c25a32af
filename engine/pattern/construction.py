"""Sequence construction: what each new event does to matches, event by event, depth first.

A new event of a positive step completes matches with events that came before it; one of a negated
step meets matches in whose scope it lies or may lie (L09 VII, Algorithms 3 and 4; L10 4.5). Both
are enumerated along the hops of a tour (``engine.pattern.tables``): a hop looks up a range of one
stack, bounded by the order of steps, WITHIN, and by the nearest event of a negated step, beyond
which everything has been invalidated. Where clocks do not err and nothing but order, WITHIN and
keys joins the steps, every candidate belongs to a match: the work is in proportion to the output.

Clock errors widen the ranges by what may be wrong; what is found is then tested pair by pair
(``engine.pattern.certainty`` says how), and is *possible* or *certain*.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import inline, kernel
from engine.pattern.program_machine import Programs, holds
from engine.pattern.stacks import (
    LOOKED, POOL, SLOTS, Stacks, find, first_not_below, insert, mixed, needed, trim,
)  # fmt: skip
from engine.pattern.tables import (
    AFTER, BEFORE, LOW, NOT_LONG_AFTER, NOT_LONG_BEFORE, Tables,
)  # fmt: skip
from engine.released import NO_EPOCH

_MAX: Final = 2**63 - 1
_FAR: Final = 2**62
UPPER: Final = (BEFORE, NOT_LONG_AFTER)
"""Relations that bound a scope above."""
IMPOSSIBLE: Final = 0
POSSIBLE: Final = 1
CERTAIN: Final = 2

# Why ``construct`` stopped.
DONE: Final = 0
STACKS_FULL: Final = 1
OUT_FULL: Final = 2

# Columns of ``Out.facts``.
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
T_A: Final = 8
FACTS: Final = 9
# Columns of ``Out.doubts``.
OF_MATCH: Final = 0
BY_ROW: Final = 1
IN_SCOPE: Final = 2
FRESH: Final = 3
"""1: by the cause, so not yet before it."""
DOUBT: Final = 4


class Events(NamedTuple):
    """Columns of the store."""

    ref: np.ndarray
    unc: np.ndarray
    epoch: np.ndarray
    source: np.ndarray
    order: np.ndarray
    expires: np.ndarray
    member: np.ndarray
    frontier: np.ndarray
    t_a: np.ndarray


class Registers(NamedTuple):
    """(registers, events): values for conditions, and for keys.

    ``raw`` and ``ok`` as in ``engine.pattern.program``. ``same`` and ``tag``: two values are equal
    when both are and ``tag`` is not 0, which stands for null.
    """

    raw: np.ndarray
    ok: np.ndarray
    same: np.ndarray
    tag: np.ndarray


class Rules(NamedTuple):
    """``max_delay``: 1 for R19's rule. ``within`` and ``keep``: ns, -1 for none."""

    max_delay: int
    within: int
    keep: int


class Out(NamedTuple):
    """``rows``: (room, steps); ``facts``: (room, FACTS); ``doubts``: (room, 4); ``used``: of both."""

    rows: np.ndarray
    facts: np.ndarray
    doubts: np.ndarray
    used: np.ndarray


class Work(NamedTuple):
    """Scratch: ``partial`` by step, ``place`` and ``stop`` by depth; ``widest``: the largest
    uncertainty and T_a of any event.
    """

    partial: np.ndarray
    place: np.ndarray
    stop: np.ndarray
    widest: np.ndarray


class Search(NamedTuple):
    """All that does not change while events are gone through."""

    tables: Tables
    events: Events
    registers: Registers
    rules: Rules
    programs: Programs
    ranks: np.ndarray
    stacks: Stacks
    out: Out
    work: Work


@inline
def _bound(s: Search, mine: int, other: int, t_a: int) -> int:
    """How far the difference of two times may be off [ns]."""
    e = s.events
    if e.epoch[mine] == e.epoch[other] != NO_EPOCH and e.source[mine] == e.source[other]:
        return 0
    return t_a if s.rules.max_delay else e.unc[mine] + e.unc[other]


@inline
def _related(s: Search, bits: int, mine: int, other: int, t_a: int) -> int:
    """Whether all relations ``bits`` are impossible, possible or certain."""
    bound = _bound(s, mine, other, t_a)
    later = s.events.ref[mine] - s.events.ref[other]
    found = CERTAIN
    if bits & BEFORE:
        found = min(found, _positive(-later, bound))
    if bits & AFTER:
        found = min(found, _positive(later, bound))
    if bits & NOT_LONG_BEFORE:
        found = min(found, _at_most(-later, s.rules.within, bound))
    if bits & NOT_LONG_AFTER:
        found = min(found, _at_most(later, s.rules.within, bound))
    return found


@inline
def _positive(ahead: int, bound: int) -> int:
    if ahead > bound:
        return CERTAIN
    return POSSIBLE if bound and ahead >= -bound else IMPOSSIBLE


@inline
def _at_most(apart: int, longest: int, bound: int) -> int:
    if apart <= longest - bound:
        return CERTAIN
    return POSSIBLE if apart <= longest + bound else IMPOSSIBLE


@inline
def _slack(s: Search, row: int) -> int:
    """How far the difference of its time to any other may be off."""
    return s.work.widest[1] if s.rules.max_delay else s.events.unc[row] + s.work.widest[0]


@inline
def _key_of(s: Search, from_: int, to: int) -> int:
    """The key that the partner must have; 0 with a null, which equals nothing (tested later)."""
    keys, found = s.tables.keys, 0
    for k in range(from_, to):
        found = mixed(found, s.registers.same[keys[k, 2], s.work.partial[keys[k, 1]]])
    return found


@inline
def _keys_equal(s: Search, from_: int, to: int, mine: int) -> bool:
    keys, r = s.tables.keys, s.registers
    for k in range(from_, to):
        other = s.work.partial[keys[k, 1]]
        tag = r.tag[keys[k, 0], mine]
        if tag == 0 or tag != r.tag[keys[k, 2], other]:
            return False
        if r.same[keys[k, 0], mine] != r.same[keys[k, 2], other]:
            return False
    return True


@inline
def _conditions_hold(s: Search, from_: int, to: int) -> bool:
    """Of the events in ``partial``."""
    for c in range(from_, to):
        if not holds(
            s.programs, s.ranks, s.tables.conditions[c], s.work.partial, s.registers.raw,
            s.registers.ok,
        ):  # fmt: skip
            return False
    return True


@inline
def _among(s: Search, branch: int, row: int) -> bool:
    """Whether ``row`` is one of the match's events."""
    for m in range(s.tables.branches[branch, 4], s.tables.branches[branch, 5]):
        if s.work.partial[s.tables.members[m]] == row:
            return True
    return False


@inline
def _low(s: Search, from_: int, to: int) -> int:
    """The least time that the relations leave possible."""
    relations, low = s.tables.relations, -_FAR
    for r in range(from_, to):
        other = s.work.partial[relations[r, 0]]
        ref, slack = s.events.ref[other], _slack(s, other)
        if relations[r, 1] & AFTER:
            low = max(low, ref - slack if slack else ref + 1)
        if s.rules.within >= 0:
            # Between two steps there may lie three uncertain comparisons: e, first, last, f.
            more = slack if relations[r, 1] & NOT_LONG_BEFORE else 3 * _spread(s)
            low = max(low, ref - s.rules.within - more)
    return low


@inline
def _high(s: Search, from_: int, to: int) -> int:
    """The largest time that the relations leave possible."""
    relations, high = s.tables.relations, _FAR
    for r in range(from_, to):
        other = s.work.partial[relations[r, 0]]
        ref, slack = s.events.ref[other], _slack(s, other)
        if relations[r, 1] & BEFORE:
            high = min(high, ref + slack if slack else ref - 1)
        if s.rules.within >= 0:
            more = slack if relations[r, 1] & NOT_LONG_AFTER else 3 * _spread(s)
            high = min(high, ref + s.rules.within + more)
    return high


@inline
def _spread(s: Search) -> int:
    """How far the difference of any two times may be off."""
    return s.work.widest[1] if s.rules.max_delay else 2 * s.work.widest[0]


@inline
def _nearest(s: Search, prune: int, row: int) -> int:
    """The event of a negated step that lies certainly in the scope, as far as its known end says,
    and nearest to that end; -1 if none is held.
    """
    prunes, e, spread = s.tables.prunes, s.events, _spread(s)
    scope, side = prunes[prune, 0], prunes[prune, 1]
    scopes, relations = s.tables.scopes, s.tables.relations
    stack = find(s.stacks, scopes[scope, 2], _key_of(s, prunes[prune, 3], prunes[prune, 4]))
    if stack < 0:
        return -1
    limit = 0
    if prunes[prune, 2]:
        # Beyond the scope's own event: what lies so far from it lies in the scope if it may.
        own = e.ref[s.work.partial[scopes[scope, 1]]]
        limit = own - 3 * spread if side == LOW else own + 3 * spread
    else:
        for r in range(scopes[scope, 5], scopes[scope, 6]):
            bits, end = relations[r, 1], s.work.partial[relations[r, 0]]
            if side == LOW and bits & BEFORE:
                limit = e.ref[end] - _slack(s, end) - 1
            elif side == LOW and bits & NOT_LONG_AFTER:
                limit = e.ref[end] + s.rules.within - _slack(s, end)
            elif side != LOW and bits & AFTER:
                limit = e.ref[end] + _slack(s, end) + 1
            elif side != LOW and bits & NOT_LONG_BEFORE:
                limit = e.ref[end] - s.rules.within + _slack(s, end)
    start, step = s.stacks.start[stack], 1
    stop = start + s.stacks.size[stack]
    at = first_not_below(s.stacks, stack, limit)
    if side == LOW:
        at, step = first_not_below(s.stacks, stack, limit + 1) - 1, -1
    while start <= at < stop:
        found = s.stacks.row[at]
        if e.expires[found] >= e.frontier[row] and not _among(s, scopes[scope, 0], found):
            if _keys_equal(s, prunes[prune, 3], prunes[prune, 4], found):
                return found
        at += step
    return -1


@inline
def _open(s: Search, hop: int, depth: int, row: int) -> None:
    """Set the range of candidates for the hop at ``depth``."""
    h, e = s.tables.hops, s.events
    s.work.place[depth] = s.work.stop[depth] = 0
    stack = find(s.stacks, h[hop, 1], _key_of(s, h[hop, 2], h[hop, 3]))
    if stack < 0:
        return
    low, high = _low(s, h[hop, 4], h[hop, 5]), _high(s, h[hop, 4], h[hop, 5])
    for p in range(h[hop, 8], h[hop, 9]):
        found = _nearest(s, p, row)
        if found < 0:
            continue
        scope, side = s.tables.prunes[p, 0], s.tables.prunes[p, 1]
        ref, slack = e.ref[found], _slack(s, found)
        for r in range(s.tables.scopes[scope, 5], s.tables.scopes[scope, 6]):
            bits = s.tables.relations[r, 1]
            if side == LOW and bits & AFTER:
                low = max(low, ref - slack)
            elif side == LOW and bits & NOT_LONG_BEFORE:
                low = max(low, ref + s.rules.within - slack + 1)
            elif side != LOW and bits & BEFORE:
                high = min(high, ref + slack)
            elif side != LOW and bits & NOT_LONG_AFTER:
                high = min(high, ref - s.rules.within + slack - 1)
    if low <= high:
        trim(s.stacks, stack, e.expires, e.frontier[row])
        s.work.place[depth] = first_not_below(s.stacks, stack, low)
        s.work.stop[depth] = first_not_below(s.stacks, stack, high + 1)


@inline
def _fits(s: Search, hop: int, branch: int, mine: int, row: int, t_a: int) -> bool:
    """Whether ``mine`` can take the hop's step, as far as can be told yet."""
    h, relations = s.tables.hops, s.tables.relations
    if s.events.expires[mine] < s.events.frontier[row] or _among(s, branch, mine):
        return False
    for r in range(h[hop, 4], h[hop, 5]):
        other = s.work.partial[relations[r, 0]]
        if _related(s, relations[r, 1], mine, other, t_a) == IMPOSSIBLE:
            return False
    if not _keys_equal(s, h[hop, 2], h[hop, 3], mine):
        return False
    s.work.partial[h[hop, 0]] = mine
    fine = _conditions_hold(s, h[hop, 6], h[hop, 7])
    s.work.partial[h[hop, 0]] = -1
    return fine


@inline
def _surely(s: Search, branch: int, t_a: int) -> int:
    """Whether the positive events are a match: impossible, possible or certain."""
    found = CERTAIN
    for p in range(s.tables.branches[branch, 2], s.tables.branches[branch, 3]):
        mine, other = s.tables.pairs[p, 0], s.tables.pairs[p, 1]
        bits = s.tables.pairs[p, 2]
        found = min(
            found, _related(s, bits, s.work.partial[mine], s.work.partial[other], t_a)
        )
    return found


@inline
def _lies(s: Search, scope: int, event: int, t_a: int) -> int:
    """Whether ``event`` lies in the scope: impossible, possible or certain."""
    c, relations, found = s.tables.scopes, s.tables.relations, CERTAIN
    for r in range(c[scope, 5], c[scope, 6]):
        other = s.work.partial[relations[r, 0]]
        found = min(found, _related(s, relations[r, 1], event, other, t_a))
    if found == IMPOSSIBLE or not _keys_equal(s, c[scope, 3], c[scope, 4], event):
        return IMPOSSIBLE
    before = s.work.partial[c[scope, 1]]
    s.work.partial[c[scope, 1]] = event
    fine = _conditions_hold(s, c[scope, 7], c[scope, 8])
    s.work.partial[c[scope, 1]] = before
    return found if fine else IMPOSSIBLE


@inline
def _doubt(s: Search, event: int, scope: int, fresh: int) -> bool:
    """Notes a doubt about the match that is being written; False if there is no room."""
    n = s.out.used[1]
    if n == len(s.out.doubts):
        return False
    doubts = s.out.doubts
    doubts[n, OF_MATCH], doubts[n, BY_ROW] = s.out.used[0], event
    doubts[n, IN_SCOPE], doubts[n, FRESH] = scope, fresh
    s.out.used[1] = n + 1
    return True


@inline
def _alive_until(s: Search, branch: int) -> int:
    """The last progress at which a new negative event still changes the match: no later than any
    of its events expires, even if each clock errs the worst way.
    """
    if s.rules.keep < 0:
        return _MAX
    first, slack, e = _MAX, 0, s.events
    for m in range(s.tables.branches[branch, 4], s.tables.branches[branch, 5]):
        row = s.work.partial[s.tables.members[m]]
        first = min(first, e.ref[row])
        slack = max(slack, e.unc[row], e.t_a[row])
    return first - slack + s.rules.keep


@inline
def _settled(s: Search, tour: int, scope: int) -> bool:
    """Whether the hops have left out every match with an event in this scope."""
    if _spread(s):
        return False
    for h in range(s.tables.tours[tour, 3], s.tables.tours[tour, 4]):
        for p in range(s.tables.hops[h, 8], s.tables.hops[h, 9]):
            if s.tables.prunes[p, 0] == scope and not s.tables.prunes[p, 2]:
                return True
    return False


@inline
def _scan(s: Search, scope: int, completing: int, alive_until: int) -> int:
    """Looks at the events held that may lie in the scope, and notes the doubts.

    A match and such an event meet when the later of the two is there. It counts if neither was too
    old then: progress had not passed what the earlier one is kept for.

    Returns:
        1 if one certainly does, 0 if none, -1 without room for doubts.
    """
    c, e = s.tables.scopes, s.events
    stack = find(s.stacks, c[scope, 2], _key_of(s, c[scope, 3], c[scope, 4]))
    if stack < 0:
        return 0
    high = _high(s, c[scope, 5], c[scope, 6])
    at = first_not_below(s.stacks, stack, _low(s, c[scope, 5], c[scope, 6]))
    stop = s.stacks.start[stack] + s.stacks.size[stack]
    while at < stop and s.stacks.ref[at] <= high:
        event = s.stacks.row[at]
        at += 1
        meeting = completing
        if e.order[event] < e.order[completing]:
            held = e.expires[event] >= e.frontier[completing]
        else:
            held = alive_until >= e.frontier[event]
            meeting = event
        if held and not _among(s, c[scope, 0], event):
            lies = _lies(s, scope, event, e.t_a[meeting])
            if lies == CERTAIN:
                return 1
            if lies == POSSIBLE and not _doubt(s, event, scope, 0):
                return -1
    return 0


@inline
def _scan_all(s: Search, tour: int, completing: int, alive_until: int, settles: bool) -> int:
    """``_scan`` of the branch's scopes; ``settles``: but for those that hops decide."""
    branch = s.tables.tours[tour, 0]
    for scope in range(s.tables.branches[branch, 0], s.tables.branches[branch, 1]):
        if not (settles and _settled(s, tour, scope)):
            found = _scan(s, scope, completing, alive_until)
            if found:
                return found
    return 0


@inline
def _latest_t_a(s: Search, completing: int, first_doubt: int) -> int:
    """T_a in force when the match changed last."""
    e, latest = s.events, completing
    for d in range(first_doubt, s.out.used[1]):
        row = s.out.doubts[d, BY_ROW]
        if e.order[row] > e.order[latest]:
            latest = row
    return e.t_a[latest]


@inline
def _write(s: Search, branch: int, cause: int, completing: int) -> int:
    """The match's row in ``out``, written but for its verdicts."""
    n = s.out.used[0]
    for step in range(s.out.rows.shape[1]):
        s.out.rows[n, step] = -1
    for m in range(s.tables.branches[branch, 4], s.tables.branches[branch, 5]):
        step = s.tables.members[m]
        s.out.rows[n, step] = s.work.partial[step]
    s.out.facts[n, BRANCH], s.out.facts[n, CAUSE] = branch, cause
    s.out.facts[n, COMPLETING] = completing
    s.out.used[0] = n + 1
    return n


@inline
def _completed(s: Search, tour: int, row: int) -> bool:
    """A new match, unless it is invalidated already; False without room."""
    if s.out.used[0] == len(s.out.rows):
        return False
    branch, first_doubt = s.tables.tours[tour, 0], s.out.used[1]
    killed = 0
    if s.tables.branches[branch, 0] < s.tables.branches[branch, 1]:
        killed = _scan_all(s, tour, row, _MAX, True)
    if killed:
        s.out.used[1] = first_doubt
        return killed > 0
    t_a = _latest_t_a(s, row, first_doubt)
    sure = _surely(s, branch, t_a) == CERTAIN
    n = _write(s, branch, row, row)
    s.out.facts[n, NEW], s.out.facts[n, STANDS] = 1, 1
    s.out.facts[n, SURE], s.out.facts[n, SURE_BEFORE] = sure, 0
    s.out.facts[n, T_A], s.out.facts[n, T_A_BEFORE] = t_a, 0
    return True


@inline
def _changed(s: Search, tour: int, row: int) -> bool:
    """An older match that ``row``, of a negated step, invalidates or puts in doubt."""
    if s.out.used[0] == len(s.out.rows):
        return False
    e, tours, branches = s.events, s.tables.tours, s.tables.branches
    branch, scope = tours[tour, 0], tours[tour, 2]
    completing = -1
    for m in range(branches[branch, 4], branches[branch, 5]):
        mine = s.work.partial[s.tables.members[m]]
        if completing < 0 or e.order[mine] > e.order[completing]:
            completing = mine
    for m in range(branches[branch, 4], branches[branch, 5]):
        if e.expires[s.work.partial[s.tables.members[m]]] < e.frontier[completing]:
            return True
    alive_until = _alive_until(s, branch)
    if alive_until < e.frontier[row]:
        return True
    if s.rules.max_delay and _surely(s, branch, e.t_a[completing]) == IMPOSSIBLE:
        return True
    lies = _lies(s, scope, row, e.t_a[row])
    for other in range(branches[branch, 0], scope):
        # One change, however many scopes it lies in: the first of them tells.
        if _member(s, other, row) and _lies(s, other, row, e.t_a[row]):
            return True
    if not lies:
        return True
    first_doubt = s.out.used[1]
    killed = _scan_all(s, tour, completing, alive_until, False)
    if killed:
        s.out.used[1] = first_doubt
        return killed > 0
    t_a_before = _latest_t_a(s, completing, first_doubt)
    stands = 1
    for other in range(scope, branches[branch, 1]):
        lies = _lies(s, other, row, e.t_a[row]) if _member(s, other, row) else IMPOSSIBLE
        if lies == CERTAIN:
            stands = 0
        elif lies and not _doubt(s, row, other, 1):
            s.out.used[1] = first_doubt
            return False
    t_a = _latest_t_a(s, completing, first_doubt)
    sure_before = _surely(s, branch, t_a_before) == CERTAIN
    sure = _surely(s, branch, t_a) == CERTAIN
    n = _write(s, branch, row, completing)
    s.out.facts[n, NEW], s.out.facts[n, STANDS] = 0, stands
    s.out.facts[n, SURE], s.out.facts[n, SURE_BEFORE] = sure, sure_before
    s.out.facts[n, T_A], s.out.facts[n, T_A_BEFORE] = t_a, t_a_before
    return True


@inline
def _member(s: Search, scope: int, row: int) -> bool:
    return (s.events.member[row] >> s.tables.scopes[scope, 1]) & 1 == 1


@inline
def _walk(s: Search, tour: int, row: int) -> bool:
    """One tour from ``row``; False when there is no room in ``out``."""
    t, h, partial, work = s.tables.tours, s.tables.hops, s.work.partial, s.work
    branch, negative = t[tour, 0], t[tour, 2] >= 0
    first, hops = t[tour, 3], t[tour, 4] - t[tour, 3]
    for m in range(s.tables.branches[branch, 4], s.tables.branches[branch, 5]):
        partial[s.tables.members[m]] = -1
    partial[t[tour, 1]] = row
    # What it finds is tested again with the T_a in force then.
    t_a = work.widest[1] if negative else s.events.t_a[row]
    if not hops:
        return _completed(s, tour, row)
    depth = 0
    _open(s, first, 0, row)
    while depth >= 0:
        hop = first + depth
        partial[h[hop, 0]] = -1
        if work.place[depth] == work.stop[depth]:
            depth -= 1
            continue
        candidate = s.stacks.row[work.place[depth]]
        work.place[depth] += 1
        s.stacks.used[LOOKED] += 1
        if not _fits(s, hop, branch, candidate, row, t_a):
            continue
        partial[h[hop, 0]] = candidate
        if depth + 1 < hops:
            depth += 1
            _open(s, first + depth, depth, row)
        elif not (_changed(s, tour, row) if negative else _completed(s, tour, row)):
            return False
    return True


@kernel
def construct(s: Search, first: int, stop: int) -> tuple[int, int]:
    """Go through the new events ``first`` to ``stop`` of the store, in release order.

    Returns:
        the first row that was not gone through, and why: DONE, STACKS_FULL or OUT_FULL. Called
        again with more room it goes on there.
    """
    e, work = s.events, s.work
    for row in range(first, stop):
        member = e.member[row]
        widest, widest_t_a = work.widest[0], work.widest[1]
        work.widest[0], work.widest[1] = max(widest, e.unc[row]), max(widest_t_a, e.t_a[row])
        if not _has_room(s, row):
            return row, STACKS_FULL
        written, doubts, looked = s.out.used[0], s.out.used[1], s.stacks.used[LOOKED]
        for tour in range(len(s.tables.tours)):
            if (member >> s.tables.tours[tour, 1]) & 1 and not _walk(s, tour, row):
                s.out.used[0], s.out.used[1] = written, doubts
                s.stacks.used[LOOKED] = looked
                return row, OUT_FULL
        for i in range(len(s.tables.indexes)):
            if (member >> s.tables.indexes[i, 0]) & 1:
                insert(s.stacks, i, _own_key(s, i, row), e.ref[row], row)
    return stop, DONE


@inline
def _has_room(s: Search, row: int) -> bool:
    """Whether ``row`` can be put in all its stacks."""
    stacks, entries = 0, 0
    for i in range(len(s.tables.indexes)):
        if (s.events.member[row] >> s.tables.indexes[i, 0]) & 1:
            stacks += 1
            entries += needed(s.stacks, i, _own_key(s, i, row))
    fits = s.stacks.used[SLOTS] + stacks <= len(s.stacks.index)
    return fits and s.stacks.used[POOL] + entries <= len(s.stacks.ref)


@inline
def _own_key(s: Search, index: int, row: int) -> int:
    """The key of ``row`` in an index of its step."""
    found = 0
    for r in range(s.tables.indexes[index, 1], s.tables.indexes[index, 2]):
        found = mixed(found, s.registers.same[s.tables.registers[r], row])
    return found
