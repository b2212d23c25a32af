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

    That is ``unc_ns`` and, from ``since`` on, ``rate_ppb`` of the time that has gone by.
    """

    unc_ns: int = 0
    rate_ppb: int = 0
    since: int = 0

    def at(self, ref: np.ndarray) -> np.ndarray:
        """The bound at int64 reference times, int64."""
        if not self.rate_ppb:
            return np.full(ref.shape, self.unc_ns)
        age = np.clip(ref, self.since, LATEST) - self.since
        # Whole seconds and the rest apart: their products with the rate stay within int64.
        grown = age // NS_PER_S * self.rate_ppb + age % NS_PER_S * self.rate_ppb // NS_PER_S
        return np.asarray(np.minimum(grown + self.unc_ns, UNC_MAX_NS))
