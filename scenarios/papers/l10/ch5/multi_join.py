"""L10's ISEQ operator as printed (Algorithms 11 and 13), its three ways, over one query's chain.

The query relates one end point of each step, first starts and then ends, in ascending order. An
interval that may be the newest of a match (of a step with a start, or of the last) starts a join.
Naive: a multi-join, in which each interval in the stack of a step is tested. Basic indexing: the
ends are stacks (AIS) with RIP pointers, searched depth first; the starts are joined as before.
IBP-incorporated: starts are in stacks too, in order of their begin punctuations, and searched like
the ends. Dropped are, as printed, intervals out of the window, ends whose step before holds nothing
(on the fly, and cascading), and in indexed stacks what a RIP shows to have nothing below (cascading
AIS purge). Matches are those of ``one_pass`` (``tests/scenarios/test_l10_figures.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import njit

MULTI_JOIN: Final = 0
AIS_OF_ENDS: Final = 1
AIS_OF_ALL: Final = 2
_NONE: Final = -1
_WORK: Final = np.dtype([(name, "i8") for name in ("matches", "tested", "dropped", "buffer_sizes")])


@dataclass(frozen=True, slots=True)
class EndPoints:
    """``steps`` of a chain; the last ``ends`` relate ends; an attribute rises over the last
    ``rising``; ``within_ns``: newest end less oldest start at most.
    """

    steps: int
    ends: int
    rising: int
    within_ns: int


@dataclass(frozen=True, slots=True)
class MultiJoinCounts:
    """``tested``: candidates. ``dropped``: intervals for want of a partner. ``buffer_size``:
    intervals in memory, on the average over the second half of them.
    """

    matches: int
    tested: int
    dropped: int
    buffer_size: float


def multi_join(
    kind: np.ndarray, ts: np.ndarray, te: np.ndarray, value: np.ndarray, chain: EndPoints, way: int
) -> MultiJoinCounts:
    """A pass over intervals in order of their ends (int64 [ns], no two alike; ``value`` float64).

    ``kind``: the step of an interval; beyond the last step: none.
    """
    count = len(kind)
    rows, begins = np.arange(count), np.zeros(count, np.bool_)
    if way == AIS_OF_ALL:
        order = np.argsort(np.concatenate((ts, te)), kind="stable")
        rows, begins = order % count, order < count
    work = _joined(
        rows, begins, kind.astype(np.int64), ts, te, value, chain.steps, chain.ends, chain.rising,
        chain.within_ns, way,
    )  # fmt: skip
    matches, tested, dropped, buffer_sizes = map(int, work[0].item())
    return MultiJoinCounts(matches, tested, dropped, buffer_sizes / max(count - count // 2, 1))


@njit
def _joined(
    rows: np.ndarray, begins: np.ndarray, kind: np.ndarray, ts: np.ndarray, te: np.ndarray,
    value: np.ndarray, steps: int, ends: int, rising: int, within: int, way: int,
) -> np.ndarray:  # fmt: skip
    starts, count = steps - ends, len(kind)
    stack = np.empty((steps, count), np.int64)
    low, high = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    rip, place = np.zeros(count, np.int64), np.full(count, _NONE)
    done, work = np.zeros(count, np.bool_), np.zeros(1, _WORK)
    chosen, order = np.full(steps, _NONE), np.empty(steps, np.int64)
    at, stop = np.empty(steps, np.int64), np.empty(steps, np.int64)
    indexed = 0 if way == AIS_OF_ALL else starts if way == AIS_OF_ENDS else steps
    buffer_size = seen = 0
    for record in range(len(rows)):
        row, step = rows[record], kind[rows[record]]
        now = ts[row] if begins[record] else te[row]
        for each in range(steps):
            was = low[each]
            while low[each] < high[each] and (
                ts[stack[each, low[each]]] + within < now
                or (each > indexed and rip[stack[each, low[each]]] <= low[each - 1])
                or (each > starts and low[each - 1] == high[each - 1])
            ):
                low[each] += 1
            for gone in range(was, low[each]):
                buffer_size -= done[stack[each, gone]]
        if not begins[record]:
            seen += 1
        begun = way == AIS_OF_ALL and step < starts
        if step < steps and te[row] - ts[row] <= within:
            if begins[record] == begun:
                chained = step > starts or step > indexed
                if chained and low[step - 1] == high[step - 1]:
                    work[0].dropped += 1
                else:
                    rip[row] = high[step - 1] if step > indexed else 0
                    place[row] = high[step]
                    stack[step, high[step]] = row
                    high[step] += 1
            if not begins[record] and place[row] >= low[step]:
                done[row] = True
                buffer_size += 1
                if step < starts or step == steps - 1:
                    _sequence(order, step, steps, starts, way)
                    _construct(
                        stack, low, high, rip, done, ts, te, value, chosen, order, at, stop, row,
                        starts, steps - rising, within, indexed, work,
                    )  # fmt: skip
        if not begins[record] and seen > count // 2:
            work[0].buffer_sizes += buffer_size
    return work


@njit
def _sequence(order: np.ndarray, step: int, steps: int, starts: int, way: int) -> None:
    """In which order steps are joined to the newest interval, which is of ``step``."""
    n, order[0] = 1, step
    indexed = 0 if way == AIS_OF_ALL else starts if way == AIS_OF_ENDS else steps
    for each in range(steps - 1, indexed - 1, -1):
        if each != step:
            order[n], n = each, n + 1
    for each in range(indexed):
        if each != step:
            order[n], n = each, n + 1


@njit
def _construct(
    stack: np.ndarray, low: np.ndarray, high: np.ndarray, rip: np.ndarray, done: np.ndarray,
    ts: np.ndarray, te: np.ndarray, value: np.ndarray, chosen: np.ndarray, order: np.ndarray,
    at: np.ndarray, stop: np.ndarray, row: int, starts: int, rises: int, within: int, indexed: int,
    work: np.ndarray,
) -> None:  # fmt: skip
    """All matches with the newest interval, depth first; each candidate that is tested counts."""
    steps, since, newest = len(order), te[row] - within, order[0]
    chosen[:] = _NONE
    chosen[newest] = row
    if steps == 1:
        work[0].matches += 1
        return
    depth, opens, tested = 1, True, 0
    while depth:
        step = order[depth]
        chosen[step] = _NONE
        if opens:
            at[depth], stop[depth], opens = low[step], high[step], False
            if step >= indexed and step + 1 < steps and chosen[step + 1] != _NONE:
                stop[depth] = rip[chosen[step + 1]]
        if at[depth] >= stop[depth]:
            depth -= 1
            continue
        found = stack[step, at[depth]]
        at[depth] += 1
        tested += 1
        if not done[found] or ts[found] < since:
            continue
        if not _fits(chosen, ts, te, value, step, found, newest, starts, rises):
            continue
        chosen[step] = found
        if depth + 1 == steps:
            work[0].matches += 1
        else:
            depth, opens = depth + 1, True
    work[0].tested += tested


@njit
def _point(ts: np.ndarray, te: np.ndarray, row: int, step: int, starts: int) -> int:
    return int(ts[row] if step < starts else te[row])


@njit
def _fits(
    chosen: np.ndarray, ts: np.ndarray, te: np.ndarray, value: np.ndarray, step: int, found: int,
    newest: int, starts: int, rises: int,
) -> bool:  # fmt: skip
    """Whether a candidate keeps the restrictions, given and inferred, on what is joined already."""
    mine = _point(ts, te, found, step, starts)
    for other in (step - 1, step + 1, newest, starts):
        if 0 <= other < len(chosen) and other != step and chosen[other] != _NONE:
            point = _point(ts, te, chosen[other], other, starts)
            if (mine <= point) if other < step else (mine >= point):
                return False
            if other == step - 1 >= rises and value[chosen[other]] >= value[found]:
                return False
            if other == step + 1 > rises and value[chosen[other]] <= value[found]:
                return False
    return True
