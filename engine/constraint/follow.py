"""Events of a batch, in the order in which they are released: each to its trace."""

from __future__ import annotations

import numpy as np

from engine.constraint.basic import Basic
from engine.constraint.keyed import AT_ONCE, Keyed, enter_traces
from engine.constraint.step import TELLS, due, run_out, step
from engine.constraint.traces import LATER, Events, Pool, Tables
from engine.kernels.integers import NONE
from engine.kernels.jit import kernel


@kernel
def follow(
    first: int, keyed: Keyed, now: np.ndarray, settled: np.ndarray, timeout: int, tables: Tables,
    basic: Basic, events: Events, pool: Pool, told: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Take events from ``first`` on to their traces; ``now`` is how far progress was before each,
    ``settled``: before when no clock's error can take it.

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
                rows = step(
                    trace, i, i, timeout, settled[i], tables, basic, events, pool, told, rows
                )
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
