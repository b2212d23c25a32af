"""Which of a key's ambiguous events can be in a window together.

Events of one clock and epoch share one clock error, so they move together: their true times keep
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

from engine.kernels.jit import inline, kernel, njit
from engine.kernels.records import record
from engine.window.held.kept import Kept

NO_EPOCH = -1
SIZE = record("events", "units", "clocks")


class Runs(NamedTuple):
    """The runs of events, by clock; room for so many is made once and used again and again.

    ``size``: how many there are now, one SIZE.
    ``event``: places in ``Kept``, clock after clock, in order of time. ``unit``: (units + 1) where
    each unit of events starts that no error can part. ``clock``: (clocks + 1) where each clock's
    units start. ``low``, ``high``: per unit ``ref - unc`` and ``ref + unc``. Of clock ``g`` and its
    unit ``p`` (or its end) place ``p + g`` of ``nearest`` and ``farthest`` says which units can be
    the first behind a run that starts with p; none where the one is larger than the other.
    ``spare``: to sort in, and to search in.
    """

    size: np.ndarray
    event: np.ndarray
    unit: np.ndarray
    clock: np.ndarray
    low: np.ndarray
    high: np.ndarray
    nearest: np.ndarray
    farthest: np.ndarray
    spare: np.ndarray


@njit
def new_runs(events: int) -> Runs:
    """Room for so many events."""
    n = events + 1
    return Runs(
        np.zeros(1, SIZE), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip


@inline
def _before(kept: Kept, i: int, j: int) -> bool:
    """By clock, epoch, time and uncertainty."""
    if kept.clock[i] != kept.clock[j]:
        return bool(kept.clock[i] < kept.clock[j])
    if kept.epoch[i] != kept.epoch[j]:
        return bool(kept.epoch[i] < kept.epoch[j])
    if kept.ref[i] != kept.ref[j]:
        return bool(kept.ref[i] < kept.ref[j])
    return bool(kept.unc[i] < kept.unc[j])


@kernel
def _sort(kept: Kept, n: int, event: np.ndarray, spare: np.ndarray) -> None:
    """Merge sort of the first ``n`` of ``event``, from pairs upwards; it is stable."""
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for to in range(start, end):
                if i < middle and (j == end or not _before(kept, event[j], event[i])):
                    spare[to] = event[i]
                    i += 1
                else:
                    spare[to] = event[j]
                    j += 1
        for j in range(n):
            event[j] = spare[j]
        width *= 2


@kernel
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


@kernel
def find_runs(kept: Kept, start: int, end: int, runs: Runs) -> None:
    """Write the runs of ``runs.event``, in any order, in the window [start, end)."""
    n, event = runs.size[0].events, runs.event
    _sort(kept, n, event, runs.spare)
    units = clocks = 0
    for j in range(n):
        k, before = event[j], event[j - 1]
        alone = j == 0 or kept.epoch[k] == NO_EPOCH or kept.epoch[k] != kept.epoch[before]
        alone = alone or kept.clock[k] != kept.clock[before]
        if alone:
            runs.clock[clocks] = units
            clocks += 1
        if alone or kept.ref[k] != kept.ref[before] or kept.unc[k] != kept.unc[before]:
            runs.unit[units] = j
            runs.low[units] = kept.ref[k] - kept.unc[k]
            runs.high[units] = kept.ref[k] + kept.unc[k]
            units += 1
    runs.unit[units] = n
    runs.clock[clocks] = units
    runs.size[0].units = units
    runs.size[0].clocks = clocks
    for g in range(clocks):
        a, b = runs.clock[g], runs.clock[g + 1]
        first = a
        for p in range(a, b + 1):
            near, far = _ends(runs, a, b, p, start, end, first)
            runs.nearest[p + g] = near
            runs.farthest[p + g] = far
            if near <= far:
                first = near
