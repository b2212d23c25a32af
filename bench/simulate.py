"""How many events a second the simulator makes on one core, agents and gateway included.

A soccer-like load: 36 sources (35 sensors and referees at 372 Hz, a ball at 2,000 Hz: about 15,000
events/s) with the ten measured columns of the DEBS 2013 schema, one message per 20 ms, two
connections each, clocks in error, an exponential jitter. Frames are built and hashed, not written.

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

from edge_agent.messages import StreamSchema
from simulator.clocks import ClockSettings
from simulator.delays import Exponential
from simulator.links import LinkSettings
from simulator.run import Simulated, simulate
from simulator.scenario import Scenario, SourceSettings
from simulator.seeds import Seeds
from simulator.workload import Batch, Span

GOAL_PER_S = 200_000
COLUMNS = ("x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay")
MS = 10**6
SECOND = 10**9


@dataclass(frozen=True)
class Sensor:
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


class Nowhere:
    """A sink that forgets."""

    def append(self, frame: object) -> None: ...


def scenario(seconds: int) -> Scenario:
    """The load for ``seconds`` of play."""
    up = LinkSettings(delay=Exponential(2 * MS, 8 * MS))
    sources = tuple(
        SourceSettings(
            name=f"s{number:02d}",
            workload=Sensor(2000 if number == 0 else 372),
            clock=ClockSettings(offset_ns=(number - 18) * MS, skew_ppb=20_000, wander_ppb=10),
            up=up,
            down=up,
            connections=2,
        )
        for number in range(36)
    )
    return Scenario(name="bench", seed=1, duration_ns=seconds * SECOND, sources=sources)


def run(seconds: int) -> Simulated:
    """One run."""
    return simulate(scenario(seconds), Nowhere(), Path())


def main() -> int:
    """Prints the rate; exit code 1 when it misses the goal."""
    given = [word for word in sys.argv[1:] if not word.startswith("-")]
    seconds = int(given[0]) if given else 60
    run(1)  # compiled kernels and imports are not part of it
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(run, seconds)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return 0
    begin = time.process_time()
    done = run(seconds)
    took = time.process_time() - begin
    events = done.manifest["events"]
    messages = events["link_messages"]["entered"]
    rate = events["logged"] / took
    print(
        f"simulate: {events['logged']:,} events in {messages:,} messages, {took:.2f} s of CPU: "
        f"{rate:,.0f} events/s (goal {GOAL_PER_S:,})"
    )
    return 0 if rate >= GOAL_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
