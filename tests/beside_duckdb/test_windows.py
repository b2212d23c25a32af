"""Windows of every kind with every clause, over complete data in order: as DuckDB answers."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import Released, Strings
from slackwater.engine.hosts.chain.operators import windows_of
from slackwater.engine.query import query
from tests.beside_duckdb.conftest import Row, assert_same, tables
from tests.beside_duckdb.expressions import BothWays, both, conditions, numbers, texts

WINDOWS = {
    "TUMBLING 8": "SELECT *, ts // 8 * 8 AS began, ts // 8 AS place FROM f",
    "SLIDING 10 EVERY 4": (
        "SELECT f.*, k * 4 AS began, k AS place FROM f, range(-3, 1000) AS every(k) "
        "WHERE ts >= k * 4 AND ts < k * 4 + 10"
    ),
    "SLIDING 9 EVERY 3": (
        "SELECT f.*, k * 3 AS began, k AS place FROM f, range(-3, 1000) AS every(k) "
        "WHERE ts >= k * 3 AND ts < k * 3 + 9"
    ),
    "SESSION 4": (
        "SELECT *, min(ts) OVER (PARTITION BY {keys}, place) AS began FROM (SELECT *, "
        "sum(fresh) OVER (PARTITION BY {keys} ORDER BY n) AS place FROM (SELECT *, CASE WHEN ts - "
        "lag(ts) OVER (PARTITION BY {keys} ORDER BY n) < 4 THEN 0 ELSE 1 END AS fresh FROM f))"
    ),
    "ROWS 3 EVERY 2": (
        "SELECT *, min(ts) OVER (PARTITION BY {keys}, place) AS began FROM (SELECT *, k AS place, "
        "count(*) OVER (PARTITION BY {keys}, k) AS many FROM (SELECT *, row_number() OVER "
        "(PARTITION BY {keys} ORDER BY n) - 1 AS i FROM f), range(0, 100) AS every(k) "
        "WHERE i >= k * 2 AND i < k * 2 + 3) WHERE many = 3"
    ),
    "ROWS 2": (
        "SELECT *, min(ts) OVER (PARTITION BY {keys}, place) AS began FROM (SELECT *, i // 2 AS "
        "place, count(*) OVER (PARTITION BY {keys}, i // 2) AS many FROM (SELECT *, row_number() "
        "OVER (PARTITION BY {keys} ORDER BY n) - 1 AS i FROM f)) WHERE many = 2"
    ),
}  # fmt: skip
"""Each event with the windows that have it (``place``), and their begin."""
EMITS = st.sampled_from(["", "EMIT EARLY EVERY 5", "EMIT ON CHANGE"])


@st.composite
def aggregates(draw: st.DrawFn) -> BothWays:
    value, other = draw(numbers()), draw(numbers("", 0))
    ours = draw(st.sampled_from([
        "count", "sum", "avg", "min", "max", "median", "quantile", "stddev", "var", "distinct",
        "first", "last", "min_by", "max_by", "words", "longest",
    ]))  # fmt: skip
    if ours in {"stddev", "var"}:
        return BothWays(f"{ours}({value.ours})", f"{ours}_pop({value.theirs})")
    if ours == "quantile":
        share = draw(st.sampled_from(["0.1", "0.5", "0.9", "0", "1"]))
        return BothWays(
            f"quantile({value.ours}, {share})", f"quantile_cont(({value.theirs})::DOUBLE, {share})"
        )
    if ours == "distinct":
        return both("count(DISTINCT {})", draw(numbers("", 0) | texts("", 0)))
    if ours == "words":
        return both("count({})", draw(texts()))
    if ours in {"first", "last"}:
        one, back = draw(numbers("", 1) | texts("", 0)), " DESC" if ours == "last" else ""
        return BothWays(
            f"{ours}({one.ours})",
            f"first({one.theirs} ORDER BY n{back}) FILTER (WHERE ({one.theirs}) IS NOT NULL)",
        )
    if ours in {"min_by", "max_by", "longest"}:
        name, back = ("min_by", "") if ours == "min_by" else ("max_by", " DESC")
        one, by = draw(texts("", 0)) if ours == "longest" else value, other
        return BothWays(
            f"{name}({one.ours}, {by.ours})",
            f"first({one.theirs} ORDER BY {by.theirs}{back}, n) "
            f"FILTER (WHERE ({one.theirs}) IS NOT NULL AND ({by.theirs}) IS NOT NULL)",
        )
    return both(ours + "({})", value)


@st.composite
def selected(draw: st.DrawFn) -> BothWays:
    """An aggregate, or arithmetic of some."""
    one = draw(aggregates())
    if not one.ours.startswith(("sum", "avg", "max(", "min(", "count", "stddev", "median")):
        return one
    return draw(st.sampled_from([
        one, one, both("{} - count(*)", one), both("abs({} * 2) / sum(v)", one),
        both("coalesce({}, 0) + max(w)", one), both("(max(v) - min(v)) % {}", one),
        both("CASE WHEN count(*) > 1 THEN {} ELSE 0.5 END", one),
    ]))  # fmt: skip


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str]:
    """In both languages."""
    kind = draw(st.sampled_from(sorted(WINDOWS)))
    keys = draw(st.sampled_from([(), ("g",), ("h",), ("g", "h"), ("stream",)]))
    where = draw(st.none() | conditions())
    values = [BothWays("count(*)", "count(*)"), *draw(st.lists(selected(), max_size=4))]
    having = draw(st.sampled_from([
        None, "c0 > 1", "c0 BETWEEN 1 AND 2 OR c0 = 4", "NOT c0 = 1 AND c0 IS NOT NULL",
    ]))  # fmt: skip
    if having is None and len(values) > 1:
        having = draw(st.sampled_from([None, "c1 IS NOT NULL", "c1 IS NULL OR c0 > 1"]))
    ranked = bool(keys) and not kind.startswith(("SESSION", "ROWS"))
    most = draw(st.sampled_from([None, 1, 2])) if ranked else None
    by = draw(st.sampled_from(["c0 DESC", "c0"]))
    columns = ", ".join(f"{value.ours} AS c{place}" for place, value in enumerate(values))
    ours = [
        f"SELECT {columns}", f"WHERE {where.ours}" if where else "",
        f"GROUP BY {', '.join(keys)}" if keys else "", f"HAVING {having}" if having else "",
        f"ORDER BY {by} LIMIT {most}" if most else "", f"WINDOW {kind}", draw(EMITS),
    ]  # fmt: skip
    theirs = "WITH f AS (SELECT * FROM t AS a" + (f" WHERE {where.theirs}" if where else "")
    of = ", ".join(keys) or "NULL::INT"
    theirs += f"), p AS ({WINDOWS[kind].format(keys=of)})"
    listed = "".join(f"{key}, " for key in keys)
    columns = ", ".join(f"{value.theirs} AS c{place}" for place, value in enumerate(values))
    theirs += (
        f", r AS (SELECT {listed}began, place, {columns} FROM p GROUP BY {listed}began, place)"
    )
    theirs += f", k AS (SELECT * FROM r WHERE {having or 'true'})"
    shown = f"{listed}began" + "".join(f", c{place}" for place in range(len(values)))
    theirs += f" SELECT {shown} FROM k"
    if most:
        in_order = ", ".join(f"{key} NULLS FIRST" for key in keys)
        theirs += (
            f" QUALIFY row_number() OVER (PARTITION BY place ORDER BY {by} NULLS LAST, {in_order})"
            f" <= {most}"
        )
    return " ".join(filter(None, ours)), theirs


ASKED = given(tables(), st.lists(queries(), min_size=1, max_size=6))


@settings(max_examples=6)
@ASKED
def test_same_windows(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


@pytest.mark.deep
@settings(max_examples=150)
@ASKED
def test_same_windows_of_many(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


def check(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    def shown(result: Row) -> tuple[Any, ...]:
        return (*result["key"].values(), result["window"]["start"], *result["value"].values())

    assert_same(rows, asked, shown)


# ---- some hundred values of very different size ----------------------------------------------
SQL_VALUES = "count(*), sum(v), avg(v), min(v), max(v), stddev_pop(v), median(v), count(DISTINCT w)"
OURS = SQL_VALUES.replace("stddev_pop", "stddev")
SQL = {
    "TUMBLING 40": "SELECT g, ref // 40 * 40 AS began, {values} FROM t GROUP BY g, began",
    "SLIDING 40 EVERY 15": (
        "SELECT g, k * 15 AS began, {values} FROM t, range(-3, 200) AS w(k) "
        "WHERE ref >= k * 15 AND ref < k * 15 + 40 GROUP BY g, began"
    ),
    "SESSION 12": (
        "SELECT g, min(ref) AS began, {values} FROM (SELECT *, sum(fresh) OVER (PARTITION BY g "
        "ORDER BY n) AS s FROM (SELECT *, CASE WHEN ref - lag(ref) OVER (PARTITION BY g "
        "ORDER BY n) < 12 THEN 0 ELSE 1 END AS fresh FROM t)) GROUP BY g, s"
    ),
    "ROWS 7 EVERY 3": (
        "SELECT g, min(ref) AS began, {values} FROM (SELECT *, row_number() OVER (PARTITION BY g "
        "ORDER BY n) - 1 AS i FROM t), range(0, 200) AS w(k) WHERE i >= k * 3 AND i < k * 3 + 7 "
        "GROUP BY g, k HAVING count(*) = 7"
    ),
}


@pytest.mark.parametrize("emit", ["", "EMIT EARLY EVERY 9", "EMIT ON CHANGE"])
@pytest.mark.parametrize("window", SQL)
def test_wide_values_are_equal(window: str, emit: str) -> None:
    generator, n = np.random.default_rng(7), 300
    ref = np.cumsum(generator.integers(0, 8, n))
    g, w = generator.integers(0, 4, n), generator.integers(0, 9, n)
    v = np.exp(generator.normal(scale=6.0, size=n)) * generator.choice((-1.0, 1.0), n)
    table = pa.table({"n": np.arange(n), "ref": ref, "g": g, "w": w, "v": v})
    connection = duckdb.connect()
    connection.register("t", table)
    asked = SQL[window].format(values=SQL_VALUES)
    theirs = sorted(connection.execute(asked).fetchall())

    zeros = np.zeros(n, np.int64)
    columns: dict[str, Any] = {
        "ref": ref, "ts": ref, "te": ref, "unc": zeros, "epoch": zeros - 1, "release": ref,
        "seq": np.arange(n), "status": np.zeros(n, np.int8), "source": np.zeros(n, np.int32),
        "stream": np.zeros(n, np.int32), "attrs.g": g, "attrs.v": v, "attrs.w": w,
    }  # fmt: skip
    operator = windows_of(query(f"SELECT {OURS} GROUP BY g WINDOW {window} {emit}"))
    types = {"g": "int", "v": "float", "w": "int"}
    results = list(operator.process(Released(n, columns, types, Strings(["events"]), 0)))
    results += operator.finish(10**6)
    stands: list[tuple[Any, ...]] = []
    for r in results:
        emitted = (r["key"]["g"], r["window"]["start"], *r["value"].values())
        (stands.append if r["op"] == "+" else stands.remove)(emitted)
    assert len(stands) == len(theirs) > 10
    for mine, other in zip(sorted(stands), theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-9, abs=1e-9)
