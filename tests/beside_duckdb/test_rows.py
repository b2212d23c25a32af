"""Conditions, joins and statements over results, over complete data in order: as DuckDB answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.beside_duckdb.conftest import Row, assert_same, tables
from tests.beside_duckdb.expressions import conditions, numbers, texts

KINDS = ("", "INNER", "LEFT", "RIGHT OUTER", "FULL", "ANTI")
NEAR = {
    "WITHIN 4": "abs(a.ts - b.ts) <= 4",
    "WITHIN 30": "abs(a.ts - b.ts) <= 30",
    "WINDOW TUMBLING 8": "a.ts // 8 = b.ts // 8",
}
KEYS = (
    "a.g = b.g", "a.h = b.h", "a.g = b.w", "a.g = b.g AND a.h = b.h", "a.v = b.w",
)  # fmt: skip
ACROSS = ("", "a.v < b.v", "a.w <> b.w", "a.v - b.x > 1 OR a.s IS NULL", "a.s < b.s")


@st.composite
def joins(draw: st.DrawFn) -> tuple[str, str]:
    """In both languages."""
    kind, near = draw(st.sampled_from(KINDS)), draw(st.sampled_from(sorted(NEAR)))
    on = [draw(st.sampled_from(KEYS)), draw(st.sampled_from(ACROSS))]
    on = [condition for condition in on if condition]
    one_side = draw(st.none() | conditions("a.", 0) | conditions("b.", 0))
    left, right = draw(numbers("a.", 1)), draw(texts("b.", 1))
    value = draw(st.sampled_from(["a.v + b.w", "coalesce(a.w, b.v)", "abs(a.v - b.v)"]))
    columns = ["a.n AS y", f"{left.ours} AS l"]
    theirs = ["a.n", left.theirs]
    if kind != "ANTI":
        columns += ["b.n AS z", f"{right.ours} AS r", f"{value} AS c"]
        theirs += ["b.n", right.theirs, value]
    ours_on = [*on, one_side.ours] if one_side else on
    theirs_on = [*on, one_side.theirs, NEAR[near]] if one_side else [*on, NEAR[near]]
    where = None
    if kind in {"", "INNER"} or kind == "LEFT":
        side = conditions("a.", 0) if kind == "LEFT" else conditions("a.", 0) | conditions("b.", 0)
        where = draw(st.none() | side)
    ours_together = " AND ".join(f"({one})" for one in ours_on)
    return (
        f"SELECT {', '.join(columns)} FROM a {kind} JOIN b ON {ours_together}"
        + (f" WHERE {where.ours} " if where else " ") + near,
        f"SELECT {', '.join(theirs)} FROM (SELECT * FROM t WHERE stream = 'a') AS a {kind} JOIN "
        "(SELECT * FROM t WHERE stream = 'b') AS b ON "
        + " AND ".join(f"({one})" for one in theirs_on)
        + (f" WHERE {where.theirs}" if where else ""),
    )  # fmt: skip


@st.composite
def matches(draw: st.DrawFn) -> tuple[str, str]:
    """Conditions and values of single events, in both languages."""
    where, number, text = draw(conditions("a.")), draw(numbers("a.")), draw(texts("a."))
    return (
        f"EVENT E a WHERE {where.ours} RETURN a.n AS n, {number.ours} AS y, {text.ours} AS z",
        f"SELECT n, {number.theirs}, {text.theirs} FROM t AS a WHERE {where.theirs}",
    )


CONDITIONS, NUMBERS, TEXTS = conditions(), numbers(), texts()


@st.composite
def rows_of_streams(draw: st.DrawFn) -> tuple[str, str]:
    """SELECT without WINDOW, in both languages."""
    where, number, text = draw(CONDITIONS), draw(NUMBERS), draw(TEXTS)
    read = {"FROM a": "'a'", "FROM b AS t": "'b'", "FROM a, b": "'a', 'b'", "": "'a', 'b'"}
    clause = draw(st.sampled_from(sorted(read)))
    columns = f"n, {number.ours}, {text.ours} AS z"
    return (
        f"SELECT {columns} {clause} WHERE {where.ours}",
        (f"SELECT n, {number.theirs}, {text.theirs} FROM t WHERE ({where.theirs}) "
         f"AND stream IN ({read[clause]})"),
    )  # fmt: skip


ASKED = given(tables(), st.lists(matches() | joins() | rows_of_streams(), min_size=1, max_size=8))


@settings(max_examples=7)
@ASKED
def test_same_rows(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


@pytest.mark.deep
@settings(max_examples=300)
@ASKED
def test_same_rows_of_many(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


def check(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    assert_same(rows, asked, lambda result: tuple(result["value"].values()))


# ---- statements over results ------------------------------------------------------------------
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
def test_same_results_over_results(case: str, rows: list[Row]) -> None:
    def shown(result: Row) -> tuple[object, ...]:
        if "window" not in result:
            return tuple(result["value"].values())
        return (
            *result.get("key", {}).values(), result["window"]["start"], *result["value"].values(),
        )  # fmt: skip

    statements, theirs = CASES[case]
    assert_same(rows, [(";".join(statements), theirs)], shown)
