"""The sensors of the homes: clocks, links, and the abstraction of motion in their agents."""

from __future__ import annotations

from typing import Final

from slackwater.scenario import NS_PER
from slackwater.scenarios.elder_care.evenings import (
    DAY_NS,
    MEDICINE,
    ROOMS,
    STREAM,
    Sensor,
    plan_evenings,
)
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
)

SECOND: Final = NS_PER["s"]
MS: Final = NS_PER["ms"]
WARM_UP_NS: Final = 5 * SECOND
GAP_NS: Final = 2_100 * MS
"""A person who is not seen for longer has left."""
DOINGS: Final = "doings"
_WIFI: Final = LinkSettings(
    delay=Lognormal(median_ns=10 * MS, sigma=0.8, min_ns=2 * MS), reliable=True
)
_DOWN: Final = LinkSettings(delay=Exponential(min_ns=2 * MS, mean_ns=4 * MS), reliable=True)


def homes_scenario(
    seed: int, persons: int, days: int, forgotten: float, radio_ns: int, offset_ns: int
) -> Scenario:
    """``radio_ns``: median delay of the pill boxes' slow radio."""
    seeds = Seeds(seed)
    names = [f"p{number + 1}" for number in range(persons)]
    doings = plan_evenings(
        names, days, forgotten, START_NS + WARM_UP_NS, seeds.generator("elder-care/evenings")
    )
    generator = seeds.generator("elder-care/clocks")
    radio = LinkSettings(
        delay=Lognormal(median_ns=radio_ns, sigma=1.2, min_ns=radio_ns // 8), reliable=True
    )
    sources = []
    for person in names:
        for room, type_ in ROOMS.items():
            offset, skew = generator.uniform(-1, 1, 2).tolist()
            mine = tuple(d for d in doings if (d.person, d.type) == (person, type_))
            sources.append(
                SourceSettings(
                    name=f"{person}-{room}",
                    workload=Sensor(person, mine),
                    clock=ClockSettings(
                        offset_ns=round(offset * offset_ns), skew_ppb=round(skew * 20_000)
                    ),
                    up=radio if type_ == MEDICINE else _WIFI,
                    down=_DOWN,
                    heartbeat_ns=5 * SECOND,
                    promise_first=(type_,),
                    abstract=(
                        AbstractSettings(
                            stream=STREAM, into=DOINGS, kind="presence", type=type_,
                            by=("person",), gap_ns=GAP_NS,
                        ),
                    ),
                )
            )  # fmt: skip
    return Scenario(
        name="elder-care", seed=seed, duration_ns=days * DAY_NS, sources=tuple(sources),
        gateway=GatewayPlace(frame_every_ns=SECOND, tick_every_ns=SECOND),
        warm_up_ns=WARM_UP_NS, drain_ns=60 * SECOND,
    )  # fmt: skip
