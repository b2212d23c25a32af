"""The score sees what is wrong: results made by hand against a truth made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.output.schema import MATCH_SCHEMA, WINDOW_SCHEMA
from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.goal_scoring import goal_score
from slackwater.scenarios.soccer.goal_truth import true_pairs
from slackwater.scenarios.soccer.pitch import SECOND, WITHIN_NS
from slackwater.scenarios.soccer.window_scoring import window_score

EVENTS = [
    # source, seq, true_ts, sid, v, kick, goal
    ("home-1", 0, 10 * SECOND, 13, 100, True, False),
    ("ball", 0, 10 * SECOND + 3, 4, 300, False, True),
    ("home-1", 1, 12 * SECOND, 13, 200, True, False),
    ("ball", 1, 12 * SECOND - 5, 4, 500, False, True),
    ("home-1", 2, 14 * SECOND, 13, 100, True, False),
    ("ball", 2, 14 * SECOND + WITHIN_NS, 4, 300, False, True),
    ("home-1", 3, 16 * SECOND, 13, 100, True, False),
    ("ball", 3, 16 * SECOND + WITHIN_NS + 1, 4, 300, False, True),
]
FIRST, BACKWARDS, EDGE, TOO_LATE = ((("home-1", n), ("ball", n)) for n in range(4))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    names = ("source", "seq", "true_ts", "truth.sid", "truth.v", "truth.kick", "truth.goal")
    columns = dict(zip(names, zip(*EVENTS, strict=True), strict=True))
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = table.append_column("incarnation", pa.array([0] * len(EVENTS)))
    (tmp_path / "truth").mkdir()
    pq.write_table(table, tmp_path / "truth" / "events.parquet")
    plan = [
        {"kind": "shot", "kick_sid": 13, "kick_ns": EVENTS[at][2], "stop_ns": EVENTS[at + 1][2],
         "scored": True, "is_match": True}
        for at in range(0, len(EVENTS), 2)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(plan), tmp_path / "truth" / "incidents.parquet")
    return tmp_path


def match(pair: Any, certainty: str, op: str = "+") -> dict[str, Any]:
    events = [
        {"site": "main", "stream": "soccer", "source": source, "seq": seq} for source, seq in pair
    ]
    return {"op": op, "query": "goals", "site": "main", "at": 99 * SECOND, "certainty": certainty,
            "probability": 0.5, "events": events}  # fmt: skip


def write(directory: Path, folder: str, *batches: list[dict[str, Any]]) -> None:
    place = directory / "runs" / "sequence" / folder
    place.mkdir(parents=True, exist_ok=True)
    schema = MATCH_SCHEMA if folder == "matches" else WINDOW_SCHEMA
    for number, rows in enumerate(batches):
        table = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(table, place / f"batch-{number:012d}-0.parquet")


def goals(directory: Path, *results: dict[str, Any], lost: tuple[int, ...] = ()) -> Any:
    write(directory, "matches", list(results))
    truth = EventTruth.read(directory)
    logged = np.ones(len(truth), np.bool_)
    logged[list(lost)] = False
    return goal_score(directory, "sequence", truth, logged)


def holds(score: Any) -> list[bool]:
    return [claim.holds for claim in score.claims]


def test_true_pairs_golden(directory: Path) -> None:
    """SPEC 4.1: strictly later, and last - first <= W."""
    truth = EventTruth.read(directory)
    assert true_pairs(truth) == ((0, 1), (4, 5))


def test_all_goals_reported(directory: Path) -> None:
    score = goals(directory, match(FIRST, "uncertain"), match(EDGE, "confirmed"))
    assert holds(score) == [True, True]
    assert [row[5] for row in score.tables[0].rows] == ["uncertain", "", "confirmed", ""]
    assert [row[4] for row in score.tables[0].rows] == ["yes", "no", "yes", "no"]
    assert [each["at_ref_ns"] for each in score.facts["true_matches"]] == [
        10 * SECOND + 3, 15 * SECOND,
    ]  # fmt: skip


def test_an_overlooked_goal_is_seen(directory: Path) -> None:
    score = goals(directory, match(FIRST, "confirmed"))
    assert holds(score) == [False, True]
    assert score.facts["goals_overlooked"] == 1


def test_a_retracted_goal_is_overlooked(directory: Path) -> None:
    said = [match(FIRST, "confirmed"), match(EDGE, "confirmed"), match(EDGE, "confirmed", "-")]
    assert holds(goals(directory, *said)) == [False, True]


def test_a_goal_that_the_network_lost_is_not_the_engines(directory: Path) -> None:
    score = goals(directory, match(FIRST, "confirmed"), lost=(5,))
    assert holds(score) == [True, True]
    assert (score.facts["goals"], score.facts["goals_reached"]) == (2, 1)
    assert score.tables[0].rows[2][5] == "lost by the network"


@pytest.mark.parametrize("pair", [BACKWARDS, TOO_LATE])
def test_a_false_goal_may_be_uncertain_but_not_confirmed(directory: Path, pair: Any) -> None:
    right = [match(FIRST, "confirmed"), match(EDGE, "confirmed")]
    assert holds(goals(directory, *right, match(pair, "uncertain"))) == [True, True]
    score = goals(directory, *right, match(pair, "confirmed"))
    assert holds(score) == [True, False]
    assert score.facts["goals_confirmed_false"] == 1


def window(query: str, start: int, key: Any, value: Any, bounds: Any, op: str = "+") -> Any:
    made = {"op": op, "query": query, "site": "main", "at": 99 * SECOND,
            "window": {"start": start, "end": start + SECOND}, "certain": 1, "ambiguous": 0,
            "missing": 0}  # fmt: skip
    texts = {"key": key, "value": value, "bounds": bounds}
    return made | {name: json.dumps(each) for name, each in texts.items()}


def right_windows(directory: Path) -> list[Any]:
    """What the queries answer if all is well, from a loop over the events."""
    made = []
    sizes = {"plain": 10, "velocity": 10, "ball": 1}
    for query, seconds in sizes.items():
        groups: dict[int, list[int]] = {}
        for _, _, at, sid, v, _, _ in EVENTS:
            if query != "ball" or sid == 4:
                groups.setdefault(at - at % (seconds * SECOND), []).append(v)
        for start, speeds in groups.items():
            value = {"avg(v)": sum(speeds) / len(speeds), "max(v)": max(speeds),
                     "count(*)": len(speeds)}  # fmt: skip
            key = {"sid": 4} if query == "ball" else {}
            bounds = {label: [each, each] for label, each in value.items()}
            made.append(window(query, start, key, value, bounds))
    return made


def windows(directory: Path, *batches: list[Any]) -> Any:
    write(directory, "windows", *batches)
    truth = EventTruth.read(directory)
    return window_score(directory, "sequence", truth, np.ones(len(truth), np.bool_))


def test_right_windows_hold(directory: Path) -> None:
    score = windows(directory, right_windows(directory))
    assert holds(score) == [True]
    assert score.facts["window_truths"] == 1 + 2 + 4 * 3
    assert score.facts["speed_error_one_window"] == 0
    assert score.facts["windows_truth"]["ball"][0] == {
        "start": 10 * SECOND, "key": {"sid": 4},
        "value": {"avg(v)": 300.0, "max(v)": 300, "count(*)": 1},
    }  # fmt: skip


def test_a_truth_outside_its_bounds_is_seen(directory: Path) -> None:
    right = right_windows(directory)
    wrong = [{**right[0], "bounds": json.dumps({"avg(v)": [0, 237.49]})}, *right[1:]]
    score = windows(directory, wrong)
    assert holds(score) == [False]
    assert score.facts["window_truths_outside"] == 1
    assert "plain: avg(v) of the window at 10000000000 ns" in score.claims[0].detail


def test_a_window_without_an_answer_is_seen(directory: Path) -> None:
    score = windows(directory, right_windows(directory)[:-1])
    assert score.facts["window_truths_outside"] == 3


def test_the_correction_counts(directory: Path) -> None:
    right = right_windows(directory)
    early = window("plain", 10 * SECOND, {}, {"avg(v)": 1.0}, {"avg(v)": [1, 1]})
    late = [{**early, "op": "-"}, right[0]]
    assert holds(windows(directory, [early, *right[1:]], late)) == [True]
