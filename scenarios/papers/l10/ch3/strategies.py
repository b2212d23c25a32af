"""The search of traces: L10 Algorithm 4 without constraints, Algorithm 5 with a check before it.

The search is that of L10 4.2: a stack per step, whose entries hold how many entries the stack of
the step before had; the last step's event makes the matches. The checks are the engine's.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import kernel
from slackwater.engine.query.automata import OPEN, SATISFIABLE, UNSATISFIABLE
from slackwater.scenarios.papers.l10.ch3.basic import Basic, derived

NAIVE: Final = 0
BASIC: Final = 1
LIGHT: Final = 2


class CheckedAutomaton(NamedTuple):
    """The automaton of constraint and pattern, what its states say, and Algorithm 1's automata."""

    table: np.ndarray
    verdict: np.ndarray
    basic: Basic


class StackColumns(NamedTuple):
    """``before``: int64 (steps, events of a trace), of each entry how many of the step before;
    ``size``: int64 (steps,); ``at``: scratch of the search.
    """

    before: np.ndarray
    size: np.ndarray
    at: np.ndarray


@kernel
def _matches(stacks: StackColumns) -> int:
    """Number of matches that end with the last step's newest entry; walks through each of them."""
    last = len(stacks.size) - 1
    found, step, newest = 0, last - 1, stacks.size[last] - 1
    stacks.at[step] = stacks.before[last, newest] - 1
    while step < last:
        if stacks.at[step] < 0:
            step += 1
            stacks.at[step] -= 1
        elif step == 0:
            found += 1
            stacks.at[step] -= 1
        else:
            stacks.at[step - 1] = stacks.before[step, stacks.at[step]] - 1
            step -= 1
    return found


@kernel
def search(
    way: int, symbols: np.ndarray, starts: np.ndarray, ends: np.ndarray, takes: np.ndarray,
    checked: CheckedAutomaton, stacks: StackColumns, known: np.ndarray, said: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Search all traces, one after another.

    Args:
        way: NAIVE, BASIC or LIGHT.
        symbols: symbols of all events.
        starts: starts of the traces.
        ends: ends of the traces, or of the parts of them to search.
        takes: bool (steps, symbols).
        checked: the automata of the constraint.
        stacks: scratch memory.
        known: filled in with the end of the events after which it is known whether a trace matches.
        said: filled in with whether it matches.

    Returns:
        The number of events buffered, summed over all events, and the number of matches.
    """
    steps, buffer_sizes, matches = len(takes), 0, 0
    last = steps - 1
    for trace in range(len(starts)):
        stacks.size[:] = 0
        state, q, verdict = 0, 0, OPEN
        buffered, over = 0, False
        known[trace], said[trace] = ends[trace], False
        for i in range(starts[trace], ends[trace]):
            if over:
                continue
            symbol = symbols[i]
            if way != NAIVE and verdict == OPEN:
                new = checked.table[state, symbol]
                if way == LIGHT:
                    if new != state:
                        verdict = checked.verdict[new]
                else:
                    first = checked.basic.first[0]
                    now = checked.basic.table[first + q, symbol] - first
                    if new != state or now != q:
                        verdict = derived(checked.basic, new, now)
                    q = now
                state = new
                if verdict == UNSATISFIABLE:
                    known[trace], over, buffered = i + 1, True, 0
                    continue
                if verdict == SATISFIABLE:
                    known[trace], said[trace] = i + 1, True
            for step in range(last, -1, -1):
                if takes[step, symbol] and (step == 0 or stacks.size[step - 1] > 0):
                    size = stacks.size[step]
                    stacks.before[step, size] = stacks.size[step - 1] if step > 0 else 0
                    stacks.size[step] = size + 1
                    buffered += 1
                    if step == last:
                        matches += _matches(stacks)
                        if not said[trace]:
                            known[trace], said[trace] = i + 1, True
            buffer_sizes += buffered
    return buffer_sizes, matches
