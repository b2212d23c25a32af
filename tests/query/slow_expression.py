"""The slow twin of conditions and values: one row, Python's own numbers, None for null.

Its expressions are its own: tests write them, or ``slow_reader`` reads them from a query's text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, fmod, inf, isinf, isnan, trunc
from typing import Any


@dataclass(frozen=True)
class Attribute:
    """What the event of step ``alias`` has by the name; ``slow_reader`` says which of several."""

    name: str
    alias: str | None = None


@dataclass(frozen=True)
class Constant:
    value: Any


@dataclass(frozen=True)
class Arithmetic:
    """``+ - * / %``"""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class FunctionCall:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Case:
    """What stands beside the first condition that is true; None: NULL."""

    whens: tuple[tuple[Predicate, Expression | None], ...]
    otherwise: Expression | None


@dataclass(frozen=True)
class Comparison:
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Membership:
    """IN"""

    item: Expression
    options: tuple[Constant, ...]


@dataclass(frozen=True)
class Presence:
    """IS NOT NULL"""

    item: Expression


@dataclass(frozen=True)
class Likeness:
    """LIKE, or ``regular``: regexp_like"""

    item: Expression
    pattern: str
    regular: bool = False


@dataclass(frozen=True)
class Logic:
    """``and``, ``or``, ``not``"""

    op: str
    terms: tuple[Predicate, ...]


Expression = Attribute | Constant | Arithmetic | FunctionCall | Case
Predicate = Comparison | Membership | Presence | Likeness | Logic
TYPES = {
    "i": "int", "j": "int", "f": "float", "g": "float", "b": "bool", "s": "str", "t": "str",
}  # fmt: skip
"""Attributes of random rows."""
Row = Mapping[str, Any]
TEXT_FUNCTIONS: Mapping[str, Any] = {
    "upper": str.upper, "lower": str.lower, "trim": str.strip, "length": len,
}  # fmt: skip
KINDS = TYPES | {"ts": "int", "te": "int", "seq": "int", "type": "str"}
CHOICES = {"least", "greatest", "coalesce"}
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
    if isinstance(node, FunctionCall):
        kinds = {slow_kind(each) for each in node.arguments} - {None}
        values = [slow_value(each, rows) for each in node.arguments]
        if node.function == "coalesce":
            return as_kind(slow_call("coalesce", values), slow_kind(node))
        if node.function in CHOICES:
            values = [as_kind(value, slow_kind(node)) for value in values]
            if "str" in kinds:
                return None
        return slow_call(node.function, values)
    if isinstance(node, Case):
        chosen = next((then for when, then in node.whens if slow(when, rows)), node.otherwise)
        return None if chosen is None else as_kind(slow_value(chosen, rows), slow_kind(node))
    left, right = slow_value(node.left, rows), slow_value(node.right, rows)
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return None
    if node.op == "%":
        return slow_remainder(left, right)
    if node.op == "/":
        return None if right == 0 else slow_float("/", left, right)
    if isinstance(left, int) and isinstance(right, int):
        whole = {"+": left + right, "-": left - right, "*": left * right}[node.op]
        return whole if -(2**63) <= whole < 2**63 else None
    return slow_float(node.op, left, right)


def slow_kind(node: Expression | None) -> str | None:
    """Of the column that ``node`` is: ``int``, ``float`` or ``str``; None: all null."""
    match node:
        case Constant(value=value):
            return "int" if isinstance(value, bool) else type(value).__name__
        case Attribute(name=name):
            return {"bool": "int"}.get(KINDS.get(name, ""), KINDS.get(name))
        case Arithmetic(op=op, left=left, right=right):
            kinds = {slow_kind(left), slow_kind(right)}
            if not kinds <= {"int", "float"}:
                return None
            return "float" if op == "/" or "float" in kinds else "int"
        case FunctionCall(function=function, arguments=arguments) if function not in CHOICES:
            kind = slow_kind(arguments[0])
            if kind is None or (kind == "str") != (function in TEXT_FUNCTIONS):
                return None
            return "int" if function == "length" else kind
        case FunctionCall(function=function, arguments=values):
            kind = widest([slow_kind(value) for value in values])
            return None if kind == "str" and function != "coalesce" else kind
        case Case(whens=whens, otherwise=otherwise):
            return widest([slow_kind(value) for value in (*(then for _, then in whens), otherwise)])
    return None


def widest(kinds: list[str | None]) -> str | None:
    """The kind of values of which one is chosen."""
    return next((kind for kind in ("str", "float", "int") if kind in kinds), None)


def as_kind(value: Any, kind: str | None) -> Any:
    """As a column of the kind has it."""
    if value is None or isinstance(value, str) != (kind == "str"):
        return None
    return float(value) if kind == "float" else value


def slow_remainder(left: float, right: float) -> float | None:
    """With the sign of ``left``."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    first, second = float(left), float(right)
    return None if isinf(first) else fmod(first, second)


def slow_call(function: str, arguments: list[Any]) -> Any:
    """A function of Python's values."""
    known = [each for each in arguments if each is not None]
    if function == "coalesce":
        return known[0] if known else None
    if function in {"least", "greatest"}:
        best = known[0] if known else None
        for each in known[1:]:
            if slow_compare("<=" if function == "least" else ">=", best, each) is not True:
                best = each
        return best
    value = arguments[0]
    if value is None or isinstance(value, str) != (function in TEXT_FUNCTIONS):
        return None
    if isinstance(value, str):
        return TEXT_FUNCTIONS[function](value)
    if function == "abs":
        return None if value == -(2**63) and isinstance(value, int) else abs(value)
    if isinstance(value, int) or isinf(value):
        return value
    if function == "round":
        half = Fraction(value) + (Fraction(1, 2) if value > 0 else Fraction(-1, 2))
        return float(trunc(half))
    return float(floor(value) if function == "floor" else ceil(value))


def slow_likeness(value: Any, pattern: str, *, regular: bool) -> bool | None:
    if not isinstance(value, str):
        return None
    if regular:
        return re.search(pattern, value) is not None
    parts = re.findall(r"\\\\.|.", pattern)
    signs = {"%": ".*", "_": "."}
    written = "".join(signs.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(written, value, re.DOTALL) is not None


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


def slow_compare(op: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    if not isinstance(left, str) and not any(isinf(x) for x in (left, right)):
        left, right = Fraction(left), Fraction(right)
    return bool(COMPARE[op](left, right))


def slow(node: Predicate, rows: Mapping[str | None, Row]) -> bool:
    """Whether it is true: not false, and not unknown."""
    return truth(node, rows) is True


def truth(node: Predicate, rows: Mapping[str | None, Row]) -> bool | None:
    """SQL's three values; None: unknown, as a comparison with None is."""
    match node:
        case Comparison(op=op, left=left, right=right):
            return slow_compare(op, slow_value(left, rows), slow_value(right, rows))
        case Membership(item=item, options=options):
            value = slow_value(item, rows)
            return one_of([slow_compare("=", value, slow_value(o, rows)) for o in options])
        case Presence(item=item):
            return slow_value(item, rows) is not None
        case Likeness(item=item, pattern=pattern, regular=regular):
            return slow_likeness(slow_value(item, rows), pattern, regular=regular)
        case Logic(op="not", terms=(term,)):
            found = truth(term, rows)
            return None if found is None else not found
        case Logic(op="or", terms=terms):
            return one_of([truth(term, rows) for term in terms])
        case Logic(terms=terms):
            each = [truth(term, rows) for term in terms]
            return False if False in each else None if None in each else True
    raise AssertionError(node)


def one_of(terms: list[bool | None]) -> bool | None:
    """OR."""
    return True if True in terms else None if None in terms else False
