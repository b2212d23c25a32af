"""How often recorded traces break a constraint, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.query.automata.dfa import DEAD, Dfa


@dataclass(frozen=True, slots=True)
class Conformance:
    """``traces``: all of them, of which ``complete`` may end where they do, ``open`` may go on, and
    ``broken`` do what is not allowed. ``breaks``: how many by (what came, what was allowed).
    """

    traces: int
    complete: int
    open: int
    broken: int
    breaks: Counter[tuple[str, str]]

    @property
    def broken_share(self) -> float:
        """Of all traces."""
        return self.broken / self.traces if self.traces else 0.0


@kernel
def _walk(
    table: np.ndarray, trace: np.ndarray, symbol: np.ndarray, state: np.ndarray, at: np.ndarray,
    until: np.ndarray,
) -> int:  # fmt: skip
    """Events sorted by trace; fills in the ``state`` of each trace at its end, or before it breaks,
    the event that breaks it (-1: none) and the end of its events. Gives the number of traces; one
    that may not go on is over, and its key's next event begins another.
    """
    n, over = -1, True
    for i in range(len(trace)):
        fresh = i == 0 or trace[i] != trace[i - 1]
        if fresh or (over and at[n] < 0):
            n += 1
            state[n], at[n] = 0, -1
        until[n] = i + 1
        if at[n] >= 0:
            continue
        new = table[state[n], symbol[i]]
        if new == DEAD:
            at[n] = i
            continue
        state[n] = new
        over = True
        for each in range(table.shape[1]):
            over = over and table[new, each] == DEAD
    return n + 1


def conformance(dfa: Dfa, names: list[str], trace: np.ndarray, symbol: np.ndarray) -> Conformance:
    """How events, sorted by trace and in each by time, keep to ``dfa``.

    Args:
        dfa: the constraint's, trimmed.
        names: of its symbols.
        trace: int64, which trace each event is of.
        symbol: int32, of each event; all of them are the automaton's.
    """
    room = len(trace)
    state, at, until = (np.zeros(room, np.int64) for _ in range(3))
    n = _walk(dfa.table, trace, symbol, state, at, until)
    state, at = state[:n], at[:n]
    broken = at >= 0
    allowed = [
        ", ".join(name for name, ahead in zip(names, row, strict=True) if ahead != DEAD)
        or "nothing more"
        for row in dfa.table.tolist()
    ]
    came = zip(symbol[at[broken]].tolist(), state[broken].tolist(), strict=True)
    breaks = Counter((names[event], allowed[before]) for event, before in came)
    complete = int((dfa.accepts[state] & ~broken).sum())
    return Conformance(n, complete, n - complete - int(broken.sum()), int(broken.sum()), breaks)
