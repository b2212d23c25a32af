"""The slow twin of ``engine.query.expression``: one row, Python's own numbers, None for null."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from fractions import Fraction
from math import inf, isinf, isnan
from typing import Any

from engine.query.plan import (
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)

Row = Mapping[str, Any]
COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def slow_value(node: Expression, rows: Mapping[str | None, Row]) -> Any:
    """``rows``: by alias, what the event has by the plan's names of attributes."""
    if isinstance(node, Constant):
        return int(node.value) if isinstance(node.value, bool) else node.value
    if isinstance(node, Attribute):
        found = rows[node.alias].get(node.name)
        found = int(found) if isinstance(found, bool) else found
        return None if isinstance(found, float) and isnan(found) else found
    left, right = slow_value(node.left, rows), slow_value(node.right, rows)
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return None
    if node.op == "/":
        return None if right == 0 else slow_float("/", left, right)
    if isinstance(left, int) and isinstance(right, int):
        whole = {"+": left + right, "-": left - right, "*": left * right}[node.op]
        return whole if -(2**63) <= whole < 2**63 else None
    return slow_float(node.op, left, right)


def slow_float(op: str, left: float, right: float) -> float | None:
    """IEEE arithmetic where Python would raise."""
    first, second = float(left), float(right)
    try:
        exact = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
        }[op](first, second)  # fmt: skip
    except OverflowError:  # pragma: no cover - Python's float operators give inf
        exact = inf
    return None if isnan(exact) else exact


def slow_compare(op: str, left: Any, right: Any) -> bool:
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return False
    if not isinstance(left, str) and not any(isinf(x) for x in (left, right)):
        left, right = Fraction(left), Fraction(right)
    return bool(COMPARE[op](left, right))


def slow(node: Predicate, rows: Mapping[str | None, Row]) -> bool:
    """A comparison with None is false."""
    match node:
        case Comparison(op=op, left=left, right=right):
            return slow_compare(op, slow_value(left, rows), slow_value(right, rows))
        case Membership(item=item, options=options):
            value = slow_value(item, rows)
            return any(slow_compare("=", value, slow_value(o, rows)) for o in options)
        case Logic(op="not", terms=(term,)):
            return not slow(term, rows)
        case Logic(op="or", terms=terms):
            return any(slow(term, rows) for term in terms)
        case Logic(terms=terms):
            return all(slow(term, rows) for term in terms)
    raise AssertionError(node)
