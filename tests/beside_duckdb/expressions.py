"""Values and conditions at random: in our language and in DuckDB's SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy


class BothWays(NamedTuple):
    """The same in both languages."""

    ours: str
    theirs: str


def both(form: str, *parts: BothWays) -> BothWays:
    """One form for both; ``{}`` for each part."""
    return BothWays(
        form.format(*(part.ours for part in parts)), form.format(*(part.theirs for part in parts))
    )


def _built(form: str, *parts: SearchStrategy[BothWays]) -> SearchStrategy[BothWays]:
    return st.tuples(*parts).map(lambda some: both(form, *some))


def _differing(
    parts: tuple[SearchStrategy[BothWays], ...], ours: str, theirs: str
) -> SearchStrategy[BothWays]:
    return st.tuples(*parts).map(
        lambda some: BothWays(
            ours.format(*(part.ours for part in some)),
            theirs.format(*(part.theirs for part in some)),
        )
    )


def named(columns: str, of: str = "") -> SearchStrategy[BothWays]:
    """One of the columns, of an alias."""
    return st.sampled_from([BothWays(of + name, of + name) for name in columns.split()])


CONSTANTS = st.sampled_from(["0", "1", "2", "-3", "0.5", "2.25"]).map(
    lambda text: BothWays(text, text)
)
QUOTED = st.sampled_from(["''", "'a'", "'ab'", "'AB'", "'10'", "'\u00e4'"]).map(
    lambda text: BothWays(text, text)
)
PATTERNS = st.sampled_from(["%", "a%", "_", "%b", "a\\_b", "a\\%", ""])
REGULAR = st.sampled_from(["^a", "b$", "[0-9]+", ".", "a|b"])
_OF_TIMES = {
    "year": "year", "month": "month", "day": "day", "hour": "hour", "minute": "minute",
    "second": "second", "day_of_week": "isodow",
}  # fmt: skip


def numbers(of: str = "", depth: int = 2) -> SearchStrategy[BothWays]:
    """Values that are numbers, with at least one column in them."""
    leaf = named("v w x g", of)
    if depth == 0:
        return leaf
    inner = numbers(of, depth - 1)
    other = inner | CONSTANTS
    ours_of_text = texts(of, 0)
    return st.one_of(
        leaf,
        _built("({} + {})", inner, other),
        _built("({} - {})", inner, other),
        _built("({} * {})", inner, other),
        _built("({} / {})", other, inner),
        _built("({} % {})", other, inner),
        _built("(-{})", inner),
        _built("abs({})", inner),
        _built("floor({})", inner),
        _built("ceil({})", inner),
        _built("round({})", leaf),
        _built("least({}, {}, {})", inner, other, inner),
        _built("greatest({}, {}, {})", inner, inner, other),
        _built("coalesce({}, {})", inner, other),
        _built("CASE WHEN {} < {} THEN {} ELSE {} END", inner, other, other, inner),
        _built("CASE WHEN {} IS NULL THEN {} WHEN {} > 1 THEN 7 END", inner, other, inner),
        _built("CASE {} WHEN 1 THEN {} WHEN 2 THEN 0 END", named("w g", of), inner),
        _built("length({})", ours_of_text),
        *(
            _differing((named("born", of),), f"{name}({{}})", f"{theirs}(make_timestamp_ns({{}}))")
            for name, theirs in _OF_TIMES.items()
        ),
    )


def texts(of: str = "", depth: int = 1) -> SearchStrategy[BothWays]:
    """Values that are texts."""
    leaf = named("s h", of)
    if depth == 0:
        return leaf
    inner = texts(of, depth - 1)
    return st.one_of(
        leaf,
        _built("upper({})", inner),
        _built("lower({})", inner),
        _built("trim({})", inner),
        _built("coalesce({}, {})", inner, inner | QUOTED),
    )


def conditions(of: str = "", depth: int = 2) -> SearchStrategy[BothWays]:
    """What is true, false or null."""
    values, words = numbers(of, 1), texts(of, 1)
    one = named("v w x g s h born", of)
    single: list[SearchStrategy[BothWays]] = [
        *(_built(f"{{}} {op} {{}}", values, values | CONSTANTS) for op in ("<", "<=", "=", "<>")),
        _built("{} > {}", words, words | QUOTED),
        _built("{} = {}", words, words | QUOTED),
        _built("{} BETWEEN {} AND {}", values, CONSTANTS, values),
        _built("{} NOT BETWEEN {} AND {}", values, CONSTANTS, CONSTANTS),
        _built("{} IN (1, 2, 0.5)", values),
        _built("{} NOT IN (1, -2)", values),
        _built("{} IN ('a', 'ab', '')", words),
        _built("{} NOT IN ('a', 'p')", words),
        _built("{} IS NULL", one),
        _built("{} IS NOT NULL", values),
        st.tuples(words, PATTERNS).map(
            lambda some: BothWays(
                f"{some[0].ours} LIKE '{some[1]}'",
                f"{some[0].theirs} LIKE '{some[1]}' ESCAPE '\\'",
            )
        ),
        st.tuples(words, REGULAR).map(
            lambda some: BothWays(
                f"regexp_like({some[0].ours}, '{some[1]}')",
                f"regexp_matches({some[0].theirs}, '{some[1]}')",
            )
        ),
    ]
    leaf = st.one_of(single)
    if depth == 0:
        return leaf
    inner = conditions(of, depth - 1)
    forms: list[Callable[[], SearchStrategy[BothWays]]] = [
        lambda: _built("({} AND {})", inner, leaf),
        lambda: _built("({} OR {})", inner, leaf),
        lambda: _built("NOT ({})", inner),
    ]
    return st.one_of(leaf, *(form() for form in forms))
