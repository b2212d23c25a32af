"""Tables of results of an input with dates: times are timestamps, computed ones durations too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.engine.query import query
from slackwater.engine.query.fields import TimeValue
from slackwater.engine.query.results_as_events import time_values

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
READINGS = {
    "ts": [f"2026-03-01T10:00:{second:02}Z" for second in (0, 10, 30, 45)],
    "type": ["A", "B", "A", "B"], "seq": [0, 1, 2, 3], "v": [1, 2, 3, 4],
}  # fmt: skip
INSTANT, SPAN = pa.timestamp("ns", "UTC"), pa.duration("ns")
WINDOW = (
    "SELECT max(ts) AS last, avg(ts) AS mean, max(ts) - min(ts) AS gap, avg(v) AS v, "
    "count(ts) AS n, stddev(ts) AS s, sum(te - ts) AS long WINDOW TUMBLING 1 min"
)
PATTERN = (
    "EVENT SEQ(A a, B b) WITHIN 20 s RETURN b.ts - a.ts AS gap, a.ts + 1 s AS due, b.v * 2 AS v"
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("ts", TimeValue.INSTANT), ("ts + 5 s", TimeValue.INSTANT), ("ts - raw_ts", TimeValue.SPAN),
        ("te - ts + 3 s", TimeValue.SPAN), ("(te - ts) * 2", TimeValue.SPAN),
        ("(te - ts) / 2", TimeValue.SPAN), ("(te - ts) / (ts - raw_ts)", None), ("ts * 2", None),
        ("abs(te - ts)", TimeValue.SPAN), ("least(ts, raw_ts)", TimeValue.INSTANT),
        ("coalesce(ts, v)", None), ("ts % 10 s", TimeValue.SPAN), ("hour(raw_ts)", None),
        ("CASE WHEN v > 1 THEN ts ELSE te END", TimeValue.INSTANT), ("v", None), ("ts + te", None),
    ],
)  # fmt: skip
def test_the_language_knows_what_is_a_time(value: str, kind: TimeValue | None) -> None:
    assert time_values([query(f"SELECT {value} AS x")]).get("x") is kind


def test_a_name_that_is_a_time_in_one_query_alone_is_a_number() -> None:
    plans = [query("SELECT ts AS x, te AS y"), query("SELECT v AS x", name="q2")]
    assert time_values(plans) == {"y": TimeValue.INSTANT}


def test_aggregates_of_times_are_typed() -> None:
    with slackwater.query(READINGS, WINDOW, clock="exact") as found:
        table = found.to_arrow()
        (row,) = table.to_pylist()
        (line,) = found
        frame = found.to_pandas(flat=True)
    assert table.schema.field("window").type.field("start").type == INSTANT
    kinds = {field.name: field.type for field in table.schema.field("value").type}
    assert kinds == {
        "last": INSTANT, "mean": INSTANT, "gap": SPAN, "v": pa.float64(), "n": pa.int64(),
        "s": SPAN, "long": SPAN,
    }  # fmt: skip
    assert kinds == {field.name: field.type for field in table.schema.field("high").type}
    assert row["value"]["last"] == START + timedelta(seconds=45)
    off = row["value"]["mean"] - (START + timedelta(seconds=21.25))
    assert abs(off) < timedelta(microseconds=1)  # a fraction of so many ns has 53 bits
    assert row["value"]["gap"] == timedelta(seconds=45)
    assert row["value"]["long"] == timedelta(0)
    assert line["value"]["gap"] == 45 * 10**9
    assert str(frame["value.gap"].dtype) == "timedelta64[ns]"
    assert str(frame["window.start"].dtype) == "datetime64[ns, UTC]"


def test_computed_values_of_matches_are_typed_in_files_too(tmp_path: Path) -> None:
    with slackwater.query(READINGS, PATTERN, clock="exact") as found:
        for name in ("a.parquet", "a.csv"):
            assert found.write(tmp_path / name) == 2
        assert [match["value"]["gap"] for match in found] == [10 * 10**9, 15 * 10**9]
        assert found.changes().to_arrow()["value"].combine_chunks().field("gap").type == SPAN
    values = pq.read_table(tmp_path / "a.parquet")["value"].combine_chunks()
    assert [values.field(name).type for name in ("gap", "due", "v")] == [SPAN, INSTANT, pa.int64()]
    assert values.field("gap").to_pylist() == [timedelta(seconds=10), timedelta(seconds=15)]
    assert values.field("due").to_pylist()[0] == START + timedelta(seconds=1)
    rows = pacsv.read_csv(
        tmp_path / "a.csv",
        convert_options=pacsv.ConvertOptions(column_types={"value.due": "string"}),
    ).to_pylist()
    assert (rows[0]["value.due"], rows[0]["value.gap"]) == ("2026-03-01T10:00:01Z", 10 * 10**9)


@pytest.mark.parametrize("unit", [None, "s"])
def test_numbers_stay_numbers(unit: str | None) -> None:
    undated = {**READINGS, "ts": [0, 10, 30, 45]}
    with slackwater.query(
        undated, PATTERN.replace("20 s", "20"), clock="exact", time_unit=unit
    ) as found:
        table = found.to_arrow()
    assert table["value"].type.field("gap").type == pa.int64()
    assert table["events"].type.value_type.field("ts").type == pa.int64()
