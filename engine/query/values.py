"""Columns of values with null: comparing them and calculating with them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from engine.query.plan import MIRRORED
from engine.stream.released import Strings

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXACT: Final = 2**53
"""Every integer up to this size is a float64."""
_SAFE: Final = 2.0**62
_MIN: Final = -(2**63)
_NOWHERE: Final = np.zeros((), np.bool_)


class Value(Struct, frozen=True):
    """``kind`` int (int64; truth values as 0 and 1) | float (float64) | str (codes) | null.

    ``data`` is an array; for a text constant, the text itself. ``valid`` None = all are.
    """

    kind: str
    data: Any
    valid: np.ndarray | None

    @classmethod
    def constant(cls, value: int | float | str | bool) -> Value:
        if isinstance(value, str):
            return cls("str", value, None)
        if isinstance(value, float):
            return cls("float", np.asarray(value, np.float64), None)
        return cls("int", np.asarray(int(value), np.int64), None)


NULL: Final = Value("null", None, None)


def compare(op: str, left: Value, right: Value, strings: Strings | None) -> np.ndarray:
    """Where ``left op right``; nowhere if a side is null."""
    if "null" in {left.kind, right.kind} or (left.kind == "str") != (right.kind == "str"):
        return _NOWHERE
    if left.kind == "str":
        found = _compare_text(op, left, right, strings)
    elif left.kind == right.kind:
        found = _COMPARE[op](left.data, right.data)
        if op == "!=" and left.kind == "float":
            # The only comparison that is true of a NaN.
            found = found & ~np.isnan(left.data) & ~np.isnan(right.data)
    elif left.kind == "int":
        found = _compare_mixed(op, left.data, right.data)
    else:
        found = _compare_mixed(MIRRORED[op], right.data, left.data)
    valid = both_valid(left.valid, right.valid)
    return np.asarray(found if valid is None else found & valid)


def is_in(
    item: Value,
    constants: Sequence[int | float | str | bool],
    strings: Strings | None,
    *,
    truth: bool = True,
) -> np.ndarray:
    """Where ``item IN constants``, or where it is not; nowhere if the item is null."""
    if item.kind == "int" and all(isinstance(constant, int) for constant in constants):
        wanted = np.array([int(constant) for constant in constants], np.int64)
        found = np.isin(item.data, wanted, invert=not truth)
        return np.asarray(found if item.valid is None else found & item.valid)
    texts = [constant for constant in constants if isinstance(constant, str)]
    if item.kind == "str" and not isinstance(item.data, str) and len(texts) == len(constants):
        assert strings is not None
        codes = np.array([strings.find(text) for text in texts], np.int32)
        found = np.isin(item.data, codes, invert=not truth)
        return np.asarray(found if item.valid is None else found & item.valid)
    found = np.asarray(not truth)
    for constant in constants:
        one = compare("=" if truth else "!=", item, Value.constant(constant), strings)
        found = found | one if truth else found & one
    return found


def present(value: Value) -> np.ndarray:
    """Where it is not null; a NaN is."""
    if value.kind == "null":
        return _NOWHERE
    there = np.ones((), np.bool_) if value.valid is None else value.valid
    return there & ~np.isnan(value.data) if value.kind == "float" else there


def choose(
    cases: Sequence[tuple[np.ndarray, Value]], otherwise: Value, strings: Strings | None
) -> Value:
    """Of the first of ``cases`` whose mask is true, the value; ``otherwise`` where none is.

    Numbers become floats where one is; beside text, what is none is null.
    """
    values = [value for _, value in cases] + [otherwise]
    kinds = {value.kind for value in values}
    kind = next((each for each in ("str", "float", "int") if each in kinds), None)
    if kind is None:
        return NULL
    data, valid = _as_kind(otherwise, kind, strings)
    for where, value in reversed(cases):
        own, there = _as_kind(value, kind, strings)
        data, valid = np.where(where, own, data), np.where(where, there, valid)
    return Value(kind, data, valid)


def _as_kind(value: Value, kind: str, strings: Strings | None) -> tuple[np.ndarray, np.ndarray]:
    """Data and mask of ``value`` as one of ``kind``."""
    dtype = {"str": np.int32, "float": np.float64, "int": np.int64}[kind]
    if value.kind == "null" or (value.kind == "str") != (kind == "str"):
        return np.full((), -1 if kind == "str" else 0, dtype), _NOWHERE  # no text has the code -1
    if isinstance(value.data, str):
        assert strings is not None
        return np.asarray(strings.code(value.data), dtype), np.ones((), np.bool_)
    return value.data.astype(dtype, copy=False), present(value)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """``left op right``; null where a side is, where the result leaves int64, and of a zero after
    ``/`` or ``%``.
    """
    if not {left.kind, right.kind} <= {"int", "float"}:
        return NULL
    valid = both_valid(left.valid, right.valid)
    if op == "%":
        return _remainder(left, right, valid)
    if op == "/":
        divisor = right.data.astype(np.float64)
        fine = divisor != 0
        return Value("float", left.data / np.where(fine, divisor, 1.0), both_valid(valid, fine))
    if left.kind == right.kind == "int":
        data, fits = _INTEGER[op](left.data, right.data)
        return Value("int", data, both_valid(valid, fits))
    first, second = left.data.astype(np.float64), right.data.astype(np.float64)
    return Value("float", _FLOAT[op](first, second), valid)


def _remainder(left: Value, right: Value, valid: np.ndarray | None) -> Value:
    """With the sign of ``left``, as in SQL; null of a zero on the right."""
    fine = right.data != 0
    divisor = np.where(fine, right.data, 1)
    kind = "int" if left.kind == right.kind == "int" else "float"
    return Value(kind, np.fmod(left.data, divisor), both_valid(valid, fine))


def both_valid(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """Where both masks are true; None = everywhere."""
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left & right)


def _add(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    total = left + right
    if _largest(left) + _largest(right) < _SAFE:
        return total, None
    return total, ((left ^ total) & (right ^ total)) >= 0


def _subtract(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    rest = left - right
    if _largest(left) + _largest(right) < _SAFE:
        return rest, None
    return rest, ((left ^ right) & (left ^ rest)) >= 0


def _multiply(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    product = left * right
    if _largest(left) * _largest(right) < _SAFE:
        return product, None
    back = product // np.where(left == 0, 1, left)
    fits = (left == 0) | ((back == right) & ~((left == -1) & (right == _MIN)))
    return product, fits


def _windows(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    return left // right, None


_INTEGER: Final[dict[str, Callable[..., tuple[np.ndarray, np.ndarray | None]]]] = {
    "+": _add, "-": _subtract, "*": _multiply, "//": _windows,
}  # fmt: skip
_FLOAT: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


def _largest(values: np.ndarray) -> float:
    """Largest magnitude, as a float (rounded; callers leave a margin)."""
    if values.size == 0:
        return 0.0
    return max(abs(float(values.min())), abs(float(values.max())))


def _compare_mixed(op: str, whole: np.ndarray, real: np.ndarray) -> np.ndarray:
    """``whole op real`` for int64 and float64, exactly; false where ``real`` is NaN."""
    if _largest(whole) < _EXACT:
        found = _COMPARE[op](whole, real)
        return np.asarray(found & ~np.isnan(real) if op == "!=" else found)
    floor = np.floor(real)
    inside = (floor >= -(2.0**63)) & (floor < 2.0**63)
    base = np.where(inside, floor, 0.0).astype(np.int64)
    equal = inside & (whole == base) & (real == floor)
    less = np.where(inside, (whole < base) | ((whole == base) & (real > floor)), real > 0)
    more = np.where(inside, whole > base, real < 0)
    match op:
        case "=":
            return np.asarray(equal)
        case "!=":
            return np.asarray(less | more)
        case "<" | "<=":
            return np.asarray(less | equal if op == "<=" else less)
        case _:
            return np.asarray(more | equal if op == ">=" else more)


def _compare_text(op: str, left: Value, right: Value, strings: Strings | None) -> np.ndarray:
    if isinstance(left.data, str) and isinstance(right.data, str):
        return np.asarray(_COMPARE[op](left.data, right.data))
    assert strings is not None
    if op in {"=", "!="}:
        return np.asarray(_COMPARE[op](_codes(left.data, strings), _codes(right.data, strings)))
    first, second = _ranks(left.data, right.data, strings)
    return np.asarray(_COMPARE[op](first, second))


def _codes(data: np.ndarray | str, strings: Strings) -> np.ndarray:
    return np.asarray(strings.find(data), np.int32) if isinstance(data, str) else data


def _ranks(
    left: np.ndarray | str, right: np.ndarray | str, strings: Strings
) -> tuple[np.ndarray, np.ndarray]:
    """Places of both sides' texts in their common order; sorts distinct texts, not events."""
    sides = [_distinct(left, strings), _distinct(right, strings)]
    texts = sorted({text for own, _ in sides for text in own})
    place = {text: rank for rank, text in enumerate(texts)}
    first, second = (np.array([place[text] for text in own])[inverse] for own, inverse in sides)
    return first, second


def _distinct(data: np.ndarray | str, strings: Strings) -> tuple[list[str], np.ndarray]:
    """The distinct texts of one side (null as the empty text), and which one each event has."""
    if isinstance(data, str):
        return [data], np.zeros((), np.int64)
    codes, inverse = np.unique(data, return_inverse=True)
    return [strings.text(int(code)) or "" for code in codes], inverse.reshape(data.shape)
