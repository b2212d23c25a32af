"""The probability that an uncertain match is true, under independent uniform clock errors.

Each clock error is uniform within its uncertainty; events of one source and epoch share one. For
a pair this is exact: the difference of two uniform errors has a trapezoid density. For more
steps the errors are sampled at the points of a Kronecker sequence whose generators are powers
of the generalised golden ratio (Roberts 2018, "The unreasonable effectiveness of quasirandom
sequences"): deterministic, the same for every match, resolution 1/points.

Events of negated steps that may lie in a scope: given the errors of the positive events, the chance
that such an event lies there is exact, the share of its own interval that the scope covers. Those
of one clock are taken as independent of one another (an approximation: they share an error).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import njit
from engine.pattern.tables import AFTER, BEFORE, NOT_LONG_AFTER, NOT_LONG_BEFORE

POINTS: Final = 1024


class Doubtful(NamedTuple):
    """Events that may lie in scopes of some matches, sorted by match, then event, then scope.

    ``start`` (matches + 1): where each match's begin. Per doubt: ``row`` (which event), ``time``
    [ns since the match's first step], ``unc`` its half-width, ``clock`` (the step whose error it
    shares, or -1), ``scope`` (row of ``relations`` ranges ``from_`` and ``to``). ``exact``:
    (doubts, steps): it shares its clock with that step, so what relates them was tested exactly.
    ``same_scope``: (scopes) the first scope with equal relations. ``relations``: (n, 2) step, bits.
    """

    start: np.ndarray
    row: np.ndarray
    time: np.ndarray
    unc: np.ndarray
    clock: np.ndarray
    scope: np.ndarray
    exact: np.ndarray
    same_scope: np.ndarray
    from_: np.ndarray
    to: np.ndarray
    relations: np.ndarray


def no_doubts(matches: int, steps: int) -> Doubtful:
    """For ``matches`` of ``steps`` events."""
    none, real = np.empty(0, np.int64), np.empty(0, np.float64)
    return Doubtful(
        np.zeros(matches + 1, np.int64), none, real, real, none, none,
        np.empty((0, steps), np.bool_), none, none, none, np.empty((0, 2), np.int64),
    )  # fmt: skip


def pair_probability(
    diff_ns: np.ndarray, first_unc: np.ndarray, second_unc: np.ndarray, within_ns: int | None,
    least_ns: int = 0,
) -> np.ndarray:  # fmt: skip
    """P(least < second - first <= within) for independent errors; exact.

    Args:
        diff_ns: ref of the second minus ref of the first.
        first_unc: half-width of the first's error.
        second_unc: half-width of the second's error.
        within_ns: longest allowed difference, or None.
        least_ns: 0 where the first must come first, -within where either may.
    """
    diff = diff_ns.astype(np.float64)
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
    ref_ns: np.ndarray, unc_ns: np.ndarray, clock: np.ndarray, pairs: np.ndarray,
    within_ns: int | None, doubtful: Doubtful | None = None,
) -> np.ndarray:  # fmt: skip
    """Share of sampled errors under which the events satisfy ``pairs`` and no doubtful one counts.

    Args:
        ref_ns: (matches, steps) int64.
        unc_ns: (matches, steps) half-widths; a float, as R19's T_a/2 may be half an integer.
        clock: (matches, steps): the first step that shares its clock error with this one.
        pairs: (n, 3): step, other step, BEFORE and NOT_LONG_BEFORE (``engine.pattern.tables``).
        within_ns: longest allowed difference, or None.
        doubtful: events of negated steps.
    """
    steps = ref_ns.shape[1]
    since_first = (ref_ns - ref_ns[:, :1]).astype(np.float64)
    longest = np.inf if within_ns is None else float(within_ns)
    if doubtful is None:
        doubtful = no_doubts(len(ref_ns), steps)
    return _share(since_first, unc_ns, clock, pairs, longest, errors_of(steps), doubtful)


def errors_of(dimensions: int) -> np.ndarray:
    """The sampled errors: (POINTS, dimensions) in (-1, 1)."""
    golden = 2.0
    for _ in range(64):  # the root of x**(d+1) = x + 1, by iteration
        golden = (1.0 + golden) ** (1.0 / (dimensions + 1))
    generators = golden ** -np.arange(1.0, dimensions + 1)
    points = (0.5 + np.outer(np.arange(1, POINTS + 1), generators)) % 1.0
    return np.asarray(2.0 * points - 1.0)


@njit
def _share(
    time: np.ndarray, unc: np.ndarray, clock: np.ndarray, pairs: np.ndarray, longest: float,
    errors: np.ndarray, doubtful: Doubtful,
) -> np.ndarray:  # fmt: skip
    """Pairs that share a clock are exact and were tested before: they are left out."""
    matches, steps = time.shape
    share = np.zeros(matches)
    true_time = np.zeros(steps)
    for m in range(matches):
        for p in range(len(errors)):
            for s in range(steps):
                true_time[s] = time[m, s] + errors[p, clock[m, s]] * unc[m, s]
            fine = True
            for i in range(len(pairs)):
                x, y, bits = pairs[i, 0], pairs[i, 1], pairs[i, 2]
                if clock[m, x] != clock[m, y]:
                    apart = true_time[y] - true_time[x]
                    fine = fine and not (bits & BEFORE and apart <= 0.0)
                    fine = fine and not (bits & NOT_LONG_BEFORE and apart > longest)
            if fine:
                share[m] += _none_lies(m, true_time, longest, errors[p], doubtful) / len(errors)
    return share


@njit
def _none_lies(
    m: int, true_time: np.ndarray, longest: float, error: np.ndarray, d: Doubtful
) -> float:
    """The chance that no doubtful event lies in a scope of match ``m``, given its true times."""
    weight, hit = 1.0, 0.0
    for i in range(d.start[m], d.start[m + 1]):
        scope = d.scope[i]
        again = i > d.start[m] and d.row[i - 1] == d.row[i]
        if not (again and d.same_scope[d.scope[i - 1]] == d.same_scope[scope]):
            low, high = -np.inf, np.inf
            for r in range(d.from_[scope], d.to[scope]):
                step, bits = d.relations[r, 0], d.relations[r, 1]
                if d.exact[i, step]:
                    continue
                if bits & AFTER:
                    low = max(low, true_time[step])
                if bits & NOT_LONG_BEFORE:
                    low = max(low, true_time[step] - longest)
                if bits & BEFORE:
                    high = min(high, true_time[step])
                if bits & NOT_LONG_AFTER:
                    high = min(high, true_time[step] + longest)
            t, u = d.time[i], d.unc[i]
            if d.clock[i] >= 0:
                t += error[d.clock[i]] * u
                u = 0.0
            if u > 0.0:
                hit += max(0.0, min(high, t + u) - max(low, t - u)) / (2.0 * u)
            elif low < t < high:
                hit += 1.0
        # One event lies in one of several scopes at most: their chances add up, and steps side
        # by side have one scope.
        if i + 1 == d.start[m + 1] or d.row[i + 1] != d.row[i]:
            weight *= max(0.0, 1.0 - hit)
            hit = 0.0
    return weight
