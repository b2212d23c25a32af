"""Rows per second of one tumbling window with 100 integer keys, in one process.

.venv/bin/python -m bench.window
"""

from __future__ import annotations

import time

import numpy as np

from engine.query.plan import Aggregate, Attribute, Drift, WindowPlan
from engine.stream.released import NO_EPOCH, Released, Strings
from engine.window.time_windows import TimeWindows

ROWS = 8_000_000
BATCH = 1_000_000
SIZE_NS = 10 * 10**9


def batches(rows: int, batch: int, uncertainty: int = 2_500_000) -> list[Released]:
    """15,000 events/s from 20 sources, in order."""
    generator = np.random.default_rng(1)
    strings = Strings(["events"] + [f"s{i}" for i in range(20)])
    made = []
    for start in range(0, rows, batch):
        n = min(batch, rows - start)
        ref = (np.arange(start, start + n) * 66_667).astype(np.int64)
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


def plan(drift: Drift) -> WindowPlan:
    v, sid = Attribute("v"), Attribute("sid")
    return WindowPlan(
        "q", "", (Aggregate("avg", v, "avg(v)"),), (), SIZE_NS, group_by=(sid,), drift=drift
    )


def main() -> None:
    data = batches(ROWS, BATCH)
    for drift in Drift:
        TimeWindows(plan(drift)).process(data[0])
        window = TimeWindows(plan(drift))
        start = time.perf_counter()
        results = sum(len(window.process(released)) for released in data)
        spent = time.perf_counter() - start
        rate = ROWS / spent / 1e6
        print(f"avg(v) by 100 keys, DRIFT {drift}: {rate:.1f} M rows/s, {results} results")


if __name__ == "__main__":
    main()
