"""The whole way of ``supply-chain`` in this process, and its truth by hand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from engine.cli.constraint_commands import automata_under
from engine.errors import UserError
from engine.scenario import Score
from scenarios.supply_chain import SupplyChain
from scenarios.supply_chain.promised import certain, lost, ways
from scenarios.supply_chain.supply_chain import FILE
from slackwater.simulation import MANIFEST

SMALL = {"duration": "40 s", "seed": 2}
TOLD = {"alert": 10, "cleared": 69, "violation": 1}
LOG = "a675200c5e1d9a8e3916863bde1f7b9a5f95d36ab88850ab7d715076527c1c8c"
"""The log of ``SMALL``: the same seed gives the same one."""


@pytest.mark.slow
def test_every_claim_holds_and_the_log_is_the_same_each_time(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    scenario = SupplyChain()
    score = run(scenario, tmp_path, dict(scenario.options()) | SMALL, tmp_path)
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert score.facts["told"] == TOLD
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
    automata = automata_under(text)[1]
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
