"""The agents in the machine room: what they make of what is measured."""

from __future__ import annotations

from typing import Any, Final

from scenarios.network_correlation.incidents import (
    HEALTH,
    PACKETS,
    Failures,
    Health,
    Incident,
    Watch,
    plan_incidents,
    server_name,
)
from slackwater.scenario import NS_PER
from slackwater.simulation import (
    START_NS,
    AbstractSettings,
    ClockSettings,
    GatewayPlace,
    LinkSettings,
    Lognormal,
    Scenario,
    Seeds,
    SourceSettings,
)

SECOND: Final = NS_PER["s"]
MS: Final = NS_PER["ms"]
WARM_UP_NS: Final = 5 * SECOND
ATTACK, FAN, OVERLOAD = "NETWORK_ATTACK", "FAN_FAILURE", "SERVER_OVERLOAD"
ATTACK_GAP_NS: Final = 4 * SECOND
MIN_NS: Final = 5 * SECOND
"""A server may be busy, or its fan odd, for less than this."""
FAN_BANDS: Final = (FAN, 800, "FAN_TURNS")
LOAD_BANDS: Final = ("LOAD_NORMAL", 85, OVERLOAD)
CONDITIONS: Final = "conditions"
_BY_HEALTH: Final = tuple(
    AbstractSettings(
        stream=HEALTH, into=CONDITIONS, kind="bands", value=value, by=("server",), bands=bands,
        min_ns=MIN_NS,
    )
    for value, bands in (("rpm", FAN_BANDS), ("load", LOAD_BANDS))
)  # fmt: skip
_BY_PACKETS: Final = (
    AbstractSettings(
        stream=PACKETS, into="attacks", kind="presence", type=ATTACK, by=("server",),
        gap_ns=ATTACK_GAP_NS,
    ),
)  # fmt: skip
_LINK: Final = LinkSettings(delay=Lognormal(median_ns=3 * MS, sigma=1.2, min_ns=MS), reliable=True)


def machine_room(
    seed: int, duration_ns: int, servers: int, attacks: float, offset_ns: int
) -> tuple[Scenario, tuple[Incident, ...]]:
    """The scenario, and what happens in it."""
    seeds = Seeds(seed)
    names = [server_name(number) for number in range(servers)]
    incidents = plan_incidents(
        names, duration_ns / SECOND, attacks, seeds.generator("network-correlation/incidents")
    )
    generator = seeds.generator("network-correlation/clocks")

    def source(name: str, workload: Any, abstract: tuple[AbstractSettings, ...]) -> SourceSettings:
        offset, skew = generator.uniform(-1, 1, 2).tolist()
        return SourceSettings(
            name=name, workload=workload, abstract=abstract, up=_LINK, down=_LINK,
            clock=ClockSettings(offset_ns=round(offset * offset_ns), skew_ppb=round(skew * 20_000)),
            heartbeat_ns=10 * SECOND,
        )  # fmt: skip

    sources = [
        source(name, Health(name, tuple(each for each in incidents if each.server == name)),
               _BY_HEALTH)
        for name in names
    ]  # fmt: skip
    sources += [
        source("watch", Watch(incidents), _BY_PACKETS), source("failures", Failures(incidents), ()),
    ]  # fmt: skip
    scenario = Scenario(
        name="network-correlation", seed=seed, duration_ns=duration_ns, sources=tuple(sources),
        gateway=GatewayPlace(frame_every_ns=SECOND, tick_every_ns=SECOND),
        start_ns=START_NS, warm_up_ns=WARM_UP_NS,
        drain_ns=30 * SECOND,
    )  # fmt: skip
    return scenario, incidents
