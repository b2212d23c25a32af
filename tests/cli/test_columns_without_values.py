"""A column that is null in every row is there: queries may ask for it, wherever it came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater

ROWS = [{"ts": 1, "type": "A", "v": 1}, {"ts": 2, "type": "B", "v": 2}, {"ts": 3, "type": "A"}]


def write(name: str) -> None:
    """The rows, each with a ``note`` of nothing."""
    rows = [{**row, "note": None} for row in ROWS]
    if name.endswith(".csv"):
        lines = [f"{row['ts']},{row['type']},{row.get('v', '')},\n" for row in rows]
        Path(name).write_text("ts,type,v,note\n" + "".join(lines))
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), name)
    else:
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["n.csv", "n.jsonl", "n.parquet", "n.log", "again.csv"])
@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("SELECT count(note) AS n, avg(note) AS a WINDOW TUMBLING 10", {"n": 0, "a": None}),
        ("SELECT count(*) AS n WHERE note IS NULL WINDOW TUMBLING 10", {"n": 3}),
        ("SELECT count(*) AS n GROUP BY note WINDOW TUMBLING 10", {"n": 3}),
        ("EVENT SEQ(A a, B b) WHERE a.note IS NULL WITHIN 5 RETURN b.v AS v", {"v": 2}),
    ],
)
def test_a_column_without_values_is_null(
    here: Path, cli: Callable[..., Any], name: str, question: str, value: dict[str, Any]
) -> None:
    write("n.jsonl" if name in ("n.log", "again.csv") else name)
    if name in ("n.log", "again.csv"):
        assert cli("log", "import", "n.jsonl", "--out", "n.log").code == 0
    if name == "again.csv":
        assert cli("log", "export", "n.log", "--out", name).code == 0
    run = cli("query", question, "--input", name)
    assert run.code == 0, run.err
    assert [json.loads(line)["value"] for line in run.out.splitlines()] == [value]


@pytest.mark.parametrize(
    "question",
    [
        "SELECT * WHERE note > 3",
        "SELECT * WHERE upper(note) = 'X' OR note LIKE 'x%'",
        "SELECT * WHERE note + 1 < 3 OR note IN (1, 2)",
        "EVENT SEQ(A a, B b) WHERE a.note = b.note WITHIN 5",
        "SELECT a.v FROM events a JOIN events b ON a.note = b.type WITHIN 5",
    ],
)
def test_conditions_of_any_type_do_not_hold(
    here: Path, cli: Callable[..., Any], question: str
) -> None:
    write("n.jsonl")
    run = cli("query", question, "--input", "n.jsonl")
    assert (run.code, run.out) == (0, ""), run.err


def test_files_with_and_without_values_are_one_column(here: Path, cli: Callable[..., Any]) -> None:
    write("n.csv")
    Path("m.csv").write_text("ts,type,v,note\n4,A,1,x\n")
    words = ("--input", "n.csv", "--input", "m.csv", "--clock", "exact")
    run = cli("query", "SELECT count(note) AS n, count(*) AS m WINDOW TUMBLING 10", *words)
    assert json.loads(run.out)["value"] == {"n": 1, "m": 4}


def test_a_misspelt_name_is_refused_beside_one(here: Path, cli: Callable[..., Any]) -> None:
    write("n.csv")
    run = cli("query", "SELECT count(nte) WINDOW TUMBLING 10", "--input", "n.csv")
    assert "there is note, v; did you mean 'note'?" in run.err


def test_tables_and_dicts_have_them_too() -> None:
    asked = "SELECT count(note) AS n, count(*) AS m WINDOW TUMBLING 10"
    columns: dict[str, list[Any]] = {"ts": [1, 2], "note": [None] * 2, "gap": [float("nan")] * 2}
    rows: list[dict[str, Any]] = [{"ts": 1, "note": None}, {"ts": 2}]
    for source in (pa.table(columns), pa.Table.from_pylist(rows)):
        (found,) = slackwater.query(source, asked)
        assert found["value"] == {"n": 0, "m": 2}
    (found,) = slackwater.query(rows, asked)
    assert found["value"] == {"n": 0, "m": 2}
    (found,) = slackwater.query(columns, "SELECT sum(gap) AS s WINDOW TUMBLING 10")
    assert found["value"] == {"s": None}
