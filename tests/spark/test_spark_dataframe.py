"""`engine.spark.chain` on plain rows equals the in-process chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.log.trace import read_trace
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.spark import chain
from engine.spark.host import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(280)]

PATTERN = "EVENT SEQ(A a, B b) WHERE a.tag = b.tag WITHIN 20"
WINDOW = "SELECT count(*), sum(v) WINDOW TUMBLING 10"


def test_rows_of_any_dataframe_equal_the_chain_in_process(tmp_path: Path) -> None:
    rows = [
        {"source": s, "seq": n, "type": "AB"[(n + (s == "t")) % 2], "ts": 7 * n + (s == "t"),
         "arrival": 10 * n + (3 if s == "s" else 8), "tag": "xy"[n % 2], "v": n}
        for n in range(30) for s in ("s", "t")
    ]  # fmt: skip
    rows.sort(key=lambda row: row["arrival"])
    trace = tmp_path / "t.jsonl"
    with trace.open("w") as out:
        for row in rows:
            record = {k: v for k, v in row.items() if k not in ("tag", "v")}
            out.write(json.dumps({**record, "attrs": {"tag": row["tag"], "v": row["v"]}}) + "\n")
    plans = (query(PATTERN, name="q1"), query(WINDOW, name="q2"))
    alone = Chain(ChainSettings(parse_order("sequence"), plans, guards=Guards(None)), "main")
    outputs = [alone.process(list(read_trace(str(trace)))), alone.finish()]
    expected = [result for output in outputs for of in output.results for result in of]
    assert len(expected) > 20

    session = spark_session("local[2]", tmp_path / "spark.log")
    df = session.createDataFrame(rows[::-1])  # any order: rows are put in the order of arrival
    made = chain(order="sequence", queries=[PATTERN, WINDOW], guard_ns=None)(df).collect()
    found = [json.loads(row.result) for row in made]
    key = json.dumps
    assert sorted(map(key, found)) == sorted(map(key, expected))
    assert {row.query for row in made} == {"q1", "q2"}

    with pytest.raises(UserError, match="no column seq, arrival"):
        chain(queries=[WINDOW])(df.drop("seq", "arrival"))
