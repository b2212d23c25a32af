"""Clocks and links of the readers: Wi-Fi at the shelves, a LAN, and one congested link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER, UserError
from slackwater.scenarios.bookstore.readers import ShopReader, Zone
from slackwater.scenarios.bookstore.shop import Shop, ShopBook, plan_books
from slackwater.simulation import (
    START_NS,
    ClockSettings,
    Exponential,
    GatewayPlace,
    GilbertElliott,
    LinkSettings,
    Lognormal,
    Pareto,
    Scenario,
    Seeds,
    SourceSettings,
)

MS: Final = NS_PER["ms"]
SECOND: Final = NS_PER["s"]
WARM_UP_NS: Final = 5 * SECOND
POLL_NS: Final = 10 * MS
_LAN: Final = LinkSettings(delay=Exponential(min_ns=MS // 2, mean_ns=MS), reliable=True)
_WIFI: Final = LinkSettings(
    delay=Lognormal(median_ns=6 * MS, sigma=0.7, min_ns=2 * MS),
    loss=GilbertElliott(p_good_to_bad=0.02, p_bad_to_good=0.3, loss_bad=0.5),
    reliable=True,
    retransmit_timeout_ns=40 * MS,
)
_CONGESTED: Final = LinkSettings(
    delay=Pareto(min_ns=40 * MS, shape=0.9, max_ns=4 * SECOND),
    reliable=True,
    rate_bytes_per_s=20_000,
    queue_bytes=64_000,
)
_DOWN: Final = LinkSettings(delay=Exponential(min_ns=MS // 2, mean_ns=MS), reliable=True)
NETWORKS: Final = ("mixed", "lan", "wifi", "congested")
"""Values of the option ``network``: ``mixed``, or the same link for every reader."""
_LINKS: Final = {"lan": _LAN, "wifi": _WIFI, "congested": _CONGESTED}
CONGESTED_COUNTER: Final = 1
"""In the mixed network: the counter at the end of the congested link."""


@dataclass(frozen=True, slots=True)
class ReaderConditions:
    """Quality of the readers and their connections.

    Attributes:
        network: one of ``NETWORKS``.
        connections: of each reader, in parallel; events overtake each other on them.
        offset_ns: largest error of a clock, either way.
        skew_ppb: largest growth of that error, either way.
        missed: chance that an antenna never sees a tag in its field.
        pog: promises per event.
        heartbeat_ns: silence after which a reader promises.
    """

    network: str
    connections: int
    offset_ns: int
    skew_ppb: int
    missed: float
    pog: float
    heartbeat_ns: int

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            known = ", ".join(NETWORKS)
            raise UserError(f"--set network={self.network}: unknown; use one of {known}")
        for name in ("missed", "pog"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"--set {name}={getattr(self, name)}: must lie in 0..1")
        if not 1 <= self.connections <= 64:
            raise UserError(f"--set connections={self.connections}: must lie in 1..64")


def bookstore_scenario(
    seed: int, shop: Shop, shoppers: int, thefts: int, conditions: ReaderConditions
) -> tuple[Scenario, tuple[ShopBook, ...]]:
    """The readers of a shop on one day, and the fates of its books."""
    seeds = Seeds(seed)
    books = plan_books(shop, shoppers, thefts, seeds.generator("bookstore/books"))
    counts = {Zone.SHELF: shop.shelves, Zone.COUNTER: shop.counters, Zone.EXIT: shop.exits}
    readers = [
        ShopReader(zone, place, conditions.missed, shop, books)
        for zone, count in counts.items()
        for place in range(count)
    ]
    generator = seeds.generator("bookstore/clocks")
    offsets_ns = np.rint(generator.uniform(-1, 1, len(readers)) * conditions.offset_ns)
    skews_ppb = np.rint(generator.uniform(-1, 1, len(readers)) * conditions.skew_ppb)
    clocks = [
        ClockSettings(offset_ns=int(offset), skew_ppb=int(skew), resolution_ns=1_000)
        for offset, skew in zip(offsets_ns.tolist(), skews_ppb.tolist(), strict=True)
    ]
    scenario = Scenario(
        name="bookstore",
        seed=seed,
        duration_ns=shop.length_ns,
        sources=tuple(
            _source(reader, clock, conditions)
            for reader, clock in zip(readers, clocks, strict=True)
        ),
        gateway=GatewayPlace(frame_every_ns=SECOND),
        start_ns=shop.start_ns - WARM_UP_NS,
        warm_up_ns=WARM_UP_NS,
        drain_ns=30 * SECOND,
    )
    return scenario, books


def opened(opening_ns: int, compression: int) -> Shop:
    """The shop, opening after the readers' warm-up."""
    return Shop(START_NS + WARM_UP_NS, opening_ns, compression)


def _source(
    reader: ShopReader, clock: ClockSettings, conditions: ReaderConditions
) -> SourceSettings:
    return SourceSettings(
        name=reader.name,
        workload=reader,
        clock=clock,
        up=_up(reader, conditions.network),
        down=_DOWN,
        connections=conditions.connections,
        poll_ns=POLL_NS,
        heartbeat_ns=conditions.heartbeat_ns,
        heartbeat_lag_ns=reader.known_after_ns + 2 * POLL_NS,
        promise_share=conditions.pog,
        promise_first=(reader.zone.value,),
    )


def _up(reader: ShopReader, network: str) -> LinkSettings:
    if network != "mixed":
        return _LINKS[network]
    if reader.zone is Zone.SHELF:
        return _WIFI
    slow = reader.zone is Zone.COUNTER and reader.place == CONGESTED_COUNTER
    return _CONGESTED if slow else _LAN
