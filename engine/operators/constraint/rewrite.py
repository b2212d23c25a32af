"""Rewriting of traces by late events and by larger clock errors than known before: wrong results
are retracted, new ones are emitted.

The events of the last ``horizon`` of each key are kept in order of time; the state before them is
settled, as a trace's record. The results without and with the late event follow from these two
alone, so both are computed by replaying the kept events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, NONE, Record
from slackwater.engine.operators.constraint.step import (
    MOST_RESULTS,
    certainty_with,
    deadline,
    denied,
    due,
    keep_recent,
    may_deny,
    no_room,
    put,
    run_out,
    run_out_later,
    step,
)
from slackwater.engine.operators.constraint.traces import (
    AT_ONCE,
    DOUBTFUL,
    FRESH,
    LATER,
    MIXED,
    NOBODY_KNOWS,
    OTHERS,
    RUN_OUT,
    TRACE,
    VIOLATION,
    Keyed,
    Recent,
    TraceEvents,
    TracePool,
    TraceProgress,
    TraceTables,
    enter_traces,
    events_of,
)


class Rewritable(NamedTuple):
    """The rewritable state of traces.

    Attributes:
        settled: TRACE, the state before the events in the trace's list.
        tails: int32: the last event of the list in the pool, linked to the previous ones; NONE.
        buffered: the pool's events as columns, in the same memory.
        order: int32, as long as the pool: scratch.
        scratch: TRACE, one.
        beyond: int64 (1,): number of events later than the horizon.
    """

    settled: np.ndarray
    tails: np.ndarray
    buffered: TraceEvents
    order: np.ndarray
    scratch: np.ndarray
    beyond: np.ndarray


def kept_of(
    settled: np.ndarray, tails: np.ndarray, pool: TracePool, beyond: np.ndarray
) -> Rewritable:
    """Return the rewritable state, with scratch for the pool."""
    order = np.empty(len(pool.nodes), np.int32)
    return Rewritable(settled, tails, events_of(pool.nodes), order, np.zeros(1, TRACE), beyond)


@inline
def _listed(entry: int, pool: TracePool, kept: Rewritable) -> int:
    """Write the events of a trace to ``order``, the last one first; returns their number."""
    n, place = 0, kept.tails[entry]
    while place != NONE:
        kept.order[n] = place
        n += 1
        place = pool.nodes[place].link
    return n


@kernel
def settle(
    entry: int, limit: int, timeout: int, tables: TraceTables, pool: TracePool,
    kept: Rewritable, emitted: np.ndarray, rows: int,
) -> int:  # fmt: skip
    """Settle the events before ``limit``; returns the number of the others, which are in ``order``.

    ``emitted`` has room for ``MOST_RESULTS`` rows, as scratch; ``pool`` for a node of each event.
    """
    n = _listed(entry, pool, kept)
    while n > 0 and pool.nodes[kept.order[n - 1]].ref < limit:
        n -= 1
        step(kept.settled[entry], kept.order[n], LATER, timeout, INT_MIN, tables,
             kept.buffered, pool, emitted, rows)  # fmt: skip
        if n > 0:
            pool.nodes[kept.order[n - 1]].link = NONE
        else:
            kept.tails[entry] = NONE
    return n


@inline
def _replay(
    entry: int, key: int, n: int, row: int, now: int, timeout: int, tables: TraceTables,
    pool: TracePool, kept: Rewritable, emitted: np.ndarray, rows: int,
) -> int:  # fmt: skip
    """Replay the ``n`` events of ``order``; ``scratch`` is the trace after them."""
    kept.scratch[0] = kept.settled[entry]
    trace, first = kept.scratch[0], rows
    trace.key = key
    for place in range(n - 1, -1, -1):
        if rows > first and may_deny(trace, kept.order[place], kept.buffered):
            for earlier in range(first, rows):
                result = emitted[earlier]
                if result.certainty == 0:
                    result.certainty = certainty_with(
                        trace, kept.order[place], result, timeout, tables, kept.buffered
                    )
        rows = step(trace, kept.order[place], row, timeout, INT_MIN, tables, kept.buffered,
                    pool, emitted, rows)  # fmt: skip
    if due(trace, now, timeout, tables):
        rows = run_out(trace, row, timeout, tables, emitted, rows)
    return rows


@inline
def _alike(one: Record, other: Record, allowed: np.ndarray, pool: TracePool) -> bool:
    """Return whether two results have the same event, kind and earlier events."""
    if (
        one.kind != other.kind or one.type != other.type or one.ref != other.ref
        or one.certainty != other.certainty
        or (one.kind == VIOLATION and allowed[one.before] != allowed[other.before])
        or (one.type != NONE and one.number != other.number)
    ):  # fmt: skip
        return False
    left, right = one.path, other.path
    nodes = pool.nodes
    while NONE not in (left, right) and nodes[left].number == nodes[right].number:
        left, right = nodes[left].link, nodes[right].link
    return bool(left == NONE and right == NONE)


@inline
def _difference(
    before: int, middle: int, end: int, allowed: np.ndarray, pool: TracePool, emitted: np.ndarray
) -> int:
    """Reduce rows to the difference: those from ``before`` to ``middle`` are the old results, those
    up to ``end`` the new ones. Keeps retractions and insertions; returns the number of rows.
    """
    for old in range(before, middle):
        emitted[old].plus = False
        for new in range(middle, end):
            if emitted[new].kind != NONE and _alike(emitted[old], emitted[new], allowed, pool):
                emitted[old].kind = NONE
                emitted[new].kind = NONE
                break
    rows = before
    for place in range(before, end):
        if emitted[place].kind != NONE:
            emitted[rows] = emitted[place]
            rows += 1
    return rows


@inline
def _no_room(n: int, rows: int, pool: TracePool, recent: Recent, emitted: np.ndarray) -> bool:
    """Return whether the old and new results of a trace with ``n`` events may lack room."""
    most = MOST_RESULTS * (n + 2)
    return bool(
        rows + 2 * most > len(emitted)
        or recent.used[0] + most > len(recent.results)
        or pool.used[0] + 3 * (n + 2) > len(pool.nodes)
    )


@inline
def _insert(
    entry: int, n: int, i: int, events: TraceEvents, pool: TracePool, kept: Rewritable
) -> None:
    """Insert event ``i`` into the ``n`` events of ``order``, after those of equal time."""
    place = n
    while place > 0 and pool.nodes[kept.order[place - 1]].ref <= events.ref[i]:
        place -= 1
    new = put(pool, i, events, kept.order[place] if place < n else NONE, 0)
    if place > 0:
        pool.nodes[kept.order[place - 1]].link = new
    else:
        kept.tails[entry] = new


@inline
def _renew_recent(key: int, first: int, end: int, recent: Recent, emitted: np.ndarray) -> None:
    """Replace the recent results of a key by the rows from ``first`` to ``end``."""
    for place in range(recent.used[0]):
        if recent.results[place].key == key:
            recent.results[place].certainty = 1
    keep_recent(emitted, first, end, recent)


@kernel
def follow_and_rewrite(
    first: int, keyed: Keyed, now: np.ndarray, progress: TraceProgress, limits: np.ndarray,
    since: np.ndarray, timeout: int, tables: TraceTables,
    events: TraceEvents, pool: TracePool, recent: Recent, kept: Rewritable, emitted: np.ndarray,
) -> tuple[int, int, int]:  # fmt: skip
    """As ``constraint.step.follow``, with late events.

    ``limits``: per event, the time from which on events rewrite their traces. Events are kept from
    ``since`` on, which is not later.

    Returns:
        as ``follow``, and the number of events for which a trace needs room.
    """
    rows, entered, traces = 0, first, keyed.traces
    for i in range(first, len(keyed.entry)):
        if i == entered:
            entered = min(i + AT_ONCE, len(keyed.entry))
            if keyed.tally[0] + AT_ONCE > len(traces):
                return i, rows, 0
            enter_traces(i, entered, events.symbol, keyed)
        mine, ref = keyed.entry[i], events.ref[i]
        if mine == NONE:
            continue
        if ref < limits[i]:
            kept.beyond[0] += 1
            continue
        trace, before = traces[mine], rows
        if no_room(rows, recent, emitted) or pool.used[0] + 2 > len(pool.nodes):
            return i, rows, 0
        if timeout > 0 and due(trace, now[i], timeout, tables):
            rows = run_out_later(trace, progress, timeout, tables, emitted, rows)
        again = trace.flags & RUN_OUT != 0 and ref <= deadline(trace.last_end, timeout, tables)
        keep_recent(emitted, before, rows, recent)
        before, place = rows, NONE
        if may_deny(trace, i, events):
            rest = (tables, events, recent, recent.used[0])
            place = denied(trace, i, timeout, since[i], *rest)
        if ref >= trace.last_ref and not again and place == NONE:
            rows = step(trace, i, i, timeout, INT_MIN, tables, events, pool, emitted, rows)
            if timeout > 0 and due(trace, now[i], timeout, tables):
                rows = run_out(trace, i, timeout, tables, emitted, rows)
            kept.tails[mine] = put(pool, i, events, kept.tails[mine], 0)
            keep_recent(emitted, before, rows, recent)
            continue
        n = _listed(mine, pool, kept)
        if _no_room(n, rows, pool, recent, emitted):
            return i, rows, n
        n = settle(mine, since[i], timeout, tables, pool, kept, emitted, rows)
        before = rows
        middle = _replay(
            mine, trace.key, n, i, now[i], timeout, tables, pool, kept, emitted, before
        )
        _insert(mine, n, i, events, pool, kept)
        n = _listed(mine, pool, kept)
        unknown = events.doubt[i] & (OTHERS | NOBODY_KNOWS)
        for place in range(n if unknown & OTHERS else 0):
            pool.nodes[kept.order[place]].doubt |= unknown
        end = _replay(mine, trace.key, n, i, now[i], timeout, tables, pool, kept, emitted, middle)
        traces[mine] = kept.scratch[0]
        _renew_recent(trace.key, middle, end, recent, emitted)
        rows = _difference(before, middle, end, tables.allowed, pool, emitted)
    return len(keyed.entry), rows, 0


class WiderErrors(NamedTuple):
    """``engine.core.released.Refuted`` as arrays: clocks and offsets, the additional error of their
    events, and the bounds of their times.
    """

    clock: np.ndarray
    epoch: np.ndarray
    by: np.ndarray
    low: np.ndarray
    high: np.ndarray


@inline
def _is_of(wider: WiderErrors, k: int, clock: int, epoch: int) -> bool:
    number = wider.epoch[k]
    return bool(wider.clock[k] == clock and (number in (NO_EPOCH, epoch) or epoch == NO_EPOCH))


@inline
def _wider_event(node: Record, wider: WiderErrors) -> None:
    for k in range(len(wider.clock)):
        low, high = node.ref - node.unc, node.latest
        then = high >= wider.low[k] and low <= wider.high[k]
        if then and _is_of(wider, k, node.clock, node.epoch):
            node.unc = min(node.unc + wider.by[k], UNC_MAX_NS)
            node.latest += min(wider.by[k], UNC_MAX_NS)
            if wider.epoch[k] == NO_EPOCH:
                node.epoch = NO_EPOCH


@inline
def _wider_trace(trace: Record, wider: WiderErrors) -> None:
    """Widen a trace without kept events: if several clocks may change the order of its events, the
    trace is uncertain.
    """
    if trace.last_ref == INT_MIN:
        return
    for k in range(len(wider.clock)):
        its, apart = _is_of(wider, k, trace.clock, trace.epoch), wider.epoch[k] == NO_EPOCH
        mixed = trace.flags & MIXED != 0
        if trace.until != INT_MIN and trace.until >= wider.low[k] and (its or mixed):
            trace.until = trace.until + min(wider.by[k], UNC_MAX_NS)
            if mixed or apart:
                trace.flags |= DOUBTFUL | MIXED
            if its and apart:
                trace.epoch = NO_EPOCH


@kernel
def widen(traces: np.ndarray, known: int, wider: WiderErrors) -> None:
    """Widen the traces without kept events."""
    for entry in range(known):
        _wider_trace(traces[entry], wider)


@kernel
def judge_again(
    first: int, traces: np.ndarray, known: int, wider: WiderErrors, limit: int, now: int,
    timeout: int, tables: TraceTables, pool: TracePool, recent: Recent, kept: Rewritable,
    emitted: np.ndarray,
) -> tuple[int, int, int]:  # fmt: skip
    """Replay the traces from ``first`` on with wider errors; ``now``: progress.

    Returns:
        as ``follow_and_rewrite``, for traces.
    """
    rows = 0
    for entry in range(first, known):
        key, n = traces[entry].key, _listed(entry, pool, kept)
        if _no_room(n, rows, pool, recent, emitted):
            return entry, rows, n
        n = settle(entry, limit, timeout, tables, pool, kept, emitted, rows)
        before = rows
        middle = _replay(entry, key, n, LATER, now, timeout, tables, pool, kept, emitted, before)
        _wider_trace(kept.settled[entry], wider)
        for place in range(n):
            _wider_event(pool.nodes[kept.order[place]], wider)
        end = _replay(entry, key, n, LATER, now, timeout, tables, pool, kept, emitted, middle)
        traces[entry] = kept.scratch[0]
        _renew_recent(key, middle, end, recent, emitted)
        rows = _difference(before, middle, end, tables.allowed, pool, emitted)
    return known, rows, 0


@kernel
def mark_over(
    traces: np.ndarray, known: int, limit: int, timeout: int, tables: TraceTables, over: np.ndarray,
) -> int:  # fmt: skip
    """Mark the traces that are over and cannot be rewritten by an event; returns their number."""
    count = 0
    for entry in range(known):
        trace = traces[entry]
        last = trace.until
        if trace.flags & RUN_OUT:
            last = deadline(last, timeout, tables)
        over[entry] = trace.flags & (FRESH | RUN_OUT) != 0 and last < limit
        count += over[entry]
    return count
