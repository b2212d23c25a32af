"""Promises of simulated devices: their share, their seed, and that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulator.run import Simulated

MS = 10**6
EVENT, POG = 0, 1
Rows = list[dict[str, Any]]
World = Callable[..., tuple[Simulated, Rows]]
JITTER = {"delay": {"model": "uniform", "low": 0, "high": "100 ms"}}


def source(name: str = "s0", **given: Any) -> dict[str, Any]:
    workload = {"model": "poisson", "mean": "5 ms", "type": f"T-{name}"}
    return {"name": name, "workload": workload, "heartbeat": 0, "poll": 0, **given}


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_promises_are_a_share_of_the_events(world: World, share: float) -> None:
    _, rows = world(source(promise_share=share))
    counts = [sum(row["kind"] == kind for row in rows) for kind in (EVENT, POG)]
    assert counts[0] > 100
    assert abs(counts[1] - share * counts[0]) <= 1


def test_promises_hold_over_connections_that_overtake_each_other(world: World) -> None:
    sources = [
        source(f"s{n}", promise_share=0.5, promise_by_type=True, connections=4, up=JITTER,
               poll="5 ms", clock={"offset": "7 ms", "skew_ppb": 1000})
        for n in range(3)
    ]  # fmt: skip
    _, rows = world(*sources)
    promised: dict[str, int] = {}
    overtaken = 0
    for row in rows:
        if row["kind"] == POG:
            assert row["type"] == f"T-{row['source']}"
            promised[row["source"]] = max(promised.get(row["source"], 0), row["ts"])
        elif row["kind"] == EVENT:
            assert row["ts"] >= promised.get(row["source"], 0)
            overtaken += 1
    assert set(promised) == {"s0", "s1", "s2"}
    assert overtaken > 300


def test_the_seed_decides_where_promises_fall(world: World) -> None:
    first, rows = world(source(promise_share=0.3))
    again, _ = world(source(promise_share=0.3))
    assert first.digest == again.digest
    other, _ = world(source(promise_share=0.3), seed=2)
    assert other.digest != first.digest
    without, plain = world(source())
    assert without.digest != first.digest
    events = [[row["ts"] for row in each if row["kind"] == EVENT] for each in (rows, plain)]
    assert events[0] == events[1], "promises change nothing of what happens"


def test_types_are_promised_before_their_first_event(world: World) -> None:
    late = source("late", promise_first=["T-late", "other"], restarts=["2500 ms"])
    _, rows = world(late, duration="3 s", warm_up="1 s")
    pogs = [row for row in rows if row["kind"] == POG]
    told = [(row.get("incarnation", 0), row["type"], row["seq"]) for row in pogs]
    assert told == [(at, name, 0) for at in (0, 1) for name in ("T-late", "other")]
    first = next(row for row in rows if row["kind"] == EVENT)
    assert all(row["ts"] < first["ts"] for row in rows[: rows.index(first)] if row["kind"] == POG)
