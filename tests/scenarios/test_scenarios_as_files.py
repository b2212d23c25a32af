"""``warehouse`` and ``network-correlation`` as scenario files: the same devices and log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.engine.core.errors import UserError
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.scenario import RunnableScenario
from slackwater.scenarios import lorawan, mimic, phones, soccer
from slackwater.scenarios.from_file import FromFile
from slackwater.scenarios.network_correlation import NetworkCorrelation
from slackwater.scenarios.network_correlation.agents import FILE as MACHINE_ROOM
from slackwater.scenarios.network_correlation.agents import machine_room
from slackwater.scenarios.network_correlation.network_correlation import DEFAULTS as ROOM
from slackwater.scenarios.options import duration_ns, read_options
from slackwater.scenarios.runs import (
    lane_sum,
    missing_events,
    out_of_order,
    quantiles_ms,
    read_counters,
    read_ordered,
    share,
    standing,
)
from slackwater.scenarios.warehouse import Warehouse
from slackwater.scenarios.warehouse.devices import FILE as COLD_STORE
from slackwater.scenarios.warehouse.devices import warehouse_scenario
from slackwater.scenarios.warehouse.warehouse import DEFAULTS as STORE
from slackwater.simulation import simulate_to

NO_DATA = Path("/no/recordings/here")


@pytest.mark.parametrize(
    ("path", "duration", "digest"),
    [(COLD_STORE, "2 min", "1c76a517d1fa63fd"), (MACHINE_ROOM, "4 min", "93a1e0ff344943b1")],
    ids=["warehouse", "network-correlation"],
)
def test_the_file_makes_the_log_of_the_scenario_that_was_python(
    path: Path, duration: str, digest: str, tmp_path: Path
) -> None:
    read = FromFile(path)
    made = read.make(tmp_path / "run", read.read_settings([f"duration={duration}"]), NO_DATA)
    assert made["log_sha256"].startswith(digest)


def test_what_the_built_ins_are_set_to(tmp_path: Path) -> None:
    store = {"duration": "90 s", "zones": 2, "pallets": 30, "seed": 5, "offset": "1 s"}
    room = {"duration": "7 min", "servers": 3, "attacks": 0.9, "seed": 2, "offset": "10 ms"}
    for number, (scenario, digest) in enumerate(
        [
            (warehouse_scenario(STORE | store), "a3a5541095f06725"),
            (machine_room(ROOM | room), "933fbc63914c9a88"),
        ]
    ):
        made = simulate_to(scenario, tmp_path / str(number), NO_DATA).manifest
        assert made["log_sha256"].startswith(digest)  # of the Python scenarios before


@pytest.mark.parametrize(("scenario", "path"), [(Warehouse(), COLD_STORE),
                                                (NetworkCorrelation(), MACHINE_ROOM)])  # fmt: skip
def test_the_file_asks_what_the_scenario_asks(scenario: RunnableScenario, path: Path) -> None:
    asked = scenario.queries({})
    named = FromFile(path).queries({})
    assert set(named) == set(asked)


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        (COLD_STORE, 'zone = "B"', 'zone = "E"', "zone: 'E' is none of A, B, C, D"),
        (COLD_STORE, 'sensor = "reader"', 'sensor = "lamp"', "'lamp' is neither climate"),
        (COLD_STORE, 'sensor = "reader"', 'sensor = "reader", pallets = -1', "pallets: -1"),
        (COLD_STORE, 'sensor = "reader"', 'sensor = "reader", zones = 99', "zones: 99"),
        (COLD_STORE, 'generator = "warehouse/clocks"\n', "", "in_pairs"),
        (COLD_STORE, 'heartbeat = "15 s"', "clock.in_pairs = false", "say it differently"),
        (MACHINE_ROOM, 'sees = "SV-2"', 'sees = "SV-9"', "packets, failures or a server, SV-1"),
        (MACHINE_ROOM, 'sees = "SV-2"', 'sees = "SV-2", servers = 0', "servers: 0"),
        (MACHINE_ROOM, 'sees = "SV-2"', 'sees = "SV-2", attacks = 2', "attacks: 2"),
    ],
)
def test_slips_are_named(path: Path, old: str, new: str, said: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    text = path.read_text("utf-8")
    assert old in text
    mine.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=said):
        FromFile(mine)


def test_intervals_are_compared_with_those_of_the_readings_at_their_true_times() -> None:
    with slackwater.run(FromFile(MACHINE_ROOM), {"duration": "4 min"}) as done:
        metrics = done.score.facts["metrics"]
        logged = done.manifest["events"]["logged"]
    # Two conditions of exactly ``min`` are shorter by a slow device's clock: it does not tell them.
    assert metrics["events"]["events"] == logged + 2 == 71
    assert metrics["events"]["missing"] == pytest.approx(2 / 71)
    for name in ("failure_by_attack", "failure_with_fan"):
        assert metrics[name]["results"] > 0
        assert (metrics[name]["recall"], metrics[name]["precision"]) == (1, 1)


@given(st.lists(st.integers(-5, 5)))
def test_out_of_order_against_its_definition(times: list[int]) -> None:
    """SPEC 1: some event that arrived earlier has a larger event time."""
    brute = [any(earlier > time for earlier in times[:at]) for at, time in enumerate(times)]
    assert out_of_order(np.array(times, np.int64)).tolist() == brute


def test_quantiles_are_spans_that_occurred() -> None:
    spans = np.arange(1, 101) * 1_000_000
    assert quantiles_ms(spans) == (51.0, 96.0, 100.0, 100.0)
    assert quantiles_ms(spans[:0]) == (0.0, 0.0, 0.0, 0.0)


def test_share_of_nothing() -> None:
    assert (share(1, 4), share(0, 0)) == (25.0, 0.0)


def test_absent_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did the run end"):
        read_ordered(tmp_path, "sequence")
    with pytest.raises(UserError, match="did the run end"):
        read_counters(tmp_path, "sequence")
    assert standing(tmp_path, "sequence", "matches", str) == []


def test_counters(tmp_path: Path) -> None:
    lanes = [{"missing_total": 5, "missing_filled": 2}, {"missing_total": 1, "missing_filled": 0}]
    whole = {"sites": {"a": {"lanes": lanes}, "b": {"lanes": lanes[:1]}, "c": {"lanes": [{}]}}}
    place = tmp_path / "runs" / "x"
    place.mkdir(parents=True)
    (place / "counters.json").write_text(json.dumps(whole), encoding="utf-8")
    counters = read_counters(tmp_path, "x")
    assert [missing_events(counters, site) for site in "abc"] == [4, 3, None]
    del counters["sites"]["c"]
    assert lane_sum(counters, "missing_total") == 11


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
