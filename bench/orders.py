"""Every ordering operator, in-process on one core: frames in memory in, ordered columns out.

Goals (issue 3): at least 5,000,000 events/s with 12.5 % of the events late and 2,000,000 with 50 %;
the cost of an event within 1.5 x from 100 k to 10 M events and from 1 to 1,000 sources; at most 120
bytes for a buffered event with four numeric attributes. The baseline of the ratio is one NumPy sort
of the same events by event time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bench.workload import columns, frames
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order

ORDERS = (
    "none",
    "sequence:latency=1100ms",
    "sequence:timeout=r19,latency=1100ms",
    "sequence:timeout=fixed:1100ms",
    "kslack:1100ms",
    "mp-kslack",
    "aq-kslack:error=0.05",
    "ldop",
    "kslack-chain:100ms,1100ms",
)
SIZES = (100_000, 1_000_000, 10_000_000)
SOURCES = (1, 20, 1_000)
EVENTS = 2_000_000


def workload(events: int, sources: int, late: float) -> list[Frame]:
    """The shared stream, with two more attributes (four in all)."""

    def wider() -> Iterator[Frame]:
        for frame in frames(columns(events, sources, late), sources):
            batch = frame.batch
            if "attrs.v" in batch.schema.names:
                for name in ("attrs.x", "attrs.y"):
                    batch = batch.append_column(name, pa.array(np.arange(frame.rows)))
            yield Frame(frame.site, batch)

    return list(wider())


def measured(order: str, batches: list[Frame], times: int = 3) -> tuple[float, float]:
    """(events per second, the best of some runs; bytes per buffered event)."""
    settings = ChainSettings(parse_order(order), ordered="full")
    events = sum(frame.rows for frame in batches)
    best = size = 0.0
    for _ in range(times):
        chain = Chain(settings, "main")
        started = time.perf_counter()
        for start in range(0, len(batches), 2):
            chain.process(batches[start : start + 2])
        chain.finish()
        best = max(best, events / (time.perf_counter() - started))
        counters = chain.counters()
        size = counters["buffered_max_bytes"] / max(counters["buffered_max"], 1)
    return best, size


def sort_rate(events: int, late: float) -> float:
    """Events per second of one NumPy sort by event time."""
    ts = columns(events, 20, late)["ts"]
    started = time.perf_counter()
    np.argsort(ts, kind="stable")
    return events / (time.perf_counter() - started)


def main() -> None:
    few = workload(50_000, 20, 0.125)
    for order in ORDERS:
        measured(order, few, times=1)  # compile
    for late in (0.125, 0.5):
        batches, baseline = workload(EVENTS, 20, late), sort_rate(EVENTS, late)
        for order in ORDERS:
            rate, size = measured(order, batches)
            print(
                f"{order:38s} {late:5.1%} late {rate / 1e6:6.2f} M events/s, "
                f"{rate / baseline:5.2f} x one sort, {size:4.0f} bytes per buffered event"
            )
    for what, sizes, sources in (("events", SIZES, (20,)), ("sources", (EVENTS,), SOURCES)):
        runs = [workload(size, count, 0.125) for size in sizes for count in sources]
        for order in ORDERS:
            costs = [1e9 / measured(order, batches, times=2)[0] for batches in runs]
            costs_text = ", ".join(f"{cost:5.0f}" for cost in costs)
            over = " ".join(f"{number:,}" for number in (SIZES if what == "events" else SOURCES))
            print(
                f"{order:38s} ns per event at {over} {what}: {costs_text}; "
                f"largest is {max(costs) / min(costs):4.2f} x the smallest"
            )
        del runs


if __name__ == "__main__":
    main()
