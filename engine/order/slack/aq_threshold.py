"""How much of a window must be there for its result to be good enough (aq-kslack's error model).

Source: the manner of R19 2.3.3 (Ji et al.): what came too late for a window is missing from it
like what a sampler left out. A sampling rate then has an error, and an error a least rate, which
is the coverage to be held. R19 gives no formulas; these are derived here.

Let N events belong to the window, with values of mean M and coefficient of variation cv (standard
deviation over ``|M|``). Each is in time with probability p, whatever its value and its neighbours'
luck; q = 1 - p. With ``confidence`` the relative error shall be at most e. By the central limit
theorem an error lies within z standard deviations of its mean, where z is the normal quantile of
that confidence.

``count`` and ``sum``. The result adds up what is there, and is not scaled up, since the operator
does not know p. The sum of B_i * x_i with B_i = 1 for what is in time has the mean p*N*M and the
variance p*q * sum(x_i**2) = p*q * N * M**2 * (1 + cv**2). So relative to N*M the loss is q, and

    q + a * sqrt(p*q) <= e,    a = z * sqrt((1 + cv**2) / N).

Squared, (1 + a**2) q**2 - (2e + a**2) q + e**2 >= 0, whose smaller root is the largest loss:

    q = 2 e**2 / (2e + a**2 + a * sqrt(a**2 + 4e(1 - e))).

A count is the sum of ones: cv = 0, and z is one-sided, since nothing is counted twice. A window's
count is within e just when its coverage is at least 1 - e; this p is the mean coverage at which
the share ``confidence`` of the windows is there. It tends to 1 - e for large N.

``avg``. Of n = p*N of N values, drawn without replacement, the mean has the standard error
M * cv * sqrt((1 - p) / n), so

    z * cv * sqrt((1 - p) / (p*N)) <= e,    p = (z*cv)**2 / (e**2 * N + (z*cv)**2).

The theorem is leaned on from 30 values up: p is at least 30/N, and 1 where N is below.

Events that are late together make the share that is in time vary more than chance would. How much
more is measured: ``spread`` is the mean square of how many events were missing from a window
beyond the usual share, over p*q*N; it multiplies the variance of a count and of a sum.

Not covered: values that go with lateness, and groups: N is the whole window's.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import PPB, Record

COUNT: Final = 0
SUM: Final = 1
AVG: Final = 2
AGGREGATES: Final = {"count": COUNT, "sum": SUM, "avg": AVG}
PPM: Final = 1_000_000
MOMENTS: Final = np.dtype([
    ("events", "f8"), ("missing", "f8"), ("expected", "f8"), ("observed", "f8")
])  # fmt: skip
"""Running means over windows: events, those missing, and the variance of these."""
_SAMPLE_LEAST: Final = 30.0
_EASE: Final = 64.0
"""Windows that a running mean remembers, about."""


def normal_quantile_ppm(confidence_ppm: int, aggregate: int) -> int:
    """The z of a confidence of at least a half, in millionths; one-sided for a count."""
    share = confidence_ppm / PPM
    return round(NormalDist().inv_cdf(share if aggregate == COUNT else (1 + share) / 2) * PPM)


@inline
def _eased(mean: float, value: float) -> float:
    return mean + (value - mean) / _EASE


@kernel
def spread(moments: Record, n: int, missing: int) -> float:
    """How much more the numbers of missing events vary than independent ones would; at least 1.

    Args:
        moments: MOMENTS; learns of this window.
        n: its events.
        missing: those that were not in time.
    """
    moments.events = _eased(moments.events, float(n))
    moments.missing = _eased(moments.missing, float(missing))
    share = moments.missing / moments.events
    error = missing - share * n
    moments.expected = _eased(moments.expected, share * (1.0 - share) * n)
    moments.observed = _eased(moments.observed, error * error)
    return max(moments.observed / moments.expected, 1.0) if moments.expected > 0.0 else 1.0


@kernel
def coverage_threshold(
    aggregate: int, error_ppm: int, z_ppm: int, dispersion: float, n: int, total: float,
    squares: float,
) -> int:  # fmt: skip
    """The least mean coverage of a window, in billionths.

    Only + - * / and square roots, each correctly rounded everywhere, so that equal logs give equal
    results on all machines.

    Args:
        aggregate: COUNT, SUM or AVG.
        error_ppm: relative error allowed, in millionths.
        z_ppm: see ``normal_quantile_ppm``.
        dispersion: see ``spread``.
        n: events of the window, at least 1.
        total: sum of their values; of no interest to a count.
        squares: sum of the squares of their values.
    """
    error, z = error_ppm / 1e6, z_ppm / 1e6
    variation = 0.0  # cv squared
    if aggregate != COUNT:
        variation = n * squares / (total * total) - 1.0
        # Also where the mean is 0 or a sum is beyond a float: then nothing may be missing.
        if not variation < 1e18:
            return PPB
        variation = max(variation, 0.0)
    if aggregate == AVG:
        noise = z * z * variation
        share = max(noise / (error * error * n + noise), _SAMPLE_LEAST / n) if n > 30 else 1.0
        return int(np.ceil(share * PPB))
    a = z * np.sqrt(dispersion * (1.0 + variation) / n)
    loss = 2 * error * error / (2 * error + a * a + a * np.sqrt(a * a + 4 * error * (1 - error)))
    return PPB - int(loss * PPB)
