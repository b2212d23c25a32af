"""A law of delays that was drawn from, out of its draws: ``min`` plus a lognormal, or a constant.

The law has three numbers, and its probability plot is a straight line for the right ``min`` alone:
of many, that one is taken whose plot is straightest (probability plot correlation, Filliben 1975);
slope and height of the line are sigma and the logarithm of what lies above ``min`` in the median.
A lognormal with a ``min`` comes near most laws that networks have (exponential, Weibull, gamma).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

_POINTS: Final = 200
_CANDIDATES: Final = 60
_SPREAD_MIN: Final = 0.005
"""Below this share of the delay, 50 us at least, jitter is what the programs' clocks read."""
_SPREAD_MIN_NS: Final = 50_000
_SIGMA_MAX: Final = 5.0
"""The largest that a scenario takes."""
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """``min_ns`` plus a lognormal of median ``median_ns - min_ns``; ``sigma`` 0: a constant."""

    min_ns: int
    median_ns: int
    sigma: float

    @property
    def mean_ns(self) -> float:
        """Of all delays."""
        return self.min_ns + (self.median_ns - self.min_ns) * float(np.exp(self.sigma**2 / 2))

    @property
    def deviation_ns(self) -> float:
        """Standard deviation."""
        above = self.mean_ns - self.min_ns
        return above * float(np.sqrt(np.expm1(self.sigma**2)))


def delay_law(delays: np.ndarray) -> DelayLaw:
    """The law that fits best.

    Args:
        delays: [ns], float64; what lies below 0 is taken for 0. At least one.

    Returns:
        A constant where there are few delays, or hardly any jitter.
    """
    ranked = np.maximum(np.sort(delays), 0.0)
    median = float(np.median(ranked))
    low, high = np.quantile(ranked, [0.05, 0.95])
    if len(ranked) < _FEW or high - low < max(_SPREAD_MIN * median, _SPREAD_MIN_NS):
        return DelayLaw(round(median), round(median), 0.0)
    share = (np.arange(_POINTS) + 0.5) / _POINTS
    inverse = NormalDist().inv_cdf
    normal = np.array([inverse(each) for each in share.tolist()])
    points = np.quantile(ranked, share)
    # Close to the least delay first, then further and further away, down to 0.
    below = (points[0] + 1) * np.geomspace(1e-4, 1, _CANDIDATES)
    least = np.maximum(points[0] - below, 0.0)
    logs = np.log(np.maximum(points - least[:, None], 1.0))
    deviation = logs - logs.mean(axis=1, keepdims=True)
    slope = deviation @ normal / (normal @ normal)
    straight = deviation @ normal / np.sqrt((deviation**2).sum(axis=1) * (normal @ normal))
    best = int(np.argmax(straight))
    middle = least[best] + np.exp(logs[best].mean())
    return DelayLaw(round(least[best]), round(middle), float(min(slope[best], _SIGMA_MAX)))
