"""Statements over results, over complete data in order: as DuckDB's nested queries answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.beside_duckdb.conftest import Row, assert_same, tables

FINE = "CREATE STREAM fine AS SELECT sum(v) AS s, count(*) AS n, max(w) AS w GROUP BY g {}"
BY_FOUR = (
    "WITH fine AS (SELECT g, ts // 4 * 4 AS began, sum(v) AS s, count(*) AS n, max(w) AS w "
    "FROM t GROUP BY g, began) "
)
CASES = {
    "a window of windows": (
        [FINE.format("WINDOW TUMBLING 4"),
         "SELECT sum(n) AS n, avg(s) AS m FROM fine GROUP BY g WINDOW TUMBLING 12"],
        BY_FOUR + "SELECT g, began // 12 * 12 AS b, sum(n), avg(s) FROM fine GROUP BY g, b",
    ),
    "a window of the windows that HAVING leaves, no group": (
        [FINE.format("HAVING n > 1 WINDOW TUMBLING 4"),
         "SELECT count(*), count(DISTINCT g), min(s) FROM fine WINDOW TUMBLING 8"],
        BY_FOUR + "SELECT began // 8 * 8 AS b, count(*), count(DISTINCT g), min(s) "
        "FROM fine WHERE n > 1 GROUP BY b",
    ),
    "a rise from one window to a later one": (
        [FINE.format("WINDOW TUMBLING 4"),
         ("EVENT SEQ(fine a, fine b) WHERE a.g = b.g AND b.s > a.s WITHIN 12 "
          "RETURN a.g AS g, a.s AS s, b.s AS t")],
        BY_FOUR + "SELECT a.g, a.s, b.s FROM fine a, fine b WHERE a.g = b.g AND b.s > a.s "
        "AND b.began > a.began AND b.began + 3 - a.began <= 12",
    ),
    "a window of pairs": (
        ["CREATE STREAM pair AS SELECT a.v AS v, b.v AS w FROM a JOIN b ON a.g = b.g WITHIN 3",
         "SELECT count(*), sum(v - w) FROM pair WINDOW TUMBLING 10"],
        ("SELECT greatest(a.ts, b.ts) // 10 * 10 AS began, count(*), sum(a.v - b.v) "
         "FROM t a, t b WHERE a.stream = 'a' AND b.stream = 'b' AND a.g = b.g "
         "AND abs(a.ts - b.ts) <= 3 GROUP BY began"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=8)
@given(rows=tables())
def test_same_results(case: str, rows: list[Row]) -> None:
    def shown(result: Row) -> tuple[object, ...]:
        if "window" not in result:
            return tuple(result["value"].values())
        return (
            *result.get("key", {}).values(), result["window"]["start"], *result["value"].values(),
        )  # fmt: skip

    statements, theirs = CASES[case]
    assert_same(rows, [(";".join(statements), theirs)], shown)
