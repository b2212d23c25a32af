"""Joins of every kind, over complete data in order: as DuckDB answers."""

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


ASKED = given(tables(), st.lists(joins(), min_size=1, max_size=6))


@settings(max_examples=10)
@ASKED
def test_same_rows(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


@pytest.mark.deep
@settings(max_examples=150)
@ASKED
def test_same_rows_of_many(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    check(rows, asked)


def check(rows: list[Row], asked: list[tuple[str, str]]) -> None:
    assert_same(rows, asked, lambda result: tuple(result["value"].values()))
