"""The sums balance when they do, and are shown as off when a single count is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from slackwater.engine.apps.report.measure.conservation import measure_conservation


def measured(run: Any) -> dict[str, Any]:
    manifest = json.loads((run.directory / "manifest.json").read_text())
    passes = {}
    for each in run.passes:
        place = run.directory / "runs" / each.label
        passes[each.label] = (place, json.loads((place / "counters.json").read_text()))
    return measure_conservation(manifest, run.directory / "truth", passes)


def off(run: Any) -> dict[str, int]:
    """Equation -> by how much, of those that do not balance in the main pass or before it."""
    found = measured(run)
    wrong = [each for each in found["equations"] if not each["balanced"]]
    assert found["balanced"] == (not wrong)
    return {each["text"]: each["off"] for each in wrong if each["pass"] in (None, "sequence")}


def test_a_whole_run_balances(rich_run: Any) -> None:
    found = measured(rich_run)
    assert off(rich_run) == {}
    assert len(found["equations"]) == 6 + 2 * 7
    assert found["by"] == "source"
    assert found["before"]["total"]["generated"] == 600
    assert found["before"]["total"]["lost"] == found["before"]["total"]["never_logged"] == 30
    main = found["passes"]["sequence"]["total"]
    assert (main["arrived"], main["released"], main["missing"]) == (570, 570, 30)
    assert found["passes"]["sequence"]["sources"]["s1"]["released"] == 190


def lane(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
    def apply(run: Any) -> None:
        name = "runs/sequence/counters.json"
        run.change_json(name, lambda counters: change(counters["sites"]["main"]["lanes"][1]))

    return apply


def account(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
    def apply(run: Any) -> None:
        run.change_json("manifest.json", lambda made: change(made["events_by_source"]["s1"]))

    return apply


def drop_a_released_row(run: Any) -> None:
    path = run.directory / "runs" / "sequence" / "ordered" / "batch-000000000001-0.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def drop_a_true_row(run: Any) -> None:
    path = run.directory / "truth" / "events.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)


def swap(counts: dict[str, Any], here: str, there: str) -> None:
    counts[here] -= 1
    counts[there] += 1


SPLIT = (
    "arrived = in order + residual + late passed + late dropped + residual dropped + duplicates "
    "dropped + quarantined (future) + quarantined (jump)"
)
RELEASED = "released = in order + residual + late passed"


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (lane(lambda counts: counts.update(in_order=189)), {SPLIT: 1, RELEASED: 1}),
        (
            lane(lambda counts: swap(counts, "in_order", "late_dropped")),
            {
                RELEASED: 1,
                "dropped rows of the ordered stream = late dropped + residual dropped": -1,
            },
        ),
        (
            lane(lambda counts: counts.update(missing_filled=11)),
            {"filled late ≤ given up": 1},
        ),
        (
            lane(lambda counts: counts.update(missing_total=11)),
            {
                "missing ≤ never logged + duplicates dropped + quarantined (future) + quarantined "
                "(jump)": 1
            },
        ),
        (drop_a_released_row, {RELEASED: -1}),
        (drop_a_true_row, {"generated = rows of the truth": 1}),
        (
            account(lambda counts: swap(counts, "not_polled", "forgotten")),
            {},
        ),
        (
            account(lambda counts: counts.update(refused_by_agent={"full": 2})),
            {
                "generated + intervals made = numbered + refused by agent + forgotten + "
                "in intervals + not polled": -2
            },
        ),
        (
            account(lambda counts: counts["link_events"].update(copied=3)),
            {"sent + duplicated = came out + lost + cut off + queue full": 3},
        ),
        (
            account(lambda counts: counts.update(under_way=1)),
            {"came out = delivered + closed + under way": -1},
        ),
        (
            account(lambda counts: counts.update(known=1)),
            {"delivered = logged + already known + refused by gateway + unheard": -1},
        ),
        (
            account(lambda counts: swap(counts, "logged", "known")),
            {"numbered = logged + never logged": 1, "logged = arrived": -1},
        ),
    ],
)
def test_a_broken_count_is_seen(
    rich_run: Any, break_it: Callable[[Any], None], expected: dict[str, int]
) -> None:
    break_it(rich_run)
    assert off(rich_run) == expected


def test_an_error_that_cancels_out_in_total_is_seen(rich_run: Any) -> None:
    def change(counters: Any) -> None:
        lanes = counters["sites"]["main"]["lanes"]
        lanes[0]["in_order"] += 5
        lanes[1]["in_order"] -= 5

    rich_run.change_json("runs/sequence/counters.json", change)
    found = {each["text"]: each for each in measured(rich_run)["equations"] if each["wrong"]}
    assert found[SPLIT]["off"] == 0
    assert not found[SPLIT]["balanced"]
    assert found[SPLIT]["worst"] == [{"source": "s0", "off": -5}, {"source": "s1", "off": 5}]


def test_records_that_no_lane_counted_are_seen(rich_run: Any) -> None:
    def change(counters: Any) -> None:
        counters["sites"]["main"]["records"]["event"] += 1

    rich_run.change_json("runs/sequence/counters.json", change)
    assert off(rich_run) == {"event records read = arrived": 1}


def test_recordings_know_only_their_log(tmp_path: Path, rich_run: Any) -> None:
    run = type(rich_run)(tmp_path / "recording", truth=False, sites=("a", "b")).write()
    found = measured(run)
    assert found["by"] == "site/source"
    assert found["before"]["total"] == {}
    assert found["balanced"]
    assert {each["pass"] for each in found["equations"]} == {"sequence", "none"}
    assert sorted(found["passes"]["none"]["sources"]) == [
        f"{site}/{source}" for site in "ab" for source in ("s0", "s1", "s2")
    ]


def test_counts_of_the_manifest_may_be_by_site_and_source(rich_run: Any) -> None:
    def rename(manifest: Any) -> None:
        accounts = manifest["events_by_source"]
        manifest["events_by_source"] = {f"main/{name}": each for name, each in accounts.items()}

    rich_run.change_json("manifest.json", rename)
    found = measured(rich_run)
    assert found["by"] == "site/source"
    assert found["balanced"]
    assert found["before"]["sources"]["main/s0"]["truth_rows"] == 200


def test_a_recording_may_tell_what_it_logged(tmp_path: Path, rich_run: Any) -> None:
    run = type(rich_run)(tmp_path / "recording", truth=False).write()
    logged = {f"main/{source}": 190 for source in run.sources}
    run.change_json("manifest.json", lambda made: made.update(events_by_source=logged))
    found = measured(run)
    assert found["balanced"]
    assert found["before"]["total"] == {"logged": 570}
    logged["main/s2"] = 191
    run.change_json("manifest.json", lambda made: made.update(events_by_source=logged))
    assert off(run) == {"logged = arrived": 1}


def test_a_source_of_which_nothing_arrived_is_in_the_table(rich_run: Any) -> None:
    def change(manifest: Any) -> None:
        silent = dict.fromkeys(manifest["events_by_source"]["s0"], 0)
        silent |= {"refused_by_agent": {}, "link_events": {}, "link_messages": {}}
        manifest["events_by_source"]["mute"] = silent

    rich_run.change_json("manifest.json", change)
    found = measured(rich_run)
    assert found["balanced"]
    assert found["passes"]["sequence"]["sources"]["mute"]["arrived"] == 0
