"""Evenings of people, and the readings of the sensors in their rooms.

A day takes three minutes here, as nothing between the evenings matters; the network keeps its
speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER
from slackwater.simulation import Batch, Codes, Seeds, Span, StreamSchema

SECOND: Final = NS_PER["s"]
DAY_NS: Final = 180 * SECOND
STREAM: Final = "motion"
SEEN_EVERY_NS: Final = SECOND // 4
SEEN: Final = 0.8
"""Chance that a sensor sees a person who is there."""
DINNER, WASH, MEDICINE, SLEEP = "DINNER", "WASH", "MEDICINE", "SLEEP"
ROOMS: Final = {"kitchen": DINNER, "bathroom": WASH, "pillbox": MEDICINE, "bed": SLEEP}
"""Each room's sensor, and the activity of a person there."""


@dataclass(frozen=True, slots=True)
class Activity:
    """An activity of a person, in true time."""

    person: str
    type: str
    start_ns: int
    end_ns: int


def plan_evenings(
    persons: Sequence[str], days: int, forgotten: float, start_ns: int,
    generator: np.random.Generator,
) -> tuple[Activity, ...]:  # fmt: skip
    """Dinner, washing and going to sleep every evening; medicine before that, if not forgotten.

    Some take it while they wash, some just before they go to sleep.
    """
    found: list[Activity] = []

    def do(person: str, type_: str, at: float, seconds: float) -> float:
        begin = start_ns + round(at * SECOND)
        found.append(Activity(person, type_, begin, begin + round(seconds * SECOND)))
        return at + seconds

    for person in persons:
        for day in range(days):
            dinner = day * DAY_NS / SECOND + generator.uniform(20, 60)
            end = do(person, DINNER, dinner, generator.uniform(12, 25))
            wash = end + generator.uniform(8, 15)
            washed = do(person, WASH, wash, generator.uniform(4, 9))
            sleep = washed + generator.uniform(15, 40)
            do(person, SLEEP, sleep, generator.uniform(3, 5))
            if generator.random() >= forgotten:
                places = ((end + 2, wash - 4), (wash, washed), (washed + 4, sleep - 4))
                low, high = places[int(generator.integers(len(places)))]
                do(person, MEDICINE, generator.uniform(low, high), generator.uniform(1.5, 3))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Sensor:
    """The sensor of one room of one person; it looks four times a second."""

    person: str
    doings: tuple[Activity, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(STREAM, {"person": "str"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        end_ns = span.start_ns + span.length_ns
        for each in self.doings:
            looks = np.arange(
                each.start_ns, min(each.end_ns, end_ns), SEEN_EVERY_NS, dtype=np.int64
            )
            seen = looks[generator.random(looks.size) < SEEN]
            if seen.size:
                person = Codes([self.person], np.zeros(seen.size, np.int32).data)
                yield Batch(STREAM, seen, "MOTION", {"person": person})
