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
from scenarios import elder_care, network_correlation, supply_chain, ward, warehouse
from slackwater.simulation import data_directory
from tests.spark.both_hosts import answers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL = {
    "warehouse": (
        warehouse.scenario,
        {"duration": "6 min", "zones": "1", "pallets": "40", "seed": "3"},
    ),
    "network-correlation": (network_correlation.scenario, {"duration": "7 min", "servers": "4"}),
    "elder-care": (
        elder_care.scenario,
        {"persons": "3", "days": "2", "forgotten": "0.2", "seed": "2"},
    ),
    "supply-chain": (supply_chain.scenario, {"duration": "30 s"}),
    "ward": (ward.scenario, {"patients": "60", "hours": "150"}),
    "ward of mimic": (ward.scenario, {"of": "mimic"}),
}
DATA = data_directory({"SLACKWATER_DATA": "/work/shared/data"})


@pytest.mark.parametrize("name", list(SMALL))
def test_a_scenario_of_intervals_on_both_hosts(tmp_path: Path, name: str) -> None:
    make, given = SMALL[name]
    if "of" in given and not (DATA / "mimic_iv_demo").is_dir():
        pytest.skip("the recording is not here")
    scenario: RunnableScenario = make()
    scenario.make(tmp_path, given, DATA)
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
