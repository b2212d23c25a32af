"""LOOKUP beside DuckDB's LEFT JOIN: random tables and streams, cut and restored anywhere."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.options import read_tables
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query.analysis.cascade import read_statements
from tests.beside_duckdb.conftest import COLUMNS, Row, tables
from tests.order.conftest import frame

KEYS = {
    "g": st.integers(-1, 3), "h": st.sampled_from(["p", "q", "", "r"]),
    "w": st.integers(-4, 4).map(float) | st.sampled_from([0.5, -0.0, 2.0**70]),
    "v": st.integers(-3, 3), "x": st.integers(-24, 24).map(lambda number: number / 8),
}  # fmt: skip
"""By attribute of events, keys that a table may have; of the same type, or numbers of another."""
ON_TABLE = ("d.a = 'p'", "d.b > 1", "d.a IS NULL", "d.a IS NOT NULL AND d.b < 3", "d.k IS NULL")
ACROSS = ("", "a.h = d.a", "a.w < d.b", "d.b + a.w > 1")
Tables = dict[str, list[Row]]


@st.composite
def facts(draw: st.DrawFn, attribute: str) -> list[Row]:
    """A table with a unique key for ``attribute``, perhaps in one row null."""
    keys: list[Any] = draw(st.lists(KEYS[attribute], unique=True, min_size=1, max_size=6))
    keys += [None] * draw(st.integers(0, 2))
    return [
        {
            "k": key, "a": draw(st.sampled_from(["p", "q", "", None])),
            "b": draw(st.none() | st.integers(-3, 5)),
        }
        for key in draw(st.permutations(keys))
    ]  # fmt: skip


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, str, str]:
    """The attribute that is looked up, and the query in both languages."""
    key = draw(st.sampled_from(sorted(KEYS)))
    where = draw(st.sampled_from(ON_TABLE))
    form = draw(st.sampled_from(["rows", "windows", "pattern", "each"]))
    if form == "rows":
        return (
            key,
            (f"SELECT n, d.a AS y, d.b + 1 AS z LOOKUP d ON {key} = d.k WHERE {where}"),
            f"SELECT n, d.a, d.b + 1 FROM t LEFT JOIN d ON {key} = d.k WHERE {where}",
        )
    if form == "windows":
        return key, (
            f"SELECT count(*) AS c, sum(d.b) AS s LOOKUP d ON d.k = {key} "
            f"WHERE w IS NULL OR {where} GROUP BY d.a WINDOW TUMBLING 8"
        ), (
            f"SELECT d.a, count(*), sum(d.b) FROM t LEFT JOIN d ON {key} = d.k "
            f"WHERE w IS NULL OR {where} GROUP BY d.a, t.ts // 8"
        )  # fmt: skip
    across = draw(st.sampled_from(ACROSS))
    conditions = " AND ".join(each for each in (across, where) if each)
    near = "b.ts > a.ts AND b.ts - a.ts <= 9"
    if form == "pattern":
        return (
            key,
            (
                f"EVENT SEQ(E a, E b) LOOKUP d ON b.{key} = d.k WHERE {conditions} WITHIN 9 "
                "RETURN a.n AS y, b.n AS z, d.b AS f"
            ),
            (
                f"SELECT a.n, b.n, d.b FROM t AS a JOIN t AS b ON {near} "
                f"LEFT JOIN d ON b.{key} = d.k WHERE {conditions}"
            ),
        )
    return (
        key,
        (
            f"EVENT SEQ(E a, E b) LOOKUP d ON {key} = d.k WHERE a.d.a = b.d.a AND a.d.b <> b.d.b "
            "WITHIN 9 RETURN a.n AS y, b.n AS z, b.d.b AS f"
        ),
        (
            f"SELECT a.n, b.n, f.b FROM t AS a JOIN t AS b ON {near} LEFT JOIN d ON a.{key} = d.k "
            f"LEFT JOIN d AS f ON b.{key} = f.k WHERE d.a = f.a AND d.b <> f.b"
        ),
    )


def ours(
    rows: Sequence[Row], text: str, facts_of: Tables, cuts: Sequence[int], *, arrow: bool = False
) -> Counter[str]:
    """Our results, as texts of their values; the state is saved and restored at each cut."""
    known = pa.array([row["k"] for row in facts_of["d"]])
    schema = pa.schema([("k", known.type), ("a", pa.string()), ("b", pa.int64())])
    typed = pa.Table.from_pylist(facts_of["d"], schema)
    # A list says no types of columns without values.
    some = all(column.null_count < len(column) for column in typed.columns)
    given_as = {"d": facts_of["d"] if some and not arrow else typed}
    records = [
        {
            "source": "s", "seq": row["n"], "ts": row["ts"], "arrival": 10**6 + row["n"],
            "type": "E",
            "attrs": {
                name: row[name]
                for name in COLUMNS
                if name not in {"ts", "stream"} and row[name] is not None
            },
        }
        for row in rows
    ]  # fmt: skip
    plans, _ = read_statements([text], tables=read_tables(given_as))
    asked_of = ChainSettings(parse_order("none"), plans, guards=Guards(None))
    chain, outputs = Chain(asked_of, "main"), []
    for start, end in itertools.pairwise([0, *cuts, len(rows)]):
        if records[start:end]:
            outputs.append(chain.process([frame(records[start:end])]))
        chain = Chain.restored(asked_of, "main", chain.to_bytes())
    outputs.append(chain.finish())
    left: Counter[str] = Counter()
    for result in itertools.chain(*(output.results[0] for output in outputs)):
        value = result["value"]
        shown = [*result["key"].values()] if "key" in result else []
        left[_text([*shown, *value.values()])] += 1 if result["op"] == "+" else -1
    keys = [row[plans[0].lookups[0].attribute] for row in rows]
    there = {row["k"] for row in facts_of["d"]}
    missed = sum(key is not None and key not in there for key in keys)
    assert chain.counters()["lookup_missed"].get("d", 0) == missed
    return +left


def _text(values: Sequence[Any]) -> str:
    return json.dumps([float(v) if isinstance(v, int | float) else v for v in values])


def theirs(rows: Sequence[Row], text: str, facts_of: Tables) -> Counter[str]:
    connection = duckdb.connect(config={"threads": 1})
    declared = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f"CREATE TABLE t ({declared})")
    holes = ", ".join("?" * len(COLUMNS))
    connection.executemany(
        f"INSERT INTO t VALUES ({holes})", [[row[name] for name in COLUMNS] for row in rows]
    )
    kind = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
    key = next(type(row["k"]) for row in facts_of["d"] if row["k"] is not None)
    connection.execute(f"CREATE TABLE d (k {kind[key]}, a VARCHAR, b BIGINT)")
    connection.executemany(
        "INSERT INTO d VALUES (?, ?, ?)", [list(row.values()) for row in facts_of["d"]]
    )
    return Counter(_text(row) for row in connection.execute(text).fetchall())


@settings(deadline=None)
@given(tables(), st.data())
def test_a_lookup_is_a_left_join(rows: list[Row], data: st.DataObject) -> None:
    key, mine, other = data.draw(asked())
    known = {"d": data.draw(facts(key))}
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    found = ours(rows, mine, known, cuts)
    assert found == theirs(rows, other, known)
    assert found == ours(rows, mine, known, [], arrow=True)
