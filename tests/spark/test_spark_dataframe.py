"""`engine.spark.chain` on DataFrames of rows and of frames: checks, typed results, both hosts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.log.arrival_log import LogReader, LogWriter
from engine.log.input.trace import TraceRead
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.spark import chain
from engine.spark.host import spark_session
from engine.spark.row_input import RowPlan, frame_of
from engine.spark.typed_output import TypedOutput

pytestmark = [pytest.mark.spark]

PATTERN = "EVENT SEQ(A a, B b) WHERE a.tag = b.tag WITHIN 20"
WINDOW = "SELECT count(*), sum(v), avg(v) AS mean GROUP BY tag WINDOW TUMBLING 10"
BEGIN = datetime(2026, 11, 22, 12, 0, 0, 123456, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * 10**9 + 123_456_000
SCHEMA = (
    "source string, seq long, type string, ts long, arrival long, tag string, v int, ok boolean"
)


def _rows() -> list[dict[str, Any]]:
    rows = [
        {"source": s, "seq": n, "type": "AB"[(n + (s == "t")) % 2], "ts": 7 * n + (s == "t"),
         "arrival": 10 * n + (3 if s == "s" else 8), "tag": "xy"[n % 2], "v": n,
         "ok": None if n % 3 else True}
        for n in range(30) for s in ("s", "t")
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["arrival"])


def _trace(folder: Path) -> Path:
    lines = []
    for row in _rows():
        attrs = {name: row.pop(name) for name in ("tag", "v", "ok")}
        record = row | {"attrs": {n: v for n, v in attrs.items() if v is not None}}
        lines.append(json.dumps(record) + "\n")
    (folder / "t.jsonl").write_text("".join(lines))
    return folder / "t.jsonl"


def _in_process(trace: Path, *texts: str, order: str = "sequence") -> list[dict[str, Any]]:
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(texts, 1))
    alone = Chain(ChainSettings(parse_order(order), plans, guards=Guards(None)), "main")
    outputs = [alone.process(list(TraceRead(str(trace)))), alone.finish()]
    return [result for output in outputs for of in output.results for result in of]


def _plain(value: Any) -> Any:
    """A Row as dicts and lists, without what is null."""
    if isinstance(value, Row):
        return {n: _plain(v) for n, v in value.asDict().items() if v is not None}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {n: _without_nulls(v) for n, v in value.items() if v is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _sorted(results: list[Any]) -> list[str]:
    return sorted(json.dumps(result, sort_keys=True) for result in results)


@pytest.fixture(scope="module", name="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")


@pytest.fixture(name="df")
def _df(session: SparkSession) -> DataFrame:
    return session.createDataFrame(_rows()[::-1], SCHEMA)  # any order: rows go by their arrival


def test_rows_of_any_dataframe_equal_the_chain_in_process(df: DataFrame, tmp_path: Path) -> None:
    expected = _in_process(_trace(tmp_path), PATTERN, WINDOW)
    assert len(expected) > 20
    step = chain(order="sequence", queries=[PATTERN, WINDOW], guard_ns=None)
    made = step(df)
    found = made.collect()
    assert _sorted([_plain(row) for row in found]) == _sorted(_without_nulls(expected))
    types = dict(made.dtypes)
    assert types["at"] == types["known_at"] == types["missing"] == "bigint"
    assert types["window"] == "struct<start:bigint,end:bigint>"
    assert types["key"] == "struct<tag:string>"
    assert types["value"] == "struct<count(*):bigint,sum(v):bigint,mean:double>"
    assert (
        types["bounds"] == "struct<count(*):array<bigint>,sum(v):array<bigint>,mean:array<double>>"
    )
    attrs = "attrs:struct<ok:boolean,tag:string,v:bigint>"
    assert types["events"].startswith("array<struct<site:string,stream:string,source:string,")
    assert types["events"].endswith(f"ref:bigint,{attrs}>>")
    # Columns are of use without parsing anything.
    sums = made.where("query = 'q2'").select(F.col("value.`sum(v)`").alias("s"))
    assert sums.agg(F.sum("s")).first()[0] == sum(row["v"] for row in _rows())


def test_timestamps_are_times_whatever_the_columns_type(
    session: SparkSession, df: DataFrame, tmp_path: Path
) -> None:
    """TimestampType is in microseconds and was read as nanoseconds: 2,214 matches for 79."""
    session.conf.set("spark.sql.session.timeZone", "UTC")
    expected = _in_process(_trace(tmp_path), PATTERN.replace("20", "20 ns"), order="none")
    assert expected
    as_time = {
        "timestamp": lambda c: F.timestamp_micros(F.lit(BEGIN_NS // 1000) + F.col(c)),
        "timestamp_ntz": lambda c: F.timestamp_micros(F.lit(BEGIN_NS // 1000) + F.col(c)).cast(
            "timestamp_ntz"
        ),
    }
    step = chain("none", PATTERN.replace("20", "20 us"), guard_ns=None, time_unit="us")
    for made in as_time.values():
        timed = df.withColumns({"ts": made("ts"), "arrival": made("arrival")})
        found = step(timed.drop("seq")).collect()
        assert len(found) == len(expected)
        begin = BEGIN_NS // 1000
        times = {tuple(e.ts - begin for e in row.events) for row in found}
        assert times == {tuple(e["ts"] for e in result["events"]) for result in expected}


def test_a_session_of_ones_own_needs_no_configuration(df: DataFrame) -> None:
    conf = df.sparkSession.conf
    conf.set(
        "spark.sql.streaming.stateStore.providerClass",  # Spark's own default
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    )
    assert chain("none", WINDOW, guard_ns=None)(df).count() > 5


def test_one_query_may_be_a_text(df: DataFrame) -> None:
    assert chain("none", WINDOW)(df).columns == chain("none", [WINDOW])(df).columns


BAD_COLUMNS = {
    "no column seq, arrival": lambda df: df.drop("seq", "arrival"),
    'ts is string, and ts takes .* or timestamps: .*cast."timestamp"': lambda df: df.withColumn(
        "ts", F.lit("2026-11-22")
    ),
    "arrival is double, and arrival takes": lambda df: df.withColumn("arrival", F.lit(1.5)),
    "seq is string, and seq takes whole numbers": lambda df: df.withColumn("seq", F.lit("1")),
    "source is bigint, and source takes texts": lambda df: df.withColumn("source", F.col("seq")),
    "column more is array<int>; an attribute is": lambda df: df.withColumn(
        "more", F.array(F.lit(1))
    ),
    "column payload, so it is one of frames, but no column site": lambda df: df.withColumn(
        "payload", F.lit(b"")
    ),
}


@pytest.mark.parametrize("message", BAD_COLUMNS)
def test_a_column_that_does_not_fit_is_told_at_once(message: str, df: DataFrame) -> None:
    with pytest.raises(UserError, match=message):
        chain(queries=PATTERN)(BAD_COLUMNS[message](df))


@pytest.mark.parametrize(
    ("order", "text", "message"),
    [
        ("none", "EVENT SEQ(A a, B b) WHERE a.tga = b.tag WITHIN 5", "no event has.*'tga'"),
        ("none", "SELECT sum(tag) WINDOW TUMBLING 5", "'tag' is text, and sum takes numbers"),
        ("none", "SELECT sum(w) WINDOW TUMBLING 5", "(?s)'w'.*there is ok, tag, v"),
        ("aq-kslack:error=0.1", PATTERN, "aq-kslack allows an error to a window"),
    ],
)
def test_names_in_queries_are_checked_when_the_step_is_applied(
    order: str, text: str, message: str, df: DataFrame
) -> None:
    with pytest.raises(UserError, match=message):
        chain(order, text)(df)


def test_a_row_that_lacks_what_it_needs_is_named_when_the_job_runs(df: DataFrame) -> None:
    broken = df.withColumn("source", F.when(F.col("arrival") != 43, F.col("source")))
    with pytest.raises(
        Exception, match=r"UserError: site 'main': a row has no source: .*43"
    ) as told:
        chain("none", PATTERN)(broken).collect()
    assert "leave such rows out before the step" in str(told.value)


ROW = {"source": "a", "seq": 3, "ts": 5, "arrival": 7, "type": "A", "v": 1.5, "tag": "x"}
PLAN = RowPlan(
    {"ts": 1000, "arrival": 1000}, {"v": "float", "tag": "str"}, frozenset({"v", "tag"}), True
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ts": None}, "has no ts"), ({"arrival": None}, "has no arrival"),
        ({"source": None}, "has no source"), ({"seq": None}, "has no seq"),
        ({"ts": 2**62}, "is out of range in ts"), ({"arrival": -(2**63)}, "range in arrival"),
        ({"seq": -2}, "is out of range in seq"), ({"v": float("inf")}, "has an infinite v"),
    ],
)  # fmt: skip
def test_a_row_is_named_by_what_it_has(changes: dict[str, Any], message: str) -> None:
    rows = [Row(**ROW), Row(**{**ROW, "seq": 4, "arrival": 9} | changes)]
    with pytest.raises(UserError, match=f"site 'main': a row .*{message}: .*'type': 'A'"):
        frame_of("main", rows, PLAN)


def test_rows_of_one_arrival_have_one_order() -> None:
    rows = [
        Row(**ROW | {"seq": n % 5, "source": "ab"[n // 5], "v": float("nan")}) for n in range(10)
    ]
    frame = frame_of("main", rows, PLAN)
    assert frame_of("main", rows[::-1], PLAN).batch.equals(frame.batch)
    assert frame.batch.column("ts").to_pylist() == [5000] * 10
    assert frame.batch.column("attrs.v").null_count == 10


def _log(folder: Path, trace: Path) -> Path:
    with LogWriter(folder / "log", rows_per_file=12) as writer:
        for frame in TraceRead(str(trace)):
            for start in range(0, frame.rows, 5):
                writer.append(frame.slice(start, min(5, frame.rows - start)))
    assert len(LogReader(folder / "log").files) > 3
    return folder / "log"


@pytest.mark.parametrize("attributes", [None, {"tag": "str", "v": "int", "ok": "bool"}])
def test_frames_of_a_log_equal_the_chain_in_process(
    session: SparkSession, tmp_path: Path, attributes: dict[str, str] | None
) -> None:
    trace = _trace(tmp_path)
    expected = _without_nulls(_in_process(trace, PATTERN, WINDOW))
    df = session.read.parquet(str(_log(tmp_path, trace)))
    step = chain(queries=[PATTERN, WINDOW], guard_ns=None, attributes=attributes)
    found = [_plain(row) for row in step(df).collect()]
    if attributes is None:  # types that only data show: texts, and fractions
        for result in expected:
            for event in result.get("events", ()):
                event["attrs"] = {n: _as_text(v) for n, v in event["attrs"].items()}
            for name in ("value", "low", "middle", "high", "bounds"):
                for label, value in result.get(name, {}).items():
                    if label == "sum(v)":
                        many = isinstance(value, list)
                        result[name][label] = [*map(float, value)] if many else float(value)
    assert _sorted(found) == _sorted(expected)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_types_of_frames_are_checked_and_checked_against(session: SparkSession) -> None:
    df = session.createDataFrame([], "site string, payload binary, first_arrival long")
    with pytest.raises(UserError, match="'v' is 'long'; use one of int, float, bool, str"):
        chain(queries=WINDOW, attributes={"v": "long"})
    with pytest.raises(UserError, match="'tag' is text"):
        chain("none", "SELECT sum(tag) WINDOW TUMBLING 5", attributes={"tag": "str"})(df)
    with pytest.raises(UserError, match="first_arrival of a DataFrame of frames is string"):
        chain("none", WINDOW)(df.withColumn("first_arrival", F.lit("1")))


def test_values_of_one_name_are_of_one_type() -> None:
    plans = [
        query("SELECT sum(v) AS x WINDOW TUMBLING 5", name="q1"),
        query("SELECT avg(v) AS x WINDOW TUMBLING 5", name="q2"),
        query("EVENT SEQ(A a, B b) WITHIN 5 RETURN a.tag AS x", name="q3"),
    ]
    known = {"v": "int", "tag": "str"}
    schema = TypedOutput(plans[:2], known, 1).schema
    assert schema["value"].dataType.simpleString() == "struct<x:double>"
    with pytest.raises(UserError, match="two queries give 'x' as double and as string"):
        TypedOutput(plans, known, 1)


def test_results_can_be_kept_in_any_format(df: DataFrame, tmp_path: Path) -> None:
    step = chain("none", "EVENT SEQ(A a, B b) WITHIN 20 RETURN a.tag, b.ts - a.ts AS gap")
    step(df.drop("v", "ok")).write.parquet(str(tmp_path / "results"))
    kept = df.sparkSession.read.parquet(str(tmp_path / "results"))
    row = kept.selectExpr("events[0].attrs.tag", "value.gap").first()
    assert row[0] in "xy"
    assert 0 < row[1] <= 20
