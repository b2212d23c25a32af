"""SEQ over active instance stacks for a stream in total order: SASE's way (L10 4.2).

The simple approach of L10 Figure 4.9. An event is appended to the stack of its type with the place
of the most recent event in the stack before (RIP), and what the window has left is dropped first;
so all that a last event can reach by RIPs is a match. Nothing here knows what an event out of order
would need. Only for steps of different types without predicates, which is all the figure asks.

When not to use: whenever an event may be out of order; it is lost, or makes wrong matches.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import njit

_FIRST_ROOM = 1024


@njit
def in_order_matches(ts: np.ndarray, kind: np.ndarray, steps: int, within_ns: int) -> np.ndarray:
    """Every match, as int64 rows (matches, ``steps``) into the stream, by their last event.

    Args:
        ts: times [ns], never falling (int64).
        kind: the step whose type an event has, -1 if it is of none (int64).
        steps: number of steps, 2 or more.
        within_ns: last less first at most.
    """
    rows = np.empty((steps, len(ts)), np.int64)
    rip = np.empty((steps, len(ts)), np.int64)
    bottom, top = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    found, count = np.empty((_FIRST_ROOM, steps), np.int64), 0
    for row in range(len(ts)):
        step, now = kind[row], ts[row]
        for each in range(steps):
            while bottom[each] < top[each] and ts[rows[each, bottom[each]]] + within_ns < now:
                bottom[each] += 1
        recent = -1
        if step > 0:
            recent = top[step - 1] - 1
            while recent >= bottom[step - 1] and ts[rows[step - 1, recent]] == now:
                recent -= 1
        if step < 0 or (step > 0 and recent < bottom[step - 1]):
            continue  # the automaton is not in the state that waits for this event
        rows[step, top[step]] = row
        rip[step, top[step]] = recent
        top[step] += 1
        if step == steps - 1:
            found, count = _walked(rows, rip, bottom, top[step] - 1, found, count)
    return found[:count]


@njit
def _walked(
    rows: np.ndarray, rip: np.ndarray, bottom: np.ndarray, last: int, found: np.ndarray, count: int
) -> tuple[np.ndarray, int]:
    """``found`` and ``count`` with the matches that end at place ``last`` of the last stack."""
    steps = len(rows)
    at = np.empty(steps, np.int64)
    at[steps - 1] = last
    depth = steps - 2
    at[depth] = rip[steps - 1, last]
    while depth < steps - 1:
        if at[depth] < bottom[depth]:  # all tried here: the next one of the step after
            depth += 1
            at[depth] -= 1
        elif depth > 0:
            depth -= 1
            at[depth] = rip[depth + 1, at[depth + 1]]
        else:
            if count == len(found):
                more = np.empty((2 * count, steps), np.int64)
                more[:count] = found
                found = more
            for step in range(steps):
                found[count, step] = rows[step, at[step]]
            count += 1
            at[0] -= 1
    return found, count
