"""Rows per second and processor of windows with 100 integer keys, in one process.

The operator alone, given ordered rows: 15,000 events per second of the stream, from 20 sources,
in batches of a million; what reads, orders and writes is not in it. What counts beside the events
are the results: windows that slide by 100 ms give 1,000 a second of the stream, one per 15 events.

Windows that slide by a share of their size stand beside those that tumble by as much: what sliding
costs is what lies between the two. Then sessions, short and long, and windows of events. Each is
run with clocks that err by up to 2.5 ms, and with right ones: the ratio of their processor times,
from runs in turns, is what certain and ambiguous counts and bounds cost. With DRIFT beside it.

.venv/bin/python -m bench.window
"""

from __future__ import annotations

import time

import numpy as np

from slackwater.engine.core.released import NO_EPOCH, Released, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.query import query
from slackwater.engine.query.plan import WindowPlan

ROWS = 4_000_000
BATCH = 1_000_000
RATE = 15_000
"""Events per second of the stream."""
ERRING_NS = 2_500_000
SIZE_NS = 10 * 10**9


def batches(rows: int, batch: int, uncertainty: int = ERRING_NS) -> list[Released]:
    """``RATE`` from 20 sources, in order."""
    generator = np.random.default_rng(1)
    strings = Strings(["events"] + [f"s{i}" for i in range(20)])
    made = []
    for start in range(0, rows, batch):
        n = min(batch, rows - start)
        ref = (np.arange(start, start + n) * (10**9 // RATE)).astype(np.int64)
        columns = {
            "ref": ref,
            "unc": np.full(n, uncertainty, np.int64),
            "epoch": np.full(n, NO_EPOCH),
            "release": ref + 5_000_000,
            "status": np.zeros(n, np.int8),
            "source": generator.integers(1, 21, n).astype(np.int32),
            "stream": np.zeros(n, np.int32),
            "seq": np.arange(start, start + n),
            "attrs.sid": generator.integers(0, 100, n),
            "attrs.v": generator.normal(size=n),
        }
        types = {"sid": "int", "v": "float"}
        made.append(Released(n, columns, types, strings, t_a=2 * uncertainty))
    return made


SHARES = (1, 10, 100)
"""Size by slide."""
OTHER_WINDOWS = ("SESSION 20 ms", "SESSION 50 ms", "ROWS 100", "ROWS 100 EVERY 25")
"""Of some 3 events, of some 1,900, and by number."""
DRIFTS = (
    "TUMBLING 10 s DRIFT each",
    "TUMBLING 10 s DRIFT together",
    "SLIDING 10 s EVERY 100 ms DRIFT together",
)
ROUNDS = 3


def windows() -> list[str]:
    made = []
    for share in SHARES:
        slide = f"{SIZE_NS // share // 10**6} ms"
        made += [f"TUMBLING {slide}", f"SLIDING 10 s EVERY {slide}"]
    return [*made, *OTHER_WINDOWS, *DRIFTS]


def window_plan(window: str) -> WindowPlan:
    made = query(f"SELECT avg(v) GROUP BY sid WINDOW {window}")
    assert isinstance(made, WindowPlan)
    return made


def measured(made: WindowPlan, data: list[Released]) -> tuple[float, int]:
    """(processor time of all of ``data`` [s], results)."""
    window = windows_of(made)
    start = time.process_time()
    results = sum(len(window.process(released)) for released in data)
    return time.process_time() - start, results


def main() -> None:
    clocks = {"right": batches(ROWS, BATCH, 0), "erring": batches(ROWS, BATCH)}
    seconds = ROWS / RATE
    print(f"avg(v) by 100 keys, {RATE:,} rows a second of the stream; M rows/s of processor time")
    for window in windows():
        made = window_plan(window)
        windows_of(made).process(clocks["erring"][0])
        rounds = [
            {name: measured(made, data) for name, data in clocks.items()} for _ in range(ROUNDS)
        ]
        spent = {name: min(one[name][0] for one in rounds) for name in clocks}
        results = rounds[0]["erring"][1]
        rates = {name: f"{ROWS / one / 1e6:.1f}" for name, one in spent.items()}
        print(
            f"{window}: {rates['erring']} M rows/s, clocks right {rates['right']} (bounds cost x "
            f"{spent['erring'] / spent['right']:.2f}), {results} results, "
            f"{results / seconds:,.0f} a second of the stream",
            flush=True,
        )


if __name__ == "__main__":
    main()
