"""Columns of values with null, arithmetic on them, and the functions of the language."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.engine.core.released import Strings
from slackwater.engine.query.plan import MIRRORED

# Columns of values with null: comparisons and arithmetic.


COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXACT: Final = 2**53
"""Integers up to this size are exact as float64."""
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
    """Return where ``left op right`` is true; false if a side is null."""
    if "null" in {left.kind, right.kind} or (left.kind == "str") != (right.kind == "str"):
        return _NOWHERE
    if left.kind == "str":
        found = _compare_text(op, left, right, strings)
    elif left.kind == right.kind:
        found = COMPARE[op](left.data, right.data)
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
    """Return where ``item IN constants`` is ``truth``; false if the item is null."""
    if item.kind == "int" and all(isinstance(constant, int) for constant in constants):
        numbers = np.array([int(constant) for constant in constants], np.int64)
        found = np.isin(item.data, numbers, invert=not truth)
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
    """Return where the value is not null; NaN counts as null."""
    if value.kind == "null":
        return _NOWHERE
    there = np.ones((), np.bool_) if value.valid is None else value.valid
    return there & ~np.isnan(value.data) if value.kind == "float" else there


def choose(
    cases: Sequence[tuple[np.ndarray, Value]], otherwise: Value, strings: Strings | None
) -> Value:
    """Return the value of the first of ``cases`` whose mask is true, else ``otherwise``.

    Numbers become floats if one of them is a float; among texts, other values become null.
    """
    values = [value for _, value in cases] + [otherwise]
    kinds = {value.kind for value in values}
    kind = next((each for each in ("str", "float", "int") if each in kinds), None)
    if kind is None:
        return NULL
    data, valid = _as_kind(otherwise, kind, strings)
    for where, value in reversed(cases):
        case_data, case_valid = _as_kind(value, kind, strings)
        data, valid = np.where(where, case_data, data), np.where(where, case_valid, valid)
    return Value(kind, data, valid)


def _as_kind(value: Value, kind: str, strings: Strings | None) -> tuple[np.ndarray, np.ndarray]:
    """Return data and mask of ``value`` converted to ``kind``."""
    dtype = {"str": np.int32, "float": np.float64, "int": np.int64}[kind]
    if value.kind == "null" or (value.kind == "str") != (kind == "str"):
        return np.full((), -1 if kind == "str" else 0, dtype), _NOWHERE  # no text has the code -1
    if isinstance(value.data, str):
        assert strings is not None
        return np.asarray(strings.code(value.data), dtype), np.ones((), np.bool_)
    return value.data.astype(dtype, copy=False), present(value)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """Return ``left op right``; null if a side is null, beyond int64, and for a zero divisor."""
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
    """Return the remainder with the sign of ``left``, as in SQL; null for a zero divisor."""
    fine = right.data != 0
    divisor = np.where(fine, right.data, 1)
    kind = "int" if left.kind == right.kind == "int" else "float"
    return Value(kind, np.fmod(left.data, divisor), both_valid(valid, fine))


def both_valid(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """Return where both masks are true; None: everywhere."""
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


_INTEGER: Final[dict[str, Callable[..., tuple[np.ndarray, np.ndarray | None]]]] = {
    "+": _add, "-": _subtract, "*": _multiply,
}  # fmt: skip
_FLOAT: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


def _largest(values: np.ndarray) -> float:
    """Return the largest magnitude, as a float (rounded; callers leave a margin)."""
    if values.size == 0:
        return 0.0
    return max(abs(float(values.min())), abs(float(values.max())))


def _compare_mixed(op: str, whole: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return ``whole op real`` for int64 and float64, exactly; false for NaN."""
    if _largest(whole) < _EXACT:
        found = COMPARE[op](whole, real)
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
        return np.asarray(COMPARE[op](left.data, right.data))
    assert strings is not None
    if op in {"=", "!="}:
        return np.asarray(COMPARE[op](_codes(left.data, strings), _codes(right.data, strings)))
    first, second = _ranks(left.data, right.data, strings)
    return np.asarray(COMPARE[op](first, second))


def _codes(data: np.ndarray | str, strings: Strings) -> np.ndarray:
    return np.asarray(strings.find(data), np.int32) if isinstance(data, str) else data


def _ranks(
    left: np.ndarray | str, right: np.ndarray | str, strings: Strings
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of both sides' texts in a common order; sorts distinct texts only."""
    sides = [_distinct(left, strings), _distinct(right, strings)]
    texts = sorted({text for words, _ in sides for text in words})
    place = {text: rank for rank, text in enumerate(texts)}
    first, second = (np.array([place[text] for text in words])[inverse] for words, inverse in sides)
    return first, second


def _distinct(data: np.ndarray | str, strings: Strings) -> tuple[list[str], np.ndarray]:
    """Return the distinct texts of one side (null as an empty text), and each event's index."""
    if isinstance(data, str):
        return [data], np.zeros((), np.int64)
    codes, inverse = np.unique(data, return_inverse=True)
    return [strings.text(int(code)) or "" for code in codes], inverse.reshape(data.shape)


# Functions in conditions and values.
#
# As in SQL, a function of null is null, except ``coalesce``, ``least`` and ``greatest``, which skip
# nulls. ``round`` rounds halves away from zero. Functions of texts run once per distinct text.
# Fields of a time are in UTC, from ns since 1970.


_NS_PER_DAY: Final = 86_400 * 10**9
_UNIX_MONDAY: Final = 3
"""Days from the last Monday to 1970-01-01, a Thursday."""
Columns = Callable[[Sequence[Value], Strings], Value]


class Function(Struct, frozen=True):
    """``takes``: ``number``, ``time`` or ``text``; ``any``: values that can be compared. ``gives``:
    ``number`` or ``text``; ``same``: the kind of the arguments. ``least``, ``most``: number of
    arguments; None: any.
    """

    takes: str
    gives: str
    least: int
    most: int | None
    columns: Columns


def _absolute(arguments: Sequence[Value], _: Strings) -> Value:
    (value,) = arguments
    below = compare("<", value, Value.constant(0), None)
    return choose([(below, arithmetic("-", Value.constant(0), value))], value, None)


def _nearest(of: Callable[[np.ndarray], np.ndarray]) -> Columns:
    """Return a function that rounds floats; integers are unchanged."""

    def columns(arguments: Sequence[Value], _: Strings) -> Value:
        (value,) = arguments
        if value.kind != "float":
            return value
        return Value("float", of(value.data), value.valid)

    return columns


def rounded(values: np.ndarray) -> np.ndarray:
    """Round to the nearest whole number, halves away from zero, exactly."""
    whole = np.trunc(values)
    up = np.abs(values - whole) >= 0.5
    return np.asarray(np.where(up, whole + np.copysign(1.0, values), whole))


def _extreme(op: str) -> Columns:
    """Return a function for the argument that is ``op`` all others; nulls are skipped."""

    def columns(arguments: Sequence[Value], strings: Strings) -> Value:
        best, *others = arguments
        for other in others:
            mine = compare(op, best, other, strings) | ~present(other)
            best = choose([(mine & present(best), best)], other, strings)
        return best

    return columns


def _first(arguments: Sequence[Value], strings: Strings) -> Value:
    """Return the first argument that is not null."""
    return choose([(present(each), each) for each in arguments[:-1]], arguments[-1], strings)


def _of_each_text(
    value: Value, strings: Strings, kind: str, of: Callable[[list[str]], Sequence[Any]]
) -> Value:
    """Apply ``of`` to the distinct texts of ``value``; null stays null."""
    if isinstance(value.data, str):
        return Value.constant(of([value.data])[0])
    found, which = np.unique(value.data, return_inverse=True)
    each = of([strings.text(int(code)) or "" for code in found])
    if kind == "str":
        each = [strings.code(text) for text in each]
    data = np.array(each, np.int32 if kind == "str" else np.int64)[which]
    there = value.data >= 0
    return Value(kind, data.reshape(value.data.shape), both_valid(value.valid, there))


def _by_text(of: Callable[[str], Any], kind: str) -> Columns:
    """Return a function that applies ``of`` to each distinct text."""

    def columns(arguments: Sequence[Value], strings: Strings) -> Value:
        return _of_each_text(arguments[0], strings, kind, lambda texts: [*map(of, texts)])

    return columns


def likeness(value: Value, pattern: str, strings: Strings, *, regular: bool) -> Value:
    """Return 1 for texts LIKE ``pattern`` or (``regular``) with a match of it, else 0.

    The result for null is null. Expressions use RE2, so the time is linear in the text.
    """
    if value.kind != "str":
        return NULL
    fits = pc.match_substring_regex if regular else pc.match_like

    def matched(texts: list[str]) -> list[bool]:
        return list(fits(pa.array(texts, pa.string()), pattern).to_pylist())

    return _of_each_text(value, strings, "int", matched)


def check_expression(pattern: str) -> str | None:
    """Return the error in a regular expression, or None."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error).partition("Invalid regular expression: ")[2] or str(error)
    return None


def _whole(of: Callable[[np.ndarray], np.ndarray]) -> Columns:
    """Return a function for an integer field of a time."""

    def columns(arguments: Sequence[Value], _: Strings) -> Value:
        (value,) = arguments
        return Value("int", of(value.data).astype(np.int64), value.valid)

    return columns


def _clock(every: int, of: int) -> Columns:
    """Return a function for a clock field: units of ``every`` ns, modulo ``of``."""
    return _whole(lambda times: times // every % of)


def _calendar(of: Callable[[np.ndarray], np.ndarray]) -> Columns:
    """Return a function for a field of the date."""
    return _whole(lambda times: of(np.asarray(times // _NS_PER_DAY).astype("datetime64[D]")))


FUNCTIONS: Final[Mapping[str, Function]] = {
    "abs": Function("number", "same", 1, 1, _absolute),
    "floor": Function("number", "same", 1, 1, _nearest(np.floor)),
    "ceil": Function("number", "same", 1, 1, _nearest(np.ceil)),
    "round": Function("number", "same", 1, 1, _nearest(rounded)),
    "least": Function("number", "same", 2, None, _extreme("<=")),
    "greatest": Function("number", "same", 2, None, _extreme(">=")),
    "coalesce": Function("any", "same", 2, None, _first),
    "upper": Function("text", "text", 1, 1, _by_text(str.upper, "str")),
    "lower": Function("text", "text", 1, 1, _by_text(str.lower, "str")),
    "trim": Function("text", "text", 1, 1, _by_text(str.strip, "str")),
    "length": Function("text", "number", 1, 1, _by_text(len, "int")),
    "year": Function(
        "time",
        "number",
        1,
        1,
        _calendar(lambda days: days.astype("datetime64[Y]").astype(np.int64) + 1970),
    ),
    "month": Function(
        "time",
        "number",
        1,
        1,
        _calendar(lambda days: days.astype("datetime64[M]").astype(np.int64) % 12 + 1),
    ),
    "day": Function(
        "time",
        "number",
        1,
        1,
        _calendar(lambda days: (days - days.astype("datetime64[M]")).astype(np.int64) + 1),
    ),
    "day_of_week": Function(
        "time",
        "number",
        1,
        1,
        _calendar(lambda days: (days.astype(np.int64) + _UNIX_MONDAY) % 7 + 1),
    ),
    "hour": Function("time", "number", 1, 1, _clock(3600 * 10**9, 24)),
    "minute": Function("time", "number", 1, 1, _clock(60 * 10**9, 60)),
    "second": Function("time", "number", 1, 1, _clock(10**9, 60)),
}
"""By name; ``day_of_week``: 1 is Monday (ISO 8601)."""


def call_function(name: str, arguments: Sequence[Value], strings: Strings) -> Value:
    """Return the values of ``name(arguments)``; null for arguments of an unsuitable kind."""
    function = FUNCTIONS[name]
    kinds = {value.kind for value in arguments} - {"null"}
    accepted = {"text": {"str"}, "number": {"int", "float"}, "time": {"int"}}.get(function.takes)
    if not kinds or (accepted is not None and not kinds <= accepted):
        return NULL
    return function.columns(arguments, strings)
