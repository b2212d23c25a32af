"""Which of a key's ambiguous events can be in a window together.

Events of one source and epoch share one clock error, so they move together: their true times keep
their order, and the errors of two of them differ by at most what their uncertainties do (a skew
that is not known exactly makes the uncertainty grow between two syncs, and never fall). What lies
in the window is therefore a *run* of the events of a clock in order of time. A clock's runs are
told by where they start and where they can end. Events that share no clock are runs of one.

With errors e(i) in [-u(i), u(i)] and |e(i) - e(j)| <= |u(i) - u(j)|, a run that starts with
event p and ends before event q exists if the bounds that the two ends put on the four events
around them agree, pair by pair (difference constraints; Cormen et al., ch. 24). All bounds are sums
of ``ref - u`` or ``ref + u``, which only ascend, so the possible q of each p form a stretch, and
both of its ends move one way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.jit import njit
from engine.window.kept import Kept

NO_EPOCH = -1


class Runs(NamedTuple):
    """The runs of ``n`` events, by clock.

    ``event``: places in ``Kept``, clock after clock, in order of time. ``unit``: (units + 1) where
    each unit of events starts that no error can part. ``clock``: (clocks + 1) where each clock's
    units start. ``low``, ``high``: per unit ``ref - unc`` and ``ref + unc``. Of clock ``g`` and its
    unit ``p`` (or its end) place ``p + g`` of ``nearest`` and ``farthest`` says which units can be
    the first behind a run that starts with p; none where the one is larger than the other.
    """

    event: np.ndarray
    unit: np.ndarray
    clock: np.ndarray
    low: np.ndarray
    high: np.ndarray
    nearest: np.ndarray
    farthest: np.ndarray


@njit
def _in_order(kept: Kept, found: np.ndarray) -> np.ndarray:
    """``found`` by source, epoch and time."""
    if len(found) < 2:
        return found
    for name in range(4):
        if name == 0:
            key = kept.unc[found]
        elif name == 1:
            key = kept.ref[found]
        elif name == 2:
            key = kept.epoch[found]
        else:
            key = kept.source[found].astype(np.int64)
        found = found[np.argsort(key, kind="mergesort")]
    return found


@njit
def _ends(runs: Runs, a: int, b: int, p: int, start: int, end: int, first: int) -> tuple[int, int]:
    """(nearest, farthest) of unit ``p`` of the clock with units [a, b); from ``first`` on."""
    low, high = runs.low, runs.high
    if (p > a and low[p - 1] >= start) or (p < b and high[p] < start):
        return b + 1, b
    if p == b:
        return b, b
    needed = end
    if p > a:
        needed = max(needed, high[p - 1] + (end - start) + 1)
    q = max(p, first)
    while q < b and high[q] < needed:
        q += 1
    limit = min(end - 1, low[p] + (end - 1 - start))
    if q > p and low[q - 1] > limit:
        return b + 1, b
    last = q
    while last < b and low[last] <= limit:
        last += 1
    return q, last


@njit
def runs_of(kept: Kept, found: np.ndarray, start: int, end: int) -> Runs:
    """The runs of the events ``found`` in the window [start, end)."""
    event = _in_order(kept, found)
    n = len(event)
    unit, clock = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    units = clocks = 0
    for j in range(n):
        k, before = event[j], event[j - 1]
        alone = j == 0 or kept.epoch[k] == NO_EPOCH or kept.epoch[k] != kept.epoch[before]
        alone = alone or kept.source[k] != kept.source[before]
        if alone:
            clock[clocks] = units
            clocks += 1
        if alone or kept.ref[k] != kept.ref[before] or kept.unc[k] != kept.unc[before]:
            unit[units] = j
            low[units] = kept.ref[k] - kept.unc[k]
            high[units] = kept.ref[k] + kept.unc[k]
            units += 1
    unit[units] = n
    clock[clocks] = units
    places = units + clocks
    runs = Runs(
        event, unit[: units + 1], clock[: clocks + 1], low[:units], high[:units],
        np.empty(places, np.int64), np.empty(places, np.int64),
    )  # fmt: skip
    for g in range(clocks):
        a, b = clock[g], clock[g + 1]
        first = a
        for p in range(a, b + 1):
            near, far = _ends(runs, a, b, p, start, end, first)
            runs.nearest[p + g] = near
            runs.farthest[p + g] = far
            if near <= far:
                first = near
    return runs
