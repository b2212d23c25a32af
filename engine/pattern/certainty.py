"""Is the order of two events, and the length of a match, certain under clock uncertainty?

Source: R19 3.2.3.2, Pseudocode 3.1; SPEC 4.3. For e required before f with
``diff = ref_f - ref_e`` and bound b, the order is certain when ``diff > b``, uncertain when
``-b <= diff <= b``, else impossible; with b = 0 it must be ``diff > 0``. R19 takes the site's
T_a as b (``max-delay``), ``pairwise`` the sum of both events' uncertainties. Two events of one
source and epoch share one clock error, so their difference is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from engine.released import NO_EPOCH


class Rule(StrEnum):
    """Where the bound of a pair comes from."""

    PAIRWISE = "pairwise"
    MAX_DELAY = "max-delay"


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of some events' times: int64 ``ref unc epoch``, int32 ``source``."""

    ref: np.ndarray
    unc: np.ndarray
    epoch: np.ndarray
    source: np.ndarray

    def take(self, rows: np.ndarray) -> Clock:
        """The clocks of ``rows`` (an array of any shape)."""
        return Clock(self.ref[rows], self.unc[rows], self.epoch[rows], self.source[rows])


def shares_clock(first: Clock, second: Clock) -> np.ndarray:
    """Where both events have one clock error."""
    one = (first.source == second.source) & (first.epoch == second.epoch)
    return np.asarray(one & (first.epoch != NO_EPOCH))


def bound_ns(rule: Rule, t_a: int | np.ndarray, first: Clock, second: Clock) -> np.ndarray:
    """The bound b per pair [ns]; 0 where the difference is exact. ``t_a``: of all, or per pair."""
    if rule is Rule.MAX_DELAY:
        bound = np.broadcast_to(np.asarray(t_a, np.int64), first.ref.shape)
    else:
        bound = first.unc + second.unc
    return np.where(shares_clock(first, second), 0, bound)


def order(
    rule: Rule, t_a: int | np.ndarray, first: Clock, second: Clock
) -> tuple[np.ndarray, np.ndarray]:
    """(possible, certain) that ``first`` happened before ``second``."""
    bound = bound_ns(rule, t_a, first, second)
    diff = second.ref - first.ref
    return np.where(bound == 0, diff > 0, diff >= -bound), diff > bound


def within(
    rule: Rule, t_a: int | np.ndarray, first: Clock, last: Clock, within_ns: int
) -> tuple[np.ndarray, np.ndarray]:
    """(possible, certain) that ``last`` happened at most ``within_ns`` after ``first``."""
    bound = bound_ns(rule, t_a, first, last)
    diff = last.ref - first.ref
    return diff <= within_ns + bound, diff <= within_ns - bound
