"""Events in the cold store: weather in its zones, and pallets that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from slackwater.scenario import NS_PER
from slackwater.simulation import Batch, Codes, Seeds, Span, StreamSchema

SECOND: Final = NS_PER["s"]
CLIMATE: Final = "climate"
READS: Final = "reads"
CLIMATE_EVERY_NS: Final = SECOND
READ_EVERY_NS: Final = SECOND // 2
ANSWERS: Final = 0.8
"""Chance that a tag in the field answers a poll."""
_PERIODS_S: Final = (420.0, 173.0, 71.0)
_DEGREES: Final = (4.0, 1.6, 0.6)
_PERCENT: Final = (18.0, 8.0, 3.0)
_STAY_S: Final = (20.0, 150.0)
_STEP: Final = 0.1
"""What sensors round to."""


@dataclass(frozen=True, slots=True)
class Pallet:
    """A pallet's place, in true time."""

    tag: int
    zone: int
    start_ns: int
    end_ns: int


def plan_pallets(
    count: int, zones: int, span: Span, generator: np.random.Generator
) -> tuple[Pallet, ...]:
    """Pallets that come at any time and stay for seconds to minutes."""
    found = []
    for tag in range(count):
        length = round(float(generator.uniform(*_STAY_S)) * SECOND)
        latest = max(span.length_ns - length, 1)
        start = span.start_ns + int(generator.integers(latest))
        found.append(Pallet(tag, int(generator.integers(zones)), start, start + length))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Climate:
    """Temperature [C] and humidity [%] of a zone, every second."""

    zone: str

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(CLIMATE, {"zone": "str", "celsius": "float", "humidity": "float"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        times = np.arange(
            span.start_ns, span.start_ns + span.length_ns, CLIMATE_EVERY_NS, dtype=np.int64
        )
        seconds = (times - span.start_ns) / SECOND
        celsius = 6.0 + _waves(seconds, _DEGREES, generator)
        humidity = np.clip(55.0 + _waves(seconds, _PERCENT, generator), 0.0, 100.0)
        values = {
            name: np.round(np.round(column / _STEP) * _STEP, 6)
            for name, column in (("celsius", celsius), ("humidity", humidity))
        }
        zone = np.full(times.size, self.zone)
        attrs: dict[str, Any] = {
            "zone": Codes([self.zone], np.zeros(times.size, np.int32).data),
            **values,
        }
        yield Batch(CLIMATE, times, "CLIMATE", attrs, truth={"zone": zone, **values})


def _waves(
    seconds: np.ndarray, heights: Sequence[float], generator: np.random.Generator
) -> np.ndarray:
    phases = generator.uniform(0, 2 * np.pi, len(heights))
    noise = generator.normal(0, heights[-1] / 4, seconds.size)
    waves = (
        height * np.sin(2 * np.pi * seconds / period + phase)
        for height, period, phase in zip(heights, _PERIODS_S, phases, strict=True)
    )
    return np.asarray(sum(waves, noise))


@dataclass(frozen=True, slots=True)
class PalletReader:
    """Reads of the pallets in a zone: each is polled twice a second and may not answer."""

    zone: int
    name: str
    pallets: tuple[Pallet, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(READS, {"zone": "str", "pallet": "int"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        end_ns = span.start_ns + span.length_ns
        times, tags = [], []
        for pallet in self.pallets:
            if pallet.zone != self.zone:
                continue
            query_times = np.arange(
                pallet.start_ns, min(pallet.end_ns, end_ns), READ_EVERY_NS, dtype=np.int64
            )
            answered = query_times[generator.random(query_times.size) < ANSWERS]
            times.append(answered)
            tags.append(np.full(answered.size, pallet.tag, np.int64))
        if not sum(each.size for each in times):
            return
        true_ns, pallet_tags = np.concatenate(times), np.concatenate(tags)
        order = np.lexsort((pallet_tags, true_ns))
        tag = pallet_tags[order]
        attrs: dict[str, Any] = {
            "zone": Codes([self.name], np.zeros(tag.size, np.int32).data),
            "pallet": tag,
        }
        truth = {"zone": np.full(tag.size, self.name), "pallet": tag}
        yield Batch(READS, true_ns[order], "READ", attrs, truth=truth)
