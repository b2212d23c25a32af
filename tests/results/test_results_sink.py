"""Results on disk: DESIGN's fields exactly, batches that replace themselves, export in order."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.log import whole_file
from slackwater.engine.output.export import export_jsonl, export_table
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.result_kinds import partners
from slackwater.engine.output.schema import MATCHES, WINDOWS
from tests.results.written import write_results

US = 1000
EVENT = {"site": "main", "stream": "events", "source": "s1", "seq": 3, "type": "A", "ts": 5 * US,
         "te": 6 * US, "ref": 7 * US, "attrs": {"v": 1.5, "tag": "é", "n": 2**62}}  # fmt: skip


def match(site: str = "main", at: int = 9 * US, **changes: Any) -> dict[str, Any]:
    return {
        "op": "+", "query": "q", "site": site, "at": at, "known_at": 8 * US,
        "certainty": "confirmed", "probability": 1.0, "events": [EVENT, EVENT | {"seq": None}],
    } | changes  # fmt: skip


def window(site: str = "main", at: int = 20 * US, **changes: Any) -> dict[str, Any]:
    return {
        "op": "+", "query": "w", "site": site, "at": at,
        "window": {"start": 0, "end": 10 * US}, "key": {"sid": 4}, "value": {"avg(v)": 2.5},
        "low": {"avg(v)": 2.0}, "middle": {"avg(v)": 2.5}, "high": {"avg(v)": None},
        "certain": 3, "ambiguous": 1, "missing": 0,
    } | changes  # fmt: skip


def exported(directory: Path, unit: str = "ns", queries: tuple[str, ...] = ()) -> list[str]:
    out = io.StringIO()
    count = export_jsonl(directory, out, unit, queries)
    lines = out.getvalue().splitlines()
    assert len(lines) == count
    return lines


def test_design_results_have_its_fields_in_its_order(tmp_path: Path) -> None:
    write_results(PartStore(tmp_path), 0, [match(), window()])
    event = (
        '{"site": "main", "stream": "events", "source": "s1", "seq": %s, "type": "A", "ts": 5, '
        '"te": 6, "ref": 7, "attrs": {"v": 1.5, "tag": "é", "n": 4611686018427387904}}'
    )
    of_match = (
        '{"op": "+", "query": "q", "site": "main", "at": 9, "known_at": 8, '
        '"certainty": "confirmed", "probability": 1.0, "events": ['
    )
    of_window = (
        '{"op": "+", "query": "w", "site": "main", "at": 20, "window": {"start": 0, "end": 10}, '
        '"key": {"sid": 4}, "value": {"avg(v)": 2.5}, "low": {"avg(v)": 2.0}, '
        '"middle": {"avg(v)": 2.5}, "high": {"avg(v)": null}, "certain": 3, "ambiguous": 1, '
        '"missing": 0}'
    )
    assert exported(tmp_path, "us") == [
        of_match + event % "3" + ", " + event % "null" + "]}",
        of_window,
    ]


def test_matches_and_windows_are_columns_in_folders_of_their_own(tmp_path: Path) -> None:
    write_results(
        PartStore(tmp_path), 7, [match(), window(bounds={"avg(v)": [1, 2]}, drift="high")]
    )
    (matches,) = (tmp_path / "matches").iterdir()
    assert matches.name == "batch-000000000007-0.parquet"
    (row,) = pq.read_table(matches).to_pylist()
    event = {**EVENT, "attrs": json.dumps(EVENT["attrs"], ensure_ascii=False), "more": None}
    assert row == match() | {
        "position": 0, "events": [event, event | {"seq": None}], "value": None,
        "more": None,
    }  # fmt: skip
    (row,) = pq.read_table(tmp_path / "windows").to_pylist()
    assert row == window() | {
        "position": 1, "key": '{"sid": 4}', "value": '{"avg(v)": 2.5}', "low": '{"avg(v)": 2.0}',
        "middle": '{"avg(v)": 2.5}', "high": '{"avg(v)": null}',
        "drift": "high",  # R19's flag
        "certainty": None,
        "bounds": '{"avg(v)": [1, 2]}', "more": None,
    }  # fmt: skip


def test_what_an_operator_says_beyond_design_is_kept(tmp_path: Path) -> None:
    results = [
        match(query="w", reason={"x": [1]}, events=[EVENT | {"alias": "a"}]),
        window(bounds={"avg(v)": [1, 2]}, drift="low", note="n", low=None, certain=None),
    ]
    write_results(PartStore(tmp_path), 0, results)
    assert [json.loads(line) for line in exported(tmp_path)] == results


def test_numpy_numbers_are_numbers_and_times_are_exact(tmp_path: Path) -> None:
    value = {"a": np.int64(3), "b": np.float64(0.5), "c": np.bool_(True)}
    write_results(
        PartStore(tmp_path), 0, [window(value=value, at=np.int64(4), certain=np.int64(2))]
    )
    (line,) = exported(tmp_path)
    assert json.loads(line)["value"] == {"a": 3, "b": 0.5, "c": True}
    write_results(PartStore(tmp_path), 0, [match(at=1999, known_at=-1)])
    (line,) = exported(tmp_path, "us")
    assert (json.loads(line)["at"], json.loads(line)["known_at"]) == (1.999, -0.001)


def test_a_batch_written_again_replaces_itself(tmp_path: Path) -> None:
    store = PartStore(tmp_path)
    write_results(store, 0, [match(at=1)])
    write_results(store, 1, [match(at=2), window(at=3)])
    write_results(store, 1, [match(at=4)])
    write_results(store, 1, [match(at=4)])
    assert [json.loads(line)["at"] for line in exported(tmp_path)] == [1, 4]
    write_results(store, 0, [])
    assert [json.loads(line)["at"] for line in exported(tmp_path)] == [4]
    assert list((tmp_path / "windows").iterdir()) == []


def test_a_crash_while_writing_leaves_the_old_batch_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PartStore(tmp_path)
    write_results(store, 0, [match(at=1)])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(whole_file.os, "fsync", crash)
        with pytest.raises(KeyboardInterrupt):
            write_results(store, 0, [match(at=2)])
        with pytest.raises(KeyboardInterrupt):
            write_results(store, 1, [match(at=3)])
    assert [json.loads(line)["at"] for line in exported(tmp_path)] == [1]
    write_results(PartStore(tmp_path), 0, [match(at=2)])
    write_results(PartStore(tmp_path), 1, [match(at=3)])
    assert [json.loads(line)["at"] for line in exported(tmp_path)] == [2, 3]


SITE_RESULTS = st.tuples(st.sampled_from("abé"), st.booleans(), st.sampled_from("xyz"))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.lists(SITE_RESULTS, max_size=6),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_the_export_goes_by_site_then_query_then_order_of_emission(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, bool, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("order")
    store = PartStore(folder)
    number = 0
    want: dict[tuple[str, str], list[int]] = {}
    for batch_id, batch in enumerate(batches):
        results = []
        for site, is_match, query in batch:
            make = match if is_match else window
            results.append(make(site, number, query=query))
            want.setdefault((site, query), []).append(number)
            number += 1
        write_results(store, batch_id, results)
    # Query y is asked for first; x and z follow by name, and none is left out.
    found = [json.loads(line)["at"] for line in exported(folder, "ns", ("y", "none"))]
    places = sorted(want, key=lambda place: (place[0], place[1] != "y", place[1]))
    assert found == [at for place in places for at in want[place]]


def test_results_to_a_file_and_to_one_parquet(tmp_path: Path) -> None:
    write_results(PartStore(tmp_path / "r"), 0, [match("b", 2), match("a", 1)])
    write_results(PartStore(tmp_path / "r"), 1, [match("a", 3)])
    assert export_jsonl(tmp_path / "r", tmp_path / "out.jsonl") == 3
    assert (tmp_path / "out.jsonl").read_text().splitlines() == exported(tmp_path / "r")
    assert export_table(tmp_path / "r", tmp_path / "out.parquet", MATCHES) == 3
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column("at").to_pylist() == [1, 3, 2]
    assert "position" not in table.column_names
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "out.parquet", "r"]


def test_windows_in_parquet_have_typed_keys_values_and_bounds(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "r")
    made = [
        window("a", key={"tag": "2026-11-22", "sid": 4}, value={"n": 2, "avg(v)": None}),
        window("a", key={"tag": None, "sid": None}, value={"n": 3, "avg(v)": 2},
               bounds={"n": [1, 3], "avg(v)": [1, 2.5]}),
        window("b", key={"tag": "x", "sid": 2**62}, value={"n": 2**62, "avg(v)": 0.5}, low=None),
    ]  # fmt: skip
    write_results(store, 0, made[:1])
    write_results(store, 1, made[1:])
    assert export_table(tmp_path / "r", tmp_path / "w.parquet", WINDOWS) == 3
    table = pq.read_table(tmp_path / "w.parquet")
    types = {name: str(table.schema.field(name).type) for name in ("key", "value", "bounds")}
    assert types == {
        "key": "struct<tag: string, sid: int64>",
        "value": "struct<n: int64, avg(v): double>",
        "bounds": "struct<n: list<element: int64>, avg(v): list<element: double>>",
    }
    for name in ("key", "value", "low", "bounds"):
        assert table[name].to_pylist() == [each.get(name) for each in made], name


def test_windows_without_keys_have_no_column_of_them(tmp_path: Path) -> None:
    write_results(PartStore(tmp_path / "r"), 0, [window(key={}, high={"avg(v)": None})])
    assert export_table(tmp_path / "r", tmp_path / "w.parquet", WINDOWS) == 1
    table = pq.read_table(tmp_path / "w.parquet")
    assert "key" not in table.column_names
    assert table["value"].to_pylist() == [{"avg(v)": 2.5}]
    assert str(table.schema.field("high").type) == "struct<avg(v): double>"


def test_values_that_are_text_here_and_numbers_there_are_refused(tmp_path: Path) -> None:
    write_results(
        PartStore(tmp_path / "r"), 0, [window("a", key={"k": "x"}), window("b", key={"k": 1})]
    )
    with pytest.raises(UserError, match=r"cannot hold key of all windows.*write JSONL"):
        export_table(tmp_path / "r", tmp_path / "w.parquet", WINDOWS)


@pytest.mark.parametrize(("kind", "own"), [(MATCHES, "events"), (WINDOWS, "window")])
def test_a_parquet_of_no_results_has_its_columns(kind: str, own: str, tmp_path: Path) -> None:
    write_results(PartStore(tmp_path / "r"), 0, [])
    assert export_table(tmp_path / "r", tmp_path / "none.parquet", kind) == 0
    table = pq.read_table(tmp_path / "none.parquet")
    assert table.num_rows == 0
    assert {"op", "query", "site", "at", own} < set(table.column_names)
    assert "position" not in table.column_names


def test_exports_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder of results"):
        export_jsonl(tmp_path / "none", io.StringIO())
    write_results(PartStore(tmp_path / "r"), 0, [])
    assert exported(tmp_path / "r") == []
    with pytest.raises(UserError, match="cannot be written: No such file"):
        export_table(tmp_path / "r", tmp_path / "no" / "x.parquet", MATCHES)
    write_results(PartStore(tmp_path / "r"), 0, [match(), window()])
    with pytest.raises(UserError, match="holds windows, which a table of matches cannot say"):
        export_table(tmp_path / "r", tmp_path / "x.parquet", MATCHES)
    with pytest.raises(UserError, match="cannot be written: No such file"):
        export_jsonl(tmp_path / "r", tmp_path / "no" / "x.jsonl")
    with pytest.raises(UserError, match="unknown time unit"):
        export_jsonl(tmp_path / "r", io.StringIO(), "fortnight")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="results cannot be written"):
        write_results(PartStore(tmp_path / "file"), 0, [match()])
    (tmp_path / "r" / "matches" / "other.parquet").write_bytes(b"")
    with pytest.raises(UserError, match=r"other\.parquet: not a file of results"):
        export_jsonl(tmp_path / "r", io.StringIO())
    (tmp_path / "r" / "matches" / "other.parquet").unlink()
    (tmp_path / "r" / "matches" / "batch-000000000003-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"batch-000000000003-0\.parquet: damaged file"):
        export_jsonl(tmp_path / "r", io.StringIO())


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"op": "+"}, r"a result has one of events, window, alert, item, not \['op'\]"),
        (match() | window(), "a result has one of events, window, alert, item, not"),
        (window(value={"a": float("nan")}), "Out of range float values are not JSON compliant"),
        (window(value={"a": object()}), "object is no JSON value"),
        (window(certain="x"), "a result does not fit its fields"),
        (window(at=2**63), "a result does not fit its fields"),
    ],
)
def test_results_of_another_shape_are_bugs(
    result: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ContractViolation, match=said):
        write_results(PartStore(tmp_path), 0, [result])


SIGNS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)


def taken_back_by_hand(rows: list[tuple[int, bool]]) -> list[int]:
    standing = dict[int, list[int]]()
    found = [-1] * len(rows)
    for place, (content, plus) in enumerate(rows):
        if plus:
            standing.setdefault(content, []).append(place)
        elif standing.get(content):
            found[place] = standing[content].pop(0)
    return found


@given(SIGNS)
@example([(0, False), (0, True), (0, False)])
@example([(0, True), (0, True), (0, False), (0, False), (0, False), (0, True), (0, False)])
def test_each_takes_the_first_that_stands(rows: list[tuple[int, bool]]) -> None:
    content = np.array([content for content, _ in rows], np.int64)
    plus = np.array([plus for _, plus in rows], np.bool_)
    assert partners(content, plus).tolist() == taken_back_by_hand(rows)
    two = np.column_stack([content // 2, content % 2])
    assert partners(two, plus).tolist() == taken_back_by_hand(rows)
