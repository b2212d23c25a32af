"""The devices of the cold store, and what their agents make of readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from scenarios.warehouse.world import CLIMATE, READS, Climate, Pallet, Reader, plan_pallets
from slackwater.scenario import NS_PER
from slackwater.simulation import (
    START_NS,
    AbstractSettings,
    ClockSettings,
    Exponential,
    GatewayPlace,
    LinkSettings,
    Lognormal,
    Scenario,
    Seeds,
    SourceSettings,
    Span,
)

SECOND: Final = NS_PER["s"]
MS: Final = NS_PER["ms"]
WARM_UP_NS: Final = 5 * SECOND
GAP_NS: Final = 3_200 * MS
"""A pallet that was not read for longer has left."""
HEARTBEAT_NS: Final = 15 * SECOND
"""A stream of intervals is silent for long; more promises than this would outweigh them."""
HYSTERESIS_C: Final = 0.3
HYSTERESIS_PERCENT: Final = 1.0
TEMPERATURE: Final = ("LOW", 4, "MEDIUM", 8, "HIGH")
HUMIDITY: Final = ("DRY", 45, "NORMAL", 65, "WET")
BANDS: Final = "bands"
STAYS: Final = "stays"
_CLIMATE: Final = (
    AbstractSettings(
        stream=CLIMATE, into=BANDS, kind="bands", value="celsius", by=("zone",),
        bands=TEMPERATURE, hysteresis=HYSTERESIS_C,
    ),
    AbstractSettings(
        stream=CLIMATE, into=BANDS, kind="bands", value="humidity", by=("zone",),
        bands=HUMIDITY, hysteresis=HYSTERESIS_PERCENT,
    ),
)  # fmt: skip
_STAY: Final = (
    AbstractSettings(
        stream=READS, into=STAYS, kind="presence", type="STAY", by=("zone", "pallet"),
        gap_ns=GAP_NS,
    ),
)  # fmt: skip
_WIFI: Final = LinkSettings(
    delay=Lognormal(median_ns=8 * MS, sigma=0.9, min_ns=2 * MS), reliable=True
)
_DOWN: Final = LinkSettings(delay=Exponential(min_ns=MS, mean_ns=2 * MS), reliable=True)


def zone_name(number: int) -> str:
    """Of the zone: ``A``, ``B``..."""
    return chr(ord("A") + number)


def warehouse_scenario(
    seed: int, duration_ns: int, zones: int, pallets: int, offset_ns: int
) -> Scenario:
    """Sensors and readers of ``zones`` zones through which ``pallets`` pallets pass."""
    seeds = Seeds(seed)
    span = Span(START_NS + WARM_UP_NS, duration_ns)
    planned = plan_pallets(pallets, zones, span, seeds.generator("warehouse/pallets"))
    generator = seeds.generator("warehouse/clocks")
    sources = []
    for zone in range(zones):
        sources += [
            _source(f"climate-{zone_name(zone)}", zone, _CLIMATE, generator, offset_ns, planned),
            _source(f"reader-{zone_name(zone)}", zone, _STAY, generator, offset_ns, planned),
        ]
    return Scenario(
        name="warehouse", seed=seed, duration_ns=duration_ns, sources=tuple(sources),
        gateway=GatewayPlace(frame_every_ns=SECOND, tick_every_ns=SECOND),
        warm_up_ns=WARM_UP_NS, drain_ns=30 * SECOND,
    )  # fmt: skip


def with_readings(scenario: Scenario) -> Scenario:
    """The same devices, which send every reading and no interval."""
    return replace(scenario, sources=tuple(replace(each, abstract=()) for each in scenario.sources))


def _source(
    name: str, zone: int, abstract: tuple[AbstractSettings, ...], generator: np.random.Generator,
    offset_ns: int, pallets: tuple[Pallet, ...],
) -> SourceSettings:  # fmt: skip
    offset, skew = generator.uniform(-1, 1, 2).tolist()
    climate = abstract is _CLIMATE
    return SourceSettings(
        name=name,
        workload=Climate(zone_name(zone)) if climate else Reader(zone, zone_name(zone), pallets),
        clock=ClockSettings(offset_ns=round(offset * offset_ns), skew_ppb=round(skew * 20_000)),
        up=_WIFI,
        down=_DOWN,
        heartbeat_ns=HEARTBEAT_NS,
        abstract=abstract,
    )
