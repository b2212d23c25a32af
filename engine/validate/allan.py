"""Overlapping Allan deviation of a clock, from its offset at even distances.

``sigma_y(tau)``, tau = m * tau0, is the root of the mean square of ``x[i+2m] - 2 x[i+m] + x[i]``
over ``2 tau**2``: how much the frequency over one stretch of tau differs from that over the next.
A constant offset and a constant skew do not count. White noise of the readings falls as 1/tau, a
wandering frequency rises as sqrt(tau); where one becomes the other, averaging longer is no use.

Source: Riley, "Handbook of Frequency Stability Analysis", NIST SP 1065 (2008), 5.2.4 (Eq 11).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

_TRIPLES_MIN: Final = 3


class Deviation(NamedTuple):
    """``sigma_y`` [ns/s = ppb] over ``tau_ns``, from ``triples`` differences."""

    tau_ns: int
    ppb: float
    triples: int


def allan_deviation(offset_ns: np.ndarray, step_ns: int) -> list[Deviation]:
    """At tau = 1, 2, 4 ... steps, as far as there are three differences or more.

    Args:
        offset_ns: float64, one reading every ``step_ns``; NaN where there is none.
        step_ns: above 0.

    >>> bent = np.array([0.0, 1, 4, 9, 16, 25])  # the frequency grows by 2 ns/s every second
    >>> round(allan_deviation(bent, 10**9)[0].ppb, 6)  # |2| / sqrt(2)
    1.414214
    """
    assert step_ns > 0
    found = []
    m = 1
    while 2 * m + _TRIPLES_MIN <= len(offset_ns):
        second = offset_ns[2 * m :] - 2 * offset_ns[m:-m] + offset_ns[: -2 * m]
        second = second[np.isfinite(second)]
        if len(second) >= _TRIPLES_MIN:
            seconds = m * step_ns / 1e9
            mean = float(np.mean(second**2))
            found.append(Deviation(m * step_ns, (mean / 2) ** 0.5 / seconds, len(second)))
        m *= 2
    return found


def wander_ppb(deviations: list[Deviation], period_ns: int) -> float:
    """The random walk of the frequency that the longest taus show; 0.0 where none is seen.

    In the simulator's terms: standard deviation of the frequency's change per ``period_ns``. A
    frequency that walks so has sigma_y**2 = wander**2 * tau / (3 * period) (NIST SP 1065, table 1:
    random walk FM). It is seen where the deviation rises with tau; where it still falls, it is
    noise of the readings.
    """
    if len(deviations) < 2:
        return 0.0
    lowest = min(range(len(deviations)), key=lambda place: deviations[place].ppb)
    rising = deviations[lowest + 1 :]
    if not rising:
        return 0.0
    last = rising[-1]
    return float(last.ppb * (3 * period_ns / last.tau_ns) ** 0.5)
