"""The demo as a scenario file: the same devices, clocks, links and log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import slackwater
from engine.errors import UserError
from scenarios.from_file import FromFile
from scenarios.soccer.network import FILE
from scenarios.soccer.soccer import Soccer

NO_DATA = Path("/no/recordings/here")


def test_the_file_makes_the_log_of_the_scenario(tmp_path: Path) -> None:
    made = Soccer().make(tmp_path / "built-in", {"duration": "2 s"}, NO_DATA)
    with slackwater.run(FromFile(FILE), {"duration": "2 s"}) as done:
        assert done.manifest["log_sha256"] == made["log_sha256"]
        assert {claim.text: claim.holds for claim in done.score.claims} == {
            "missing <= 1 %": True,
            "velocity: wrong <= 0": True,
            "ball: wrong <= 0": True,
            "hold_p95 <= 1 s": True,
        }
    assert made["events"]["generated"] == 2 * 14_800
    assert made["log_sha256"].startswith("bde2c54910b2")  # of the Python scenario before


def test_what_it_is_set_to(tmp_path: Path) -> None:
    settings = {"duration": "1 s", "offset": "1 us", "loss": 0.5, "connections": 1, "seed": 7}
    path = tmp_path / "mine.toml"
    text = FILE.read_text("utf-8").replace('"2 s"', '"1 us"').replace("0.001", "0.5", 1)
    path.write_text(text.replace("connections = 3", "connections = 1"))
    made = Soccer().make(tmp_path / "built-in", settings, NO_DATA)
    theirs = FromFile(path).make(
        tmp_path / "file", FromFile(path).read_settings(["duration=1 s", "seed=7"]), NO_DATA
    )
    assert theirs["log_sha256"] == made["log_sha256"]
    written = json.loads((tmp_path / "file" / "manifest.json").read_text("utf-8"))
    assert written["events"]["missing"] == made["events"]["missing"] > 1000


def test_a_gateway_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FILE.read_text("utf-8").replace('hears = "away-2"', 'hears = "away-9"'))
    with pytest.raises(UserError, match=r"mine.toml:\d+: .*'away-9' is none of ball, home-1"):
        FromFile(path)
