"""The probability that an uncertain match is true, under independent uniform clock errors.

Each clock error is uniform within its uncertainty; events of one source and epoch share one. For
a pair this is exact: the difference of two uniform errors has a trapezoid density. For more
steps the errors are sampled at the points of a Kronecker sequence whose generators are powers
of the generalised golden ratio (Roberts 2018, "The unreasonable effectiveness of quasirandom
sequences"): deterministic, the same for every match, resolution 1/points.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.jit import njit

POINTS: Final = 1024


def pair_probability(
    diff_ns: np.ndarray, first_unc: np.ndarray, second_unc: np.ndarray, within_ns: int | None
) -> np.ndarray:
    """P(0 < second - first <= within) for independent errors; exact.

    Args:
        diff_ns: ref of the second minus ref of the first.
        first_unc: half-width of the first's error.
        second_unc: half-width of the second's error.
        within_ns: longest allowed difference, or None.
    """
    diff = diff_ns.astype(np.float64)
    before = _error_below(-diff, first_unc, second_unc)
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
    ref_ns: np.ndarray, unc_ns: np.ndarray, clock: np.ndarray, within_ns: int | None
) -> np.ndarray:
    """Share of sampled errors under which the events are in order and within ``within_ns``.

    Args:
        ref_ns: (matches, steps) int64.
        unc_ns: (matches, steps) half-widths; a float, as R19's T_a/2 may be half an integer.
        clock: (matches, steps): the first step that shares its clock error with this one.
        within_ns: longest allowed difference of the last and the first, or None.
    """
    steps = ref_ns.shape[1]
    since_first = (ref_ns - ref_ns[:, :1]).astype(np.float64)
    longest = np.inf if within_ns is None else float(within_ns)
    return _share(since_first, unc_ns, clock, longest, errors_of(steps))


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
    time: np.ndarray, unc: np.ndarray, clock: np.ndarray, longest: float, errors: np.ndarray
) -> np.ndarray:
    """Pairs that share a clock are exact and were checked before: they are left out."""
    matches, steps = time.shape
    share = np.zeros(matches)
    true_time = np.zeros(steps)
    for m in range(matches):
        hits = 0
        for p in range(len(errors)):
            for s in range(steps):
                true_time[s] = time[m, s] + errors[p, clock[m, s]] * unc[m, s]
            fine = true_time[steps - 1] - true_time[0] <= longest
            fine = fine or clock[m, steps - 1] == clock[m, 0]
            for s in range(1, steps):
                for q in range(s):
                    if true_time[q] >= true_time[s] and clock[m, q] != clock[m, s]:
                        fine = False
            hits += fine
        share[m] = hits / len(errors)
    return share
