"""Incidents of the servers, and their readings: fan speed, load, odd packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER
from slackwater.simulation import Batch, Codes, Seeds, Span, StreamSchema

SECOND: Final = NS_PER["s"]
HEALTH, PACKETS, FAILURES = "health", "packets", "failures"
FAILURE: Final = "SERVER_FAILURE"
MEASURED_EVERY_NS: Final = SECOND
EVERY_S: Final = 200
"""Time between incidents of a server; each takes less."""


def server_name(number: int) -> str:
    """Of the server; numbers from 0 on stand for it in the truth."""
    return f"SV-{number + 1}"


def server_number(name: str) -> int:
    """Of the server with this name."""
    return int(name.removeprefix("SV-")) - 1


@dataclass(frozen=True, slots=True)
class ServerIncident:
    """An incident; seconds from the start of the run, None: that did not happen."""

    server: str
    attack: tuple[float, float] | None
    overload: tuple[float, float] | None
    fan: tuple[float, float] | None
    failure: float | None

    @property
    def by_attack(self) -> bool:
        """Whether an attack is the root cause of a failure."""
        return self.attack is not None and self.failure is not None


def plan_incidents(
    servers: Sequence[str], seconds: float, attacks: float, generator: np.random.Generator
) -> tuple[ServerIncident, ...]:
    """One incident per server and ``EVERY_S``: of an attack, of a worn fan, or of a busy day."""
    found = []
    for server in servers:
        for number in range(int(seconds // EVERY_S)):
            begin = number * EVERY_S + generator.uniform(5, 25)
            if generator.random() < attacks:
                attack = (begin, begin + generator.uniform(10, 30))
                busy = attack[1] + generator.uniform(8, 15)
                overload = (busy, busy + generator.uniform(60, 80))
                worn = busy + generator.uniform(8, 20)
                fan = (worn, worn + generator.uniform(20, 30))
                found.append(
                    ServerIncident(server, attack, overload, fan, worn + generator.uniform(8, 15))
                )
            elif generator.random() < 0.5:
                fan = (begin, begin + generator.uniform(20, 40))
                found.append(
                    ServerIncident(server, None, None, fan, begin + generator.uniform(8, 15))
                )
            else:
                overload = (begin, begin + generator.uniform(30, 60))
                found.append(ServerIncident(server, None, overload, None, None))
    return tuple(found)


def _inside(times: np.ndarray, parts: Sequence[tuple[float, float] | None]) -> np.ndarray:
    found = np.zeros(times.size, np.bool_)
    for part in parts:
        if part is not None:
            found |= (times >= part[0]) & (times < part[1])
    return found


def _numbers(names: Sequence[str]) -> np.ndarray:
    return np.array([server_number(name) for name in names], np.int64)


@dataclass(frozen=True, slots=True)
class Health:
    """Turns of the fan [1/min] and load [%] of one server, every second."""

    server: str
    incidents: tuple[ServerIncident, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(HEALTH, {"server": "str", "rpm": "float", "load": "float"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        times = np.arange(
            span.start_ns, span.start_ns + span.length_ns, MEASURED_EVERY_NS, dtype=np.int64
        )
        seconds = (times - span.start_ns) / SECOND
        stopped = _inside(seconds, [each.fan for each in self.incidents])
        busy = _inside(seconds, [each.overload for each in self.incidents])
        rpm = np.where(stopped, 200.0, 2400.0) + generator.normal(0, 60, times.size)
        # Now and then a server is busy for a second or two: that is no overload.
        short = generator.random(times.size) < 0.02
        load = np.where(busy | short, 95.0, 40.0) + generator.normal(0, 2, times.size)
        values = {"rpm": np.round(rpm), "load": np.round(load, 1)}
        server = Codes([self.server], np.zeros(times.size, np.int32).data)
        number = np.full(times.size, server_number(self.server))
        yield Batch(
            HEALTH, times, "HEALTH", {"server": server, **values},
            truth={"server": number, **values},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watch:
    """Odd packets that an intrusion detector sees, by server."""

    incidents: tuple[ServerIncident, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(PACKETS, {"server": "str"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        times, codes = [], []
        names = sorted({each.server for each in self.incidents}, key=server_number)
        for each in self.incidents:
            if each.attack is not None:
                low, high = each.attack
                seen = generator.uniform(low, high, int(8 * (high - low)))
                times.append(span.start_ns + np.rint(np.sort(seen) * SECOND).astype(np.int64))
                codes.append(np.full(seen.size, names.index(each.server), np.int32))
        if not times:
            return
        true_ns, server = np.concatenate(times), np.concatenate(codes)
        order = np.argsort(true_ns, kind="stable")
        server = server[order]
        yield Batch(
            PACKETS, true_ns[order], "PACKET", {"server": Codes(names, server.data)},
            truth={"server": _numbers(names)[server]},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of all servers, as events without duration."""

    incidents: tuple[ServerIncident, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(FAILURES, {"server": "str"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        del seeds, source
        failed = sorted(
            (each.failure, each.server) for each in self.incidents if each.failure is not None
        )
        if failed:
            names = sorted({server for _, server in failed})
            codes = np.array([names.index(server) for _, server in failed], np.int32)
            times = np.array([round(at * SECOND) for at, _ in failed], np.int64)
            yield Batch(
                FAILURES, span.start_ns + times, FAILURE, {"server": Codes(names, codes.data)},
                truth={"server": _numbers(names)[codes]},
            )  # fmt: skip
