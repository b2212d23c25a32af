"""Models of one-way delay: one small class per distribution, found by name in ``DELAY_MODELS``.

A model is a frozen dataclass of settings with a method ``bend(normals)`` that converts standard
normals to delays [ns, float64]; ``DrawnDelay`` draws them in batches and returns whole nanoseconds.
The correlation of successive delays is a separate setting. Delays in the time order of a recording
are in ``simulator.recorded``.

>>> from slackwater.simulator.seeds import Seeds
>>> model = Uniform(low_ns=10, high_ns=20)
>>> delay = DrawnDelay(model, Seeds(1).generator("example"))
>>> all(10 <= delay.sample(0) <= 20 for _ in range(1000))
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from slackwater.simulator.normals import Normals, survival
from slackwater.simulator.settings import check, parse_share, parsed_by

BATCH: Final = 1024
DELAY_MAX_NS: Final = 10**15
"""11 days: larger draws (a heavy tail without a cap) are cut to this."""


class DelayModel(Protocol):
    """Settings of one distribution; a new one needs this class and one line in ``DELAY_MODELS``."""

    def bend(self, normals: np.ndarray) -> np.ndarray:
        """Delays [ns, float64] from equally many standard normals, monotone in them."""


class Delay(Protocol):
    """A running source of delays."""

    def sample(self, send_ns: int) -> int:
        """The delay [ns] >= 0 of a message sent at true time ``send_ns``; call in order of time."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Always ``delay_ns``."""

    delay_ns: int

    def __post_init__(self) -> None:
        check(self.delay_ns >= 0, "delay", "must not be negative")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        return np.full(normals.size, float(self.delay_ns))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly spread over [``low_ns``, ``high_ns``]."""

    low_ns: int
    high_ns: int

    def __post_init__(self) -> None:
        check(0 <= self.low_ns <= self.high_ns, "low", "must lie in 0..high")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        width = self.high_ns - self.low_ns
        return np.asarray(self.high_ns - width * survival(normals))


@dataclass(frozen=True, slots=True)
class Exponential:
    """``min_ns`` plus an exponential: the mean of all is ``mean_ns``.

    (Cutting an exponential of that mean at the minimum would increase the mean.)
    """

    min_ns: int
    mean_ns: int

    def __post_init__(self) -> None:
        check(0 <= self.min_ns <= self.mean_ns, "min", "must lie in 0..mean")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        beyond = self.mean_ns - self.min_ns
        return np.asarray(self.min_ns - beyond * np.log(survival(normals)))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """``min_ns`` plus a lognormal of median ``median_ns - min_ns`` and log-deviation ``sigma``."""

    median_ns: int
    sigma: float
    min_ns: int = 0

    def __post_init__(self) -> None:
        check(0 <= self.min_ns <= self.median_ns, "min", "must lie in 0..median")
        check(0 <= self.sigma <= 5, "sigma", "must lie in 0..5")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        beyond = self.median_ns - self.min_ns
        return np.asarray(self.min_ns + beyond * np.exp(self.sigma * normals))


@dataclass(frozen=True, slots=True)
class Pareto:
    """P(delay > x) = (min_ns / x) ** shape, cut at ``max_ns``."""

    min_ns: int
    shape: float
    max_ns: int = 60 * 10**9

    def __post_init__(self) -> None:
        check(0 < self.min_ns <= self.max_ns, "min", "must be positive and at most max")
        check(self.shape > 0, "shape", "must be positive")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        # In logarithms, so that a small shape cannot overflow before the cut.
        longer = np.minimum(-np.log(survival(normals)) / self.shape, np.log(self.max_ns))
        return np.asarray(np.minimum(self.min_ns * np.exp(longer), float(self.max_ns)))


@dataclass(frozen=True, slots=True)
class TwoPeak:
    """Two triangles around ``first_ns`` and ``second_ns``, each ``spread_ns`` to both sides.

    A share ``second_share`` of the messages takes the second, longer way (R19 data set 1 has
    its late events in two peaks).
    """

    first_ns: int
    second_ns: int
    second_share: float = field(metadata=parsed_by(parse_share))
    spread_ns: int = 0

    def __post_init__(self) -> None:
        check(0 <= self.spread_ns <= self.first_ns, "spread", "must lie in 0..first")
        check(self.first_ns <= self.second_ns, "second", "must not be shorter than first")
        check(0 < self.second_share < 1, "second_share", "must lie between 0 and 1")

    def bend(self, normals: np.ndarray) -> np.ndarray:
        rest = survival(normals)
        second = rest < self.second_share
        share = np.where(
            second, rest / self.second_share, (rest - self.second_share) / (1 - self.second_share)
        )
        # Inverse of the triangle's distribution, by its two halves.
        upper = 1 - np.sqrt(2 * np.minimum(share, 0.5))
        lower = np.sqrt(2 * np.minimum(1 - share, 0.5)) - 1
        triangle = np.where(share < 0.5, upper, lower)
        peak = np.where(second, self.second_ns, self.first_ns)
        return np.asarray(peak + self.spread_ns * triangle)


DELAY_MODELS: Final[dict[str, type[Any]]] = {
    "constant": Constant,
    "uniform": Uniform,
    "exponential": Exponential,
    "lognormal": Lognormal,
    "pareto": Pareto,
    "two_peak": TwoPeak,
}


class DrawnDelay:
    """Whole nanoseconds of ``model``, drawn in batches.

    Args:
        model: the distribution.
        generator: the component's own; the batch size does not affect results.
        correlation: of successive draws' normals, in [0, 1).
    """

    def __init__(
        self, model: DelayModel, generator: np.random.Generator, correlation: float = 0.0
    ) -> None:
        self._model = model
        self._normals = Normals(generator, correlation)
        self._left: list[int] = []

    def take(self, count: int) -> np.ndarray:
        """The next ``count`` delays, int64 ns; do not mix with ``sample``."""
        drawn = np.rint(self._model.bend(self._normals.draw(count)))
        return np.asarray(np.clip(drawn, 0, DELAY_MAX_NS), np.int64)

    def sample(self, send_ns: int) -> int:  # noqa: ARG002 - a drawn law does not change in time
        if not self._left:
            self._left = self.take(BATCH)[::-1].tolist()
        return self._left.pop()
