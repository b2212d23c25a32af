"""Dataflows over a chain's events, made where called, so that Spark's workers get them whole."""

from __future__ import annotations

import json
import random
from typing import Any

from slackwater.engine.operators.grouping.dataflow import Dataflow
from slackwater.engine.operators.grouping.maps import Combine, PythonTupleMap
from slackwater.engine.operators.grouping.operations import Grouping, GroupingPlan, Stateful


def plans(**more: Any) -> tuple[GroupingPlan, GroupingPlan]:
    """Running sums per id, compiled; and pairs of neighbours of one letter, in plain Python."""

    def add(before: Any, item: Any, after: Any, out: Any) -> bool:
        after.total = before.total * 7 % 101 + item.v
        out.id, out.total = item.id, after.total
        return bool(after.total % 5 != 0)

    sums = Stateful(Combine(add, {"total": int}, {"id": int, "total": int}), key="id")
    pairs = Grouping(
        2, key=lambda event: event["type"],
        map=PythonTupleMap(lambda events: [{e["source"]: e["v"] for e in events}, len(events)]),
    )  # fmt: skip
    return (
        GroupingPlan("sums", Dataflow((sums,), {"id": int, "v": int}), **more),
        GroupingPlan("pairs", Dataflow((pairs,)), ("type", "source", "v"), **more),
    )


def events(
    seed: int, n: int, late: int, sites: tuple[str, ...] = ("main",)
) -> list[dict[str, Any]]:
    """Records by arrival, up to ``late`` behind the newest; a few lack ``v``."""
    chance = random.Random(seed)
    records = []
    for site in sites:
        for number in range(n):
            own = {"site": site, "source": chance.choice("zyx"), "type": chance.choice("AB")}
            attrs = {"id": chance.randrange(4), "v": chance.randrange(9)}
            if chance.random() < 0.05:
                del attrs["v"]
            arrival = 10 * number + late
            ts = arrival - chance.choice((0, 0, chance.randrange(late + 1)))
            records.append({**own, "ts": ts, "arrival": arrival, "attrs": attrs})
    return sorted(records, key=lambda record: record["arrival"])


def trace(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)
