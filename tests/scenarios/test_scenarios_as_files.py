"""``warehouse`` and ``network-correlation`` as scenario files: the same devices and log."""

from __future__ import annotations

from pathlib import Path

import pytest

import slackwater
from engine.errors import UserError
from engine.scenario import RunnableScenario
from scenarios.from_file import FromFile
from scenarios.network_correlation import NetworkCorrelation
from scenarios.network_correlation.agents import FILE as MACHINE_ROOM
from scenarios.network_correlation.agents import machine_room
from scenarios.network_correlation.network_correlation import DEFAULTS as ROOM
from scenarios.warehouse import Warehouse
from scenarios.warehouse.devices import FILE as COLD_STORE
from scenarios.warehouse.devices import warehouse_scenario
from scenarios.warehouse.warehouse import DEFAULTS as STORE
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
