"""Rows of attributes of every kind, and conditions on them; what is hard is among their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import inf, nan
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from slackwater.engine.core.released import Strings
from slackwater.engine.query import plan
from tests.query.slow_expression import (
    TYPES,
    Arithmetic,
    Case,
    Comparison,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Predicate,
    Presence,
)

Row = Mapping[str, Any]
TEXTS: Final = ["", "a", "b", "ab", "B", "\u00e4", "10", "9", "\U0001f600", "\uffff"]
INTS: Final = st.integers(-3, 3) | st.sampled_from(
    [2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 2**31]
)
REALS: Final = st.sampled_from(
    [0.0, -0.0, 0.5, -1.0, 2.0, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63),
     1e308, -1e308, inf, -inf, nan, 1e-320]
)  # fmt: skip
_VALUES: Final = {
    "int": st.none() | INTS,
    "float": st.none() | REALS,
    "bool": st.none() | st.booleans(),
    "str": st.none() | st.sampled_from(TEXTS),
}
ROW: Final = st.fixed_dictionaries({name: _VALUES[kind] for name, kind in TYPES.items()})


def as_plan(node: Any) -> Any:
    """The expression of a test as the engine has it; what the engine made stays as it is."""
    if isinstance(node, tuple):
        return tuple(map(as_plan, node))
    if not is_dataclass(node):
        return node
    values = (as_plan(getattr(node, each.name)) for each in fields(node))
    return getattr(plan, type(node).__name__)(*values)


def columns_of(rows: Sequence[Row], strings: Strings) -> dict[str, np.ndarray]:
    """The rows' attributes as ``engine.core.released.Released`` has them."""
    dtypes = {"int": np.int64, "float": np.float64, "bool": np.bool_, "str": np.int32}
    columns: dict[str, np.ndarray] = {}
    for name, kind in TYPES.items():
        values = [row.get(name) for row in rows]
        if kind == "str":
            filled = [-1 if value is None else strings.code(value) for value in values]
        else:
            filled = [0 if value is None else value for value in values]
        columns["attrs." + name] = np.array(filled, dtypes[kind])
        if kind != "str" and None in values:
            columns["valid." + name] = np.array([value is not None for value in values])
    return columns


def computed(leaves: SearchStrategy[Expression], most: int) -> SearchStrategy[Expression]:
    """Expressions of at most ``most`` leaves."""

    def more(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
        perhaps = inner | st.none()
        ops = st.sampled_from(["<", "=", "!="])
        return (
            st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner)
            | st.builds(
                FunctionCall, st.sampled_from(["abs", "floor", "ceil", "round"]), st.tuples(inner)
            )
            | st.builds(
                FunctionCall, st.sampled_from(["least", "greatest"]), st.tuples(inner, inner, inner)
            )
            | st.builds(FunctionCall, st.just("coalesce"), st.tuples(inner, inner))
            | st.builds(_case, ops, inner, inner, perhaps, perhaps)
        )

    return st.recursive(leaves, more, max_leaves=most)


def _case(
    op: str, left: Expression, right: Expression, then: Expression | None, other: Expression | None
) -> Case:
    return Case(((Comparison(op, left, right), then),), other)


def sums(leaves: SearchStrategy[Expression], most: int) -> SearchStrategy[Expression]:
    """Arithmetic of at most ``most`` leaves, and no functions."""
    return st.recursive(
        leaves,
        lambda inner: st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        max_leaves=most,
    )


def texts(leaves: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    """Functions of texts, of one event each."""
    return st.builds(
        FunctionCall, st.sampled_from(["upper", "lower", "trim", "length"]), st.tuples(leaves)
    )


PATTERNS: Final = ["%", "a%", "_", "%b", "1_", "\\%", ""]


def asked(
    values: SearchStrategy[Expression], one_event: SearchStrategy[Expression]
) -> SearchStrategy[Predicate]:
    """IS NOT NULL, LIKE and regexp_like."""
    return (
        st.builds(Presence, values)
        | st.builds(Likeness, one_event, st.sampled_from(PATTERNS), st.just(False))
        | st.builds(Likeness, one_event, st.sampled_from(["^a", "b$", "[0-9]+", ""]), st.just(True))
    )


def combined(leaves: SearchStrategy[Predicate], most: int) -> SearchStrategy[Predicate]:
    """AND, OR and NOT of at most ``most`` leaves."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(
                Logic,
                st.sampled_from(["and", "or"]),
                st.lists(inner, min_size=2, max_size=3).map(tuple),
            )
            | inner.map(lambda term: Logic("not", (term,)))
        ),
        max_leaves=most,
    )
