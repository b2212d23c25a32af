"""The functions of conditions and values: what they take, what they give, and their columns.

As in SQL, a function of null is null, but for ``coalesce``, ``least`` and ``greatest``, which leave
nulls out. ``round`` goes to the nearest, halves away from zero. Texts are handled once each, not
once per event. Fields of a time are of UTC, of nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from engine.query.values import NULL, Value, arithmetic, both_valid, choose, compare, present
from engine.stream.released import Strings

_NS_PER_DAY: Final = 86_400 * 10**9
_UNIX_MONDAY: Final = 3
"""Days from the Monday before to 1970-01-01, a Thursday."""
Columns = Callable[[Sequence[Value], Strings], Value]


class Function(Struct, frozen=True):
    """``takes``: ``number``, ``time`` or ``text``; ``any``: values that compare with one another.
    ``gives``: ``number`` or ``text``; ``same``: of the kind that it takes. ``least``, ``most``: how
    many; None: any number.
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
    """A function that gives whole numbers; integers are their own."""

    def columns(arguments: Sequence[Value], _: Strings) -> Value:
        (value,) = arguments
        if value.kind != "float":
            return value
        return Value("float", of(value.data), value.valid)

    return columns


def rounded(values: np.ndarray) -> np.ndarray:
    """To the nearest whole number, halves away from zero; exactly."""
    whole = np.trunc(values)
    up = np.abs(values - whole) >= 0.5
    return np.asarray(np.where(up, whole + np.copysign(1.0, values), whole))


def _extreme(op: str) -> Columns:
    """The one of its arguments that is ``op`` all others; nulls are left out."""

    def columns(arguments: Sequence[Value], strings: Strings) -> Value:
        best, *others = arguments
        for other in others:
            mine = compare(op, best, other, strings) | ~present(other)
            best = choose([(mine & present(best), best)], other, strings)
        return best

    return columns


def _first(arguments: Sequence[Value], strings: Strings) -> Value:
    """The first that is there."""
    return choose([(present(each), each) for each in arguments[:-1]], arguments[-1], strings)


def _by_text(of: Callable[[str], Any], kind: str) -> Columns:
    """A function of each different text."""

    def columns(arguments: Sequence[Value], strings: Strings) -> Value:
        (value,) = arguments
        if value.kind == "null":
            return NULL
        if isinstance(value.data, str):
            return Value.constant(of(value.data))
        found, which = np.unique(value.data, return_inverse=True)
        texts = [strings.text(int(code)) or "" for code in found]
        if kind == "str":
            each = np.array([strings.code(of(text)) for text in texts], np.int32)
        else:
            each = np.array([of(text) for text in texts], np.int64)
        there = value.data >= 0
        return Value(kind, each[which].reshape(value.data.shape), both_valid(value.valid, there))

    return columns


def likeness(value: Value, pattern: str, strings: Strings, *, regular: bool) -> Value:
    """Whether a text is LIKE ``pattern``, or (``regular``) has a part that the expression matches:
    1 or 0, null of null. Expressions are RE2's, so no text takes more than linear time.
    """
    if value.kind != "str":
        return NULL
    fits = pc.match_substring_regex if regular else pc.match_like
    if isinstance(value.data, str):
        return Value.constant(bool(fits(pa.array([value.data]), pattern)[0].as_py()))
    found, which = np.unique(value.data, return_inverse=True)
    texts = pa.array([strings.text(int(code)) or "" for code in found], pa.string())
    each = fits(texts, pattern).to_numpy(zero_copy_only=False).astype(np.int64)
    there = value.data >= 0
    return Value("int", each[which].reshape(value.data.shape), both_valid(value.valid, there))


def check_expression(pattern: str) -> str | None:
    """What is wrong with a regular expression; None: nothing."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error).partition("Invalid regular expression: ")[2] or str(error)
    return None


def _clock(every: int, of: int) -> Columns:
    """``every`` so many ns, of ``of`` such."""

    def columns(arguments: Sequence[Value], _: Strings) -> Value:
        (value,) = arguments
        return Value("int", value.data // every % of, value.valid)

    return columns


def _calendar(of: Callable[[np.ndarray], np.ndarray]) -> Columns:
    """A field of the date."""

    def columns(arguments: Sequence[Value], _: Strings) -> Value:
        (value,) = arguments
        days = np.asarray(value.data // _NS_PER_DAY).astype("datetime64[D]")
        return Value("int", of(days).astype(np.int64), value.valid)

    return columns


def _year(days: np.ndarray) -> np.ndarray:
    return np.asarray(days.astype("datetime64[Y]").astype(np.int64) + 1970)


def _month(days: np.ndarray) -> np.ndarray:
    return np.asarray(days.astype("datetime64[M]").astype(np.int64) % 12 + 1)


def _day(days: np.ndarray) -> np.ndarray:
    first = days.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray((days - first).astype(np.int64) + 1)


def _weekday(days: np.ndarray) -> np.ndarray:
    return np.asarray((days.astype(np.int64) + _UNIX_MONDAY) % 7 + 1)


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
    "year": Function("time", "number", 1, 1, _calendar(_year)),
    "month": Function("time", "number", 1, 1, _calendar(_month)),
    "day": Function("time", "number", 1, 1, _calendar(_day)),
    "day_of_week": Function("time", "number", 1, 1, _calendar(_weekday)),
    "hour": Function("time", "number", 1, 1, _clock(3600 * 10**9, 24)),
    "minute": Function("time", "number", 1, 1, _clock(60 * 10**9, 60)),
    "second": Function("time", "number", 1, 1, _clock(10**9, 60)),
}
"""By name; ``day_of_week``: 1 is Monday (ISO 8601)."""


def called(name: str, arguments: Sequence[Value], strings: Strings) -> Value:
    """The values of ``name(arguments)``; null where an argument is of a kind it does not take."""
    function = FUNCTIONS[name]
    kinds = {value.kind for value in arguments} - {"null"}
    wanted = {"text": {"str"}, "number": {"int", "float"}, "time": {"int"}}.get(function.takes)
    if not kinds or (wanted is not None and not kinds <= wanted):
        return NULL
    return function.columns(arguments, strings)
