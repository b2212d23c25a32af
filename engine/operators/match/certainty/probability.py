"""The probability that an uncertain match is true, under independent uniform clock errors.

Each clock error is uniform within its uncertainty; events of one clock and epoch share one, scaled
by each one's uncertainty. For a pair the probability is exact: the difference of two uniform errors
has a trapezoid density. For more steps the errors are sampled at the points of a Kronecker sequence
whose generators are powers of the generalised golden ratio (Roberts 2018, "The unreasonable
effectiveness of quasirandom sequences"): deterministic, the same for every match, with a resolution
of 1/points.

Events of negated steps that may be in a scope: given the errors of the positive events, the
probability that such an event is there is exact: the share of its interval that the scope covers.
The error of a clock that several of them share is sampled as well.

Conditions on times (``SampledConditions``) are tested on each sample. For conditions on an event of
a negated step, its error is sampled too, at one place in each of ``STRATA`` equal parts; a
condition that it is in the window of another event is one more bound of its scope.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import NO_EPOCH
from slackwater.engine.kernels.jit import inline, njit
from slackwater.engine.kernels.records import NONE, record
from slackwater.engine.operators.match.compiler.records import CONDITION, EVENT, SCOPE
from slackwater.engine.operators.match.search.machine import (
    FALSE,
    NO_PROGRAMS,
    ONE_WINDOW,
    TRUE,
    Errors,
    Programs,
    holds,
    partners,
)

POINTS: Final = 1024
STRATA: Final = 16
_GOLDEN: Final = 0.6180339887498949

SCOPE_END: Final = record("step", "above", "strict", "bound", "own_end", "step_end")
"""A bound of a scope: the time of a step of the match, plus ``bound`` (``above``) or minus it.
``own_end``: 1: it bounds the end of the negated step's event, else its start; ``step_end``: 1: by
the end of the step's event.
"""


class Doubtful(NamedTuple):
    """Events that may be in scopes of matches, sorted by match, then event, then scope.

    ``start`` (matches + 1): the first doubt of each match. Per doubt: ``row`` (its event), ``time``
    [ns since the match's first step], ``unc`` (half-width [ns]), ``clock`` (the step with the same
    error; from the number of steps on: an error shared by doubts; -1: none), ``scope``, ``long``
    (from its start to its end [ns]). ``exact``: (doubts, steps): it shares its clock with that
    step, so their relation was tested exactly. ``same_scope``: (scopes) the first scope with equal
    ends. ``scopes``: the query's; ``ends``: SCOPE_END, in the ranges of their relations.
    ``chance``: the probability that the event happened; NaN: unknown.
    """

    start: np.ndarray
    row: np.ndarray
    time: np.ndarray
    unc: np.ndarray
    clock: np.ndarray
    scope: np.ndarray
    exact: np.ndarray
    same_scope: np.ndarray
    scopes: np.ndarray
    ends: np.ndarray
    long: np.ndarray
    chance: np.ndarray


class SampledConditions(NamedTuple):
    """Conditions that depend on clock errors, and their inputs.

    ``programs``, ``ranks``, ``raw``, ``ok``: as in ``engine.operators.match.search.machine.holds``;
    ``errors.shift_ns`` is written, by step of the query. ``rows``: (matches, steps of the query)
    places of events; ``members``: the step of the query of each of a match's events; ``widest``:
    (matches, members) half-width of an event's error [ns]. ``conditions``: the query's; those from
    ``from_`` to ``to`` are on positive events. ``event``: per doubt, the place of its event;
    ``scopes``: the query's.
    """

    programs: Programs
    ranks: np.ndarray
    raw: np.ndarray
    ok: np.ndarray
    errors: Errors
    rows: np.ndarray
    members: np.ndarray
    widest: np.ndarray
    conditions: np.ndarray
    from_: int
    to: int
    event: np.ndarray
    scopes: np.ndarray


def nothing_asked(matches: int) -> SampledConditions:
    """No conditions, for ``matches``."""
    none, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return SampledConditions(
        NO_PROGRAMS, none, np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_),
        Errors(np.empty(0, EVENT), -1, real), np.empty((matches, 0), np.int64), none,
        np.empty((matches, 0)), np.empty(0, CONDITION), 0, 0, none, np.empty(0, SCOPE),
    )  # fmt: skip


def no_doubts(matches: int, steps: int) -> Doubtful:
    """No doubts, for ``matches`` of ``steps`` events."""
    none, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return Doubtful(
        np.zeros(matches + 1, np.int64), none, real, real, none, none,
        np.empty((0, steps), np.bool_), none, np.empty(0, SCOPE), np.empty(0, SCOPE_END), real,
        real,
    )  # fmt: skip


def pair_probability(
    diff_ns: np.ndarray, first_unc: np.ndarray, second_unc: np.ndarray,
    within_ns: int | np.ndarray | None, least_ns: int | np.ndarray | None = 0,
) -> np.ndarray:  # fmt: skip
    """P(least < second - first <= within) for independent errors; exact.

    Args:
        diff_ns: ref of the second minus ref of the first.
        first_unc: half-width of the first's error.
        second_unc: half-width of the second's error.
        within_ns: longest allowed difference, or None.
        least_ns: 0: the first must be before the second; -within: either order; None: no bound.
    """
    diff = diff_ns.astype(np.float64)
    before = np.zeros(len(diff))
    if least_ns is not None:
        before = _error_below(least_ns - diff, first_unc, second_unc)
    if within_ns is None:
        return np.asarray(1.0 - before)
    inside = _error_below(within_ns - diff, first_unc, second_unc)
    return np.asarray(np.clip(inside - before, 0.0, 1.0))


def _error_below(x: np.ndarray, first_unc: np.ndarray, second_unc: np.ndarray) -> np.ndarray:
    """P(second error - first error <= x): a rising parabola, a line, a flattening parabola."""
    large = np.maximum(first_unc, second_unc).astype(np.float64)
    small = np.minimum(first_unc, second_unc).astype(np.float64)
    outer, inner = large + small, large - small
    with np.errstate(all="ignore"):  # branches that do not apply may divide by zero
        rising = (x + outer) ** 2 / (8.0 * large * small)
        line = 0.5 + x / (2.0 * large)
        falling = 1.0 - (outer - x) ** 2 / (8.0 * large * small)
    return np.select(
        [x >= outer, x <= -outer, x < -inner, x <= inner], [1.0, 0.0, rising, line], falling
    )


def sampled_probability(
    ref_ns: np.ndarray, unc_ns: np.ndarray, clock: np.ndarray, relations: np.ndarray,
    long_ns: np.ndarray, doubtful: Doubtful | None = None,
    conditions: SampledConditions | None = None,
) -> np.ndarray:  # fmt: skip
    """Return the share of sampled errors under which the events satisfy ``relations`` and
    conditions, and no doubtful event is in a scope.

    Args:
        ref_ns: (matches, steps) int64.
        unc_ns: (matches, steps) half-widths; a float, as R19's T_a/2 may be half an integer.
        clock: (matches, steps): the first step that shares its clock error with this one.
        relations: ``engine.operators.match.compiler.records.RELATION``; steps are places in a
        match.
        long_ns: (matches, steps): from an event's start to its end.
        doubtful: events of negated steps.
        conditions: conditions on times.
    """
    steps = ref_ns.shape[1]
    since_first = (ref_ns - ref_ns[:, :1]).astype(np.float64)
    if doubtful is None:
        doubtful = no_doubts(len(ref_ns), steps)
    if conditions is None:
        conditions = nothing_asked(len(ref_ns))
    errors = errors_of(steps)
    more = int(doubtful.clock.max(initial=-1)) + 1 - steps
    if more > 0:
        errors = np.hstack([errors, _more_errors(more)])
    # Arrays of one kind, so that the kernel is compiled once.
    by_match = (since_first, unc_ns, clock, long_ns.astype(np.float64), conditions.widest)
    since_first, unc_ns, clock, long, widest = map(np.ascontiguousarray, by_match)
    conditions = conditions._replace(widest=widest)
    return _share(since_first, unc_ns, clock, relations, long, errors, doubtful, conditions)


def errors_of(dimensions: int) -> np.ndarray:
    """Return the sampled errors: (POINTS, dimensions) in (-1, 1)."""
    golden = 2.0
    for _ in range(64):  # the root of x**(d+1) = x + 1, by iteration
        golden = (1.0 + golden) ** (1.0 / (dimensions + 1))
    generators = golden ** -np.arange(1.0, dimensions + 1)
    points = (0.5 + np.outer(np.arange(1, POINTS + 1), generators)) % 1.0
    return np.asarray(2.0 * points - 1.0)


def _more_errors(dimensions: int) -> np.ndarray:
    """Return the sampled errors of clocks without an event in the match, by number of the clock."""
    generators = np.sqrt(2.0 + 4.0 * np.arange(dimensions)) % 1.0  # irrational: 2 mod 4
    return np.asarray(2.0 * ((0.25 + np.outer(np.arange(1, POINTS + 1), generators)) % 1.0) - 1.0)


def shared_by_doubts(
    match: np.ndarray, order: np.ndarray, clock: np.ndarray, epoch: np.ndarray, of_step: np.ndarray,
    steps: int,
) -> np.ndarray:  # fmt: skip
    """``Doubtful.clock``: ``of_step``, and from ``steps`` on a number per clock of several doubts.

    Args:
        match: the match of each doubt, ascending.
        order: the order of its event.
        clock: the clock of its event.
        epoch: the epoch of that clock; ``NO_EPOCH``: no other event shares its error.
        of_step: the step with the same error, or -1.
        steps: number of steps of the matches.
    """
    free = np.flatnonzero((of_step < 0) & (epoch != NO_EPOCH))
    if not len(free):
        return of_step
    keys = np.stack([match[free], clock[free], epoch[free]], axis=1)
    groups, group = np.unique(keys, axis=0, return_inverse=True)
    events = np.unique(np.stack([group.ravel(), order[free]], axis=1), axis=0)[:, 0]
    several = np.flatnonzero(np.bincount(events, minlength=len(groups)) > 1)
    of_match = groups[several, 0]
    number = np.full(len(groups), -1)
    number[several] = steps + np.arange(len(several)) - np.searchsorted(of_match, of_match)
    found = of_step.copy()
    found[free] = number[group.ravel()]
    return found


@njit
def _share(
    time: np.ndarray, unc: np.ndarray, clock: np.ndarray, relations: np.ndarray,
    long: np.ndarray, errors: np.ndarray, doubtful: Doubtful, conditions: SampledConditions,
) -> np.ndarray:  # fmt: skip
    """Return the share of samples; relations of pairs with one error are exact, and not tested
    again.
    """
    matches, steps = time.shape
    share = np.zeros(matches)
    true_time = np.zeros(steps)
    for m in range(matches):
        points = len(errors) if _errs(m, unc, doubtful) else 1
        for p in range(points):
            for s in range(steps):
                true_time[s] = time[m, s] + errors[p, clock[m, s]] * unc[m, s]
            fine = True
            for i in range(len(relations)):
                of = relations[i]
                x, y = of.left, of.right
                if clock[m, x] != clock[m, y] or unc[m, x] != unc[m, y]:
                    apart = true_time[x] - true_time[y]
                    apart += of.left_end * long[m, x] - of.right_end * long[m, y]
                    fine = fine and (apart < of.bound or (apart == of.bound and not of.strict))
            if fine and (conditions.to > conditions.from_ or len(conditions.event) > 0):
                for s in range(len(conditions.members)):
                    conditions.errors.shift_ns[conditions.members[s]] = (
                        errors[p, clock[m, s]] * conditions.widest[m, s]
                    )
                fine = fine and _all_hold(
                    conditions, conditions.from_, conditions.to, conditions.rows[m]
                )
            if fine:
                lies = _none_lies(m, p, true_time, long[m], errors[p], doubtful, conditions)
                share[m] += lies / points
    return share


@inline
def _errs(m: int, unc: np.ndarray, d: Doubtful) -> bool:
    """Return whether the time of an event of match ``m``, or of one of its doubts, is not exact."""
    for s in range(unc.shape[1]):
        if unc[m, s] > 0.0:
            return True
    for i in range(d.start[m], d.start[m + 1]):  # noqa: SIM110 - compiled code has no any()
        if d.unc[i] > 0.0:
            return True
    return False


@njit
def _all_hold(conditions: SampledConditions, from_: int, to: int, rows: np.ndarray) -> bool:
    """Return whether conditions hold for the events ``rows`` under the sampled errors."""
    a = conditions
    for c in range(from_, to):
        which = 2 * a.conditions[c].predicate
        if a.conditions[c].clocked and not holds(
            a.programs, a.ranks, which, rows, a.raw, a.ok, a.errors
        ):
            return False
    return True


@inline
def _none_lies(
    m: int, p: int, true_time: np.ndarray, long: np.ndarray, error: np.ndarray, d: Doubtful,
    conditions: SampledConditions,
) -> float:  # fmt: skip
    """Return the probability that no doubtful event is in a scope of match ``m``, given its true
    times.
    """
    weight, hit, first = 1.0, 0.0, d.start[m]
    for i in range(d.start[m], d.start[m + 1]):
        scope = d.scope[i]
        again = i > first and d.same_scope[d.scope[i - 1]] == d.same_scope[scope]
        if not again:
            low, high = _scope_of(i, true_time, long, d)
            t, u = d.time[i], d.unc[i]
            if d.clock[i] >= 0:
                t += error[d.clock[i]] * u
                u = 0.0
            if u > 0.0:
                hit += max(0.0, min(high, t + u) - max(low, t - u)) / (2.0 * u)
            elif _lies_at(t, i, true_time, long, d):
                hit += 1.0
        # An event is in at most one of several scopes: their probabilities add up; neighbouring
        # negated steps have one scope.
        if i + 1 == d.start[m + 1] or d.row[i + 1] != d.row[i]:
            at = _window_asked(first, i + 1, d, conditions)
            if at != NONE:
                hit = _share_in_window(m, i, at, true_time, long, error, d, conditions)
            elif _some_asked(first, i + 1, d, conditions):
                hit = _share_that_lies(m, p, first, i + 1, true_time, long, error, d, conditions)
            if hit > 0.0:
                weight *= 1.0 - min(hit, 1.0) * d.chance[i]
            if weight == 0.0:
                break
            hit, first = 0.0, i + 1
    return weight


@inline
def _scope_of(i: int, true_time: np.ndarray, long: np.ndarray, d: Doubtful) -> tuple[float, float]:
    """Return the bounds of the true begin of the event of doubt ``i`` if it is in the scope."""
    low, high, scope = -np.inf, np.inf, d.scope[i]
    for r in range(d.scopes[scope].relations_from, d.scopes[scope].relations_to):
        end = d.ends[r]
        if not d.exact[i, end.step]:
            time = true_time[end.step] + end.step_end * long[end.step] - end.own_end * d.long[i]
            if end.above:
                high = min(high, time + end.bound)
            else:
                low = max(low, time - end.bound)
    return low, high


@inline
def _lies_at(t: float, i: int, true_time: np.ndarray, long: np.ndarray, d: Doubtful) -> bool:
    """Return whether the event of doubt ``i`` is in the scope if it begins at ``t``; closed ends
    count.
    """
    scope, lies = d.scope[i], True
    for r in range(d.scopes[scope].relations_from, d.scopes[scope].relations_to):
        end = d.ends[r]
        if not d.exact[i, end.step]:
            time = true_time[end.step] + end.step_end * long[end.step] - end.own_end * d.long[i]
            apart = t - time if end.above else time - t
            lies = lies and (apart < end.bound or (apart == end.bound and not end.strict))
    return lies


@inline
def _some_asked(start: int, stop: int, d: Doubtful, conditions: SampledConditions) -> bool:
    """Return whether conditions in the scopes of some doubts depend on clock errors."""
    for i in range(start, min(stop, len(conditions.event))):
        scope = conditions.scopes[d.scope[i]]
        for c in range(scope.conditions_from, scope.conditions_to):
            if conditions.conditions[c].clocked:
                return True
    return False


@inline
def _window_asked(start: int, stop: int, d: Doubtful, conditions: SampledConditions) -> int:
    """Return the place in the table of the window that the event of one doubt must share with
    another event, if that is its only condition that depends on clock errors; else -1.
    """
    found = NONE
    if stop - start != 1 or stop > len(conditions.event):
        return int(found)
    scope = conditions.scopes[d.scope[start]]
    for c in range(scope.conditions_from, scope.conditions_to):
        if conditions.conditions[c].clocked:
            first = conditions.programs.start[2 * conditions.conditions[c].predicate]
            code = conditions.programs.code[first]
            alone = code.operation == ONE_WINDOW and code.then == TRUE and code.otherwise == FALSE
            if not alone or found != NONE:
                return int(NONE)
            found = code.left
    return int(found)


@inline
def _share_in_window(
    m: int, i: int, at: int, true_time: np.ndarray, long: np.ndarray, error: np.ndarray,
    d: Doubtful, conditions: SampledConditions,
) -> float:  # fmt: skip
    """Return the share of an event's errors under which it is in the scope and in the window at
    place ``at`` of the table (its length, its slide and both steps).
    """
    table, events, rows = conditions.programs.table, conditions.errors.events, conditions.rows[m]
    step = conditions.scopes[d.scope[i]].step
    other = table[at + 3] if table[at + 2] == step else table[at + 2]
    ref, t, u = events[rows[other]].ref, d.time[i], d.unc[i]
    low, high = partners(ref, conditions.errors.shift_ns[other], table[at], table[at + 1])
    there = t + float(ref - events[conditions.event[i]].ref)
    begin, end = there + low, there + high
    if d.clock[i] >= 0:
        t += error[d.clock[i]] * u
        u = 0.0
    if u > 0.0:
        low, high = _scope_of(i, true_time, long, d)
        return float(max(0.0, min(high, end, t + u) - max(low, begin, t - u)) / (2.0 * u))
    return 1.0 if begin <= t < end and _lies_at(t, i, true_time, long, d) else 0.0


@njit
def _share_that_lies(
    m: int, p: int, start: int, stop: int, true_time: np.ndarray, long: np.ndarray,
    error: np.ndarray, d: Doubtful, conditions: SampledConditions,
) -> float:  # fmt: skip
    """Return the share of an event's errors under which it is in a scope and the conditions there
    hold; ``start`` to ``stop``: its doubts.
    """
    lying, rows, t, u = 0, conditions.rows[m], d.time[start], d.unc[start]
    # Sampled by event, so that a retraction repeats the probability of its insertion.
    jitter = (p * _GOLDEN + (d.row[start] & 1023) * _GOLDEN * _GOLDEN) % 1.0
    for stratum in range(STRATA):
        shift = (2.0 * (stratum + jitter) / STRATA - 1.0) * u
        here = t + shift
        if d.clock[start] >= 0:
            here = t + error[d.clock[start]] * u
            shift = error[d.clock[start]] * u
        for i in range(start, stop):
            scope = conditions.scopes[d.scope[i]]
            step, before = scope.step, rows[scope.step]
            rows[step], conditions.errors.shift_ns[step] = conditions.event[i], shift
            lies = _lies_at(here, i, true_time, long, d) and _all_hold(
                conditions, scope.conditions_from, scope.conditions_to, rows
            )
            rows[step] = before
            if lies:
                lying += 1
                break
    return lying / STRATA
