"""Clocks and links of the gateways: each has its own error and its own way to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scenarios.soccer.pitch import BALL, MS, SECOND, shoes_of_gateways
from scenarios.soccer.sensors import Ball, Match, Shoes
from slackwater.scenario import UserError
from slackwater.simulation import (
    START_NS,
    Bernoulli,
    ClockSettings,
    Constant,
    DelaySettings,
    Exponential,
    LinkSettings,
    Lognormal,
    Pareto,
    Recorded,
    Scenario,
    Seeds,
    SourceSettings,
    TwoPeak,
    Uniform,
)

DELAYS: Final[Mapping[str, DelaySettings]] = {
    "exponential": Exponential(min_ns=3 * MS, mean_ns=12 * MS),
    "two_peak": TwoPeak(first_ns=15 * MS, second_ns=320 * MS, second_share=0.03, spread_ns=8 * MS),
    "lognormal": Lognormal(median_ns=14 * MS, sigma=0.8, min_ns=4 * MS),
    "uniform": Uniform(low_ns=4 * MS, high_ns=45 * MS),
    "pareto": Pareto(min_ns=6 * MS, shape=2.2, max_ns=600 * MS),
    "constant": Constant(delay_ns=5 * MS),
    "recorded": Recorded("net_cicv5g"),
}
"""One-way delays to the engine, by the value of the option ``delay``."""
MIXED: Final = "mixed"
_MIXED: Final = ("exponential", "two_peak", "lognormal", "uniform", "pareto")
_DOWN: Final = Exponential(min_ns=2 * MS, mean_ns=4 * MS)
"""Back from the engine: shorter, so that time sync is wrong by half the difference."""
WARM_UP_NS: Final = 10 * SECOND
"""On before the kick-off; with it, windows of 10 s begin at the kick-off."""
_WANDER_PPB: Final = 20.0
_RESOLUTION_NS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Conditions:
    """How bad clocks and network are.

    Attributes:
        offset_ns: clocks are wrong by up to this, either way.
        skew_ppb: and by up to this much more per second, either way.
        delay: a key of ``DELAYS``, or ``mixed``: they differ from gateway to gateway.
        connections: of each gateway, in parallel; events overtake each other on them.
        loss: share of messages that are lost.
        duplicate: share of messages that arrive twice.
    """

    offset_ns: int
    skew_ppb: int
    delay: str
    connections: int
    loss: float
    duplicate: float

    def __post_init__(self) -> None:
        if self.delay != MIXED and self.delay not in DELAYS:
            known = ", ".join((MIXED, *DELAYS))
            raise UserError(f"--set delay={self.delay}: unknown model; use one of {known}")


def soccer_scenario(seed: int, duration_ns: int, conditions: Conditions) -> tuple[Scenario, Match]:
    """Eleven gateways that hear a match, and the match.

    Raises:
        UserError: a setting out of its range.
    """
    seeds = Seeds(seed)
    match = Match.planned(seeds, START_NS + WARM_UP_NS, duration_ns)
    gateways = shoes_of_gateways()
    names = (BALL, *gateways)
    generator = seeds.generator("soccer/clocks")
    offsets_ns = np.rint(generator.uniform(-1, 1, len(names)) * conditions.offset_ns)
    skews_ppb = np.rint(generator.uniform(-1, 1, len(names)) * conditions.skew_ppb)
    sources = tuple(
        SourceSettings(
            name=name,
            workload=Ball(match) if name == BALL else Shoes(gateways[name], match),
            clock=ClockSettings(
                offset_ns=int(offset_ns),
                skew_ppb=int(skew_ppb),
                wander_ppb=_WANDER_PPB,
                resolution_ns=_RESOLUTION_NS,
            ),
            up=_up(conditions, number),
            down=LinkSettings(delay=_DOWN),
            connections=conditions.connections,
            resend=False,
        )
        for number, (name, offset_ns, skew_ppb) in enumerate(
            zip(names, offsets_ns.tolist(), skews_ppb.tolist(), strict=True)
        )
    )
    scenario = Scenario(
        name="soccer",
        seed=seed,
        duration_ns=duration_ns,
        sources=sources,
        warm_up_ns=WARM_UP_NS,
        drain_ns=10 * SECOND,
    )
    return scenario, match


def _up(conditions: Conditions, number: int) -> LinkSettings:
    name = conditions.delay if conditions.delay != MIXED else _MIXED[number % len(_MIXED)]
    return LinkSettings(
        delay=DELAYS[name],
        loss=Bernoulli(conditions.loss),
        duplicate=conditions.duplicate,
    )
