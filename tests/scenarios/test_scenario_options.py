"""Options of scenarios: names, types, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import UserError
from engine.order.registry import parse_order
from engine.query import query
from engine.scenario import RunnableScenario
from scenarios import lorawan, mimic, phones, soccer
from scenarios.options import duration_ns, read_options

DEFAULTS: dict[str, Any] = {"seed": 1, "duration": "60 s", "loss": 0.001}


def test_texts_become_the_type_of_the_default() -> None:
    given = {"seed": "7", "loss": "0.5", "duration": " 3 s "}
    assert read_options(given, DEFAULTS) == {"seed": 7, "duration": "3 s", "loss": 0.5}
    assert read_options({}, DEFAULTS) == DEFAULTS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sede": "1"}, "--set sede: unknown option; did you mean seed? (known are seed,"),
        ({"xyz": "1"}, "--set xyz: unknown option (known are seed, duration, loss)"),
        ({"seed": "1.5"}, "--set seed=1.5: expected a whole number, such as 1"),
        ({"loss": "much"}, "--set loss=much: expected a number, such as 0.001"),
    ],
)
def test_a_bad_option_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as error:
        read_options(given, DEFAULTS)
    assert said in str(error.value)


@pytest.mark.parametrize(("text", "ns"), [("60 s", 60 * 10**9), ("0", 0), ("1.5 ms", 1_500_000)])
def test_durations(text: str, ns: int) -> None:
    assert duration_ns({"duration": text}, "duration") == ns


@pytest.mark.parametrize("text", ["60", "soon", "-1 s", ""])
def test_a_duration_needs_a_unit(text: str) -> None:
    with pytest.raises(UserError, match=r"--set duration="):
        duration_ns({"duration": text}, "duration")


@pytest.mark.parametrize(
    "scenario",
    [each.scenario() for each in (lorawan, mimic, phones, soccer)],
    ids=lambda s: s.name,
)
def test_every_scenario_keeps_the_contract(scenario: RunnableScenario) -> None:
    options = scenario.options()
    labels = [each.label for each in scenario.passes(options)]
    assert len(set(labels)) == len(labels) >= 2
    for each in scenario.passes(options):
        parse_order(each.order)
    for name, text in scenario.queries(options).items():
        assert query(text, name=name).name == name
    for call in (scenario.queries, scenario.passes):
        with pytest.raises(UserError, match="unknown option"):
            call({**options, "no_such": 1})


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [("loss", 2.0, "0..1"), ("duplicate", -0.1, "0..1"), ("connections", 0, "1..64")],
)
def test_soccer_names_the_option_that_is_out_of_range(
    name: str, value: float, range_: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=rf"--set {name}={value}: must lie in {range_}"):
        soccer.scenario().make(tmp_path, {name: value}, tmp_path)
