"""The report's measures against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.apps.report.measure.events import (
    FLOOR_NS,
    SLICES,
    axis_floor,
    disorder,
    distribution,
    inversions,
    measure_clock_error,
    measure_disorder,
    measure_holds,
    ordered_rows,
    quantiles,
    read_rows,
)
from slackwater.engine.core.errors import ContractViolation

MS = 10**6
SECOND = 10**9
START_NS = 1_767_225_600 * SECOND


def brute_disorder(site: list[int], times: list[int], arrival: list[int]) -> tuple[int, int, Any]:
    """By the definition of SPEC 1, pair by pair."""
    out, pairs, lateness = 0, 0, []
    for i, time in enumerate(times):
        before = [
            times[j]
            for j in range(len(times))
            if site[j] == site[i] and arrival[j] < arrival[i] and times[j] > time
        ]
        pairs += len(before)
        if before:
            out += 1
            lateness.append(max(before) - time)
    return out, pairs, sorted(lateness)


# --- disorder


def test_spec_1_one_event_moved_to_the_front_disorders_all_others() -> None:
    found = disorder(np.zeros(5, np.int32), np.array([9, 1, 2, 3, 4]), None).plain()
    assert (found["out_of_order"], found["inversions"]) == (4, 4)
    found = disorder(np.zeros(5, np.int32), np.array([1, 2, 3, 4, 0]), None).plain()
    assert (found["out_of_order"], found["inversions"], found["lateness_ns"]["max"]) == (1, 4, 4)


@pytest.mark.parametrize("n", range(8))
def test_all_orders_of_few_events(n: int) -> None:
    for order in itertools.permutations(range(n)):
        times = np.array(order, np.int64)
        found = disorder(np.zeros(n, np.int32), times, None)
        expected = brute_disorder([0] * n, list(order), list(range(n)))
        assert (found.lateness.size, found.inversions, found.lateness.tolist()) == expected
        assert times.tolist() == list(order), "left as it was"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 6)), max_size=40))
def test_disorder_with_sites_and_equal_times(rows: list[tuple[int, int, int]]) -> None:
    site, times, arrival = ([row[place] for row in rows] for place in range(3))
    found = disorder(
        np.array(site, np.int32), np.array(times, np.int64), np.array(arrival, np.int64)
    )
    assert (found.lateness.size, found.inversions, found.lateness.tolist()) == brute_disorder(
        site, times, arrival
    )


def test_inversions_of_a_million_falling_times() -> None:
    n = 1_000_000
    assert inversions(np.arange(n)[::-1].copy()) == n * (n - 1) // 2


def test_disorder_of_a_run(rich_run: Any) -> None:
    places = {each.label: rich_run.directory / "runs" / each.label for each in rich_run.passes}
    found = measure_disorder(places)
    rows = ordered_rows(places["none"], ("ts", "ref", "arrival"))
    for name in ("ts", "ref"):
        out, pairs, lateness = brute_disorder(
            [0] * len(rows), rows[name].tolist(), rows["arrival"].tolist()
        )
        arrived = found[f"arrived_{name}"]
        assert (arrived["out_of_order"], arrived["inversions"]) == (out, pairs)
        assert arrived["lateness_ns"]["max"] == lateness[-1]
        assert out > 50
    assert found["released"]["sequence"]["out_of_order"] == 0
    assert found["released"]["none"]["out_of_order"] == found["arrived_ref"]["out_of_order"]


def test_a_pass_without_order_knows_the_order_within_an_instant(tmp_path: Path) -> None:
    for label, times in (("sequence", [1, 2, 3]), ("none", [1, 3, 2])):
        (tmp_path / label / "ordered").mkdir(parents=True)
        table = pa.table(
            {"site": ["m"] * 3, "ts": times, "ref": times, "arrival": [5, 7, 7],
             "status": pa.array([0] * 3, pa.int8())}
        )  # fmt: skip
        pq.write_table(table, tmp_path / label / "ordered" / "a.parquet")
    places = {label: tmp_path / label for label in ("sequence", "none")}
    assert measure_disorder(places)["arrived_ref"]["out_of_order"] == 0
    assert measure_disorder(places, "none")["arrived_ref"]["out_of_order"] == 1


def test_dropped_events_are_before_but_not_after(tmp_path: Path) -> None:
    (tmp_path / "ordered").mkdir()
    table = pa.table(
        {
            "site": ["m"] * 3, "ts": [1, 3, 2], "ref": [1, 3, 2], "arrival": [1, 2, 3],
            "release": [1, 2, 3], "status": pa.array([0, 0, 3], pa.int8()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "ordered" / "a.parquet")
    found = measure_disorder({"main": tmp_path})
    assert found["arrived_ref"]["out_of_order"] == 1
    assert found["released"]["main"]["out_of_order"] == 0
    assert found["released"]["main"]["events"] == 2


def test_late_events_are_told_from_those_in_time(tmp_path: Path) -> None:
    (tmp_path / "ordered").mkdir()
    table = pa.table(
        {
            "site": ["m"] * 6, "ts": [1] * 6, "ref": [1, 5, 2, 9, 7, 8], "arrival": [1] * 6,
            "status": pa.array([0, 0, 2, 0, 1, 2], pa.int8()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "ordered" / "a.parquet")
    found = measure_disorder({"main": tmp_path})["released"]["main"]
    assert found["out_of_order"] == 3
    assert (found["late"], found["residual"], found["in_time_out_of_order"]) == (2, 1, 0)


# --- quantiles and holds


@given(st.lists(st.integers(-5, 10**12), min_size=1, max_size=300))
def test_quantiles_by_counting(values: list[int]) -> None:
    ascending = sorted(values)
    found = quantiles(np.array(ascending))
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
        enough = math.ceil(round(share * len(values), 6))
        assert found[name] == next(
            value for value in ascending if sum(other <= value for other in values) >= enough
        )
    assert found["max"] == max(values)


def test_quantiles_of_nothing_are_unknown() -> None:
    assert set(quantiles(np.empty(0, np.int64)).values()) == {None}


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=100))
def test_distribution_counts_every_value_in_the_end(values: list[int]) -> None:
    ascending = np.sort(np.array(values))
    floor = axis_floor(ascending)
    places, below = distribution(ascending, floor)
    assert places[0] == floor >= FLOOR_NS
    assert below[-1] == len(values)
    for place, count in zip(places.tolist(), below.tolist(), strict=True):
        assert count == sum(value <= place for value in values)


def test_holds_of_a_run(rich_run: Any) -> None:
    place = rich_run.directory / "runs" / "sequence"
    found = measure_holds(place)
    rows = ordered_rows(place, ("arrival", "release"))
    pairs = zip(rows["release"].tolist(), rows["arrival"].tolist(), strict=True)
    holds = sorted(release - arrival for release, arrival in pairs)
    assert found["hold_ns"]["max"] == holds[-1] > 0
    assert found["hold_ns"]["p50"] == holds[math.ceil(len(holds) / 2) - 1]
    assert found["at_once"] == holds.count(0)
    assert found["hold_ns"]["mean"] == round(sum(holds) / len(holds))
    assert found["curve"]["share"][-1] == 1
    assert measure_holds(rich_run.directory / "runs" / "none")["hold_ns"]["max"] == 0


def test_a_release_before_the_arrival_is_a_bug(tmp_path: Path) -> None:
    (tmp_path / "ordered").mkdir()
    table = pa.table({"arrival": [5], "release": [4], "status": pa.array([0], pa.int8())})
    pq.write_table(table, tmp_path / "ordered" / "a.parquet")
    with pytest.raises(ContractViolation, match="released 1 ns before"):
        measure_holds(tmp_path)


# --- clock error


def brute_clock(directory: Path, truth: Path, engine: Callable[[int], int]) -> dict[str, Any]:
    true = {
        (row["site"], row["source"], row["stream"], row["incarnation"], row["seq"]): row["true_ts"]
        for row in pq.read_table(truth / "events.parquet").to_pylist()
    }
    found: dict[str, list[tuple[int, int]]] = {}
    for path in sorted((directory / "ordered").iterdir()):
        for row in pq.read_table(path).to_pylist():
            key = tuple(row[n] for n in ("site", "source", "stream", "incarnation", "seq"))
            if key in true:
                error = row["ref"] - engine(true[key])
                found.setdefault(f"{row['site']}/{row['source']}", []).append((error, row["unc"]))
    return {
        name: {
            "with_truth": len(errors),
            "inside": sum(abs(error) <= unc for error, unc in errors),
            "max": max(abs(error) for error, _ in errors),
        }
        for name, errors in found.items()
    }


def summary(measured: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"with_truth": s["with_truth"], "inside": s["inside"], "max": s["error_ns"]["max"]}
        for name, s in measured["sources"].items()
    }


def test_clock_error_of_a_run(rich_run: Any) -> None:
    rich_run.directory = rich_run.directory.with_name("two-sites")
    rich_run.sites, rich_run.unc_ns = ("main", "other"), MS
    rich_run.write()
    place, truth = rich_run.directory / "runs" / "sequence", rich_run.directory / "truth"
    found = measure_clock_error(place, truth)
    assert summary(found) == brute_clock(place, truth, lambda ns: ns)
    assert 0 < found["inside"] < found["with_truth"] == found["events"], "some inside, some not"


def test_an_engine_clock_in_error_is_what_events_are_measured_against(rich_run: Any) -> None:
    place, truth = rich_run.directory / "runs" / "sequence", rich_run.directory / "truth"
    true_ns = np.array([START_NS, START_NS + 10 * SECOND])
    # 1 ms ahead and gaining 1 ms/s.
    table = pa.table({"true_ns": true_ns, "engine_ns": true_ns + np.array([MS, 11 * MS])})
    pq.write_table(pa.concat_tables([table, table]), truth / "clocks.parquet")
    found = measure_clock_error(place, truth)
    expected = brute_clock(place, truth, lambda ns: ns + MS + round((ns - START_NS) / 1000))
    assert summary(found) == expected


def test_truth_by_incarnation_and_events_without_truth(tmp_path: Path) -> None:
    (tmp_path / "ordered").mkdir()
    (tmp_path / "truth").mkdir()
    names = {"site": "m", "source": "a", "stream": "e"}
    rows = [
        # incarnation, seq, ref
        (5, 0, 100), (5, 1, 200), (9, 0, 300), (9, 7, 400), (7, 0, 500), (9, -1, 600),
    ]  # fmt: skip
    ordered = [names | {"incarnation": i, "seq": s, "ref": r, "unc": 3} for i, s, r in rows]
    truth = [
        names | {"incarnation": i, "seq": s, "true_ts": t}
        for i, s, t in [(9, 0, 304), (5, 1, 198), (5, 0, 100), (None, None, 1)]
    ]
    schema = pa.schema([(n, pa.string()) for n in names]).append(
        pa.field("incarnation", pa.int64())
    )
    schema = schema.append(pa.field("seq", pa.int64())).append(pa.field("true_ts", pa.int64()))
    pq.write_table(pa.Table.from_pylist(ordered), tmp_path / "ordered" / "a.parquet")
    pq.write_table(
        pa.Table.from_pylist(truth, schema=schema), tmp_path / "truth" / "events.parquet"
    )
    found = measure_clock_error(tmp_path, tmp_path / "truth")["sources"]["m/a"]
    assert (found["events"], found["with_truth"], found["inside"]) == (6, 3, 2)
    assert found["series"] == {
        "at_ns": [100, 198, 304], "error_ns": [0, 2, -4], "bound_ns": [3, 3, 3],
    }  # fmt: skip
    assert found["error_ns"]["median"] == 0


def test_a_device_has_a_row_of_its_own_and_a_slow_clock_shows(tmp_path: Path) -> None:
    (tmp_path / "ordered").mkdir()
    names = {"site": "m", "source": "a", "stream": "e"}
    rows = [
        # clock, ref, unc, arrival
        (None, 100, 3, 110), ("a/mon#1", 200, 5, 260), ("a/mon#2.1", 300, 9, 349),
        ("a/in/arrival.1", 400, 2, 401), ("a/in/arrival.2", 500, 2, 501), (None, 600, 0, 606),
    ]  # fmt: skip
    ordered = [
        names | {"clock": clock, "ref": ref, "unc": unc, "arrival": arrival}
        for clock, ref, unc, arrival in rows
    ]
    for part, some in enumerate((ordered[:1], ordered[1:])):
        columns = [{n: v for n, v in row.items() if part or n != "clock"} for row in some]
        table = pa.Table.from_pylist(columns)
        pq.write_table(table, tmp_path / "ordered" / f"{part}.parquet")
    found = measure_clock_error(tmp_path, Path("/no/truth/here"), arrival_given=True)
    assert {name: (each["events"], each["lag_ns"]) for name, each in found["sources"].items()} == {
        "m/a": (2, 6), "m/a/mon": (2, 40), "m/a/in": (2, -1)
    }  # fmt: skip
    assert found["sources"]["m/a/mon"]["bound_ns"]["max"] == 9
    found = measure_clock_error(tmp_path, Path("/no/truth/here"))
    assert "lag_ns" not in found["sources"]["m/a"]


def test_the_picture_keeps_the_extremes(rich_run: Any) -> None:
    rich_run.directory = rich_run.directory.with_name("long")
    rich_run.events, rich_run.sources = 20_000, ("s0",)
    rich_run.write()
    place, truth = rich_run.directory / "runs" / "sequence", rich_run.directory / "truth"
    source = measure_clock_error(place, truth)["sources"]["main/s0"]
    errors = source["series"]["error_ns"]
    assert SLICES < len(errors) <= 2 * SLICES
    assert max(abs(error) for error in errors) == source["error_ns"]["max"]
    assert source["series"]["at_ns"] == sorted(source["series"]["at_ns"])


def test_without_truth_only_the_bounds_are_reported(rich_run: Any) -> None:
    found = measure_clock_error(rich_run.directory / "runs" / "none", Path("/no/truth/here"))
    assert not found["known"]
    assert found["with_truth"] == 0
    assert set(found["sources"]["main/s0"]) == {"events", "bound_ns"}
    assert found["sources"]["main/s0"]["bound_ns"]["p50"] == rich_run.unc_ns


# --- rows


def test_texts_of_several_files_share_codes_and_nulls_are_told_apart(tmp_path: Path) -> None:
    coded = pa.array(["b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"source": coded, "seq": [1, None]}), tmp_path / "1.parquet")
    plain = pa.table({"source": pa.array(["a", None, "c"]), "seq": [3, 4, 5]})
    pq.write_table(plain, tmp_path / "2.parquet")
    rows = read_rows([tmp_path / "1.parquet", tmp_path / "2.parquet"], ("source", "seq"))
    assert [rows.text("source", int(code)) for code in rows["source"]] == [
        "b", "a", "a", "(none)", "c",
    ]  # fmt: skip
    assert rows["seq"].tolist() == [1, -1, 3, 4, 5]
    groups = {names: mine.tolist() for names, mine in rows.groups("source")}
    assert groups == {("(none)",): [3], ("b",): [0], ("a",): [1, 2], ("c",): [4]}


def test_a_file_without_a_promised_column_is_a_bug(tmp_path: Path) -> None:
    pq.write_table(pa.table({"seq": [1]}), tmp_path / "1.parquet")
    with pytest.raises(ContractViolation, match=r"1\.parquet: lacks the columns ref, unc"):
        read_rows([tmp_path / "1.parquet"], ("seq", "unc", "ref"))
