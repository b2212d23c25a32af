"""Scenarios of intervals and traces in this process: every claim holds, truths by hand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from slackwater.engine.apps.scenario_run import load, scenario_names
from slackwater.engine.core.errors import UserError
from slackwater.engine.query import query
from slackwater.engine.query.automata import automata_of
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.scenario import RunnableScenario, Score
from slackwater.scenarios.elder_care import ElderCare
from slackwater.scenarios.intervals import (
    Endpoints,
    Interval,
    TrueReadings,
    bands_of,
    pairs,
    stays_of,
)
from slackwater.scenarios.network_correlation import NetworkCorrelation
from slackwater.scenarios.supply_chain import SupplyChain
from slackwater.scenarios.supply_chain.promised import certain, lost, ways
from slackwater.scenarios.supply_chain.supply_chain import FILE
from slackwater.scenarios.ward import Ward
from slackwater.scenarios.warehouse import Warehouse
from slackwater.simulation import MANIFEST, data_directory

DATA = data_directory({"SLACKWATER_DATA": "/work/shared/data"})
Run = Callable[..., Score]
SMALL_HOME = {"persons": "3", "days": "2", "forgotten": "0.2", "seed": "2"}


def holds(score: Score) -> None:
    assert [f"{claim.text} {claim.detail}" for claim in score.claims if not claim.holds] == []
    assert any(bar.strong for timeline in score.timelines for bar in timeline.bars)


def test_late_messages_of_the_pill_box_raise_alarms_that_are_taken_back(
    run: Run, tmp_path: Path
) -> None:
    score = run(ElderCare(), tmp_path, SMALL_HOME, tmp_path)
    holds(score)
    assert score.facts["alarms"] == 1
    assert score.facts["retracted"]["immediate"] > 0 == score.facts["retracted"]["punctuation"]


def test_failures_are_traced_to_attacks(run: Run, tmp_path: Path) -> None:
    score = run(NetworkCorrelation(), tmp_path, {"duration": "7 min", "servers": "4"}, tmp_path)
    holds(score)
    assert 0 < score.facts["by_attack"] < score.facts["failures"]


def test_treatments_are_found_in_whatever_order_they_are_filed(run: Run, tmp_path: Path) -> None:
    score = run(Ward(), tmp_path, {"patients": "60", "hours": "150"}, tmp_path)
    holds(score)
    expected = score.facts["expected"]
    assert 3 <= expected["treatment_tree"] < expected["treatment_flow"]


@pytest.mark.skipif(not (DATA / "mimic_iv_demo").is_dir(), reason="the recording is not here")
def test_antibiotics_before_cultures_in_intensive_care(run: Run, tmp_path: Path) -> None:
    score = run(Ward(), tmp_path, {"of": "mimic"}, DATA)
    holds(score)
    assert (score.facts["intervals"], score.facts["expected"]) == (
        1306, {"antibiotic_before_culture": 477}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "option"),
    [
        (ElderCare(), "persons=0"), (ElderCare(), "forgotten=2"), (ElderCare(), "radio=0"),
        (NetworkCorrelation(), "servers=0"), (NetworkCorrelation(), "attacks=-1"),
        (NetworkCorrelation(), "duration=2d"), (Ward(), "of=nothing"), (Ward(), "patients=0"),
        (Ward(), "hours=0"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_named(
    tmp_path: Path, scenario: RunnableScenario, option: str
) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(UserError, match=f"--set {name}="):
        scenario.make(tmp_path, {name: value}, tmp_path)


def test_names_have_dashes() -> None:
    assert {"elder-care", "network-correlation", "ward", "warehouse"} <= set(scenario_names())
    assert load("elder-care").name == "elder-care"
    with pytest.raises(UserError, match="elder-care"):
        load("elder_care")


SMALL_CHAIN = {"duration": "40 s", "seed": 2}
ALERTS = {"alert": 10, "cleared": 69, "violation": 1}
LOG = "a675200c5e1d9a8e3916863bde1f7b9a5f95d36ab88850ab7d715076527c1c8c"
"""The log of ``SMALL_CHAIN``: the same seed gives the same one."""


@pytest.mark.slow
def test_supply_chain_claims_hold_and_the_log_is_the_same(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    scenario = SupplyChain()
    score = run(scenario, tmp_path, dict(scenario.options()) | SMALL_CHAIN, tmp_path)
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert score.facts["emitted"] == ALERTS
    assert score.facts["alerts_before_shipping"] > 0
    assert score.facts["lead_s_p50"] > 5
    assert any(bar.strong for timeline in score.timelines for bar in timeline.bars)
    assert json.loads((tmp_path / MANIFEST).read_text("utf-8"))["log_sha256"] == LOG


def test_what_is_certain_by_hand() -> None:
    road = ["PACKED", "SHIPPED", "HUB", "HUB", "RECEIVED", "INSPECTED"]
    assert list(certain([*road, "REJECTED", "DESTROYED"])) == [(6, "alert")]
    assert list(certain([*road, "SHELVED", "SOLD"])) == [(6, "cleared")]
    assert list(certain(["PACKED", "OPENED", "SHIPPED"])) == [(1, "alert")]
    assert list(certain(["PACKED", "COOLED", "HUB", "RECEIVED"])) == [
        (1, "cleared"), (2, "violation"),
    ]  # fmt: skip
    broken = ["PACKED", "SHIPPED", "RECEIVED", "DESTROYED"]
    assert list(certain(broken)) == [(2, "violation"), (3, "alert")]


def test_the_ways_are_those_of_the_constraint() -> None:
    text = tomllib.loads(FILE.read_text("utf-8"))["queries"]["waste"]
    plan = query(text)
    assert isinstance(plan, MonitorPlan)
    automata = automata_of(plan)
    names = automata.alphabet.names
    accepted = set()
    left: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while left:
        way, state = left.pop()
        if automata.constraint.accepts[state]:
            accepted.add(way)
        for symbol, name in enumerate(names):
            to = int(automata.constraint.table[state, symbol])
            if to >= 0 and (*way, name).count("HUB") <= 3:
                left.append(((*way, name), to))
    assert accepted == ways(3)


def test_lost_is_in_order() -> None:
    wanted = ("SHIPPED", "RECEIVED", "DESTROYED")
    for events in product(("SHIPPED", "RECEIVED", "DESTROYED"), repeat=4):
        by_definition = any(
            tuple(events[at] for at in (a, b, c)) == wanted
            for a in range(4) for b in range(a + 1, 4) for c in range(b + 1, 4)
        )  # fmt: skip
        assert lost(events) == by_definition


def test_a_setting_that_there_is_not_is_named() -> None:
    with pytest.raises(
        UserError, match=r'^--set link\.delai=5 ms: unknown setting.*did you mean "delay"'
    ):
        SupplyChain().read_settings(["link.delai=5 ms"])


SMALL_WAREHOUSE = {"duration": "6 min", "zones": "1", "pallets": "40", "seed": "3"}


def test_warehouse_claims_hold(run: Callable[..., Score], tmp_path: Path) -> None:
    score = run(Warehouse(), tmp_path, SMALL_WAREHOUSE, tmp_path)
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert score.facts["bytes"] * 5 < score.facts["bytes_of_readings"]
    assert len(score.facts["true_matches"]) >= 2
    assert any(bar.strong for timeline in score.timelines for bar in timeline.bars)


def test_golden_of_spec_4_10_by_definition() -> None:
    times = np.arange(9, dtype=np.int64) * 2
    values = np.array([55, 70, 95, 80, 110, 120, 90, 60, 30], float)
    found = bands_of(
        TrueReadings("s", "shelf", times, times, values), ["LOW", "MEDIUM", "HIGH"], [50, 100]
    )
    assert [(each.type, each.start_ns, each.end_ns) for each in found] == [
        ("MEDIUM", 0, 8), ("HIGH", 8, 12), ("MEDIUM", 12, 16), ("LOW", 16, 16),
    ]  # fmt: skip


def test_stays_by_definition() -> None:
    times = np.array([0, 2, 5, 20, 21], np.int64)
    found = stays_of(TrueReadings("s", "tag", times, times, times), "STAY", 3)
    assert [(each.start_ns, each.end_ns) for each in found] == [(0, 5), (20, 21)]


def test_pairs_are_of_one_thing_within_the_window() -> None:
    def interval(name: str, thing: str, ts: int, te: int) -> Interval:
        return Interval(name, thing, ts, te, ("s", name, ts, te))

    those = [
        interval("HIGH", "a", 0, 10), interval("STAY", "a", 3, 6), interval("STAY", "b", 3, 6),
        interval("STAY", "a", 5, 10), interval("HIGH", "a", 2, 90),
    ]  # fmt: skip
    high, stay = (Endpoints.of(those, name, str) for name in ("HIGH", "STAY"))
    found = pairs(high, stay, 20, lambda ts, te, ts2, te2: (ts < ts2) & (te2 < te))
    assert found == {(("s", "HIGH", 0, 10), ("s", "STAY", 3, 6))}


@pytest.mark.parametrize(
    ("option", "said"),
    [("zones=0", "zones"), ("duration=2d", "duration"), ("pallets=-1", "pallets")],
)
def test_warehouse_options(tmp_path: Path, option: str, said: str) -> None:
    name, _, value = option.partition("=")
    with pytest.raises(UserError, match=f"--set {said}="):
        Warehouse().make(tmp_path, {**SMALL_WAREHOUSE, name: value}, tmp_path)
