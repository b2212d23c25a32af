"""The smallest and largest value of an aggregate over all assignments of the ambiguous events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slackwater.engine.core.released import NO_EPOCH, Released
from slackwater.engine.core.timeline import ends_of, length_errors
from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import record
from slackwater.engine.operators.window.settings import LIKELY, SURE, UNLIKELY
from slackwater.engine.operators.window.state.accumulate import (
    HALF_WORD,
    LOW_WORD,
    Summary,
    add_float,
    total_of,
)
from slackwater.engine.operators.window.state.cells import Kept
from slackwater.engine.query.clock_sensitivity import clocked_aliases, difference, is_clocked
from slackwater.engine.query.expression import mask
from slackwater.engine.query.fields import inside
from slackwater.engine.query.plan import (
    OPPOSITE,
    Arithmetic,
    Comparison,
    Expression,
    Logic,
    Membership,
    Predicate,
    combined,
)

# Rows that a window's WHERE certainly or possibly selects, as times have clock errors.
#
# ``ts``, ``te`` and ``ref`` are known up to the error of the event's clock, so a condition on them
# may hold under some errors only (SPEC 4.3). The error of an interval's end moves all three; its
# start may have the error of its length in addition. So WHERE is a function of the end's error; the
# event counts at those true times at which WHERE holds. Each comparison changes once as the error
# grows (``=`` twice); bisection finds the place, with the same evaluation as for exact times. Each
# comparison is monotonic in the error of the length, so the ends of its range are enough. A product
# of times, or a division by one, may be not monotonic: with clock errors it may or may not hold.


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The selection of n rows: ``taken`` (bool): certainly or possibly selected; ``how`` (int8):
    ``SURE``, ``LIKELY`` or ``UNLIKELY``; ``low``, ``high`` (int64 ns): bounds of a selected row's
    true time.
    """

    taken: np.ndarray
    how: np.ndarray
    low: np.ndarray
    high: np.ndarray


def select_rows(where: Predicate, released: Released, unc_max: int) -> SelectedRows | None:
    """Return the rows of ``released`` that ``where`` selects; None: no clock error changes the
    selection.

    Args:
        where: of a plan with windows.
        released: rows with ``ref`` and ``unc``.
        unc_max: larger uncertainties count as this one, as they do for windows [ns].
    """
    ref, unc = ends_of(released), np.minimum(released.columns["unc"], unc_max)
    length = length_errors(released)
    lasting = bool(length.any())
    if not (lasting or unc.any()) or not is_clocked(where, lengths=lasting):
        return None
    bent = any(map(_is_not_monotonic, inside(where)))
    loose = (length > 0) | (bent & (unc > 0))
    rows = _Rows(released, np.arange(released.n), length, loose)
    taken = rows.hold(where, np.zeros(released.n, np.int64))
    found = SelectedRows(taken, np.zeros(released.n, np.int8), ref - unc, ref + unc)
    ends = (-1, 1) if lasting else (0,)
    changes = [
        _changes(each, rows, unc, end) for each in _monotonic_comparisons(where) for end in ends
    ]
    moved = np.flatnonzero(np.any([loose, *(before < unc for before in changes)], axis=0))
    if not len(moved):
        return found
    few, limit = _Rows(released, moved, length[moved], loose[moved]), unc[moved]
    errors = [-limit, limit, np.zeros(len(moved), np.int64)]
    for before in changes:
        errors += [before[moved], np.minimum(before[moved] + 1, limit)]
    holds = np.array([few.possible(where, error) for error in errors])
    fails = ~holds
    if lasting or bent:
        fails = np.array([few.possible(where, error, truth=False) for error in errors])
    low = np.where(holds, errors, unc_max + 1).min(axis=0)
    high = np.where(holds, errors, -unc_max - 1).max(axis=0)
    nominal, sure = taken[moved], (holds & ~fails).all(axis=0)
    how = np.where(sure, SURE, np.where(nominal, LIKELY, UNLIKELY))
    taken[moved] = holds.any(axis=0)
    found.how[moved] = np.where(taken[moved], how, SURE)
    found.low[moved] = ref[moved] + low
    found.high[moved] = ref[moved] + high
    return found


class _Rows:
    """Rows that are evaluated under clock errors; ``length``: the largest error of their lengths.
    ``loose``: rows for which a condition that is not monotonic may or may not hold.
    """

    def __init__(
        self, released: Released, rows: np.ndarray, length: np.ndarray, loose: np.ndarray
    ) -> None:
        self._columns = {name: column[rows] for name, column in released.columns.items()}
        self._released, self._length, self._loose = released, length, loose

    def hold(self, predicate: Predicate, error: np.ndarray, end: int = 0) -> np.ndarray:
        """Return whether the predicate holds under the clock errors ``error`` [ns]; bool (n,).

        ``end``: 1 or -1: with the largest error of the length, too.
        """
        known, more = self._columns, end * self._length
        columns = known | {"ref": known["ref"] + error + more}
        if end and "te" in known:
            columns["te"] = known["te"] - more
        of = self._released
        return mask(
            predicate, columns, lambda name: columns.get(f"valid.{name}"), of.attr_types, of.strings
        )

    def possible(
        self, predicate: Predicate, error: np.ndarray, *, truth: bool = True
    ) -> np.ndarray:
        """Return whether the predicate may be ``truth`` under the clock errors ``error``; bool
        (n,).
        """
        if not self._loose.any():
            return self.hold(predicate, error)
        match predicate:
            case Logic(op="not", terms=(term,)):
                return self.possible(term, error, truth=not truth)
            case Logic(op=op, terms=terms):
                both = [self.possible(term, error, truth=truth) for term in terms]
                joined = np.logical_and if (op == "and") == truth else np.logical_or
                return np.asarray(joined.reduce(both))
            case Membership(item=item, options=options):
                each = tuple(Comparison("=", item, option) for option in options)
                return self.possible(combined("or", each), error, truth=truth)
            case Comparison(op=op, left=left, right=right):
                op = op if truth else OPPOSITE[op]
                sides = ("<=", ">=") if op == "=" else (op,)
                ways = [Comparison(side, left, right) for side in sides]
                found = [self.hold(way, error, -1) | self.hold(way, error, 1) for way in ways]
                neither = difference(left, right) is None  # it may be not monotonic
                loose = (
                    self._loose
                    if any(map(_is_not_monotonic, inside(predicate)))
                    else self._length > 0
                )
                return np.asarray(np.logical_and.reduce(found) | (neither & loose))
        return self.hold(predicate if truth else Logic("not", (predicate,)), error)


def _is_not_monotonic(node: Expression | Predicate) -> bool:
    """Return whether ``node`` may be not monotonic in the error of one clock."""
    match node:
        case Arithmetic(op="*" | "/" as op, left=left, right=right):
            return bool(clocked_aliases([right])) and (op == "/" or bool(clocked_aliases([left])))
    return False


def _monotonic_comparisons(predicate: Predicate) -> Iterator[Comparison]:
    """Comparisons that change once each; ``predicate`` is constant between their changes."""
    match predicate:
        case Logic(terms=terms):
            for term in terms:
                yield from _monotonic_comparisons(term)
        case Membership(item=item, options=options):
            for option in options:
                yield from _monotonic_comparisons(Comparison("=", item, option))
        case Comparison(left=left, right=right):
            if is_clocked(predicate, lengths=False):
                yield Comparison("<", left, right)
                yield Comparison("<=", left, right)


def _changes(comparison: Comparison, rows: _Rows, unc: np.ndarray, end: int) -> np.ndarray:
    """Return the last error in [-unc, unc] before a comparison's outcome changes; int64 (n,)."""
    before, behind = -unc, unc.copy()
    first = rows.hold(comparison, before, end)
    same = rows.hold(comparison, behind, end) == first
    before = np.where(same, unc, before)
    while (left := behind - before > 1).any():
        middle = before + (behind - before) // 2
        on = left & (rows.hold(comparison, middle, end) == first)
        before = np.where(on, middle, before)
        behind = np.where(left & ~on, middle, behind)
    return before


# The ambiguous events of a key that can be in a window together.
#
# Events of one clock and epoch share one clock error: their true times keep their order, and the
# errors of two of them differ by at most the difference of their uncertainties (an inexact skew
# makes the uncertainty grow between two syncs, and never fall). So the events of a clock in the
# window are a *run*, consecutive in order of time. A clock's runs are identified by their starts
# and possible ends. Events without a shared clock are runs of one.
#
# With errors e(i) in [-u(i), u(i)] and |e(i) - e(j)| <= |u(i) - u(j)|, a run that starts with event
# p and ends before event q exists if the bounds on the four events around the two ends agree, pair
# by pair (difference constraints; Cormen et al., ch. 24). All bounds are sums of ``ref - u`` or
# ``ref + u``, which ascend, so the possible q of each p are a range whose ends both ascend with p.


SIZE = record("events", "units", "clocks")


class Runs(NamedTuple):
    """The runs of events, by clock; the arrays are reused.

    ``size``: the used lengths, one SIZE. ``event``: places in ``Kept``, by clock, in order of time.
    ``unit``: (units + 1) the first event of each unit, whose events no error separates. ``clock``:
    (clocks + 1) the first unit of each clock. ``low``, ``high``: per unit ``ref - unc`` and ``ref +
    unc``. ``nearest``, ``farthest``: at ``p + g`` for clock ``g`` and its unit ``p`` (or its end),
    the first and last unit that can follow a run starting with p; if nearest is larger, there is no
    such run. ``spare``: scratch.
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
    """Room for ``events`` events."""
    n = events + 1
    return Runs(
        np.zeros(1, SIZE), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip


@inline
def _before(kept: Kept, i: int, j: int) -> bool:
    """Return whether event ``i`` is before ``j``: by clock, epoch, time and uncertainty."""
    if kept.clock[i] != kept.clock[j]:
        return bool(kept.clock[i] < kept.clock[j])
    if kept.epoch[i] != kept.epoch[j]:
        return bool(kept.epoch[i] < kept.epoch[j])
    if kept.ref[i] != kept.ref[j]:
        return bool(kept.ref[i] < kept.ref[j])
    return bool(kept.unc[i] < kept.unc[j])


@kernel
def _sort(kept: Kept, n: int, event: np.ndarray, spare: np.ndarray) -> None:
    """Sort the first ``n`` of ``event``: a stable merge sort, bottom up."""
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


# Smallest and largest value of an aggregate over all assignments of the ambiguous events.
#
# An assignment puts some ambiguous events into the window (SPEC 4.4): of every clock one run. ``sum
# avg min max`` range over the assignments with at least one value, as they are null without. The
# smallest average is computed by Dinkelbach 1967: the assignment that minimises ``sum - a * count``
# lowers the average ``a``, until none does.
#
# Each function computes the smallest value; the largest of x is minus the smallest of -x (``sign``
# -1).


ALL_ROWS = -1
"""In place of an attribute: all rows (``count(*)``)."""
_ROUNDS = 64


class RunChoice(NamedTuple):
    """One attribute of the ambiguous events, and the chosen run of each clock; sizes as in
    ``Runs``.

    ``ints``, viewed as float64 ``floats``: values in order of ``Runs.event``, then the smallest or
    largest one of the certain events. ``valid``: whether there is a value. ``values``, ``total``:
    number and sum of values up to each unit of a clock, at the places of ``Runs.nearest``.
    ``first``, ``behind``: per clock the first unit of its run, and the one after it.
    """

    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    values: np.ndarray
    total: np.ndarray
    first: np.ndarray
    behind: np.ndarray


@njit
def new_choice(events: int) -> RunChoice:
    """Room for ``events`` events."""
    n = events + 1
    ints = np.zeros(n, np.int64)
    return RunChoice(
        ints, ints.view(np.float64), np.zeros(n, np.bool_), np.zeros(2 * n, np.int64),
        np.zeros(2 * n), np.empty(n, np.int64), np.empty(n, np.int64),
    )  # fmt: skip


@kernel
def read_choice(kept: Kept, runs: Runs, m: int, is_float: bool, c: RunChoice) -> None:
    """Read attribute ``m`` of the events of ``runs``; no run is chosen."""
    for j in range(runs.size[0].events):
        c.ints[j] = 0 if m == ALL_ROWS else kept.ints[runs.event[j], m]
        c.valid[j] = m == ALL_ROWS or kept.valid[runs.event[j], m]
    for g in range(runs.size[0].clocks):
        first = runs.clock[g] + g
        c.values[first] = 0
        c.total[first] = 0.0
        for u in range(runs.clock[g], runs.clock[g + 1]):
            c.values[u + g + 1] = c.values[u + g]
            c.total[u + g + 1] = c.total[u + g]
            for j in range(runs.unit[u], runs.unit[u + 1]):
                if c.valid[j]:
                    c.values[u + g + 1] += 1
                    c.total[u + g + 1] += c.floats[j] if is_float else np.float64(c.ints[j])


@kernel
def choose(runs: Runs, c: RunChoice, sign: float, price: float, some: bool) -> int:
    """Choose the runs with the least ``sign * sum - price * count``; returns the count.

    ``some``: with at least one value; -1: there is no such choice.
    """
    values = 0
    extra, forced, forced_first, forced_behind = np.inf, -1, 0, 0
    for g in range(runs.size[0].clocks):
        best = best_with = np.inf
        with_first = with_behind = 0
        for p in range(runs.clock[g], runs.clock[g + 1] + 1):
            for q in range(runs.nearest[p + g], runs.farthest[p + g] + 1):
                n = c.values[q + g] - c.values[p + g]
                cost = -price * n
                if sign != 0.0:
                    cost += sign * (c.total[q + g] - c.total[p + g])
                if cost < best or best == np.inf:
                    best = cost
                    c.first[g] = p
                    c.behind[g] = q
                if n > 0 and (cost < best_with or best_with == np.inf):
                    best_with, with_first, with_behind = cost, p, q
        values += c.values[c.behind[g] + g] - c.values[c.first[g] + g]
        if best_with != np.inf and (best_with - best < extra or forced < 0):
            extra, forced = best_with - best, g
            forced_first, forced_behind = with_first, with_behind
    if values > 0 or not some:
        return values
    if forced < 0:
        return -1
    c.first[forced] = forced_first
    c.behind[forced] = forced_behind
    return int(c.values[forced_behind + forced] - c.values[forced_first + forced])


@kernel
def add_chosen(runs: Runs, c: RunChoice, is_float: bool, sure: Summary, out: Summary) -> float:
    """Return the sum of the chosen and the ``sure`` values, also written to ``out``."""
    ints, floats = out.ints[0], out.floats[0]
    ints.high, ints.low = sure.ints[0].high, sure.ints[0].low
    floats.total, floats.rest = sure.floats[0].total, sure.floats[0].rest
    for g in range(runs.size[0].clocks):
        for j in range(runs.unit[c.first[g]], runs.unit[c.behind[g]]):
            if c.valid[j] and is_float:
                add_float(floats, c.floats[j])
            elif c.valid[j]:
                ints.high += c.ints[j] >> HALF_WORD
                ints.low += c.ints[j] & LOW_WORD
    return total_of(out, is_float)


@kernel
def bound_avg(
    runs: Runs, c: RunChoice, sign: int, is_float: bool, sure: int, total: Summary, out: Summary
) -> float:
    """Return the least (``sign`` 1) or largest average; NaN: there is no value.

    ``sure``, ``total``: number and sum of the values certainly inside. ``out``: scratch.
    """
    n = choose(runs, c, 1.0 * sign, 0.0, sure == 0)
    if n < 0 or n + sure == 0:
        return np.nan
    best = add_chosen(runs, c, is_float, total, out) / (n + sure)
    for _ in range(_ROUNDS):
        n = choose(runs, c, 1.0 * sign, sign * best, sure == 0)
        found = add_chosen(runs, c, is_float, total, out) / (n + sure)
        if not sign * found < sign * best:
            break
        best = found
    return best


@inline
def less(of: Any, is_float: bool, sign: int, i: int, j: int) -> bool:
    """Return whether value ``i`` of ``of`` is smaller than ``j`` (``sign`` -1: larger)."""
    if is_float:
        return bool(sign * of.floats[i] < sign * of.floats[j])
    return bool(of.ints[i] < of.ints[j] if sign > 0 else of.ints[i] > of.ints[j])


@kernel
def nearest_end(runs: Runs, c: RunChoice, sign: int, is_float: bool, sure: bool) -> int:
    """Return the event with the smallest (``sign`` -1: largest) value of all runs; or -1.

    ``sure``: the value of the certain events counts too.
    """
    n = runs.size[0].events
    found = n if sure else -1
    for j in range(n):
        if c.valid[j] and (found < 0 or less(c, is_float, sign, j, found)):
            found = j
    return found


@kernel
def farthest_end(runs: Runs, c: RunChoice, sign: int, is_float: bool, sure: bool) -> int:
    """Return the event with the largest one of the assignments' smallest values; -1: there is none.

    A clock that may have no value in the window does not limit it; any other limits it to the
    smallest value of its best run. If no clock limits it, it is that of the best single run.
    """
    farthest, alone = (runs.size[0].events if sure else -1), -1
    for g in range(runs.size[0].clocks):
        best, empty = _best_run(runs, c, g, sign, is_float, runs.spare)
        if best < 0:
            continue
        if not empty and (farthest < 0 or less(c, is_float, sign, best, farthest)):
            farthest = best
        if alone < 0 or less(c, is_float, sign, alone, best):
            alone = best
    return farthest if farthest >= 0 else alone


@kernel
def _best_run(
    runs: Runs, c: RunChoice, g: int, sign: int, is_float: bool, waiting: np.ndarray
) -> tuple[int, bool]:
    """Return the best run of clock ``g``: (the event of its smallest value, which is the largest
    such one; whether a run can be without values). ``waiting``: scratch.
    """
    best, empty = -1, False
    head = tail = 0
    taken = runs.clock[g]
    for p in range(runs.clock[g], runs.clock[g + 1] + 1):
        q, far = runs.nearest[p + g], runs.farthest[p + g]
        if q > far:
            continue
        empty = empty or c.values[q + g] == c.values[p + g]
        while q < far and c.values[q + g] == c.values[p + g]:
            q += 1
        if c.values[q + g] == c.values[p + g]:
            continue
        while taken < q:
            low = _lowest(runs, c, taken, sign, is_float)
            while low >= 0 and tail > head and not less(
                c, is_float, sign, _lowest(runs, c, waiting[tail - 1], sign, is_float), low
            ):  # fmt: skip
                tail -= 1
            if low >= 0:
                waiting[tail] = taken
                tail += 1
            taken += 1
        while waiting[head] < p:
            head += 1
        low = _lowest(runs, c, waiting[head], sign, is_float)
        if best < 0 or less(c, is_float, sign, best, low):
            best = low
    return best, empty


@kernel
def _lowest(runs: Runs, c: RunChoice, unit: int, sign: int, is_float: bool) -> int:
    """Return the event of the unit with the smallest value, or -1."""
    found = -1
    for j in range(runs.unit[unit], runs.unit[unit + 1]):
        if c.valid[j] and (found < 0 or less(c, is_float, sign, j, found)):
            found = j
    return found
