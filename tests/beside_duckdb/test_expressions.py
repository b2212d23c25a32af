"""Conditions and values of single events: with nulls, text, division by zero, as DuckDB's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.beside_duckdb.conftest import Row, assert_same, tables
from tests.beside_duckdb.expressions import Said, conditions, numbers, texts

ASKED = given(
    tables(),
    st.lists(st.tuples(conditions("a."), numbers("a."), texts("a.")), min_size=1, max_size=8),
)


@settings(max_examples=10)
@ASKED
def test_same_rows_and_values(rows: list[Row], asked: list[tuple[Said, Said, Said]]) -> None:
    check(rows, asked)


@pytest.mark.deep
@settings(max_examples=150)
@ASKED
def test_same_rows_and_values_of_many(
    rows: list[Row], asked: list[tuple[Said, Said, Said]]
) -> None:
    check(rows, asked)


def check(rows: list[Row], asked: list[tuple[Said, Said, Said]]) -> None:
    pairs = [
        (
            f"EVENT E a WHERE {where.ours} RETURN a.n AS n, {number.ours} AS y, {text.ours} AS z",
            f"SELECT n, {number.theirs}, {text.theirs} FROM t AS a WHERE {where.theirs}",
        )
        for where, number, text in asked
    ]
    assert_same(rows, pairs, lambda result: tuple(result["value"].values()))
