"""Functions and CASE in conditions and values: what they take, and what they must not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.query.aggregates import AGGREGATES
from engine.query.analysis.typed import Context, Typed, alike
from engine.query.clocked import clocked_aliases
from engine.query.expression import join_value
from engine.query.fields import ValueKind, attributes_in, parts_of
from engine.query.functions import FUNCTIONS, check_expression
from engine.query.language import syntax as s
from engine.query.language.place import Span, closest
from engine.query.plan import (
    Arithmetic,
    Case,
    Constant,
    Expression,
    FunctionCall,
    Likeness,
    Predicate,
)
from engine.query.unlike import to_take
from engine.query.values import present

REGEXP_LIKE: Final = "regexp_like"
MAX_DIGITS: Final = 15
"""That ``round`` keeps behind the point."""
MAX_CALLS: Final = 8
"""Of functions inside one another; bounds the programs that conditions become."""
_WANTED: Final = {
    "number": {ValueKind.TIME, ValueKind.NUMBER, ValueKind.BARE, ValueKind.ANY},
    "time": {ValueKind.TIME, ValueKind.ANY},
    "text": {ValueKind.TEXT, ValueKind.ANY},
    "any": set(ValueKind),
}
_CASE: Final = "CASE WHEN v > 3 THEN 1 ELSE 0 END"
_BEGINS: Final = "how a text begins: t LIKE 'ab%'"
_CLOCK: Final = "a query has no clock of its own: WITHIN and WINDOW say how long"
_HABITS: Final = {
    "prev": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "lag": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "power": "write v * v", "pow": "write v * v", "ifnull": "coalesce(v, 0)",
    "nvl": "coalesce(v, 0)", "if": _CASE, "iff": _CASE, "iif": _CASE, "ifthenelse": _CASE,
    "now": _CLOCK, "current_timestamp": _CLOCK, "substring": _BEGINS, "substr": _BEGINS,
    "concat": "texts are not put together: return both of them",
    "sqrt": "compare with the square: v > 9 for sqrt(v) > 3",
    "char_length": "length(t)", "mod": "v % 3",
    "ceiling": "ceil(v)", "ucase": "upper(t)", "lcase": "lower(t)",
    "regexp": "regexp_like(t, '^x')", "mean": "avg(v), in the SELECT list",
}  # fmt: skip
"""Functions of other systems, and what to write for them."""
_NAMED: Final = {"number": "numbers", "time": "a time", "text": "text"}


def check_known(node: s.Call, context: Context) -> None:
    """Refuses what is no function, before anything is said of its arguments.

    Raises:
        UserError: says how it is written here, if that is known.
    """
    if node.function.text.lower() not in FUNCTIONS:
        raise _unknown(node, context)


def call_of(node: s.Call, arguments: list[tuple[Typed, Span]], context: Context) -> Typed:
    """The value of a known function.

    Raises:
        UserError: these are not what it takes.
    """
    name = node.function.text.lower()
    function = FUNCTIONS[name]
    digits = 0
    if name == "round" and len(arguments) == 2:
        digits = _digits(*arguments.pop(), context)
    fits = function.least <= len(arguments) <= (function.most or len(arguments))
    if node.star or not fits:
        count = "one value" if function.most == 1 else f"{function.least} values or more"
        raise context.refuse(node.at, f"{name} takes {count}")
    for typed, at in arguments:
        if typed.kind not in _WANTED[function.takes]:
            hint = to_take(typed.kind, _WANTED[function.takes], typed.expression)
            raise context.refuse(
                at, f"this is {typed.kind}, and {name} takes {_NAMED[function.takes]}", hint
            )
    taken, kind = alike(arguments, context)
    if function.gives != "same":
        kind = ValueKind.TEXT if function.gives == "text" else ValueKind.NUMBER
    elif function.takes == "number" and kind == ValueKind.ANY:
        kind = ValueKind.NUMBER
    found: Expression = FunctionCall(name, tuple(taken))
    if all(isinstance(each, Constant) for each in taken):
        found = _folded(found, node.at, context)
    if digits:
        scale = Constant(10**digits)
        found = Arithmetic("/", FunctionCall(name, (Arithmetic("*", taken[0], scale),)), scale)
    if _nested(found) > MAX_CALLS:
        raise context.refuse(node.at, f"functions stand in one another more than {MAX_CALLS} deep")
    return Typed(found, kind)


def _folded(call: Expression, at: Span, context: Context) -> Constant:
    """The constant that ``call``, of constants, is."""
    value = join_value(call, {})
    if value.kind == "null" or not bool(present(value)):
        raise context.refuse(at, "this has no value")
    return Constant(value.data if value.kind == "str" else value.data.item())


def _unknown(node: s.Call, context: Context) -> Exception:
    name = node.function.text
    if name.lower() == REGEXP_LIKE:
        hint = "it stands where a condition does, as in WHERE regexp_like(v, '^a')"
        return context.refuse(node.at, "regexp_like is a condition, and a value is needed", hint)
    near = closest(name.lower(), FUNCTIONS)
    hint = f"the functions are {', '.join([*FUNCTIONS, REGEXP_LIKE])}"
    if name.lower() in AGGREGATES:
        near = ""
        hint = "aggregates stand in a window's SELECT list and HAVING, and are of repeated steps"
    near = _HABITS.get(name.lower(), near)
    message = f"there is no function {name!r} for values"
    return context.refuse(node.function.at, message, near or hint)


def _digits(typed: Typed, at: Span, context: Context) -> int:
    number = typed.expression
    whole = isinstance(number, Constant) and type(number.value) is int
    if isinstance(number, Constant) and whole and 0 <= int(number.value) <= MAX_DIGITS:
        return int(number.value)
    raise context.refuse(at, f"round keeps a whole number of digits, 0 to {MAX_DIGITS}")


def case_of(
    whens: list[tuple[Predicate, Typed | None, Span]], otherwise: tuple[Typed, Span] | None,
    at: Span, context: Context,
) -> Typed:  # fmt: skip
    """The value of a CASE; None: NULL."""
    values = [(typed, place) for _, typed, place in whens if typed is not None]
    values += [otherwise] if otherwise else []
    if not values:
        raise context.refuse(at, "every value of this CASE is NULL", "give one of them a value")
    found, kind = alike(values, context)
    rest = iter(found)
    pairs = tuple((when, None if typed is None else next(rest)) for when, typed, _ in whens)
    case = Case(pairs, next(rest, None))
    if _nested(case) > MAX_CALLS:
        raise context.refuse(at, f"functions stand in one another more than {MAX_CALLS} deep")
    return Typed(case, kind)


def likeness_of(node: s.Call, item: Typed, pattern: Expression, context: Context) -> Likeness:
    """``regexp_like(item, pattern)``."""
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        hint = "as in regexp_like(v, '^a.*z$')"
        raise context.refuse(node.at, "regexp_like takes a pattern in single quotes", hint)
    wrong = check_expression(pattern.value)
    if wrong is not None:
        raise context.refuse(node.arguments[1].at, f"this is no regular expression: {wrong}")
    return Likeness(_text(item, node.arguments[0].at, context), pattern.value, regular=True)


def like_of(node: s.Like, item: Typed, context: Context) -> Likeness:
    """``item LIKE pattern``."""
    return Likeness(_text(item, node.item.at, context), str(node.pattern.value))


def _text(item: Typed, at: Span, context: Context) -> Expression:
    if item.kind not in _WANTED["text"]:
        hint = to_take(item.kind, _WANTED["text"], item.expression)
        raise context.refuse(at, f"this is {item.kind}, and LIKE and regexp_like take text", hint)
    return item.expression


def check_decidable(predicate: Predicate, at: Span, context: Context) -> None:
    """Refuses functions of times in a condition: what clocks may be off by goes through sums and
    products, and not through these.
    """
    for value in _calls(predicate):
        if clocked_aliases([value]):
            message = "a function of ts, te or ref hangs on how far clocks err"
            hint = "compare sums and differences of times, or use raw_ts, raw_te, arrival"
            raise context.refuse(at, message, hint)


def check_one_event(predicate: Predicate, at: Span, context: Context) -> None:
    """Refuses functions of texts and of times that take more than one event."""
    for value in _calls(predicate):
        takes = FUNCTIONS[value.function].takes if isinstance(value, FunctionCall) else "any"
        if takes in {"text", "time"} and len({each.alias for each in attributes_in(value)}) > 1:
            message = f"this makes a {takes} of several events"
            raise context.refuse(at, message, "compare a value of one event with one of another")


def _calls(node: Expression | Predicate | None) -> Iterator[Expression]:
    """Every function and CASE in ``node``."""
    if isinstance(node, FunctionCall | Case):
        yield node
    for part in parts_of(node):
        yield from _calls(part)


def _nested(node: Expression | Predicate | None) -> int:
    inside = max((_nested(part) for part in parts_of(node)), default=0)
    return inside + isinstance(node, FunctionCall | Case)
