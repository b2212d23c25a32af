"""Scenarios of intervals: Spark answers as this process does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.query import query
from engine.scenario import RunnableScenario
from engine.spark.host import run_on_spark
from scenarios import network_correlation, warehouse
from tests.spark.both_hosts import answers

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(280)]

SMALL = {
    "warehouse": (
        warehouse.scenario,
        {"duration": "6 min", "zones": "1", "pallets": "40", "seed": "3"},
    ),
    "network-correlation": (network_correlation.scenario, {"duration": "7 min", "servers": "4"}),
}


@pytest.mark.parametrize("name", list(SMALL))
def test_a_scenario_of_intervals_on_both_hosts(tmp_path: Path, name: str) -> None:
    make, given = SMALL[name]
    scenario: RunnableScenario = make()
    scenario.make(tmp_path, given, tmp_path)
    plans = tuple(query(text, name=of) for of, text in scenario.queries(given).items())
    first = scenario.passes(given)[0]
    settings = ChainSettings(
        parse_order(first.order),
        plans,
        None if first.barrier is None else parse_barrier(first.barrier),
        guards=first.guards,
    )
    here, there = tmp_path / "here", tmp_path / "there"
    run_in_process(tmp_path / "log", settings, here)
    run_on_spark(tmp_path / "log", settings, there, "local[2]", files_per_batch=1)
    names = [plan.name for plan in plans]
    expected = answers(here, names)
    assert '"op": "+"' in expected
    assert answers(there, names) == expected
