"""`spark.chain` on DataFrames of rows, of frames and of streams: checks, types, results."""

from __future__ import annotations

import json
import os
import random
import re
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import slackwater
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.spark import chain
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.plan import Plan
from tests.spark.both_hosts import log_of
from tests.spark.test_dataframe_input import TEXTS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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


def _trace(folder: Path, rows: list[dict[str, Any]]) -> Path:
    lines = []
    for row in rows:
        own = {n: row[n] for n in ("tag", "v", "k", "ok") if row.get(n) is not None}
        record = {n: value for n, value in row.items() if n not in ("tag", "v", "k", "ok")}
        lines.append(json.dumps(record | {"attrs": own}) + "\n")
    (folder / "t.jsonl").write_text("".join(lines))
    return folder / "t.jsonl"


def _in_process(trace: Path, *plans: str | Plan, order: str = "sequence") -> list[dict[str, Any]]:
    made = tuple(
        query(plan, name=f"q{n}") if isinstance(plan, str) else plan
        for n, plan in enumerate(plans, 1)
    )
    alone = Chain(ChainSettings(parse_order(order), made, guards=Guards(None)), "main")
    outputs = [alone.process(list(TraceRead(str(trace)))), alone.finish()]
    return [result for output in outputs for of in output.results for result in of]


def _plain(value: Any) -> Any:
    """As JSON has it, without what is null; whole numbers as floats: a column has one type."""
    if isinstance(value, Row):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _texts(results: list[Any]) -> list[str]:
    plain = [_plain(result) for result in results]
    return [json.dumps({**each, "number": 0}, sort_keys=True) for each in plain]


def _sorted(results: list[Any]) -> list[str]:
    return sorted(_texts(results))


@pytest.fixture(name="df")
def _df(session: SparkSession) -> DataFrame:
    return session.createDataFrame(_rows()[::-1], SCHEMA)  # any order: rows go by their arrival


def test_rows_of_any_dataframe_equal_the_chain_in_process(df: DataFrame, tmp_path: Path) -> None:
    expected = _in_process(_trace(tmp_path, _rows()), PATTERN, WINDOW)
    assert len(expected) > 20
    step = chain(order="sequence", queries=[PATTERN, WINDOW], guard_ns=None, clock="exact")
    made = step(df)
    found = made.collect()
    found.sort(key=lambda row: row.number)
    assert [row.number for row in found] == list(range(len(found)))
    found.sort(key=lambda row: row.query)  # which keeps the order of each
    expected.sort(key=lambda result: str(result["query"]))
    assert _texts(found) == _texts(expected)
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
    expected = _in_process(_trace(tmp_path, _rows()), PATTERN.replace("20", "20 ns"), order="none")
    assert expected
    as_time = {
        "timestamp": lambda c: F.timestamp_micros(F.lit(BEGIN_NS // 1000) + F.col(c)),
        "timestamp_ntz": lambda c: F.timestamp_micros(F.lit(BEGIN_NS // 1000) + F.col(c)).cast(
            "timestamp_ntz"
        ),
    }
    step = chain(
        "none", PATTERN.replace("20", "20 us"), guard_ns=None, clock="exact", time_unit="us"
    )
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
    assert chain("none", WINDOW, guard_ns=None, clock="exact")(df).count() > 5


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
def test_a_column_that_does_not_fit_is_reported_at_once(message: str, df: DataFrame) -> None:
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
    ) as reported:
        chain("none", PATTERN)(broken).collect()
    assert "leave such rows out before the step" in str(reported.value)


@pytest.mark.parametrize("attributes", [None, {"tag": "str", "v": "int", "ok": "bool"}])
def test_frames_of_a_log_equal_the_chain_in_process(
    session: SparkSession, tmp_path: Path, attributes: dict[str, str] | None
) -> None:
    trace = _trace(tmp_path, _rows())
    expected = [_plain(result) for result in _in_process(trace, PATTERN, WINDOW)]
    df = session.read.parquet(str(log_of(trace.read_text(), tmp_path, 12, 5)))
    step = chain(queries=[PATTERN, WINDOW], guard_ns=None, clock="exact", attributes=attributes)
    if attributes is None:  # types that only data show: texts, and fractions
        for event in (event for result in expected for event in result.get("events", ())):
            event["attrs"] = {
                name: str(value).lower()
                if isinstance(value, bool)
                else str(value).removesuffix(".0")
                for name, value in event["attrs"].items()
            }
    assert _sorted(step(df).collect()) == _sorted(expected)


def test_types_of_frames_are_checked_and_checked_against(session: SparkSession) -> None:
    df = session.createDataFrame([], "site string, payload binary, first_arrival long")
    with pytest.raises(UserError, match="'v' is 'long'; use one of int, float, bool, str"):
        chain(queries=WINDOW, attributes={"v": "long"})
    with pytest.raises(UserError, match="'tag' is text"):
        chain("none", "SELECT sum(tag) WINDOW TUMBLING 5", attributes={"tag": "str"})(df)
    with pytest.raises(UserError, match="first_arrival of a DataFrame of frames is string"):
        chain("none", WINDOW)(df.withColumn("first_arrival", F.lit("1")))


def test_results_can_be_kept_in_any_format(df: DataFrame, tmp_path: Path) -> None:
    step = chain("none", "EVENT SEQ(A a, B b) WITHIN 20 RETURN a.tag, b.ts - a.ts AS gap")
    step(df.drop("v", "ok")).write.parquet(str(tmp_path / "results"))
    kept = df.sparkSession.read.parquet(str(tmp_path / "results"))
    row = kept.selectExpr("events[0].attrs.tag", "value.gap").first()
    assert row[0] in "xy"
    assert 0 < row[1] <= 20


def test_a_cascade_over_a_dataframe_gives_what_it_gives_in_process(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = [
        {"source": "st"[n % 2], "seq": n // 2, "type": "A", "ts": n * 7 % 300, "arrival": 10 * n,
         "tag": "xyz"[n % 3], "v": n % 11, "k": n % 2}
        for n in range(160)
    ]  # fmt: skip
    plans, _ = read_statements(TEXTS)
    expected = _in_process(_trace(tmp_path, rows), *plans, order="none")
    assert {result["query"] for result in expected} == {"w", "up", "q3", "steps"}
    schema = "source string, seq long, type string, ts long, arrival long, tag string, v int, k int"
    step = chain(order="none", queries=TEXTS, guard_ns=None, clock="exact")
    assert _sorted(step(session.createDataFrame(rows, schema)).collect()) == _sorted(expected)


# ---- what the how-to says of Kafka, from the rows that its connector gives on
KAFKA = Path(__file__).parents[2] / "docs" / "how-to.md"


def test_rows_of_kafka_are_answered_as_the_how_to_says(
    session: SparkSession, tmp_path: Path
) -> None:
    block = re.search(r"```py\n(from pyspark[^`]*kafka[^`]*)```", KAFKA.read_text())
    assert block is not None
    imports, connector, steps = re.split(r"(raw = \((?:.|\n)*?\n\)\n)", block[1])
    assert 'spark.readStream.format("kafka")' in connector
    rows = []
    for number in range(40):
        arrival = BEGIN + timedelta(seconds=number)
        event = {
            "source": ("door", "lamp")[number % 2], "seq": number // 2,
            "type": ("OPEN", "LIGHT")[number % 2], "ts": f"{arrival:%FT%T}Z", "room": number // 8,
        }  # fmt: skip
        value = json.dumps(event).encode()
        rows += [
            {"value": value, "timestamp": arrival, "partition": partition} for partition in (0, 1)
        ]
    session.createDataFrame(rows, "value binary, timestamp timestamp, partition int").write.parquet(
        str(tmp_path / "in")
    )
    stream = session.readStream.schema("value binary, timestamp timestamp, partition int")
    names: dict[str, Any] = {"raw": stream.parquet(str(tmp_path / "in")), "chain": chain}
    code = imports + steps
    for folder in ("answers", "answered"):
        code = code.replace(f'"{folder}"', repr(str(tmp_path / folder)))
    exec(code, names)
    names["running"].processAllAvailable()
    names["running"].stop()
    found = session.read.parquet(str(tmp_path / "answers")).orderBy("site", "number").collect()
    for site in ("doors-0", "doors-1"):
        of_site = [row for row in found if row.site == site]
        assert [row.number for row in of_site] == list(range(len(of_site)))
        opened = [tuple(each.seq for each in row.events) for row in of_site]
        # Within 5 s and a room: the same one, the next, the one behind that; the last ones wait.
        pairs = [(a, b) for b in range(20) for a in range(max(0, b - 2), b + 1) if a // 4 == b // 4]
        assert len(opened) > 40
        assert sorted(opened) == sorted(pairs)[: len(opened)]
        assert {row.op for row in of_site} == {"+"}


# ---- a stream, its state kept and its old events spilled
NEGATED = "EVENT SEQ(A a, !C c, B b) WHERE a.tag = b.tag AND c.tag = a.tag WITHIN 20"
SPILL = "state,hot=25,chunk=5,pending=3,wait=40"
FILES = 4


def _late_rows() -> list[dict[str, Any]]:
    """Three types, three tags; one event in nine comes up to 90 ns late."""
    rng = random.Random(20261122)
    rows: list[dict[str, Any]] = []
    for number in range(400):
        arrival = 1_000 + 3 * number
        late = rng.randrange(90) if number % 9 == 0 else 0
        rows.append({
            "source": "st"[number % 2], "seq": number // 2, "type": rng.choice("AABC"),
            "ts": arrival - late, "arrival": arrival, "tag": rng.randrange(3),
        })  # fmt: skip
    return rows


def _net(results: list[dict[str, Any]]) -> list[str]:
    """What stands after all: `+` less `-`."""
    standing: dict[str, int] = {}
    for result in results:
        shown = json.dumps([result["events"], result["certainty"]], sort_keys=True)
        standing[shown] = standing.get(shown, 0) + (1 if result["op"] == "+" else -1)
    assert set(standing.values()) <= {0, 1}
    return sorted(shown for shown, times in standing.items() if times)


def test_a_stream_with_spilled_events_equals_the_chain_without(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = _late_rows()
    alone = Chain(
        ChainSettings(parse_order("none"), (query(NEGATED),), guards=Guards(None)), "main"
    )
    output = alone.process(list(TraceRead(str(_trace(tmp_path, rows)))))
    expected = _net(list(output.results[0]))
    assert len(expected) > 30
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        file = tmp_path / "in" / f"part-{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[100 * number : 100 * (number + 1)]), file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark's file source goes by it
    schema = "source string, seq long, type string, ts long, arrival long, tag long"
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    step = chain(order="none", queries=[NEGATED], guard_ns=None, clock="exact", spill=SPILL)
    found: list[dict[str, Any]] = []
    running = (
        step(stream.parquet(str(tmp_path / "in")))
        .writeStream.foreachBatch(
            lambda batch, _: found.extend(row.asDict(recursive=True) for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    assert len([each for each in running.recentProgress if each.numInputRows]) == FILES
    assert [each["number"] for each in found] == list(range(len(found)))  # over micro-batches
    later = _net(found)
    assert set(later) <= set(expected)
    # What the last rows put off has no end of the input to come out at.
    assert len(later) >= len(expected) - 3


COUNT = "SELECT count(*) AS n WINDOW TUMBLING 100"
NUMBERED = "source string, seq long, type string, ts long, arrival long, v int, w int"


def _counted_rows() -> list[dict[str, Any]]:
    """Numbers as devices count them: in 8 bits, with copies, reused ones, and a restart at 0."""
    rows: list[dict[str, Any]] = []
    for number in range(900):
        for source in "st":
            seq = number % 256 if source == "s" else number % 500
            row = {"source": source, "seq": seq, "type": "A", "ts": 2 * number,
                   "arrival": 2 * number + 5, "v": 1, "w": number}  # fmt: skip
            rows.append(row)
            if number % 37 == 5:
                rows.append(row | {"arrival": row["arrival"] + 1})
            if number % 41 == 7:  # differs in what no query reads
                rows.append(row | {"arrival": row["arrival"] + 1, "w": -1})
    return sorted(rows, key=lambda row: row["arrival"])


def _windows(results: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """What stands: start -> count, missing."""
    found = {}
    for each in results:
        window, value, missing = each["window"], each["value"], each["missing"]
        if each["op"] == "+":
            found[window["start"]] = (value["n"], missing)
        else:
            found.pop(window["start"], None)
    return found


@pytest.mark.parametrize("seq_bits", [None, {"s8": 8}])
def test_numbers_of_rows_are_read_as_those_of_a_file(
    session: SparkSession, tmp_path: Path, seq_bits: dict[str, int] | None
) -> None:
    rows = [
        row | {"stream": "s8" if row["source"] == "s" else "t"} for row in _counted_rows()
    ]  # fmt: skip
    lines = [json.dumps(row) + "\n" for row in rows]
    (tmp_path / "t.jsonl").write_text("".join(lines))
    given = slackwater.read(tmp_path / "t.jsonl", seq_bits=seq_bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", slackwater.SlackwaterWarning)
        results = list(slackwater.query(given, COUNT, clock="exact", guard="off"))
    expected = _windows([dict(each) for each in results])
    assert sum(n for n, _ in expected.values()) == 2 * (900 + 22)  # copies alone are gone
    assert not any(missing for _, missing in expected.values())
    step = chain(order="sequence", queries=[COUNT], guard_ns=None, clock="exact", seq_bits=seq_bits)
    df = session.createDataFrame(rows[::-1], f"{NUMBERED}, stream string")
    assert _windows([row.asDict(recursive=True) for row in step(df).collect()]) == expected

    (tmp_path / "in").mkdir()
    for number in range(3):
        file = tmp_path / "in" / f"part-{number}.parquet"
        part = rows[len(rows) * number // 3 : len(rows) * (number + 1) // 3]
        pq.write_table(pa.Table.from_pylist(part), file)
        os.utime(file, (1_700_000_000 + number,) * 2)
    schema = f"{NUMBERED}, stream string".replace("v int, w int", "v long, w long")
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    found: list[dict[str, Any]] = []
    running = (
        step(stream.parquet(str(tmp_path / "in")))
        .writeStream.foreachBatch(
            lambda batch, _: found.extend(row.asDict(recursive=True) for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    later = _windows(found)
    assert len(later) >= len(expected) - 2
    assert later.items() <= expected.items()


def test_a_number_that_does_not_fit_its_bits_is_refused(session: SparkSession) -> None:
    rows = [row | {"seq": 256} for row in _counted_rows()[:1]]
    df = session.createDataFrame(rows, NUMBERED)
    step = chain(queries=[COUNT], clock="exact", seq_bits=8)
    with pytest.raises(Exception, match="does not fit into the bits of seq_bits"):
        step(df).collect()
