"""Models of loss: which messages a link loses, found by name in ``LOSS_MODELS``.

A loss model decides for each message that enters the link, in order, whether it is lost. Scheduled
outages and full queues belong to the link (``simulator.links``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from slackwater.simulator.settings import check, parse_model, parse_share, parsed_by

BATCH: Final = 1024


class Loss(Protocol):
    """A running loss process."""

    def lost(self) -> bool:
        """Whether the next message is lost."""


class LossSettings(Protocol):
    """Settings of one model; a new one needs this class and one line in ``LOSS_MODELS``."""

    @property
    def mean(self) -> float:
        """Long-run share of lost messages."""

    def build(self, generator: np.random.Generator) -> Loss:
        """The running process, which draws from ``generator`` only."""


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """Each message is lost with ``probability``, whatever happened to the others."""

    probability: float = field(default=0.0, metadata=parsed_by(parse_share))

    def __post_init__(self) -> None:
        check(0 <= self.probability <= 1, "probability", "must lie in 0..1")

    @property
    def mean(self) -> float:
        return self.probability

    def build(self, generator: np.random.Generator) -> Loss:
        return IndependentLoss(self, generator)


@dataclass(frozen=True, slots=True)
class GilbertElliott:
    """Two states with their own loss probabilities: losses come in bursts.

    (Gilbert 1960, Elliott 1963; the four parameters p, r, 1-k, 1-h of netem's ``gemodel``.) The
    state changes before each message; the process starts in the stationary state.

    Attributes:
        p_good_to_bad: probability per message to leave the good state.
        p_bad_to_good: probability per message to leave the bad state.
        loss_good: loss probability in the good state.
        loss_bad: loss probability in the bad state.
    """

    p_good_to_bad: float = field(metadata=parsed_by(parse_share))
    p_bad_to_good: float = field(metadata=parsed_by(parse_share))
    loss_good: float = field(default=0.0, metadata=parsed_by(parse_share))
    loss_bad: float = field(default=1.0, metadata=parsed_by(parse_share))

    def __post_init__(self) -> None:
        for key in ("p_good_to_bad", "p_bad_to_good", "loss_good", "loss_bad"):
            check(0 <= getattr(self, key) <= 1, key, "must lie in 0..1")
        moves = self.p_good_to_bad + self.p_bad_to_good > 0
        check(moves, "p_good_to_bad", "must not be 0 together with p_bad_to_good")

    @property
    def share_bad(self) -> float:
        """Stationary probability of the bad state: p / (p + r)."""
        return self.p_good_to_bad / (self.p_good_to_bad + self.p_bad_to_good)

    @property
    def mean(self) -> float:
        return self.share_bad * self.loss_bad + (1 - self.share_bad) * self.loss_good

    def build(self, generator: np.random.Generator) -> Loss:
        return BurstLoss(self, generator)


LOSS_MODELS: Final[dict[str, type[Any]]] = {
    "bernoulli": Bernoulli,
    "gilbert_elliott": GilbertElliott,
}


def parse_loss(value: object, place: str) -> LossSettings:
    """Loss settings from a dict with the key ``model``, or from a bare share.

    Raises:
        UserError: unknown model or key, value out of range.
    """
    if isinstance(value, int | float | str):
        return Bernoulli(parse_share(value, place))
    settings: LossSettings = parse_model(LOSS_MODELS, value, place)
    return settings


class IndependentLoss:
    """Runs ``Bernoulli``."""

    def __init__(self, settings: Bernoulli, generator: np.random.Generator) -> None:
        self._probability = settings.probability
        self._generator = generator
        self._left: list[bool] = []

    def lost(self) -> bool:
        if not self._probability:
            return False
        if not self._left:
            self._left = (self._generator.random(BATCH) < self._probability).tolist()
            self._left.reverse()
        return self._left.pop()


class BurstLoss:
    """Runs ``GilbertElliott``."""

    def __init__(self, settings: GilbertElliott, generator: np.random.Generator) -> None:
        self._settings = settings
        self._generator = generator
        self._left: list[float] = []
        self._bad = bool(generator.random() < settings.share_bad)

    def lost(self) -> bool:
        if not self._left:
            self._left = self._generator.random(2 * BATCH).tolist()
        settings = self._settings
        change = settings.p_bad_to_good if self._bad else settings.p_good_to_bad
        if self._left.pop() < change:
            self._bad = not self._bad
        return self._left.pop() < (settings.loss_bad if self._bad else settings.loss_good)
