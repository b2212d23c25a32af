"""What the kernel searches with, and how one event is related to the events found already.

Many small compiled functions would each be handed all arrays there are, so they take only those
that they read; and arrays are few, of records.

Clock errors widen the ranges by what may be wrong; what is found is then tested pair by pair, and
is *possible* or *certain* (R19 3.2.3.2; ``engine.pattern.certainty``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import inline, kernel
from engine.kernels.hashing import mixed
from engine.pattern.clocked_machine import Errors
from engine.pattern.program_machine import CERTAINLY, POSSIBLY, Programs, holds
from engine.pattern.records import (
    AFTER,
    BEFORE,
    ENDS_SOON,
    NOT_LONG_AFTER,
    NOT_LONG_BEFORE,
    OTHER_ENDS_SOON,
    Tables,
    record,
)
from engine.pattern.stacks import Stacks
from engine.stream.released import NO_EPOCH

_FAR: Final = 2**62
IMPOSSIBLE: Final = 0
POSSIBLE: Final = 1
CERTAIN: Final = 2

STATE: Final = record(
    # settings
    "max_delay", "within", "keep", "join_orders_n", "indexes_n", "divider", "lazy", "rip", "rin",
    "ais_clock",
    # what changes
    "widest", "widest_t_a", "found_n", "doubts_n", "moves_n", "unpurged", "purge_from", "clock",
    "bound_unc", "bound_rate", "bound_since", "largest_t_a",
)  # fmt: skip
"""Settings of a search, and how far it is.

``max_delay``: 1: R19's rule, else pairwise. ``within``: [ns]; -1: none. ``keep``: how long an event
is kept beyond its time [ns]; -1: for ever. ``join_orders_n``: 0: matches are not looked for.
``divider``: 1: what lies before the window is left out by search, else by a test (L10 Opt. 4.3).
``lazy``: 1: stacks lose what has expired when they are looked at, too. ``rip``: 1: each event keeps
the place of its most recent predecessor in the stack before (L10 4.2); ``rin``: 1: of its first
successor in the stack after (L10 Opt. 4.2). ``ais_clock``: 1: what is newer than all is appended;
0: everything is treated as late (L10 Opt. 4.1).

``widest``: the largest uncertainty of an event yet; ``widest_t_a``: the largest T_a in force at
one. ``found_n``, ``doubts_n``: rows written; ``moves_n``: moves taken in. ``unpurged``: events put
in since the last purge by promises; ``purge_from``: so many must have been before the next.
``clock``: the largest time in any stack. ``bound_unc bound_rate bound_since``: how wrong the clock
of any source may be (``engine.stream.clock_bound``): so much, and so many ppb of the time since.
``largest_t_a``: so far.
"""
MOVE: Final = record("moment", "clock", "value")
"""A promise that moves: when (``engine.pattern.purge``), of which clock, up to where."""
RANGE: Final = record("low", "high")
"""Of candidates left, without ``high``; while purging of times, with it."""


class Search(NamedTuple):
    """All that the kernel reads and writes; int64 if nothing else is said.

    ``t``: the query's tables. ``state``: one STATE. ``events``: ``engine.pattern.records.EVENT``.
    ``raw``, ``ok``: (registers, events), for conditions (``engine.pattern.program_machine``).
    ``same``, ``tag``: (registers, events): two values are equal when both are; tag (int8) 0 stands
    for null. ``partial``: by step, the event found, or -1. ``depths``: RANGE by probe. ``moves``:
    MOVE, in stream order, ``covered`` and ``clock_of`` by step (``engine.pattern.purge``).
    ``found``, ``rows`` (matches, steps) and ``doubts``: what is written
    (``engine.pattern.construction``). ``open``: float64, empty: what clocks err by is not given.
    """

    t: Tables
    state: np.ndarray
    events: np.ndarray
    raw: np.ndarray
    ok: np.ndarray
    same: np.ndarray
    tag: np.ndarray
    programs: Programs
    ranks: np.ndarray
    stacks: Stacks
    partial: np.ndarray
    depths: np.ndarray
    moves: np.ndarray
    covered: np.ndarray
    clock_of: np.ndarray
    found: np.ndarray
    rows: np.ndarray
    doubts: np.ndarray
    open: np.ndarray


@kernel
def related(now: np.record, e: np.ndarray, bits: int, mine: int, other: int, t_a: int) -> int:
    """Whether all relations ``bits`` are impossible, possible or certain."""
    one, two = e[mine], e[other]
    bound = t_a if now.max_delay else one.unc + two.unc
    shared = one.epoch == two.epoch and one.source == two.source
    if shared and one.epoch != NO_EPOCH and not now.max_delay:
        bound = 0
    later, found = one.ref - two.ref, CERTAIN
    if bits & BEFORE:
        found = min(found, _positive(-later, bound))
    if bits & AFTER:
        found = min(found, _positive(later, bound))
    if bits & NOT_LONG_BEFORE:
        found = min(found, _at_most(-later, now.within, bound))
    if bits & NOT_LONG_AFTER:
        found = min(found, _at_most(later, now.within, bound))
    if bits & OTHER_ENDS_SOON:
        found = min(found, _at_most(two.end - one.ref, now.within, bound))
    if bits & ENDS_SOON:
        found = min(found, _at_most(one.end - two.ref, now.within, bound))
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
def slack_of(now: np.record, e: np.ndarray, row: int) -> int:
    """How far the difference of an event's time to any other may be off [ns]."""
    return int(now.widest_t_a if now.max_delay else e[row].unc + now.widest)


@inline
def spread_of(now: np.record) -> int:
    """How far the difference of any two times of events held may be off [ns]."""
    return int(now.widest_t_a if now.max_delay else 2 * now.widest)


@kernel
def relations_hold(
    relations: np.ndarray, now: np.record, e: np.ndarray, partial: np.ndarray, from_: int, to: int,
    mine: int, t_a: int,
) -> int:  # fmt: skip
    """``related`` for a range of relations to events of ``partial``."""
    found = CERTAIN
    for r in range(from_, to):
        if found != IMPOSSIBLE:
            relation = relations[r]
            other = partial[relation.other]
            found = min(found, related(now, e, relation.bits, mine, other, t_a))
    return found


@kernel
def lowest(
    relations: np.ndarray, now: np.record, e: np.ndarray, partial: np.ndarray, from_: int, to: int
) -> int:
    """The least time that a range of relations leaves possible."""
    low = -_FAR
    for r in range(from_, to):
        other, bits = partial[relations[r].other], relations[r].bits
        ref, slack = e[other].ref, slack_of(now, e, other)
        if bits & AFTER:
            low = max(low, ref - slack if slack else ref + 1)
        if now.within >= 0 and now.divider:
            # Between two steps there may lie three uncertain comparisons: e, first, last, f.
            more = slack if bits & (NOT_LONG_BEFORE | OTHER_ENDS_SOON) else 3 * spread_of(now)
            low = max(low, ref - now.within - more)
    return low


@kernel
def highest(
    relations: np.ndarray, now: np.record, e: np.ndarray, partial: np.ndarray, from_: int, to: int
) -> int:
    """The largest time that a range of relations leaves possible."""
    high = _FAR
    for r in range(from_, to):
        other, bits = partial[relations[r].other], relations[r].bits
        ref, slack = e[other].ref, slack_of(now, e, other)
        if bits & BEFORE:
            high = min(high, ref + slack if slack else ref - 1)
        if now.within >= 0:
            more = slack if bits & (NOT_LONG_AFTER | ENDS_SOON) else 3 * spread_of(now)
            high = min(high, ref + now.within + more)
    return high


@inline
def among(t: Tables, partial: np.ndarray, branch: int, row: int) -> bool:
    """Whether ``row`` is one of the match's positive events."""
    for m in range(t.branches[branch].members_from, t.branches[branch].members_to):
        if partial[t.members[m].step] == row:
            return True
    return False


@kernel
def key_of(keys: np.ndarray, same: np.ndarray, partial: np.ndarray, from_: int, to: int) -> int:
    """The key that a range of keys asks of a partner."""
    found = 0
    for k in range(from_, to):
        found = mixed(found, same[keys[k].other_register, partial[keys[k].other]])
    return found


@kernel
def keys_equal(
    keys: np.ndarray, same: np.ndarray, tag: np.ndarray, partial: np.ndarray, from_: int, to: int,
    mine: int,
) -> bool:  # fmt: skip
    """Whether ``mine`` equals the events found in all of a range of keys; nulls equal nothing."""
    for k in range(from_, to):
        other, own, its = partial[keys[k].other], keys[k].register, keys[k].other_register
        if tag[own, mine] == 0 or tag[own, mine] != tag[its, other]:
            return False
        if same[own, mine] != same[its, other]:
            return False
    return True


@inline
def _holds(s: Search, which: int, t_a: int) -> bool:
    errors = Errors(s.events, t_a if s.state[0].max_delay else -1, s.open)
    return holds(s.programs, s.ranks, which, s.partial, s.raw, s.ok, errors)


@inline
def conditions_hold(s: Search, from_: int, to: int, t_a: int) -> bool:
    """Whether the events in ``partial`` possibly satisfy a range of conditions."""
    fine = True
    for c in range(from_, to):
        fine = fine and _holds(s, 2 * s.t.conditions[c].predicate + POSSIBLY, t_a)
    return fine


@kernel
def conditions_met(s: Search, from_: int, to: int, t_a: int) -> int:
    """Whether they satisfy them: impossible, possible or certain."""
    if not conditions_hold(s, from_, to, t_a):
        return IMPOSSIBLE
    for c in range(from_, to):
        condition = s.t.conditions[c]
        if condition.clocked and not _holds(s, 2 * condition.predicate + CERTAINLY, t_a):
            return POSSIBLE
    return CERTAIN


@kernel
def matched(s: Search, branch: int, t_a: int) -> int:
    """Whether the positive events are a match, as far as clocks can say: impossible, possible or
    certain.
    """
    now, asked, found = s.state[0], s.t.branches[branch], CERTAIN
    for p in range(asked.pairs_from, asked.pairs_to):
        pair = s.t.pairs[p]
        mine, other = s.partial[pair.step], s.partial[pair.other]
        found = min(found, related(now, s.events, pair.bits, mine, other, t_a))
    from_, to = asked.conditions_from, asked.conditions_to
    if found != IMPOSSIBLE and from_ < to:
        found = min(found, conditions_met(s, from_, to, t_a))
    return found
