"""Rows per second and processor of windows with 100 integer keys, in one process.

Tumbling windows with and without DRIFT, then windows that slide by a share of their size, beside
those that tumble by as much as that share: what sliding costs is what lies between the two. Then
sessions, short and long, and windows of events.

.venv/bin/python -m bench.window
"""

from __future__ import annotations

import time

import numpy as np

from engine.query import query
from engine.query.plan import Aggregate, Attribute, Drift, WindowPlan
from engine.stream.released import NO_EPOCH, Released, Strings
from engine.window.kinds import windows_of

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


SHARES = (1, 10, 100)
"""Size by slide."""
OWN = ("SESSION 20 ms", "SESSION 50 ms", "ROWS 100", "ROWS 100 EVERY 25")
"""Of some 3 events, of some 1,900, and by number."""
ROUNDS = 3


def plan(drift: Drift, size_ns: int = SIZE_NS, every_ns: int | None = None) -> WindowPlan:
    v, sid = Attribute("v"), Attribute("sid")
    return WindowPlan(
        "q", "", (Aggregate("avg", v, "avg(v)"),), (), size_ns, group_by=(sid,), drift=drift,
        every_ns=every_ns,
    )  # fmt: skip


def measured(made: WindowPlan, data: list[Released]) -> tuple[float, int]:
    """(processor time of all of ``data`` [s], results)."""
    window = windows_of(made)
    start = time.process_time()
    results = sum(len(window.process(released)) for released in data)
    return time.process_time() - start, results


def main() -> None:
    data = batches(ROWS, BATCH)
    plans = {f"tumbling 10 s, DRIFT {drift}": plan(drift) for drift in Drift}
    for share in SHARES:
        slide, text = SIZE_NS // share, f"{SIZE_NS // share / 1e9:g} s"
        plans[f"tumbling {text}"] = plan(Drift.NONE, slide)
        plans[f"sliding 10 s every {text}"] = plan(Drift.NONE, SIZE_NS, slide)
    for text in OWN:
        made = query(f"SELECT avg(v) GROUP BY sid WINDOW {text}")
        assert isinstance(made, WindowPlan)
        plans[text] = made
    for made in plans.values():
        windows_of(made).process(data[0])
    rounds = [{name: measured(made, data) for name, made in plans.items()} for _ in range(ROUNDS)]
    for name in plans:
        spent = min(one[name][0] for one in rounds)
        rate = ROWS / spent / 1e6
        print(f"avg(v) by 100 keys, {name}: {rate:.1f} M rows/s, {rounds[0][name][1]} results")


if __name__ == "__main__":
    main()
