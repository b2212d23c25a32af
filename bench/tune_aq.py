"""The gains of ``aq-kslack``: a grid of (kp, kd) over streams with different delays.

For each stream the best constant slack is the least one with which the wanted share of windows
(the confidence) has the wanted coverage. A pair of gains is judged by its mean hold over that of
the best constant slack, or over 1 % of mp-kslack's where that is more (geometric mean over the
streams). It must keep the promise: the share of covered windows is at least the confidence on the
mean stream, and less by at most 3 % on the worst stationary one. The first fifth of a stream is
left out.

Run: ``.venv/bin/python -m bench.tune_aq``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.engine.core.frame import Frame
from slackwater.engine.core.released import IN_ORDER
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order

MS = 1_000_000
KPS = (0.1, 0.2, 0.3, 0.5)
KDS = (0.0, 0.1, 0.2, 0.5)
CONFIDENCE = 0.95
WINDOWS = 400
ERRORS = (0.01, 0.05, 0.2)
SHORT_MAX = 0.0
WORST_MAX = 0.03

Delays = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Delays [ns] of events with these times [ns]."""


@dataclass(frozen=True)
class TuningStream:
    name: str
    rate: int
    """Events per second."""
    window_ms: int
    delays: Delays
    stationary: bool = True


def exponential(mean_ms: float) -> Delays:
    return lambda rng, ts: rng.exponential(mean_ms * MS, len(ts))


def lognormal(median_ms: float, sigma: float) -> Delays:
    return lambda rng, ts: rng.lognormal(np.log(median_ms * MS), sigma, len(ts))


def pareto(least_ms: float, shape: float) -> Delays:
    return lambda rng, ts: least_ms * MS * (1 + rng.pareto(shape, len(ts)))


def two_classes(share: float, longest_ms: float) -> Delays:
    return lambda rng, ts: np.where(
        rng.random(len(ts)) < share, rng.uniform(0, longest_ms * MS, len(ts)), 0
    )


def shifting(low_ms: float, high_ms: float, every_ms: int) -> Delays:
    return lambda rng, ts: rng.exponential(
        np.where(ts // (every_ms * MS) % 2, low_ms * MS, high_ms * MS)
    )


STREAMS = (
    TuningStream("exponential 50 ms", 500, 1000, exponential(50)),
    TuningStream("exponential 300 ms, 100/s", 100, 1000, exponential(300)),
    TuningStream("exponential 1 s, 100 ms windows", 500, 100, exponential(1000)),
    TuningStream("exponential 2 s, 20 ms windows", 1000, 20, exponential(2000)),
    TuningStream("lognormal 20 ms, sigma 1.5", 500, 1000, lognormal(20, 1.5)),
    TuningStream("Pareto 10 ms, 1.5", 500, 1000, pareto(10, 1.5)),
    TuningStream("12.5 % late by up to 1 s", 500, 1000, two_classes(0.125, 1000)),
    TuningStream("12.5 % late by up to 1 s, 10 s windows", 100, 10_000, two_classes(0.125, 1000)),
    TuningStream(
        "20 / 200 ms in turns of 40 s", 500, 1000, shifting(20, 200, 40_000), stationary=False
    ),
)


def made(stream: TuningStream, seed: int = 1) -> tuple[Frame, np.ndarray, np.ndarray]:
    """(the events in one frame, their times, their arrivals), in arrival order."""
    rng = np.random.default_rng(seed)
    windows = max(WINDOWS, 400_000 // stream.window_ms)
    events = stream.rate * stream.window_ms * windows // 1000
    ts = np.cumsum(rng.exponential(1e9 / stream.rate, events)).astype(np.int64)
    arrival = ts + stream.delays(rng, ts).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    ts, arrival = ts[order], arrival[order]
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(events, np.int32)), pa.array(["s"]))
    batch = {"source": names, "seq": pa.array(np.arange(events)), "ts": pa.array(ts),
             "arrival": pa.array(arrival)}  # fmt: skip
    return Frame("main", pa.RecordBatch.from_pydict(batch)), ts, arrival


def ordered(order: str, frame: Frame, window_ns: int) -> tuple[float, np.ndarray]:
    """(mean hold [ns], coverage of each window), both without the first fifth."""
    settings = ChainSettings(parse_order(order), ordered="bare", guards=Guards(None))
    chain = Chain(settings, "main")
    parts = [*chain.process([frame]).ordered, *chain.finish().ordered]
    ref, release, arrival, status = (
        np.concatenate([part.columns[name] for part in parts])
        for name in ("ref", "release", "arrival", "status")
    )
    released = np.maximum.accumulate(np.where(status == IN_ORDER, ref, -1))
    before = np.concatenate([[-1], released[:-1]])
    window = ref // window_ns
    in_time = before < (window + 1) * window_ns
    covered = np.bincount(window, in_time) / np.maximum(np.bincount(window), 1)
    first = len(covered) // 5
    return float((release - arrival)[window >= first].mean()), covered[first:-1]


def best_slack(ts: np.ndarray, window_ns: int, error: float) -> int:
    """The least constant slack that covers the wanted share of windows [ns]."""
    clock = np.concatenate([[0], np.maximum.accumulate(ts)[:-1]])
    window = ts // window_ns
    needed = clock - (window + 1) * window_ns  # in time if the slack is more
    by_window = np.lexsort((needed, window))
    starts = np.searchsorted(window[by_window], np.arange(window.max() + 2))
    first = len(starts) // 5
    slacks = []
    for start, end in zip(starts[first:-2], starts[first + 1 : -1], strict=True):
        if end > start:
            most = start + int(np.ceil((1 - error) * (end - start) - 1e-9)) - 1
            slacks.append(needed[by_window][most])
    return max(0, int(np.quantile(slacks, CONFIDENCE, method="higher")) + 1)


def main() -> None:
    pairs = [(kp, kd) for kp in KPS for kd in KDS]
    ratios = {pair: [] for pair in pairs}
    misses = {pair: [] for pair in pairs}
    worst = dict.fromkeys(pairs, 0.0)
    for stream in STREAMS:
        window_ns = stream.window_ms * MS
        frame, ts, _ = made(stream)
        largest, _ = ordered("mp-kslack", frame, window_ns)
        for error in ERRORS:
            slack = best_slack(ts, window_ns, error)
            base, covered = ordered(f"kslack:{slack}", frame, window_ns)
            share = (covered >= 1 - error - 1e-9).mean()
            print(f"\n{stream.name}, error {error}: best slack {slack / MS:.1f} ms holds "
                  f"{base / MS:.1f} ms ({share:.3f}), mp-kslack {largest / MS:.1f} ms")  # fmt: skip
            for kp, kd in pairs:
                order = f"aq-kslack:error={error},window={window_ns},kp={kp},kd={kd}"
                hold, covered = ordered(order, frame, window_ns)
                share = (covered >= 1 - error - 1e-9).mean()
                ratio = hold / max(base, 0.01 * largest)
                ratios[kp, kd].append(ratio)
                misses[kp, kd].append(CONFIDENCE - share)
                if stream.stationary:
                    worst[kp, kd] = max(worst[kp, kd], CONFIDENCE - share)
                print(f"  {kp:5} {kd:5}  hold {hold / MS:8.1f} ms ({ratio:5.2f})  "
                      f"covered {share:.3f}  mean {covered.mean():.4f}")  # fmt: skip
    print("\n  kp    kd    hold  short  worst  meets")
    for kp, kd in pairs:
        hold = np.exp(np.mean(np.log(ratios[kp, kd])))
        short, most = float(np.mean(misses[kp, kd])), worst[kp, kd]
        meets = "yes" if short <= SHORT_MAX and most <= WORST_MAX else "no"
        print(f"{kp:5} {kd:5}  {hold:5.2f}  {short:6.3f}  {most:5.3f}  {meets}")


if __name__ == "__main__":
    main()
