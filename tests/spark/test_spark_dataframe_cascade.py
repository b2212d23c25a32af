"""Statements that read others' results, as a step of a Spark job: as in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.log.input.trace import TraceRead
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query.analysis.cascade import read_statements
from engine.spark import chain
from engine.spark.host import spark_session
from engine.spark.typed_output import TypedOutput

pytestmark = [pytest.mark.spark]

WINDOWS = "CREATE STREAM w AS SELECT sum(v) AS s, last(tag) AS name GROUP BY k WINDOW TUMBLING 10"
UP = "CREATE STREAM up AS EVENT SEQ(w a, w b) WHERE a.k = b.k AND b.s > a.s WITHIN 60"
PEAKS = (
    "SELECT count(*) AS n, max(rise) AS most, first(was) AS was FROM steps WINDOW TUMBLING 50; "
    "CREATE STREAM steps AS EVENT SEQ(w a, w b) WHERE b.s > a.s WITHIN 30 "
    "RETURN b.s - a.s AS rise, a.name AS was, b.certain"
)
TEXTS = [f"{WINDOWS}; {UP}", PEAKS]


def test_columns_of_results_are_typed_by_what_they_are_made_of() -> None:
    plans, _ = read_statements(TEXTS)
    known = {"v": "int", "tag": "str", "k": "int"}
    types = dict(TypedOutput(plans, known, 1).schema.jsonValue().items())
    fields = {field["name"]: field["type"] for field in types["fields"]}
    value = {field["name"]: field["type"] for field in fields["value"]["fields"]}
    assert value == {
        "s": "long", "name": "string", "n": "long", "most": "double", "was": "string",
        "rise": "double",
    }  # fmt: skip
    (event,) = (f for f in fields["events"]["elementType"]["fields"] if f["name"] == "attrs")
    attrs = {field["name"]: field["type"] for field in event["type"]["fields"]}
    assert attrs == {
        "v": "long", "tag": "string", "k": "long", "s": "long", "name": "string",
        "certain": "long", "ambiguous": "long", "missing": "long", "rise": "double",
        "was": "string", "probability": "double", "certainty": "string",
    }  # fmt: skip
    clash = "CREATE STREAM w AS SELECT count(*) AS tag WINDOW TUMBLING 1; EVENT SEQ(w a, w b)"
    clashing, _ = read_statements([clash])
    with pytest.raises(UserError, match="two queries give 'tag' as"):
        TypedOutput(clashing, known, 1)


def test_a_cascade_stands_beside_no_plan_from_python() -> None:
    plan = read_statements(["EVENT SEQ(A a)"])[0][0]
    with pytest.raises(UserError, match="beside no plan built in Python"):
        chain(order="none", queries=[TEXTS[0], plan])
    with pytest.raises(UserError, match="EXPLAIN answers nothing"):
        chain(order="none", queries=["EXPLAIN " + TEXTS[0]])


def _plain(value: Any) -> Any:
    """Without what is null; numbers as floats, as a column has one type for all statements."""
    if isinstance(value, Row):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole else value


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cascade_over_a_dataframe_gives_what_it_gives_in_process(tmp_path: Path) -> None:
    rows = [
        {"source": "st"[n % 2], "seq": n // 2, "type": "A", "ts": n * 7 % 300, "arrival": 10 * n,
         "tag": "xyz"[n % 3], "v": n % 11, "k": n % 2}
        for n in range(160)
    ]  # fmt: skip
    trace = tmp_path / "t.jsonl"
    own = ("tag", "v", "k")
    records = [
        {name: value for name, value in row.items() if name not in own}
        | {"attrs": {name: row[name] for name in own}}
        for row in rows
    ]
    trace.write_text("".join(json.dumps(record) + "\n" for record in records))
    plans, _ = read_statements(TEXTS)
    alone = Chain(ChainSettings(parse_order("none"), plans, guards=Guards(None)), "main")
    outputs = [alone.process(list(TraceRead(str(trace)))), alone.finish()]
    expected = [result for output in outputs for of in output.results for result in of]
    assert {result["query"] for result in expected} == {"w", "up", "q3", "steps"}
    session: SparkSession = spark_session("local[2]", tmp_path / "spark.log")
    schema = "source string, seq long, type string, ts long, arrival long, tag string, v int, k int"
    step = chain(order="none", queries=TEXTS, guard_ns=None)
    found = step(session.createDataFrame(rows, schema)).collect()
    told = [sorted(json.dumps(_plain(one), sort_keys=True) for one in some)
            for some in (found, expected)]  # fmt: skip
    assert told[0] == told[1]
