"""What the kernel searches with, and how one event is related to the events found already.

Many small compiled functions would each be handed all arrays there are, so they take only those
that they read; and arrays are few, with columns by name.

Clock errors widen the ranges by what may be wrong; what is found is then tested pair by pair, and
is *possible* or *certain* (R19 3.2.3.2; ``engine.pattern.certainty``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import inline, kernel
from engine.kernels.hashing import mixed
from engine.pattern import clocked_machine
from engine.pattern.clocked_machine import Errors
from engine.pattern.program_machine import CERTAINLY, POSSIBLY, Programs, holds
from engine.pattern.stacks import Stacks
from engine.pattern.tables import (
    AFTER,
    BEFORE,
    BRANCHES,
    CONDITIONS,
    ENDS_SOON,
    KEYS,
    MEMBERS,
    NOT_LONG_AFTER,
    NOT_LONG_BEFORE,
    OTHER_ENDS_SOON,
    PAIRS,
    RELATIONS,
)  # fmt: skip
from engine.stream.released import NO_EPOCH

_FAR: Final = 2**62
IMPOSSIBLE: Final = 0
POSSIBLE: Final = 1
CERTAIN: Final = 2

# Columns of ``Search.events``.
REF: Final = 0
UNC: Final = clocked_machine.UNC
EPOCH: Final = clocked_machine.EPOCH
SOURCE: Final = clocked_machine.SOURCE
ORDER: Final = 4
EXPIRES: Final = 5
MEMBER: Final = 6
HORIZON: Final = 7
T_A: Final = 8
END: Final = 9
"""``te``, on the engine's clock."""
EVENT_COLUMNS: Final = 10

# Places in ``Search.scalars``.
MAX_DELAY: Final = 0
"""1: R19's rule, else pairwise."""
WITHIN: Final = 1
"""[ns]; -1: none."""
KEEP: Final = 2
"""How long an event is kept beyond its time [ns]; -1: for ever."""
WIDEST: Final = 3
"""The largest uncertainty of an event yet."""
WIDEST_T_A: Final = 4
TOURS_N: Final = 5
INDEXES_N: Final = 6
FOUND_N: Final = 7
"""Rows of ``Search.found`` in use."""
DOUBTS_N: Final = 8
MOVES_N: Final = 9
"""Rows of ``Search.moves`` taken in."""
UNPURGED: Final = 10
"""Events put in since the last purge by promises."""
PURGE_FROM: Final = 11
"""So many must have been put in before the next."""
DIVIDER: Final = 12
"""1: what lies before the window is left out by search, else by a test (L10 Opt. 4.3)."""
LAZY: Final = 13
"""1: stacks lose what has expired when they are looked at, too."""
RIP: Final = 14
"""1: each event keeps the place of its most recent predecessor in the stack before (L10 4.2)."""
RIN: Final = 15
"""1: ... of its first successor in the stack after (L10 Opt. 4.2)."""
AIS_CLOCK: Final = 16
"""1: what is newer than all is appended; 0: everything is treated as late (L10 Opt. 4.1)."""
CLOCK: Final = 17
"""The largest time in any stack."""
BOUND_UNC: Final = 18
"""How wrong the clock of any source may be (``engine.clocks.bound``): so much, ..."""
BOUND_RATE: Final = 19
"""... and so many ppb of the time since ..."""
BOUND_SINCE: Final = 20
LARGEST_T_A: Final = 21
"""The largest T_a so far."""
SCALARS: Final = 22


class Search(NamedTuple):
    """All that the kernel reads and writes; int64 if nothing else is said.

    ``t``: the query's tables. ``events``: (events, columns). ``raw``, ``ok``: (registers, events),
    for conditions (``engine.pattern.program_machine``). ``same``, ``tag``: (registers, events):
    two values are equal when both are; tag (int8) 0 stands for null. ``partial``: by step, the
    event found, or -1. ``depths``: (steps, 2): the range of candidates left. ``moves``: (n, 3) of
    promises, in stream order, ``covered`` and ``clock_of`` by step (``engine.pattern.purge``).
    ``found`` and ``doubts``: what is written (``engine.pattern.construction``). ``open``: float64,
    empty: what clocks err by is not given.
    """

    t: np.ndarray
    scalars: np.ndarray
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
    doubts: np.ndarray
    open: np.ndarray


@kernel
def related(n: np.ndarray, e: np.ndarray, bits: int, mine: int, other: int, t_a: int) -> int:
    """Whether all relations ``bits`` are impossible, possible or certain."""
    bound = t_a if n[MAX_DELAY] else e[mine, UNC] + e[other, UNC]
    shared = e[mine, EPOCH] == e[other, EPOCH] and e[mine, SOURCE] == e[other, SOURCE]
    if shared and e[mine, EPOCH] != NO_EPOCH and not n[MAX_DELAY]:
        bound = 0
    later, found = e[mine, REF] - e[other, REF], CERTAIN
    if bits & BEFORE:
        found = min(found, _positive(-later, bound))
    if bits & AFTER:
        found = min(found, _positive(later, bound))
    if bits & NOT_LONG_BEFORE:
        found = min(found, _at_most(-later, n[WITHIN], bound))
    if bits & NOT_LONG_AFTER:
        found = min(found, _at_most(later, n[WITHIN], bound))
    if bits & OTHER_ENDS_SOON:
        found = min(found, _at_most(e[other, END] - e[mine, REF], n[WITHIN], bound))
    if bits & ENDS_SOON:
        found = min(found, _at_most(e[mine, END] - e[other, REF], n[WITHIN], bound))
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
def slack_of(n: np.ndarray, e: np.ndarray, row: int) -> int:
    """How far the difference of an event's time to any other may be off [ns]."""
    return int(n[WIDEST_T_A] if n[MAX_DELAY] else e[row, UNC] + n[WIDEST])


@inline
def spread_of(n: np.ndarray) -> int:
    """How far the difference of any two times of events held may be off [ns]."""
    return int(n[WIDEST_T_A] if n[MAX_DELAY] else 2 * n[WIDEST])


@kernel
def relations_hold(
    t: np.ndarray, n: np.ndarray, e: np.ndarray, partial: np.ndarray, from_: int, to: int,
    mine: int, t_a: int,
) -> int:  # fmt: skip
    """``related`` for a range of relations to events of ``partial``."""
    found = CERTAIN
    for r in range(from_, to):
        if found != IMPOSSIBLE:
            other = partial[t[RELATIONS, r, 0]]
            found = min(found, related(n, e, t[RELATIONS, r, 1], mine, other, t_a))
    return found


@kernel
def lowest(
    t: np.ndarray, n: np.ndarray, e: np.ndarray, partial: np.ndarray, from_: int, to: int
) -> int:
    """The least time that a range of relations leaves possible."""
    low = -_FAR
    for r in range(from_, to):
        other, bits = partial[t[RELATIONS, r, 0]], t[RELATIONS, r, 1]
        ref, slack = e[other, REF], slack_of(n, e, other)
        if bits & AFTER:
            low = max(low, ref - slack if slack else ref + 1)
        if n[WITHIN] >= 0 and n[DIVIDER]:
            # Between two steps there may lie three uncertain comparisons: e, first, last, f.
            more = slack if bits & (NOT_LONG_BEFORE | OTHER_ENDS_SOON) else 3 * spread_of(n)
            low = max(low, ref - n[WITHIN] - more)
    return low


@kernel
def highest(
    t: np.ndarray, n: np.ndarray, e: np.ndarray, partial: np.ndarray, from_: int, to: int
) -> int:
    """The largest time that a range of relations leaves possible."""
    high = _FAR
    for r in range(from_, to):
        other, bits = partial[t[RELATIONS, r, 0]], t[RELATIONS, r, 1]
        ref, slack = e[other, REF], slack_of(n, e, other)
        if bits & BEFORE:
            high = min(high, ref + slack if slack else ref - 1)
        if n[WITHIN] >= 0:
            more = slack if bits & (NOT_LONG_AFTER | ENDS_SOON) else 3 * spread_of(n)
            high = min(high, ref + n[WITHIN] + more)
    return high


@kernel
def surely(
    t: np.ndarray, n: np.ndarray, e: np.ndarray, partial: np.ndarray, branch: int, t_a: int
) -> int:
    """Whether the positive events are in order: impossible, possible or certain."""
    found = CERTAIN
    for p in range(t[BRANCHES, branch, 2], t[BRANCHES, branch, 3]):
        mine, other = partial[t[PAIRS, p, 0]], partial[t[PAIRS, p, 1]]
        found = min(found, related(n, e, t[PAIRS, p, 2], mine, other, t_a))
    return found


@kernel
def among(t: np.ndarray, partial: np.ndarray, branch: int, row: int) -> bool:
    """Whether ``row`` is one of the match's positive events."""
    for m in range(t[BRANCHES, branch, 4], t[BRANCHES, branch, 5]):
        if partial[t[MEMBERS, m, 0]] == row:
            return True
    return False


@kernel
def key_of(t: np.ndarray, same: np.ndarray, partial: np.ndarray, from_: int, to: int) -> int:
    """The key that a range of keys asks of a partner."""
    found = 0
    for k in range(from_, to):
        found = mixed(found, same[t[KEYS, k, 2], partial[t[KEYS, k, 1]]])
    return found


@kernel
def keys_equal(
    t: np.ndarray, same: np.ndarray, tag: np.ndarray, partial: np.ndarray, from_: int, to: int,
    mine: int,
) -> bool:  # fmt: skip
    """Whether ``mine`` equals the events found in all of a range of keys; nulls equal nothing."""
    for k in range(from_, to):
        other, own, its = partial[t[KEYS, k, 1]], t[KEYS, k, 0], t[KEYS, k, 2]
        if tag[own, mine] == 0 or tag[own, mine] != tag[its, other]:
            return False
        if same[own, mine] != same[its, other]:
            return False
    return True


@inline
def _holds(s: Search, which: int, t_a: int) -> bool:
    errors = Errors(s.events, t_a if s.scalars[MAX_DELAY] else -1, s.open)
    return holds(s.programs, s.ranks, which, s.partial, s.raw, s.ok, errors)


@inline
def conditions_hold(s: Search, from_: int, to: int, t_a: int) -> bool:
    """Whether the events in ``partial`` possibly satisfy a range of conditions."""
    fine = True
    for c in range(from_, to):
        fine = fine and _holds(s, 2 * s.t[CONDITIONS, c, 0] + POSSIBLY, t_a)
    return fine


@kernel
def conditions_met(s: Search, from_: int, to: int, t_a: int) -> int:
    """Whether they satisfy them: impossible, possible or certain."""
    if not conditions_hold(s, from_, to, t_a):
        return IMPOSSIBLE
    for c in range(from_, to):
        number, clocked = s.t[CONDITIONS, c, 0], s.t[CONDITIONS, c, 1]
        if clocked and not _holds(s, 2 * number + CERTAINLY, t_a):
            return POSSIBLE
    return CERTAIN


@kernel
def matched(s: Search, branch: int, t_a: int) -> int:
    """Whether the positive events are a match, as far as clocks can say: impossible, possible or
    certain.
    """
    found = surely(s.t, s.scalars, s.events, s.partial, branch, t_a)
    from_, to = s.t[BRANCHES, branch, 6], s.t[BRANCHES, branch, 7]
    if found != IMPOSSIBLE and from_ < to:
        found = min(found, conditions_met(s, from_, to, t_a))
    return found
