"""L10's SSC operator over active instance stacks, Algorithms 6 to 9, each part to be left out.

An event goes into the stack of its type in order of time, with its RIP: how many entries of the
stack before are older. With ``late`` off the input is taken for ordered: every event is appended,
and what the window has left is dropped at once (SASE's way, L10 4.2). With it on an event that is
older than the newest is searched a place for (sort semantics), moves those above it and the RIPs
that point there, and is put together with what lies on both sides of it; stacks keep K longer.
``clock`` (AIS-CLOCK): an event newer than all is appended without a search; without it sort
semantics place every event. ``partition``: a newest event looks at the window only (the divider).

Nothing here serves more than steps of different types without predicates, which is all the figures
ask; matches are those of ``engine.operators.match`` (``tests/scenarios/test_l10_ch4_data.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import njit

BINARY: Final = 0
FROM_NEWEST: Final = 1
FROM_OLDEST: Final = 2
SEARCHES: Final = {
    "binary search": BINARY, "from the newest": FROM_NEWEST, "from the oldest": FROM_OLDEST,
}  # fmt: skip
"""How sort semantics look for a place; the paper does not say."""
_WORK: Final = np.dtype([(name, "i8") for name in ("compared", "moved", "reset", "visited")])


@dataclass(frozen=True, slots=True)
class Scan:
    """Which parts are there; ``within_ns``: the window, ``slack_ns``: the promised K.

    ``construct``: sequences are built, else the stacks alone.
    """

    within_ns: int
    slack_ns: int
    late: bool = True
    clock: bool = True
    partition: bool = True
    search: int = BINARY
    construct: bool = True


@dataclass(frozen=True, slots=True)
class ScanCounts:
    """``matches``: how many. Work on the stacks: times ``compared``, entries ``moved``, RIPs
    ``reset``; on sequences: entries ``visited``. ``stacks``: of every step, the times held at the
    end, and their RIPs.
    """

    matches: int
    compared: int
    moved: int
    reset: int
    visited: int
    stacks: tuple[tuple[list[int], list[int]], ...]

    @property
    def steps(self) -> int:
        """All work on the stacks."""
        return self.compared + self.moved + self.reset


def scan(ts: np.ndarray, kind: np.ndarray, steps: int, options: Scan) -> ScanCounts:
    """A pass over a stream.

    Args:
        ts: times [ns] in order of arrival, all different (int64).
        kind: the step whose type an event has (int64).
        steps: number of steps, 2 or more.
        options: the parts.
    """
    matches, work, time, rip, bottom, top = _scanned(
        ts, kind, steps, options.within_ns, options.slack_ns, options.late, options.clock,
        options.partition, options.search, options.construct,
    )  # fmt: skip
    ends = zip(time, rip, bottom.tolist(), top.tolist(), strict=True)
    stacks = tuple((t[low:high].tolist(), r[low:high].tolist()) for t, r, low, high in ends)
    compared, moved, reset, visited = map(int, work[0].item())
    return ScanCounts(int(matches), compared, moved, reset, visited, stacks)


@njit
def _first_above(
    time: np.ndarray, low: int, high: int, now: int, search: int, work: np.ndarray
) -> int:
    """The lowest place from ``low`` on whose time is above ``now``."""
    if search == FROM_NEWEST:
        while high > low:
            work[0].compared += 1
            if time[high - 1] <= now:
                break
            high -= 1
        return high
    if search == FROM_OLDEST:
        while low < high:
            work[0].compared += 1
            if time[low] > now:
                break
            low += 1
        return low
    while low < high:
        work[0].compared += 1
        middle = (low + high) >> 1
        if time[middle] > now:
            high = middle
        else:
            low = middle + 1
    return low


@njit
def _sorted_in(
    time: np.ndarray, rip: np.ndarray, bottom: np.ndarray, top: np.ndarray, divider: np.ndarray,
    step: int, now: int, search: int, work: np.ndarray,
) -> int:  # fmt: skip
    """Sort semantics: put an event where it belongs; its place."""
    at = _first_above(time[step], bottom[step], top[step], now, search, work)
    for place in range(top[step], at, -1):
        time[step, place] = time[step, place - 1]
        rip[step, place] = rip[step, place - 1]
        work[0].moved += 1
    time[step, at] = now
    top[step] += 1
    if at < divider[step]:
        divider[step] += 1
    rip[step, at] = 0
    if step > 0:
        before = step - 1
        rip[step, at] = _first_above(time[before], bottom[before], top[before], now, search, work)
    if step + 1 < len(time):
        after = step + 1
        first = _first_above(time[after], bottom[after], top[after], now, search, work)
        for place in range(first, top[after]):
            rip[after, place] += 1
            work[0].reset += 1
    return at


@njit
def _until(
    time: np.ndarray, rip: np.ndarray, low: np.ndarray, step: int, at: int, since: int,
    work: np.ndarray,
) -> int:  # fmt: skip
    """Sequences of the steps up to ``step`` that end at place ``at`` and begin at ``since`` or
    later, by their RIPs; built one by one, depth first.
    """
    first = time[0]
    if step == 0:
        return 1 if first[at] >= since else 0
    found, depth, visited = 0, step - 1, 0
    places = np.empty(step, np.int64)
    places[depth] = rip[step, at] - 1
    while depth < step:
        visited += 1
        if places[depth] < low[depth]:
            depth += 1
            if depth < step:
                places[depth] -= 1
        elif depth:
            depth -= 1
            places[depth] = rip[depth + 1, places[depth + 1]] - 1
        else:
            if first[places[0]] >= since:
                found += 1
            places[0] -= 1
    work[0].visited += visited
    return found


@njit
def _around(
    time: np.ndarray, rip: np.ndarray, low: np.ndarray, top: np.ndarray, step: int, at: int,
    within: int, work: np.ndarray,
) -> int:  # fmt: skip
    """Sequences that an event out of order takes part in: the ways on from it to a last event, and
    for each what may come before it in the window.
    """
    steps = len(time)
    if step == steps - 1:
        return _until(time, rip, low, step, at, time[step, at] - within, work)
    found, depth, visited = 0, step + 1, 0
    places = np.empty(steps, np.int64)
    places[step] = at
    places[depth] = np.searchsorted(time[depth, : top[depth]], time[step, at], side="right")
    while depth > step:
        visited += 1
        if places[depth] >= top[depth] or places[depth] < low[depth]:
            if places[depth] < low[depth]:
                places[depth] = low[depth]
                continue
            depth -= 1
            if depth > step:
                places[depth] += 1
        elif depth < steps - 1:
            now = time[depth, places[depth]]
            depth += 1
            places[depth] = np.searchsorted(time[depth, : top[depth]], now, side="right")
        else:
            found += _until(time, rip, low, step, at, time[depth, places[depth]] - within, work)
            places[depth] += 1
    work[0].visited += visited
    return found


@njit
def _scanned(
    ts: np.ndarray, kind: np.ndarray, steps: int, within: int, slack: int, late: bool,
    clock: bool, partition: bool, search: int, construct: bool,
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Matches, work, and the stacks: times, RIPs, and where each begins and ends."""
    time, rip = np.zeros((steps, len(ts)), np.int64), np.zeros((steps, len(ts)), np.int64)
    bottom, top = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    divider, work = np.zeros(steps, np.int64), np.zeros(1, _WORK)
    keep = within + slack if late else within
    newest, matches = ts[0] - 1, 0
    for row in range(len(ts)):
        now, step = ts[row], kind[row]
        is_newest = now > newest or not late
        if is_newest:
            newest = now
            for each in range(steps):
                while bottom[each] < top[each] and time[each, bottom[each]] + keep < newest:
                    bottom[each] += 1
                if late and partition:
                    divider[each] = max(divider[each], bottom[each])
                    while divider[each] < top[each] and (
                        time[each, divider[each]] + within < newest
                    ):
                        divider[each] += 1
        if late and (not is_newest or not clock):
            at = _sorted_in(time, rip, bottom, top, divider, step, now, search, work)
        else:
            at = top[step]
            time[step, at] = now
            rip[step, at] = top[step - 1] if step else 0
            top[step] += 1
        if not construct:
            continue
        if not is_newest:
            matches += _around(time, rip, bottom, top, step, at, within, work)
        elif step == steps - 1:
            low = divider if late and partition else bottom
            matches += _until(time, rip, low, step, at, now - within, work)
    return matches, work, time, rip, bottom, top
