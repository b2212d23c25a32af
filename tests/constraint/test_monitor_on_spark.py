"""Patterns under constraints: Spark gives what the in-process host gives, over small files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from engine.chain import ChainSettings
from engine.constraint.settings import MonitorSettings, parse_monitor
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.spark.host import run_on_spark
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = {
    "flow": "EVENT SEQ(A a, K k, K l, C c) "
    "UNDER CONSTRAINT flow FOR TRACE BY id AS A+, K*, B+, K, C+",
    "guarded": "EVENT SEQ(A a, !K k, B b) WHERE a.v > 2 "
    "UNDER CONSTRAINT any FOR TRACE BY id TIMEOUT 900 AS (A[v > 1] | B | C | K)*",
}  # fmt: skip


def trace_of(seed: int) -> str:
    """Two sites; most traces keep to the flow for a while."""
    chance = random.Random(seed)
    records = []
    for site in ("north", "south"):
        for n in range(600):
            letter = chance.choices("AKBC", [4, 3, 2, 1])[0]
            own = {"site": site, "source": chance.choice("xy"), "type": letter, "ts": 10 * n}
            attrs = {"id": f"t{chance.randrange(40) + n // 100 * 40}", "v": chance.randrange(5)}
            records.append({**own, "arrival": 10 * n + chance.randrange(60), "attrs": attrs})
    records.sort(key=lambda record: record["arrival"])
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("monitor", [None, "horizon=40,check=basic"])
def test_alerts_on_both_hosts(tmp_path: Path, monitor: str | None) -> None:
    settings = ChainSettings(
        parse_order("none"), tuple(query(text, name=name) for name, text in QUERIES.items()),
        guards=Guards(None),
        monitor=MonitorSettings() if monitor is None else parse_monitor(monitor),
    )  # fmt: skip
    log = log_of(trace_of(20261123), tmp_path, 200, 30)
    run_in_process(log, settings, tmp_path / "here")
    run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", QUERIES)
    assert here == answers(tmp_path / "there", QUERIES)
    assert here.count('"alert": "alert"') > 20
    assert here.count('"alert": "violation"') > 20
    assert here.count('"alert": "cleared"') > 5
    assert (here.count('"op": "-"') > 5) == (monitor is not None)
