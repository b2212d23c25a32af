"""SEQ/PAL trees with halves of intervals: Spark gives what the in-process host gives."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.spark.host import run_on_spark
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = {
    "overlap": "EVENT SEQ(A a OVERLAP B b, !D d, C c) WHERE a.v = b.v WITHIN 60 ns",
    "parallel": "EVENT SEQ(A a BEFORE PAL(B b, C c) OVERLAP D d) WHERE b.v = c.v WITHIN 50 ns",
}
SEED = 20261123


def trace_of(seed: int) -> str:
    """Two sites of two sources: intervals that come whole, with their starts, or in two halves."""
    chance = random.Random(seed)
    records: list[dict[str, Any]] = []
    for site in ("north", "south"):
        ts = 0
        for number in range(300):
            ts += chance.randint(0, 6)
            end = ts + chance.randint(0, 25)
            own = {"site": site, "source": chance.choice("xy"), "type": chance.choice("AABBCD")}
            attrs = {"v": chance.randrange(2)}
            form = chance.choice(["whole", "start", "halves"])
            if form != "whole":
                began = ts + chance.randint(0, 40)
                records.append({"kind": "ibp", **own, "id": number, "ts": ts, "arrival": began,
                                "attrs": attrs})  # fmt: skip
            over = end + chance.randint(0, 10)
            if form == "halves":
                records.append({"kind": "ibe", **own, "id": number, "ts": end, "arrival": over})
            else:
                records.append({**own, "id": number, "ts": ts, "te": end, "arrival": over,
                                "attrs": attrs})  # fmt: skip
    records.sort(key=lambda record: record["arrival"])
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("barrier", ["immediate", "bounded:20"])
def test_trees_on_both_hosts(tmp_path: Path, barrier: str) -> None:
    settings = ChainSettings(
        parse_order("none"), tuple(query(text, name=name) for name, text in QUERIES.items()),
        parse_barrier(barrier), guards=Guards(None),
    )  # fmt: skip
    log = log_of(trace_of(SEED), tmp_path, 400, 90)
    run_in_process(log, settings, tmp_path / "here")
    run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", QUERIES)
    assert here == answers(tmp_path / "there", QUERIES)
    assert here.count('"op": "+"') > 50
    assert here.count('"te": null') > 5 or barrier != "immediate"
