"""Windows where very many numbers are lost: the cost of late events and emitted windows.

One source loses every other of its numbers, and of windows by time a tenth of them come late, in
any order, when all else is there; windows are corrected as long. Each of these looks for its gap
among all, and each emitted window adds up the events that may lie in it. Windows of ROWS are
emitted without any late event, as each moves all windows behind it. Seconds are processor time of
the operator alone; twice as many losses should take about twice as long.

``python -m bench.losses``
"""

from __future__ import annotations

import time

import numpy as np

from slackwater.engine.core.released import IN_ORDER, LATE, NO_EPOCH, Gaps, Released, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query import query
from slackwater.engine.query.plan import WindowPlan

LOSSES = (25_000, 50_000, 100_000)
APART_NS = 1_000_000
WINDOWS = {"TUMBLING 100 ms": 0.1, "SLIDING 100 ms EVERY 20 ms": 0.1, "ROWS 10": 0.0,
           "SESSION 3 ms": 0.1}  # fmt: skip
"""And the share of the losses that come late."""
PAUSE_EVERY = 50
"""Events; the pause ends a session."""


def released(losses: int, late_share: float) -> Released:
    """Events with even numbers, the odd ones between them lost; then those that come late."""
    generator = np.random.default_rng(1)
    there = np.arange(losses + 1)
    pauses = 5 * APART_NS * (there // PAUSE_EVERY)
    in_order = there * APART_NS + pauses
    late = generator.permutation(losses)[: int(losses * late_share)]
    between = (in_order[late] + in_order[late + 1]) // 2
    ref = np.concatenate((in_order, between))
    n, last = len(ref), int(in_order[-1])
    columns = {
        "ref": ref,
        "unc": np.zeros(n, np.int64),
        "epoch": np.full(n, NO_EPOCH),
        "release": np.concatenate((in_order, np.full(len(late), last))),
        "status": np.where(np.arange(n) > losses, LATE, IN_ORDER).astype(np.int8),
        "source": np.ones(n, np.int32),
        "stream": np.zeros(n, np.int32),
        "seq": np.concatenate((2 * there, 2 * late + 1)),
        "attrs.v": generator.normal(size=n),
    }
    zero, one = np.zeros(losses, np.int64), np.ones(losses, np.int64)
    gaps = Gaps(
        there[1:], one, zero, zero, 2 * there[:-1] + 1, one, in_order[:-1], in_order[1:], zero
    )
    return Released(n, columns, {"v": "float"}, Strings(["events", "s"]), t_a=0, gaps=gaps)


def measured(window: str, data: Released) -> tuple[float, int]:
    """(processor time [s], results)."""
    plan = query(f"SELECT avg(v) FROM events WINDOW {window}")
    assert isinstance(plan, WindowPlan)
    horizon = int(data.columns["ref"].max()) + 1
    operator = windows_of(plan, WindowSettings(correction_horizon_ns=horizon))
    started = time.process_time()
    results = len(operator.process(data)) + len(operator.finish(horizon))
    return time.process_time() - started, results


def main() -> None:
    for window, late_share in WINDOWS.items():
        measured(window, released(1_000, late_share))  # compiled
        for losses in LOSSES:
            data = released(losses, late_share)
            seconds, results = measured(window, data)
            print(
                f"{window:28s} {losses:>8,} lost, {data.n - losses - 1:>7,} late: "
                f"{seconds:7.3f} s, {seconds / losses * 1e6:6.2f} us a loss, {results:,} results",
                flush=True,
            )


if __name__ == "__main__":
    main()
