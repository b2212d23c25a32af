"""Dataflows: Spark gives what the in-process host gives, over small files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.spark import chain
from engine.spark.host import run_on_spark, spark_session
from tests.grouping.chain_flows import events, plans, trace
from tests.spark.both_hosts import answers, log_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("barrier", ["bounded:60", "immediate"])
def test_items_on_both_hosts(barrier: str, tmp_path: Path) -> None:
    settings = ChainSettings(
        parse_order("none"), plans(), parse_barrier(barrier), guards=Guards(None)
    )
    log = log_of(trace(events(7, 500, 60, ("north", "south"))), tmp_path, 200, 30)
    run_in_process(log, settings, tmp_path / "here")
    run_on_spark(log, settings, tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", ("sums", "pairs"))
    assert here == answers(tmp_path / "there", ("sums", "pairs"))
    assert here.count('"query": "pairs"') > 500
    assert ('"op": "-"' in here) == (barrier == "immediate")


def test_items_as_rows() -> None:
    session = spark_session("local[2]")
    rows = session.createDataFrame(
        [("a", 10, 100, 1, 3), ("a", 30, 110, 1, 5), ("a", 20, 120, 1, 5)],
        "source string, ts long, arrival long, id long, v long",
    )
    found = rows.transform(chain("none", plans()[0], "bounded:5ns")).collect()
    assert [(row.query, row.ts, row.source, row.item) for row in found] == [
        ("sums", 10, "a", '{"id": 1, "total": 3}'), ("sums", 30, "a", '{"id": 1, "total": 26}'),
    ]  # fmt: skip
