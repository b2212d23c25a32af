"""State of the search kernel, and the relations between one event and the events found so far.

A call of a compiled function passes every array of its arguments, so functions take only the arrays
that they read, and arrays are few, of records.

Clock errors widen the searched ranges; candidates are then tested pair by pair, and are *possible*
or *certain* (R19 3.2.3.2; ``engine.operators.match.certainty.chances``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import FAR, copy_of, record
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.operators.match.compiler.records import Tables
from slackwater.engine.operators.match.search.machine import (
    ANY_SHIFT,
    CERTAINLY,
    POSSIBLY,
    Errors,
    Programs,
    holds,
    length_error,
    widest_of,
)

# Active instance stacks: per step and key, the stored events, sorted by event time.
#
# Source: SASE's AIS (L10 4.2) with insertion in event time order (L10 Algorithm 6). A stack is a
# range of a pool with room to grow; a hash table finds it by its key. An event with the largest
# time is appended; any other one shifts the entries above it. Expired entries are removed at the
# low end when a stack is read (lazily), and everywhere when the stacks are rebuilt.


STACK: Final = record("index", "key", "start", "size", "room")
"""A range of the pool: ``size`` entries from ``start`` on; ``room``: the largest size."""
ENTRY: Final = record("time", "row")
USED: Final = record("stacks", "pool", "moved", "looked")
"""Used lengths of ``stack`` and the pool; entries shifted and candidates tested, so far."""

_EMPTY: Final = -1
_LEAST_ROOM: Final = 4
_MANY: Final = 1 << 12
_HUGE: Final = 1 << 22
"""Numbers of entries: smaller pools share pages; for larger ones the memory may be refused."""


class Stacks(NamedTuple):
    """Arrays of all stacks.

    ``table``: int64, open addressing, a power of two long; numbers of stacks or -1. ``stack``:
    STACK. ``entry``: the pool, ENTRY. ``used``: one USED.
    """

    table: np.ndarray
    stack: np.ndarray
    entry: np.ndarray
    used: np.ndarray


def empty_stacks(stacks: int = 16, pool: int = 128) -> Stacks:
    """Return empty stacks with room for ``stacks`` stacks and ``pool`` entries."""
    length = 1 << max(stacks * 2, 2).bit_length()
    return Stacks(
        np.full(length, _EMPTY, np.int64), np.zeros(stacks, STACK), np.zeros(pool, ENTRY),
        np.zeros(1, USED),
    )  # fmt: skip


@kernel
def _place(table: np.ndarray, stack: np.ndarray, index: int, key: int) -> int:
    """Place of the stack in the table, or its insertion place."""
    mask = len(table) - 1
    place = mixed(key, index + 1) & mask
    while True:
        found = table[place]
        if found == _EMPTY or (stack[found].key == key and stack[found].index == index):
            return place
        place = (place + 1) & mask


@inline
def find(stacks: Stacks, index: int, key: int) -> int:
    """Return the stack, or -1."""
    return int(stacks.table[_place(stacks.table, stacks.stack, index, key)])


@kernel
def first_not_below(entry: np.ndarray, start: int, size: int, ref: int) -> int:
    """Return the lowest of ``size`` entries from ``start`` on with at least the time ``ref``."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if entry[middle].time < ref:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def needed(stacks: Stacks, index: int, key: int) -> int:
    """Return the number of entries of the pool that an insertion takes."""
    found = find(stacks, index, key)
    if found == _EMPTY:
        return _LEAST_ROOM
    stack = stacks.stack[found]
    return 2 * stack.size + _LEAST_ROOM if stack.size == stack.room else 0


@kernel
def insert(stacks: Stacks, index: int, key: int, ref: int, row: int) -> None:
    """Insert an entry above those of equal time; the pool has room (``needed``)."""
    place = _place(stacks.table, stacks.stack, index, key)
    entry, used = stacks.entry, stacks.used[0]
    found = stacks.table[place]
    if found == _EMPTY:
        found = used.stacks
        used.stacks += 1
        stacks.table[place] = found
        new = stacks.stack[found]
        new.index, new.key = index, key
        new.start = new.size = new.room = 0
    stack = stacks.stack[found]
    if stack.size == stack.room:
        _move(stacks, found)
    low = stack.start
    at = low + stack.size
    while at > low and entry[at - 1].time > ref:
        entry[at] = entry[at - 1]
        at -= 1
        used.moved += 1
    entry[at].time, entry[at].row = ref, row
    stack.size += 1


@inline
def _move(stacks: Stacks, found: int) -> None:
    """Move a stack to the end of the pool, with twice the room."""
    stack, entry = stacks.stack[found], stacks.entry
    start, size, end = stack.start, stack.size, stacks.used[0].pool
    for i in range(size):
        entry[end + i] = entry[start + i]
    stack.start = end
    stack.room = 2 * size if size else _LEAST_ROOM
    stacks.used[0].pool = end + stack.room


@kernel
def _fill(old: Stacks, number: np.ndarray, new: Stacks) -> None:
    """Copy to the empty ``new`` the entries of ``old`` whose rows stay."""
    used = new.used[0]
    for found in range(old.used[0].stacks):
        stack = old.stack[found]
        kept, stop = 0, stack.start + stack.size
        for at in range(stack.start, stop):
            if number[old.entry[at].row] >= 0:
                kept += 1
        if not kept:
            continue
        at_new = used.pool
        new.table[_place(new.table, new.stack, stack.index, stack.key)] = used.stacks
        made = new.stack[used.stacks]
        made.index, made.key, made.start, made.size = stack.index, stack.key, at_new, kept
        made.room = kept + (kept >> 1) + 1
        used.stacks += 1
        used.pool += made.room
        for at in range(stack.start, stop):
            row = number[old.entry[at].row]
            if row >= 0:
                new.entry[at_new].time, new.entry[at_new].row = old.entry[at].time, row
                at_new += 1


def packed_stacks(stacks: Stacks) -> list[tuple[int, np.ndarray]]:
    """Return plain data: per array its length and a copy of its used part."""
    (used,) = stacks.used[["stacks", "pool"]].tolist()
    ends = (len(stacks.table), used[0], used[1], 1)
    return [(len(part), copy_of(part[:end])) for part, end in zip(stacks, ends, strict=True)]


def unpacked_stacks(state: list[tuple[int, np.ndarray]]) -> Stacks:
    """Stacks from the data of ``packed``."""
    parts = [np.zeros(length, used.dtype) for length, used in state]
    for part, (_, used) in zip(parts, state, strict=True):
        part[: len(used)] = used
    return Stacks(*parts)


def rebuilt_stacks(old: Stacks, number: np.ndarray, stacks: int, pool: int) -> Stacks:
    """``old`` with rows renumbered, in arrays with more room.

    Args:
        old: the stacks.
        number: the new number of row i; -1: it is dropped.
        stacks: room for new stacks.
        pool: room for new entries.
    """
    known = int(old.used["stacks"][0])
    entries = int(old.stack["size"][:known].sum())
    # Pages that are never written take no memory, but every rebuild costs time in proportion.
    spare = 3 * entries if _MANY <= entries < _HUGE else entries // 2
    room = entries + spare + known + pool
    new = empty_stacks(known + stacks, room)
    _fill(old, number, new)
    for counter in ("moved", "looked"):
        new.used[counter] = old.used[counter]
    return new


IMPOSSIBLE: Final = 0
POSSIBLE: Final = 1
CERTAIN: Final = 2

STATE: Final = record(
    # settings
    "max_delay", "within", "longest", "longest_negated", "keep", "join_orders_n", "indexes_n",
    "divider", "drops",
    # state
    "spans", "widest", "widest_t_a", "found_n", "doubts_n", "moves_n", "unpurged", "purge_from",
    "bound_unc", "bound_rate", "bound_since", "bound_back", "bound_until",
    "largest_t_a",
    "begun_n", "dropped", "cascaded", "doubted",
)  # fmt: skip
"""Settings and state of a search.

``max_delay``: 1: R19's rule, else pairwise. ``within``: [ns]; -1: none. ``longest``,
``longest_negated``: the longest duration of an event, as ``within``. ``keep``: how long an event is
stored beyond its time [ns]; -1: for ever. ``join_orders_n``: 0: no search for matches. ``divider``:
1: the search range begins with the window, else events before it are tested (L10 Opt. 4.3).
``drops``: 1: intervals without a possible chain below them are dropped (``search.purge``).

``spans``: 1: a stored event is an interval. ``widest``: the largest uncertainty of an event so far;
``widest_t_a``: the largest T_a in force at one. ``found_n``, ``doubts_n``: rows written;
``moves_n``: moves processed. ``unpurged``: events inserted since the last purge by promises;
``purge_from``: the least number for the next one. ``bound_unc`` ... ``bound_until``: the bound of
any source's clock error (``engine.core.released``). ``largest_t_a``: so far. ``begun_n``: IBPs
processed; ``dropped``, ``cascaded``: intervals dropped at arrival, and later. ``doubted``: 1: a
stored event may not have happened.
"""
BEGUN: Final = record("step", "time", "order")
"""An IBP: an interval of ``step`` began at ``time``; it acts before row ``order`` of the stream."""
MOVE: Final = record("moment", "clock", "value")
"""A move of a promise: when (``moment`` of ``search.purge``), which clock, up to which value."""
RANGE: Final = record("low", "high")
"""Places of the remaining candidates, ``high`` excluded; in a purge: times, ``high`` included."""


class Search(NamedTuple):
    """The arrays of the kernel; int64 unless stated otherwise.

    ``t``: the query's tables. ``state``: one STATE. ``events``: EVENT records.
    ``raw``, ``ok``: (registers of conditions, events); see ``match.search.machine``.
    ``same``, ``tag``: (registers of keys, events): values are equal if both are; tag (int8) 0 is
    null. ``partial``: by step, the event found so far, or -1. ``depths``: RANGE by probe.
    ``floor``: by step, the least time of an event that can be in a match. ``moves``: MOVE, in
    stream order; ``covered`` and ``clock_of``: by step (``purge``). ``found``, ``rows`` (matches,
    steps) and ``doubts``: the output (``construction``). ``begun``: BEGUN, in order; ``open_at``
    (steps, room) and ``open_n``: by step the sorted starts announced by IBPs; ``heard``, ``lost``:
    by step the row from which on IBPs announce all its intervals, and from which on they do not.
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
    floor: np.ndarray
    moves: np.ndarray
    covered: np.ndarray
    clock_of: np.ndarray
    found: np.ndarray
    rows: np.ndarray
    doubts: np.ndarray
    begun: np.ndarray
    open_at: np.ndarray
    open_n: np.ndarray
    heard: np.ndarray
    lost: np.ndarray


@inline
def apart_error(one: np.record, one_end: int, two: np.record, two_end: int) -> int:
    """Return the largest error of the difference of two end points [ns]: by both clocks' errors,
    or, on one clock, by the error of its rate between them.
    """
    unc, other = one.unc_end if one_end else one.unc, two.unc_end if two_end else two.unc
    epoch = one.epoch_end if one_end else one.epoch
    its_epoch = two.epoch_end if two_end else two.epoch
    if one.clock == two.clock and epoch == its_epoch != NO_EPOCH:
        return int(abs(unc - other))
    return int(unc + other)


@inline
def certainty_of(apart: int, bound: int, strict: int, error: int) -> int:
    """Return the certainty that a difference of times with at most ``error`` [ns] is at most
    ``bound`` (``strict``: below it).
    """
    if apart <= bound - error - strict:
        return CERTAIN
    return IMPOSSIBLE if error == 0 or apart > bound + error else POSSIBLE


@inline
def lasts_within(event: np.record, within: int) -> int:
    """Return the certainty that an event lasts at most ``within`` [ns]; -1: any time."""
    apart = event.ref_end - event.ref
    if within < 0 or apart == 0:
        return CERTAIN
    return certainty_of(apart, within, 0, length_error(event))


@kernel
def related(
    relations: np.ndarray, pair: np.record, now: np.record, e: np.ndarray, mine: int, other: int,
    t_a: int,
) -> int:  # fmt: skip
    """Return the certainty that all relations of a pair hold."""
    one, two = e[mine], e[other]
    error, found = t_a, CERTAIN
    for r in range(pair.relations_from, pair.relations_to):
        relation = relations[r]
        left, right = (one, two) if relation.left == pair.step else (two, one)
        apart = _time(left, relation.left_end) - _time(right, relation.right_end)
        if not now.max_delay:
            error = apart_error(left, relation.left_end, right, relation.right_end)
        found = min(found, certainty_of(apart, relation.bound, relation.strict, error))
        if found == IMPOSSIBLE:
            break
    return found


@inline
def _time(event: np.record, end: int) -> int:
    """Return the time [ns] of an event's start or (``end``) end."""
    return int(event.ref_end) if end else int(event.ref)


@inline
def slack_of(now: np.record, e: np.ndarray, row: int) -> int:
    """Return the largest error of the difference between an event's time and any other one [ns]."""
    return int(now.widest_t_a if now.max_delay else widest_of(e[row]) + now.widest)


@inline
def spread_of(now: np.record) -> int:
    """Return the largest error of the difference of any two stored events' times [ns]."""
    return int(now.widest_t_a if now.max_delay else 2 * now.widest)


@kernel
def relations_hold(
    pairs: np.ndarray, relations: np.ndarray, now: np.record, e: np.ndarray, partial: np.ndarray,
    from_: int, to: int, mine: int, t_a: int,
) -> int:  # fmt: skip
    """``related`` for a range of pairs with events of ``partial``."""
    found = CERTAIN
    for p in range(from_, to):
        if found != IMPOSSIBLE:
            other = partial[pairs[p].other]
            found = min(found, related(relations, pairs[p], now, e, mine, other, t_a))
    return found


@kernel
def possible_times(
    pairs: np.ndarray, relations: np.ndarray, now: np.record, e: np.ndarray, partial: np.ndarray,
    from_: int, to: int, by_end: int,
) -> tuple[int, int]:  # fmt: skip
    """Return the least and the largest start (``by_end``: end) [ns] that a range of pairs allows;
    no event ends before it begins.
    """
    low, high = -FAR, FAR
    for p in range(from_, to):
        pair = pairs[p]
        row = partial[pair.other]
        slack = slack_of(now, e, row)
        for r in range(pair.relations_from, pair.relations_to):
            relation = relations[r]
            if relation.left == pair.step and relation.left_end >= by_end * now.spans:
                most = _time(e[row], relation.right_end) + relation.bound
                high = min(high, most + slack if slack else most - relation.strict)
            asks = relation.right == pair.step
            asks = asks and (by_end or relation.right_end * now.spans == 0)
            if asks and (relation.strict or now.divider):
                least = _time(e[row], relation.left_end) - relation.bound
                low = max(low, least - slack if slack else least + relation.strict)
        if now.within >= 0:
            # Between two steps there may lie three uncertain comparisons: e, first, last, f.
            reach = now.within + 3 * spread_of(now)
            high = min(high, e[row].ref + reach)
            low = max(low, e[row].ref - reach if now.divider else low)
    return low, high


@inline
def among(members: np.ndarray, partial: np.ndarray, from_: int, to: int, row: int) -> bool:
    """Return whether ``row`` is one of the match's positive events, a range of ``members``."""
    for m in range(from_, to):  # noqa: SIM110 - compiled code has no any()
        if partial[members[m].step] == row:
            return True
    return False


@kernel
def key_of(keys: np.ndarray, same: np.ndarray, partial: np.ndarray, from_: int, to: int) -> int:
    """Return the key of partners by a range of keys."""
    found = 0
    for k in range(from_, to):
        found = mixed(found, same[keys[k].other_register, partial[keys[k].other]])
    return found


@kernel
def keys_equal(
    keys: np.ndarray, same: np.ndarray, tag: np.ndarray, partial: np.ndarray, from_: int, to: int,
    mine: int,
) -> bool:  # fmt: skip
    """Return whether ``mine`` equals the events so far in all of a range of keys; null equals
    nothing.
    """
    for k in range(from_, to):
        other, register, its = partial[keys[k].other], keys[k].register, keys[k].other_register
        if tag[register, mine] == 0 or tag[register, mine] != tag[its, other]:
            return False
        if same[register, mine] != same[its, other]:
            return False
    return True


@inline
def _holds(s: Search, which: int, t_a: int) -> bool:
    errors = Errors(s.events, t_a if s.state[0].max_delay else -1, ANY_SHIFT)
    return holds(s.programs, s.ranks, which, s.partial, s.raw, s.ok, errors)


@inline
def conditions_hold(s: Search, from_: int, to: int, t_a: int) -> bool:
    """Return whether the events in ``partial`` possibly satisfy a range of conditions."""
    fine = True
    for c in range(from_, to):
        fine = fine and _holds(s, 2 * s.t.conditions[c].predicate + POSSIBLY, t_a)
    return fine


@kernel
def conditions_met(s: Search, from_: int, to: int, t_a: int) -> int:
    """Return the certainty that the events in ``partial`` satisfy a range of conditions."""
    if not conditions_hold(s, from_, to, t_a):
        return IMPOSSIBLE
    for c in range(from_, to):
        condition = s.t.conditions[c]
        if condition.clocked and not _holds(s, 2 * condition.predicate + CERTAINLY, t_a):
            return POSSIBLE
    return CERTAIN


@inline
def matched(s: Search, branch: int, t_a: int) -> int:
    """Return the certainty that the positive events are a match. The probes have tested that it is
    possible; without clock errors that is certain.
    """
    now, of, found = s.state[0], s.t.branches[branch], CERTAIN
    if spread_of(now):
        for p in range(of.pairs_from, of.pairs_to):
            pair = s.t.pairs[p]
            mine, other = s.partial[pair.step], s.partial[pair.other]
            found = min(found, related(s.t.relations, pair, now, s.events, mine, other, t_a))
        if now.spans:
            for m in range(of.members_from, of.members_to):
                event = s.events[s.partial[s.t.members[m].step]]
                found = min(found, lasts_within(event, now.longest))
    from_, to = of.conditions_from, of.conditions_to
    if found != IMPOSSIBLE and from_ < to:
        found = min(found, conditions_met(s, from_, to, t_a))
    return found
