"""The whole way of ``soccer`` in this process: simulate, order, answer, score against truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.engine.core.errors import UserError
from slackwater.engine.scenario import Score
from slackwater.scenarios.from_file import FromFile
from slackwater.scenarios.soccer.event_truth import NOWHERE, EventTruth
from slackwater.scenarios.soccer.goal_truth import true_pairs
from slackwater.scenarios.soccer.network import FILE
from slackwater.scenarios.soccer.soccer import Soccer
from slackwater.scenarios.soccer.window_truth import QUERIES, true_windows

SHORT = {"duration": "9 s", "loss": "0.01"}


@pytest.fixture(scope="module")
def done(run: Callable[..., Score], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Score]:
    directory = tmp_path_factory.mktemp("soccer")
    return directory, run(Soccer(), directory, SHORT, directory)


def test_every_claim_holds(done: tuple[Path, Score]) -> None:
    _, score = done
    assert [claim.text for claim in score.claims if not claim.holds] == []
    assert len(score.claims) == 6
    facts = score.facts
    assert facts["goals"] >= 1
    assert facts["goals_overlooked"] == facts["goals_confirmed_false"] == 0
    assert facts["events_lost"] == facts["events_missing"] > 500
    assert facts["within_uncertainty_percent"] == 100
    assert facts["residual_disorder_in_time"] == 0
    assert facts["out_of_order_none"]["corrected"] > facts["events_none"] // 2


def test_the_report_has_a_sliding_curve_of_speed_whose_band_holds_the_truth(
    done: tuple[Path, Score],
) -> None:
    _, score = done
    curve, off = score.charts
    measured, true = curve.series
    # Windows of 0.5 s, one each 0.1 s, that end before the last event of 9 s does.
    assert score.facts["curve_windows"] == len(measured.x) == len(true.x) == 85
    assert score.facts["curve_outside"] == 0
    assert measured.x[:2] == pytest.approx((0.5, 0.6))
    assert max(high - low for low, high in zip(measured.low, measured.high, strict=True)) > 0.001
    assert max(off.series[0].low) <= 1e-6
    assert min(off.series[0].high) >= -1e-6
    assert set(off.series[1].y) == {0.0}


def test_tables_are_rectangular_and_plain(done: tuple[Path, Score]) -> None:
    _, score = done
    assert [table.title for table in score.tables] == [
        "Incidents", "Average speed in 10 s windows", "Order of the events",
        "Clocks of the gateways",
    ]  # fmt: skip
    for table in score.tables:
        assert table.rows
        for row in table.rows:
            assert len(row) == len(table.headings)
            assert all(cell is None or type(cell) in {str, int, float} for cell in row)
    json.dumps(dict(score.facts))


def test_the_truth_on_disk_is_the_plan(done: tuple[Path, Score]) -> None:
    directory, _ = done
    truth = EventTruth.read(directory)
    plan = pq.read_table(directory / "truth" / "incidents.parquet").to_pylist()
    pairs = [
        (int(truth.true_ns[kick]), int(truth.true_ns[goal])) for kick, goal in true_pairs(truth)
    ]
    assert pairs == [(each["kick_ns"], each["stop_ns"]) for each in plan if each["is_match"]]
    assert len(truth) == 9 * 14_800


def test_the_log_holds_what_the_manifest_counts(done: tuple[Path, Score]) -> None:
    directory, score = done
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["set"]["loss"] == 0.01
    assert manifest["events"]["missing"] == score.facts["events_lost"]
    truth = EventTruth.read(directory)
    assert int(truth.logged(directory).sum()) == manifest["rows"]["event"]


def test_events_are_found_by_their_numbers(done: tuple[Path, Score]) -> None:
    directory, _ = done
    truth = EventTruth.read(directory)
    some = np.arange(0, len(truth), 997)
    names = pa.array([truth.names[code] for code in truth.source[some].tolist()])
    found = truth.find(names, truth.incarnation[some], truth.seq[some])
    assert np.array_equal(found, some)
    strangers = truth.find(
        pa.array(["nobody", "ball"]), np.zeros(2, np.int64), np.array([0, 10**9])
    )
    assert strangers.tolist() == [NOWHERE, NOWHERE]


def test_true_windows_against_a_loop(done: tuple[Path, Score]) -> None:
    directory, _ = done
    truth = EventTruth.read(directory)
    some = slice(0, None, 50)
    true_ns, sid, v = truth.true_ns[some], truth.sid[some], truth.v[some]
    for query in QUERIES:
        groups: dict[Any, list[int]] = {}
        for at, sensor, speed in zip(true_ns.tolist(), sid.tolist(), v.tolist(), strict=True):
            if query.sid in {None, sensor}:
                groups.setdefault((at - at % query.size_ns, query.sid), []).append(speed)
        brute = {
            key: {"avg(v)": sum(each) / len(each), "max(v)": max(each), "count(*)": len(each)}
            for key, each in groups.items()
        }
        found = true_windows(query, true_ns, sid, v)
        assert found.keys() == brute.keys()
        for key, values in found.items():
            assert tuple(values) == query.labels
            assert values == pytest.approx({label: brute[key][label] for label in query.labels})


@pytest.mark.parametrize("options", [{}, {"delay": "pareto", "connections": "1", "offset": "0"}])
def test_the_same_options_make_the_same_log(options: dict[str, str], tmp_path: Path) -> None:
    hashes = [
        Soccer().make(tmp_path / name, {"duration": "200 ms", **options, "seed": seed}, tmp_path)[
            "log_sha256"
        ]
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_perfect_world_needs_no_patience(run: Callable[..., Score], tmp_path: Path) -> None:
    calm = {"duration": "3 s", "delay": "constant", "loss": "0", "duplicate": "0", "offset": "0",
            "skew_ppm": "0"}  # fmt: skip
    score = run(Soccer(), tmp_path, calm, tmp_path)
    assert all(claim.holds for claim in score.claims)
    assert score.facts["events_lost"] == 0
    assert score.facts["clock_error_ns_max"] < 3_000_000


@pytest.mark.slow
def test_canary_a_crystal_beyond_its_bound_is_seen(
    run: Callable[..., Score], tmp_path: Path
) -> None:
    """Agents promise at most 50 ppm; clocks that are 3,000 ppm off must refute the claim."""
    with pytest.warns(slackwater.SlackwaterWarning, match="before it can have happened"):
        score = run(Soccer(), tmp_path, {"duration": "3 s", "skew_ppm": "3000"}, tmp_path)
    broken = [claim.text for claim in score.claims if not claim.holds]
    assert any("declared uncertainty" in text for text in broken)
    assert score.facts["within_uncertainty_percent"] < 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"duration": "0"}, "--set duration=0: must lie in 5 ms..2 h"),
        ({"duration": "3 h"}, "--set duration=3 h: must lie in 5 ms..2 h"),
        ({"delay": "slow"}, "--set delay=slow: unknown model; use one of mixed, exponential,"),
        ({"delay": "recorded"}, "the recording net_cicv5g is not there"),
        ({"loss": "2"}, "--set loss=2.0: must lie in 0..1"),
        ({"connections": "0"}, "--set connections=0: must lie in 1..64"),
        ({"seed": "-1"}, "seed: -1 is negative"),
    ],
)
def test_a_bad_option_is_the_users(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Soccer().make(tmp_path / "run", {"duration": "100 ms", **options}, tmp_path)
    assert said in str(error.value)


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
    assert made["log_sha256"].startswith("2b644fddc847")  # a change of it is meant


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
