"""Events of a batch, in the order in which they are released: each to its trace."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.constraint.basic import Basic
from engine.constraint.step import TELLS, due, run_out, step
from engine.constraint.traces import FRESH, LATER, Events, Pool, Tables
from engine.kernels.integers import INT_MIN, NONE
from engine.kernels.jit import inline, kernel
from engine.kernels.table import slot_of

AT_ONCE: Final = 256
"""Events whose traces are looked up together."""


class Keyed(NamedTuple):
    """Traces by key.

    Attributes:
        traces: TRACE, those that there are first.
        rows: the same memory as rows of int64, of which the first is the key.
        slots: the hash table.
        tally: int64 (1,): how many traces there are.
        key: int64, of each event of a batch.
        entry: int32, of each event the place of its trace, NONE for what is not read; to be filled.
    """

    traces: np.ndarray
    rows: np.ndarray
    slots: np.ndarray
    tally: np.ndarray
    key: np.ndarray
    entry: np.ndarray


@inline
def enter_traces(first: int, stop: int, symbol: np.ndarray, keyed: Keyed) -> None:
    """Fill in the entries of some events; new keys get one, for which there is room.

    Some at once, as look-ups of several events do not wait for one another, and so few that their
    traces are still at hand when the events come to them.
    """
    known, traces = keyed.tally[0], keyed.traces
    for i in range(first, stop):
        keyed.entry[i] = NONE
        if symbol[i] < 0:
            continue
        slot = slot_of(keyed.slots, keyed.rows, (keyed.key[i],))
        if keyed.slots[slot] == NONE:
            keyed.slots[slot] = known
            traces[known].key = keyed.key[i]
            traces[known].last_ref = INT_MIN
            traces[known].path = NONE
            traces[known].flags = FRESH
            known += 1
        keyed.entry[i] = keyed.slots[slot]
    keyed.tally[0] = known


@kernel
def follow(
    first: int, keyed: Keyed, now: np.ndarray, timeout: int, tables: Tables, basic: Basic,
    events: Events, pool: Pool, told: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Take events from ``first`` on to their traces; ``now`` is how far progress was before each.

    Returns:
        The first event that was not taken, as there was no room (their number: all were), and how
        many rows are told.
    """
    i, rows, n = first, 0, len(keyed.entry)
    while i < n:
        stop = min(n, i + AT_ONCE)
        if keyed.tally[0] + AT_ONCE > len(keyed.traces):
            return i, rows
        enter_traces(i, stop, events.symbol, keyed)
        while i < stop:
            if rows + TELLS + 2 > len(told) or pool.used[0] >= len(pool.nodes):
                return i, rows
            entry = keyed.entry[i]
            if entry != NONE:
                trace = keyed.traces[entry]
                if timeout > 0 and due(trace, now[i], timeout):
                    rows = run_out(trace, LATER, timeout, tables, told, rows)
                rows = step(trace, i, i, timeout, tables, basic, events, pool, told, rows)
                if timeout > 0 and due(trace, now[i], timeout):
                    rows = run_out(trace, i, timeout, tables, told, rows)
            i += 1
    return n, rows


@kernel
def keep_open(traces: np.ndarray, settled: np.ndarray, tails: np.ndarray, over: np.ndarray,
              known: int) -> int:  # fmt: skip
    """Move what is not ``over`` to the front; gives its number. ``settled`` may be empty."""
    kept = 0
    for entry in range(known):
        if not over[entry]:
            traces[kept] = traces[entry]
            if len(settled):
                settled[kept] = settled[entry]
                tails[kept] = tails[entry]
            kept += 1
    return kept
