"""Correlated standard normals, and the tail probability that maps them to other distributions.

Delay models convert standard normals to their own distribution (a Gaussian copula): one AR(1)
recursion then gives every model correlated jitter with its distribution unchanged.
"""

from __future__ import annotations

import math

import numpy as np

from slackwater.engine.kernels.jit import njit

_SQRT_HALF = math.sqrt(0.5)


class Normals:
    """A stationary AR(1) sequence of standard normals, drawn in batches.

    Args:
        generator: source of the innovations.
        correlation: of neighbours, in [0, 1); 0 = independent.
    """

    def __init__(self, generator: np.random.Generator, correlation: float) -> None:
        assert 0 <= correlation < 1
        self._generator = generator
        self._correlation = correlation
        self._last: float | None = None

    def draw(self, count: int) -> np.ndarray:
        """The next ``count`` >= 1 values, float64, independent of how calls split the sequence."""
        fresh = self._generator.standard_normal(count)
        if not self._correlation:
            return fresh
        if self._last is None:  # the first value is itself N(0, 1): stationary from the start
            out = np.concatenate([fresh[:1], _chain(fresh[1:], float(fresh[0]), self._correlation)])
        else:
            out = _chain(fresh, self._last, self._correlation)
        self._last = float(out[-1])
        return out


def survival(normals: np.ndarray) -> np.ndarray:
    """P(Z > z) of each value, exact far into the upper tail; in (0, 1]."""
    return np.asarray(_survival(normals))


@njit
def _chain(fresh: np.ndarray, last: float, correlation: float) -> np.ndarray:
    out = np.empty_like(fresh)
    scale = math.sqrt(1.0 - correlation * correlation)
    for at in range(fresh.size):
        last = correlation * last + scale * fresh[at]
        out[at] = last
    return out


@njit
def _survival(normals: np.ndarray) -> np.ndarray:
    out = np.empty_like(normals)
    for at in range(normals.size):
        out[at] = 0.5 * math.erfc(normals[at] * _SQRT_HALF)
    return out
