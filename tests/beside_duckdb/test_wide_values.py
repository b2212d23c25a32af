"""Windows of some hundred values of very different size: what DuckDB says of the table."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from engine.query import query
from engine.stream.released import Released, Strings
from engine.window.kinds import windows_of

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
def test_values_are_equal(window: str, emit: str) -> None:
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
        told = (r["key"]["g"], r["window"]["start"], *r["value"].values())
        (stands.append if r["op"] == "+" else stands.remove)(told)
    assert len(stands) == len(theirs) > 10
    for mine, other in zip(sorted(stands), theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-9, abs=1e-9)
