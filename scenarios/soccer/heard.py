"""``model = "soccer"`` of a scenario file: the sensors that one gateway hears of a match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from slackwater.scenario import UserError
from slackwater.scenarios.soccer.pitch import BALL, shoes_of_gateways
from slackwater.scenarios.soccer.sensors import Ball, Match, Shoes, streams
from slackwater.simulation import Batch, Seeds, Span, StreamSchema


@dataclass(frozen=True, slots=True)
class GatewayRange:
    """The sensors that a gateway hears: ``ball``, or the shoes of some players: ``home-1``..."""

    hears: str

    def __post_init__(self) -> None:
        known = (BALL, *shoes_of_gateways())
        if self.hears not in known:
            raise UserError(f"hears: {self.hears!r} is none of {', '.join(known)}")

    def streams(self) -> Sequence[StreamSchema]:
        """The stream of DEBS 2013."""
        return streams()

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        match = match_of(seeds.root, span)
        found = Ball(match) if self.hears == BALL else Shoes(shoes_of_gateways()[self.hears], match)
        return found.batches(span, seeds, source)


@lru_cache(maxsize=1)
def match_of(seed: int, span: Span) -> Match:
    """The match of a run, which all gateways hear."""
    return Match.planned(Seeds(seed), span.start_ns, span.length_ns)
