"""How many sequences L10's operator builds (SSC, Algorithm 7) for its window filter to look at.

A newest event of the last type is put together with all that the stacks hold; any event out of
order with all that they hold on both sides of it. The stacks hold what is not purged: with the
window only, or K longer. With the partition (Optimization 4.3) a newest event sees the window only.
The sequences are counted, not built.
"""

from __future__ import annotations

import numpy as np

from slackwater.engine.kernels.jit import njit

_NOTHING = -1


@njit
def built(
    ts: np.ndarray, kind: np.ndarray, steps: int, within_ns: int, slack_ns: int, partition: bool
) -> tuple[int, int]:
    """(sequences built for newest events, those built for events out of order).

    Args:
        ts: times [ns] in order of arrival, each of 0..n-1 once (int64).
        kind: the step whose type an event has (int64).
        steps: number of steps.
        within_ns: last less first at most.
        slack_ns: the promised K.
        partition: whether newest events see only the up-to-date part of the stacks.
    """
    step_at = np.full(len(ts), _NOTHING, np.int64)
    chains = np.empty(steps, np.int64)
    newest = -1
    for_newest = for_late = 0
    for row in range(len(ts)):
        now, step = ts[row], kind[row]
        step_at[now] = step
        is_newest = now > newest
        newest = max(newest, now)
        if is_newest and step < steps - 1:
            continue
        seen = newest - within_ns - (0 if is_newest and partition else slack_ns)
        # Sequences of the first steps that end before the event, then those that go on from it.
        chains[:] = 0
        for time in range(max(seen, 0), now):
            other = step_at[time]
            if other == 0:
                chains[0] += 1
            elif other > 0:
                chains[other] += chains[other - 1]
        until = 1 if step == 0 else chains[step - 1]
        chains[:] = 0
        chains[step] = 1
        for time in range(now + 1, newest + 1):
            other = step_at[time]
            if other > step:
                chains[other] += chains[other - 1]
        if is_newest:
            for_newest += until
        else:
            for_late += until * chains[steps - 1]
    return for_newest, for_late
