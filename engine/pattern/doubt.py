"""The probability that a match is true and that no doubtful negative event lies in its scopes.

Errors are as in ``engine.pattern.probability``: uniform, shared by the events of one source and
epoch. The errors of the positive events are sampled; given these, the chance that a negative event
lies in a scope is exact: the share of its own interval that the scope covers. Negative events of
one clock are taken as independent of one another (an approximation: they share an error).
"""

from __future__ import annotations

import numpy as np

from engine.jit import njit
from engine.pattern.certainty import Clock, shares_clock
from engine.pattern.probability import errors_of
from engine.pattern.scope import Scope
from engine.pattern.standing import Doubts
from engine.pattern.store import Store

_NONE = -1


def doubted_probability(
    clocks: list[Clock], half_width: np.ndarray, leader: np.ndarray, within_ns: int | None,
    scopes: list[Scope], doubts: Doubts, store: Store, error: np.ndarray | None,
) -> np.ndarray:  # fmt: skip
    """Per match, the probability.

    Args:
        clocks: of the positive events, one per step.
        half_width: (matches, steps) float [ns] of their errors.
        leader: (matches, steps): the first step that has the same error.
        within_ns: longest allowed difference of the last and the first, or None.
        scopes: of the negated steps, with places of positive steps.
        doubts: of these matches, at least one each.
        store: where the negative events are.
        error: half-width of a negative event's error per match; None: its own uncertainty.
    """
    steps = len(clocks)
    match, event = doubts.match, store.clock(doubts.row)
    left = np.array([_NONE if s.left is None else s.left for s in scopes])[doubts.scope]
    right = np.array([_NONE if s.right is None else s.right for s in scopes])[doubts.scope]
    # The steps below and above which it must lie; at an end WITHIN counts from the other end.
    low_step = np.where(left == _NONE, steps - 1, left)
    high_step = np.where(right == _NONE, 0, right)
    shared = np.full((len(match), steps), False)
    for step, clock in enumerate(clocks):
        shared[:, step] = shares_clock(clock.take(match), event)
    every = np.arange(len(match))
    same_error = np.where(shared.any(axis=1), leader[match, shared.argmax(axis=1)], _NONE)
    start = np.searchsorted(match, np.arange(len(half_width) + 1))
    ref = np.column_stack([clock.ref for clock in clocks])
    return _share(
        (ref - ref[:, :1]).astype(np.float64), half_width, leader,
        np.inf if within_ns is None else float(within_ns), errors_of(steps), start,
        (event.ref - ref[match, 0]).astype(np.float64),
        (event.unc if error is None else error[match]).astype(np.float64), same_error,
        doubts.row, low_step, left == _NONE, shared[every, low_step],
        high_step, right == _NONE, shared[every, high_step],
    )  # fmt: skip


@njit
def _share(
    time: np.ndarray, unc: np.ndarray, clock: np.ndarray, longest: float, errors: np.ndarray,
    start: np.ndarray, event_time: np.ndarray, event_unc: np.ndarray, event_clock: np.ndarray,
    row: np.ndarray, low_step: np.ndarray, low_within: np.ndarray, low_exact: np.ndarray,
    high_step: np.ndarray, high_within: np.ndarray, high_exact: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """As ``engine.pattern.probability``'s, each point weighted with the chance of no event.

    What shares a clock was compared exactly before, so such a bound is left out.
    """
    matches, steps = time.shape
    share = np.zeros(matches)
    true_time = np.zeros(steps)
    for m in range(matches):
        for p in range(len(errors)):
            for s in range(steps):
                true_time[s] = time[m, s] + errors[p, clock[m, s]] * unc[m, s]
            fine = true_time[steps - 1] - true_time[0] <= longest
            fine = fine or clock[m, steps - 1] == clock[m, 0]
            for s in range(1, steps):
                for q in range(s):
                    if true_time[q] >= true_time[s] and clock[m, q] != clock[m, s]:
                        fine = False
            if not fine:
                continue
            weight = 1.0
            hit = 0.0
            for d in range(start[m], start[m + 1]):
                again = d > start[m] and row[d - 1] == row[d] and low_step[d - 1] == low_step[d]
                again = again and high_step[d - 1] == high_step[d]
                if not again or low_within[d - 1] != low_within[d]:
                    low, high = -np.inf, np.inf
                    if not low_exact[d]:
                        low = true_time[low_step[d]] - (longest if low_within[d] else 0.0)
                    if not high_exact[d]:
                        high = true_time[high_step[d]] + (longest if high_within[d] else 0.0)
                    t, u = event_time[d], event_unc[d]
                    if event_clock[d] >= 0:
                        t += errors[p, event_clock[d]] * u
                        u = 0.0
                    if u > 0.0:
                        hit += max(0.0, min(high, t + u) - max(low, t - u)) / (2.0 * u)
                    elif low < t < high:
                        hit += 1.0
                # One event lies in one of several scopes at most: their chances add up, and
                # steps side by side have one scope.
                if d + 1 == start[m + 1] or row[d + 1] != row[d]:
                    weight *= max(0.0, 1.0 - hit)
                    hit = 0.0
            share[m] += weight / len(errors)
    return share
