"""What a micro-batch, an event and a site cost on Spark, and what follows for larger set-ups.

Micro-batches of one small frame; of the same number of events from 1 to 10,000 sites; and, on a
standalone cluster, where executors are other processes, of 10,000 sites with 1,000 events each, for
the memory of the driver. Each site runs one pattern of ``bench.scale``, with its order and
certainty. From these comes a model:

    seconds of a micro-batch = fixed + (events * per event + sites * per site) / slots

fitted by least squares of relative errors. It says how many slots (cores of executors) 100 M
events/s need, and what breaks first. Goals (issue 39): fixed cost at most 0.3 s, driver at most
600 MB with 10,000 sites.

``python -m bench.spark_cost [ROUNDS]``
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.scale import family, in_another_process, mb, settings, site_frames
from slackwater.engine.hosts.spark.host import run_on_spark
from slackwater.engine.hosts.spark.reading_list import ReadingList
from slackwater.engine.log.arrival_log import FRAMES_PER_FILE, LogReader, LogWriter
from tests.spark.cluster import cluster

SLOTS = 2
FIXED_GOAL_S, DRIVER_GOAL_MB = 0.3, 600
SMALL = (1, 10)
"""Sites and events of a micro-batch that costs little but what is fixed."""
SIZES = ((1, 500_000), (10, 500_000), (100, 500_000), (1_000, 500_000), (10_000, 500_000))
MANY = (10_000, 1_000_000)
ROUNDS = 10
RATE = 100_000_000
"""Events/s to predict for."""
PREDICTED = ((1_000, 10), (100_000, 10), (100_000, 60))
"""Sites, and seconds between two micro-batches."""


class MicroBatch(NamedTuple):
    """A micro-batch as measured."""

    sites: int
    events: int
    seconds: float


class CostModel(NamedTuple):
    """Seconds of a micro-batch; of an event, and of a site in a micro-batch, on a slot."""

    fixed: float
    event: float
    site: float

    def seconds(self, batch: MicroBatch, slots: int) -> float:
        """As predicted."""
        return self.fixed + (batch.events * self.event + batch.sites * self.site) / slots

    def slots(self, sites: int, rate: float, every: float) -> int:
        """That keep up with ``rate`` [1/s] when there is a micro-batch all ``every`` seconds."""
        return math.ceil((rate * every * self.event + sites * self.site) / (every - self.fixed))


def write(log: Path, sites: int, events: int, rounds: int) -> None:
    """A log with a frame of each site in each round; files end with rounds."""
    each = events // sites
    with LogWriter(log, rows_per_file=each * sites) as writer:
        for number, one in enumerate(site_frames(sites, each * rounds, each), 1):
            writer.append(one)
            if number % sites == 0:
                writer.flush()


def run(
    sites: int, events: int, rounds: int, master: str, answers: multiprocessing.Queue[object]
) -> None:
    """Measures: steady batches, seconds that listing a frame takes, MB by process."""
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as name:
        folder = Path(name)
        in_another_process(write, folder / "log", sites, events, rounds)
        files = math.ceil(sites / FRAMES_PER_FILE)
        started = time.perf_counter()
        ReadingList(folder / "list").extend(LogReader(folder / "log"), files)
        listing = (time.perf_counter() - started) / (sites * rounds)
        counters = run_on_spark(folder / "log", settings(), folder / "out", master, files)
        memory = {each: (each / "comm").read_text().strip() for each in family()}
        used = [(comm, mb("VmHWM", each)) for each, comm in memory.items()]
    steady = counters["batches"][2:-1]  # JVM and kernels are warm; the input has not ended
    batches = [MicroBatch(sites, events, each["seconds"]) for each in steady]
    answers.put((batches, listing, used))


def measured(
    sites: int, events: int, rounds: int, master: str = f"local[{SLOTS}]"
) -> tuple[list[MicroBatch], float, list[tuple[str, int]]]:
    """``run`` in a process of its own."""
    answers: multiprocessing.Queue[object] = multiprocessing.get_context("spawn").Queue()
    in_another_process(run, sites, events, rounds, master, answers)
    found: tuple[list[MicroBatch], float, list[tuple[str, int]]] = answers.get()  # type: ignore[assignment]
    return found


def fitted(batches: list[MicroBatch]) -> CostModel:
    """Least squares of relative errors, no cost below zero."""
    seconds = np.array([each.seconds for each in batches])
    costs = np.array([(1, each.events / SLOTS, each.sites / SLOTS) for each in batches])
    used = [0, 1, 2]
    while True:
        found, *_ = np.linalg.lstsq(costs[:, used] / seconds[:, None], np.ones(len(seconds)), None)
        if (found >= 0).all():
            break
        used.pop(int(found.argmin()))
    of = dict(zip(used, found.tolist(), strict=True))
    return CostModel(*(of.get(n, 0.0) for n in range(3)))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    batches: list[MicroBatch] = []
    listing = 0.0
    for sites, events in (SMALL, *SIZES):
        found, listing, _ = measured(sites, events, rounds)
        batches += found
        middle = float(np.median([each.seconds for each in found]))
        print(
            f"{sites:,} sites, {events:,} events a batch: {middle:.2f} s a batch, "
            f"{events / middle / 1e6:.2f} M events/s, {middle / sites * 1e3:.2f} ms a site"
        )
    model = fitted(batches)
    off = [abs(model.seconds(each, SLOTS) / each.seconds - 1) for each in batches]
    print(
        f"model: {model.fixed:.2f} s + ({model.event * 1e6:.2f} us x events + "
        f"{model.site * 1e3:.2f} ms x sites) / slots; off by {np.median(off):.0%}, at most "
        f"{max(off):.0%}; fixed cost {'met' if model.fixed <= FIXED_GOAL_S else 'MISSED'}"
    )
    for sites, every in PREDICTED:
        slots = model.slots(sites, RATE, every)
        print(f"{RATE:,} events/s of {sites:,} sites, a batch all {every} s: {slots:,} slots")
    print(
        f"breaks first: a site beyond {1 / model.event / 1e6:.1f} M events/s, as it has one slot; "
        f"batches more often than all {model.fixed:.1f} s; a log of more than {1 / listing:,.0f} "
        "frames/s, which the driver lists"
    )
    sites, events = MANY
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as name, cluster(Path(name)) as it:
        found, _, used = measured(sites, events, rounds, it.url)
    driver = sum(each for _, each in used)
    print(
        f"{sites:,} sites x {events // sites * rounds:,} events: "
        f"{sum(each.seconds for each in found) / len(found):.1f} s a batch; at most "
        f"{', '.join(f'{comm} {each:,} MB' for comm, each in used)}; driver and JVM {driver:,} MB, "
        f"goal {DRIVER_GOAL_MB} {'met' if driver <= DRIVER_GOAL_MB else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
