"""The least and largest values of a window of ROWS over all clock errors.

*Doubtful* events are in the window under some errors and outside under others. All other events are
before, in or after it under every error. So an assignment puts as many doubtful events before the
window, and as many into it, as were measured there. It is possible if there are two places in the
order of time such that every event can be on its side of both. The latest event before the window
may be as early as possible, and the earliest event after it as late, so only these places are
tried. For each pair of places every event may be on some of three sides; prefix sums of the costs
give the cheapest choice of the events inside. This is exact for independent errors; events that
share one error are treated as independent, which can only widen the bounds.

An event that may not exist costs its value or nothing, whichever is less. Events that are certainly
inside if they exist are *free*: they exist or not without changing the number of the others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import record
from slackwater.engine.operators.window.state.accumulate import (
    HALF_WORD,
    LOW_WORD,
    Summary,
    add_float,
    put_float,
    put_int,
    total_of,
)
from slackwater.engine.operators.window.state.aggregate import (
    AVG,
    COUNT,
    MIN,
    SUM,
    put_total,
    put_value,
)
from slackwater.engine.operators.window.state.cells import Kept
from slackwater.engine.operators.window.state.content import Content
from slackwater.engine.operators.window.uncertainty.bounds import ALL_ROWS, less

DOUBTS_MAX: Final = 32
"""A window with more doubtful events has no bounds, as the search would take too long."""
_ROUNDS: Final = 64
_ANY_RANK: Final = 2**62
BEFORE, INSIDE, AFTER = 1, 2, 4
FREE: Final = record("n")
"""The number of free events, from place ``DOUBTS_MAX`` on."""


class DoubtfulPlaces(NamedTuple):
    """Doubtful events of a window, in any order: those that may lie outside it.

    ``place``: in ``Kept``. ``number``: relative to the window's first event. ``low``, ``high``:
    bounds of the true time [ns]. ``low_rank``, ``high_rank``: bounds of the rank among events of
    equal time; twice its number if the clock is exact. ``ints`` (viewed as ``floats``), ``valid``:
    the current argument. ``vague``: the event may not exist. ``value_cost``: the cost of its value
    inside the window; ``there``: whether it exists if it is inside; ``cost``: to have it inside.
    ``free``: one FREE; free events have places, values and costs. ``order``, ``side``, ``took``,
    ``of_early``, ``of_late``, ``of_free``: scratch of the choice.
    """

    place: np.ndarray
    number: np.ndarray
    low: np.ndarray
    high: np.ndarray
    low_rank: np.ndarray
    high_rank: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    vague: np.ndarray
    cost: np.ndarray
    value_cost: np.ndarray
    there: np.ndarray
    free: np.ndarray
    order: np.ndarray
    side: np.ndarray
    took: np.ndarray
    of_early: np.ndarray
    of_late: np.ndarray
    of_free: np.ndarray


def new_doubts(rows: int) -> DoubtfulPlaces:
    """Room for ``DOUBTS_MAX`` doubtful events and ``rows`` free ones."""
    n, every = DOUBTS_MAX, DOUBTS_MAX + rows
    number, low, high, low_rank, high_rank, order, side = (np.zeros(n, np.int64) for _ in range(7))
    place, ints = np.zeros(every, np.int64), np.zeros(every, np.int64)
    valid, vague, there = (np.zeros(every, np.bool_) for _ in range(3))
    return DoubtfulPlaces(
        place, number, low, high, low_rank, high_rank, ints, ints.view(np.float64), valid, vague,
        np.zeros(every), np.zeros(every), there, np.zeros(1, FREE), order, side,
        np.zeros(n, np.bool_), np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1),
    )  # fmt: skip


@kernel
def read_doubts(kept: Kept, n: int, m: int, d: DoubtfulPlaces) -> None:
    """Read the times and argument ``m`` (or ``ALL_ROWS``) of ``n`` events; of free ones, values."""
    for i in range(n):
        place = d.place[i]
        d.low[i] = kept.ref[place] - kept.unc[place]
        d.high[i] = kept.ref[place] + kept.unc[place]
        right = kept.unc[place] == 0
        rank = 2 * d.number[i]  # odd ranks are between two neighbours of equal time
        d.low_rank[i] = rank if right else -_ANY_RANK
        d.high_rank[i] = rank if right else _ANY_RANK
        _read_value(kept, i, m, d)
    for i in range(DOUBTS_MAX, DOUBTS_MAX + d.free[0].n):
        _read_value(kept, i, m, d)
        d.vague[i] = True


@inline
def _read_value(kept: Kept, i: int, m: int, d: DoubtfulPlaces) -> None:
    d.ints[i] = 0 if m == ALL_ROWS else kept.ints[d.place[i], m]
    d.valid[i] = m == ALL_ROWS or kept.valid[d.place[i], m]


@inline
def _behind(time: int, rank: int, other: int, other_rank: int) -> bool:
    return time > other or (time == other and rank > other_rank)


@inline
def _sides(d: DoubtfulPlaces, n: int, p: int, q: int, forced: int) -> bool:
    """Write the sides on which each event may be, if ``p`` is the last one before the window and
    ``q`` the first one after it (-1: none). False: an event has no side.
    """
    for i in range(n):
        low, low_rank, high, high_rank = d.low[i], d.low_rank[i], d.high[i], d.high_rank[i]
        side = 0
        if p >= 0:
            if not _behind(low, low_rank, d.low[p], d.low_rank[p]):
                side |= BEFORE
            if low <= d.low[p]:
                after = d.low_rank[p] + 1
                low_rank = after if low < d.low[p] else max(low_rank, after)
                low = d.low[p]
        if q >= 0:
            if not _behind(d.high[q], d.high_rank[q], high, high_rank):
                side |= AFTER
            if high >= d.high[q]:
                before = d.high_rank[q] - 1
                high_rank = before if high > d.high[q] else min(high_rank, before)
                high = d.high[q]
        if not _behind(low, low_rank, high, high_rank):
            side |= INSIDE
        if i == forced:
            side &= INSIDE
        if side == 0:
            return False
        d.side[i] = side
    return True


@kernel
def _put_sums(d: DoubtfulPlaces, n: int, out: np.ndarray, side: int) -> int:
    """Write the prefix sums of the costs of the events with sides ``side``, the least first.

    Returns:
        the number of these events.
    """
    found = 0
    out[0] = 0.0
    for j in range(n):
        i = d.order[j]
        if d.side[i] == side:
            out[found + 1] = out[found] + d.cost[i]
            found += 1
    return found


@kernel
def _least(d: DoubtfulPlaces, n: int, before: int, inside: int, forced: int) -> float:
    """Return the least sum of costs of ``inside`` events of ``n``, with ``before`` events before
    them.

    Writes the events inside to ``took``. ``forced``: an event that must be inside, or -1. Infinite:
    there is no possible choice.
    """
    for i in range(n):
        j = i
        while j > 0 and d.cost[d.order[j - 1]] > d.cost[i]:
            d.order[j] = d.order[j - 1]
            j -= 1
        d.order[j] = i
    best, best_p, best_q, best_x, best_y, best_z = np.inf, -1, -1, 0, 0, 0
    after = n - before - inside
    for p in range(0 if before > 0 else -1, n if before > 0 else 0):
        for q in range(0 if after > 0 else -1, n if after > 0 else 0):
            two = p >= 0 and q >= 0
            if two and not _behind(d.high[q], d.high_rank[q], d.low[p], d.low_rank[p]):
                continue
            if not _sides(d, n, p, q, forced):
                continue
            fixed_before = fixed_inside = either = 0
            cost = 0.0
            for i in range(n):
                if d.side[i] == BEFORE:
                    fixed_before += 1
                elif d.side[i] == INSIDE:
                    fixed_inside += 1
                    cost += d.cost[i]
                elif d.side[i] == BEFORE | AFTER:
                    either += 1
            early = _put_sums(d, n, d.of_early, BEFORE | INSIDE)
            late = _put_sums(d, n, d.of_late, INSIDE | AFTER)
            free = _put_sums(d, n, d.of_free, BEFORE | INSIDE | AFTER)
            for x in range(early + 1):
                needed = before - fixed_before - early + x
                for z in range(free + 1):
                    y = inside - fixed_inside - x - z
                    if 0 <= y <= late and 0 <= needed <= free - z + either:
                        total = cost + d.of_early[x] + d.of_late[y] + d.of_free[z]
                        if total < best:
                            best, best_p, best_q = total, p, q
                            best_x, best_y, best_z = x, y, z
    if best < np.inf:
        _sides(d, n, best_p, best_q, forced)
        for j in range(n):
            i = d.order[j]
            side = d.side[i]
            d.took[i] = side == INSIDE
            if side == BEFORE | INSIDE:
                d.took[i], best_x = best_x > 0, best_x - 1
            elif side == INSIDE | AFTER:
                d.took[i], best_y = best_y > 0, best_y - 1
            elif side == BEFORE | INSIDE | AFTER:
                d.took[i], best_z = best_z > 0, best_z - 1
    return best


@inline
def _values_taken(d: DoubtfulPlaces, n: int) -> int:
    found = 0
    for i in range(n):
        found += d.took[i] and d.valid[i] and d.there[i]
    for i in range(DOUBTS_MAX, DOUBTS_MAX + d.free[0].n):
        found += d.valid[i] and d.there[i]
    return found


@kernel
def _choose(d: DoubtfulPlaces, n: int, before: int, inside: int, some: bool) -> int:
    """As ``_least``; returns the number of values inside. ``some``: at least one, else -1."""
    least = _least(d, n, before, inside, -1)
    found = _values_taken(d, n)
    if found > 0 or not some:
        return found
    best, forced = np.inf, -1
    for i in range(DOUBTS_MAX + d.free[0].n):
        if (i < n or i >= DOUBTS_MAX) and d.valid[i]:
            cost = least + d.value_cost[i]
            if i < n:
                instead, d.cost[i] = d.cost[i], d.value_cost[i]
                cost = _least(d, n, before, inside, i)
                d.cost[i] = instead
            if cost < best:
                best, forced = cost, i
    if forced < 0:
        return -1
    d.there[forced], d.cost[forced] = True, d.value_cost[forced]
    _least(d, n, before, inside, forced if forced < n else -1)
    return _values_taken(d, n)


@inline
def _put_cost(d: DoubtfulPlaces, i: int, cost: float) -> None:
    d.value_cost[i] = cost if d.valid[i] else 0.0
    d.there[i] = not d.vague[i] or d.value_cost[i] < 0.0
    d.cost[i] = d.value_cost[i] if d.there[i] else 0.0


@kernel
def _price(d: DoubtfulPlaces, n: int, is_float: bool, sign: float, price: float) -> None:
    """Set the costs: ``sign`` times the value, less ``price``; 0 for an event without a value."""
    for i in range(DOUBTS_MAX + d.free[0].n):
        if i < n or i >= DOUBTS_MAX:
            value = d.floats[i] if is_float else np.float64(d.ints[i])
            _put_cost(d, i, sign * value - price)


@kernel
def _add_taken(d: DoubtfulPlaces, n: int, is_float: bool, sure: Summary, total: Summary) -> float:
    """Return the sum of the certain and the taken values, also written to ``total``."""
    ints, floats = total.ints[0], total.floats[0]
    floats.total, floats.rest = sure.floats[0].total, sure.floats[0].rest
    ints.high, ints.low = sure.ints[0].high, sure.ints[0].low
    for i in range(DOUBTS_MAX + d.free[0].n):
        inside = i >= DOUBTS_MAX or (i < n and d.took[i])
        if inside and d.valid[i] and d.there[i]:
            if is_float:
                add_float(floats, d.floats[i])
            else:
                ints.high += d.ints[i] >> HALF_WORD
                ints.low += d.ints[i] & LOW_WORD
    return total_of(total, is_float)


@kernel
def bound(
    function: int, is_float: bool, sure: int, extent: tuple[int, int, int], sign: int,
    d: DoubtfulPlaces, out: Content, j: int,
) -> None:  # fmt: skip
    """Write the least (``sign`` 1) or largest (-1) value of an aggregate to number ``j``.

    Args:
        function: its code.
        is_float: whether its argument is float.
        sure: number of values that are certainly in the window; ``out.scratch.sum`` summarises
        them.
        extent: doubtful events, and of these before and in the window, as measured.
        sign: see above.
        d: the doubtful events with the values of the argument.
        out: written; number ``j`` is null before.
        j: place of the number.
    """
    n, before, inside = extent
    sums, total = out.scratch.sum, out.room.total
    if function == COUNT:
        for i in range(DOUBTS_MAX + d.free[0].n):
            _put_cost(d, i, np.float64(sign))
        put_int(out.kinds, out.words, j, 0, sure + _choose(d, n, before, inside, False))
    elif function == SUM:
        _price(d, n, is_float, sign, 0.0)
        if _choose(d, n, before, inside, sure == 0) >= 0:
            _add_taken(d, n, is_float, sums, total)
            put_total(out.kinds, out.words, j, is_float, total)
    elif function == AVG:
        _price(d, n, is_float, sign, 0.0)
        values = _choose(d, n, before, inside, sure == 0)
        if values + sure > 0:
            best = _add_taken(d, n, is_float, sums, total) / (values + sure)
            for _ in range(_ROUNDS):  # Dinkelbach 1967
                _price(d, n, is_float, sign, sign * best)
                values = _choose(d, n, before, inside, sure == 0)
                found = _add_taken(d, n, is_float, sums, total) / (values + sure)
                if not sign * found < sign * best:
                    break
                best = found
            put_float(out.kinds, out.words, j, best)
    else:
        _bound_end(1 if function == MIN else -1, is_float, sure, extent, sign, d, out, j)


@kernel
def _bound_end(
    which: int, is_float: bool, sure: int, extent: tuple[int, int, int], sign: int,
    d: DoubtfulPlaces, out: Content, j: int,
) -> None:  # fmt: skip
    """As ``bound``, for the smallest value (``which`` 1) or the largest (-1)."""
    n, before, inside = extent
    ints, floats = out.scratch.sum.ints[0], out.scratch.sum.floats[0]
    one = ints.smallest if which > 0 else ints.largest
    other = floats.smallest if which > 0 else floats.largest
    found = -1
    for i in range(DOUBTS_MAX + d.free[0].n):
        if not d.valid[i] or n <= i < DOUBTS_MAX:
            continue
        must = i if i < n and (sure == 0 or sign == which) else -1
        if sign == which:
            better = found < 0 or less(d, is_float, which, i, found)
            if better:  # an event of equal time is before or after all others, not between
                for k in range(n):
                    d.cost[k] = 0.0
                better = _least(d, n, before, inside, must) < np.inf
        else:
            better = found < 0 or less(d, is_float, which, found, i)
            if better:
                for k in range(n):
                    lower = d.valid[k] and not d.vague[k] and less(d, is_float, which, k, i)
                    d.cost[k] = 1.0 if lower else 0.0
                better = _least(d, n, before, inside, must) == 0.0
        if better:
            found = i
    if sign != which and sure > 0:
        for k in range(n):
            d.cost[k] = 1.0 if d.valid[k] and not d.vague[k] else 0.0
        if _least(d, n, before, inside, -1) == 0.0:
            found = -1
    if found >= 0:
        value, real = d.ints[found], d.floats[found]
        further = value < one if which > 0 else value > one
        if is_float:
            further = which * real < which * other
        if sure == 0 or further:
            one, other = value, real
    if found >= 0 or sure > 0:
        put_value(out.kinds, out.words, j, is_float, one, other)
