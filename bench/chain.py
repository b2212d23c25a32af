"""In-process chain: sequence + merge + 10 s drift window, frames in memory, one core.

Goal (issue 2): at least 5,000,000 events/s. The baseline of the ratio is a plain NumPy sort of the
same events by event time: the least that putting them in order can cost in one go.
"""

from __future__ import annotations

import time

import numpy as np

from bench.workload import columns, frames
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query

EVENTS = 4_000_000
QUERY = "SELECT avg(v) GROUP BY sid WINDOW TUMBLING 10 s DRIFT together"
ORDERS = ("sequence:latency=1100ms", "sequence:timeout=fixed:1100ms", "none")


def rate(order: str, events: int, sources: int) -> float:
    """Events per second of the chain, the best of three."""
    made = columns(events, sources)
    batches = list(frames(made, sources))
    settings = ChainSettings(parse_order(order), (query(QUERY),))
    best = 0.0
    for _ in range(3):
        chain = Chain(settings, "main")
        started = time.perf_counter()
        for start in range(0, len(batches), 2):
            chain.process(batches[start : start + 2])
        chain.finish()
        best = max(best, events / (time.perf_counter() - started))
    return best


def sort_rate(events: int, sources: int) -> float:
    """Events per second of one NumPy sort by event time."""
    ts = columns(events, sources)["ts"]
    started = time.perf_counter()
    np.argsort(ts, kind="stable")
    return events / (time.perf_counter() - started)


def main() -> None:
    rate(ORDERS[0], 100_000, 20)  # compile
    for sources in (1, 20):
        baseline = sort_rate(EVENTS, sources)
        for order in ORDERS:
            mine = rate(order, EVENTS, sources)
            print(
                f"chain, {sources:4d} sources, {order:32s} {mine / 1e6:6.2f} M events/s, "
                f"{mine / baseline:5.2f} x one sort"
            )


if __name__ == "__main__":
    main()
