"""Repetition: Spark gives what the in-process host gives, byte for byte."""

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
    "rising": "EVENT SEQ(A{2,} a[], !D d, B b) WHERE a[i].v > a[i - 1].v WITHIN 60 ns "
    "PARTITION BY k CONTIGUITY NEXT RETURN *, count(a) AS n, last(a.v) AS top",
    "apart": "EVENT SEQ(A a, B+ b[] UNTIL b.v > 8, C c) WITHIN 80 ns PARTITION BY k "
    "SKIP PAST LAST EVENT",
    "few": "EVENT SEQ(A a, B* b[], C? c, D d) WHERE sum(b.v) > a.v WITHIN 50 ns LIMIT 3",
}
SEED = 20261123


def trace_of(seed: int) -> str:
    """Two sites of two sources, a fifth of the events late."""
    chance = random.Random(seed)
    records: list[dict[str, Any]] = []
    for site in ("north", "south"):
        ts = 0
        for _ in range(400):
            ts += chance.randint(1, 6)
            late = chance.randint(10, 60) if chance.random() < 0.2 else 0
            attrs = {"v": chance.randrange(10), "k": chance.randrange(3)}
            records.append({
                "site": site, "source": chance.choice("xy"), "type": chance.choice("AABBCD"),
                "ts": ts, "arrival": ts + late, "attrs": attrs,
            })  # fmt: skip
    records.sort(key=lambda record: record["arrival"])
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("barrier", ["immediate", "bounded:30"])
def test_repetition_on_both_hosts(tmp_path: Path, barrier: str) -> None:
    settings = ChainSettings(
        parse_order("none"), tuple(query(text, name=name) for name, text in QUERIES.items()),
        parse_barrier(barrier), guards=Guards(None),
    )  # fmt: skip
    log = log_of(trace_of(SEED), tmp_path, 150, 40)
    run_in_process(log, settings, tmp_path / "here")
    here = answers(tmp_path / "here", QUERIES)
    run_on_spark(log, settings, tmp_path / "spark", "local[2]", files_per_batch=1)
    assert answers(tmp_path / "spark", QUERIES) == here
    told = [json.loads(line) for line in here.splitlines()]
    assert {result["query"] for result in told} == {*QUERIES}
    assert any(result["op"] == "-" for result in told)
