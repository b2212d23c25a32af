"""How many events a second the simulator makes on one core, agents and gateway included.

A soccer-like load of 15,000 events/s with the eleven columns of the DEBS 2013 schema, from 36
sources (one of them a ball at 2,000 Hz) or from eight sensor gateways; a message per 20 or 100 ms,
two connections each, clocks in error, exponential jitter. Frames are built and hashed, not written.

    python bench/simulate.py [SECONDS] [--profile]
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slackwater.edge_agent.messages import StreamSchema
from slackwater.simulator.clocks import ClockSettings
from slackwater.simulator.delays import Exponential
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.run import SimulationOutcome, simulate
from slackwater.simulator.scenario import Scenario, SourceSettings
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.workload import Batch, Span

GOAL_PER_S = 200_000
EVENTS_PER_S = 15_000
LOADS = ((36, 20), (8, 20), (36, 100))
"""Sources and milliseconds per message; the time goes by messages, not by events."""
COLUMNS = ("x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay")
MS = 10**6
SECOND = 10**9


@dataclass(frozen=True)
class SimulatedSensor:
    """A position sensor at ``hertz``."""

    hertz: int

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema("soccer", {"sid": "int", **dict.fromkeys(COLUMNS, "float")}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        period_ns = SECOND // self.hertz
        for begin in range(span.start_ns, span.start_ns + span.length_ns, SECOND):
            end = min(begin + SECOND, span.start_ns + span.length_ns)
            times = np.arange(begin, end, period_ns, dtype=np.int64)
            sid = np.full(times.size, int(source[-2:], 36), np.int64)
            columns = {name: generator.random(times.size) for name in COLUMNS}
            yield Batch("soccer", times, attrs={"sid": sid, **columns})


class NullSink:
    """A sink that forgets."""

    def append(self, frame: object) -> None: ...


def scenario(seconds: int, sources: int = 36, poll_ms: int = 20) -> Scenario:
    """15,000 events/s for ``seconds``: from so many sources, in messages of ``poll_ms``."""
    up = LinkSettings(delay=Exponential(2 * MS, 8 * MS))
    ball = 2000 if sources == 36 else EVENTS_PER_S // sources
    other = (EVENTS_PER_S - ball) // (sources - 1)
    devices = tuple(
        SourceSettings(
            name=f"s{number:02d}",
            workload=SimulatedSensor(other if number else ball),
            clock=ClockSettings(offset_ns=(number - 18) * MS, skew_ppb=20_000, wander_ppb=10),
            up=up,
            down=up,
            connections=2,
            poll_ns=poll_ms * MS,
        )
        for number in range(sources)
    )
    return Scenario(name="bench", seed=1, duration_ns=seconds * SECOND, sources=devices)


def run(seconds: int, sources: int = 36, poll_ms: int = 20) -> SimulationOutcome:
    """One run."""
    return simulate(scenario(seconds, sources, poll_ms), NullSink(), Path())


def main() -> int:
    """Prints the rates; exit code 1 when no load reaches the goal."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    seconds = int(words[0]) if words else 30
    run(1)  # compiled kernels and imports are not part of it
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(run, seconds)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return 0
    best = 0.0
    for sources, poll_ms in LOADS:
        begin = time.process_time()
        done = run(seconds, sources, poll_ms)
        took = time.process_time() - begin
        events = done.manifest["events"]
        messages = events["link_messages"]["entered"]
        rate = events["logged"] / took
        best = max(best, rate)
        print(
            f"simulate: {sources:2d} sources, {poll_ms:3d} ms messages of "
            f"{events['logged'] / messages:4.1f} events: {rate:9,.0f} events/s, "
            f"{took / messages * 1e6:4.0f} us a message (goal {GOAL_PER_S:,} events/s)"
        )
    return 0 if best >= GOAL_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
