"""How wrong the clock of any source of a site may be, as operators and barriers are told."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from edge_agent.limits import UNC_MAX_NS
from engine.kernels.integers import NS_PER_S

LATEST: Final = 1 << 62
"""No reference time is later."""


class ClockBound(Struct, frozen=True):
    """At reference time t a clock of the site errs by at most ``at(t)`` [ns].

    That is ``unc_ns`` and, from ``since`` on, ``rate_ppb`` of the time that has gone by, or before
    ``until`` ``back_ppb`` of the time to there.
    """

    unc_ns: int = 0
    rate_ppb: int = 0
    since: int = 0
    back_ppb: int = 0
    until: int = -LATEST

    def at(self, ref: np.ndarray) -> np.ndarray:
        """The bound at int64 reference times, int64."""
        grown = _grown(np.clip(ref, self.since, LATEST) - self.since, self.rate_ppb)
        grown = np.maximum(grown, self.before(ref))
        return np.asarray(np.minimum(grown + self.unc_ns, UNC_MAX_NS))

    def before(self, ref: np.ndarray) -> np.ndarray:
        """By how much of it clocks may err as they were not synchronised yet [ns]."""
        return _grown(self.until - np.clip(ref, -LATEST, self.until), self.back_ppb)


def _grown(age: np.ndarray, rate_ppb: int) -> np.ndarray:
    # Whole seconds and the rest apart: their products with the rate stay within int64.
    if not rate_ppb:
        return np.zeros(age.shape, np.int64)
    return np.asarray(age // NS_PER_S * rate_ppb + age % NS_PER_S * rate_ppb // NS_PER_S)
