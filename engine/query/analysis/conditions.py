"""Convert conditions from the syntax tree to the plan's predicates and expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isinf
from typing import Final

from slackwater.edge_agent.units import no_such_unit
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import (
    DURATION_MAX_NS,
    PERIODS_MAX,
    Period,
    check_zone,
    parse_duration,
    unit_ns,
)
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    Typed,
    argument_hint,
    int64_constant,
    unify_kinds,
    unify_pair,
)
from slackwater.engine.query.clock_sensitivity import clocked_aliases, coefficients
from slackwater.engine.query.expression import join_value
from slackwater.engine.query.fields import ValueKind, attributes_in, inside, parts_of
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import RESERVED, Span, closest
from slackwater.engine.query.language.other_dialects import FUNCTIONS_ELSEWHERE
from slackwater.engine.query.plan import (
    AGGREGATES,
    MIRRORED,
    Arithmetic,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
)
from slackwater.engine.query.values import FUNCTIONS, check_expression, present

# Functions and CASE in conditions and values, with checks of their arguments.


REGEXP_LIKE: Final = "regexp_like"
ROUND_DIGITS_MAX: Final = 15
"""Largest number of decimals for ``round``."""
MAX_CALLS: Final = 8
"""Largest nesting of functions; bounds the compiled programs of conditions."""
_ARGUMENT_KINDS: Final = {
    "number": {ValueKind.TIME, ValueKind.NUMBER, ValueKind.BARE, ValueKind.ANY},
    "time": {ValueKind.TIME, ValueKind.ANY},
    "text": {ValueKind.TEXT, ValueKind.ANY},
    "any": set(ValueKind),
}
_NAMED: Final = {"number": "numbers", "time": "a time", "text": "text"}


def call_of(node: s.Call, arguments: list[tuple[Typed, Span]], context: Context) -> Typed:
    """Return the value of a known function.

    Raises:
        UserError: the arguments are unsuitable.
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
        if typed.kind not in _ARGUMENT_KINDS[function.takes]:
            hint = argument_hint(typed.kind, _ARGUMENT_KINDS[function.takes], typed.expression)
            raise context.refuse(
                at, f"this is {typed.kind}, and {name} takes {_NAMED[function.takes]}", hint
            )
    taken, kind = unify_kinds(arguments, context)
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
        raise context.refuse(node.at, f"functions are nested more than {MAX_CALLS} deep")
    return Typed(found, kind)


def _folded(call: Expression, at: Span, context: Context) -> Constant:
    """Return the constant value of ``call``, whose arguments are constants."""
    value = join_value(call, {})
    if value.kind == "null" or not bool(present(value)):
        raise context.refuse(at, "this has no value")
    return Constant(value.data if value.kind == "str" else value.data.item())


def _unknown(node: s.Call, context: Context) -> Exception:
    name = node.function.text
    if name.lower() == REGEXP_LIKE:
        hint = "it goes where a condition goes, as in WHERE regexp_like(v, '^a')"
        return context.refuse(node.at, "regexp_like is a condition, and a value is needed", hint)
    near = closest(name.lower(), FUNCTIONS)
    hint = f"the functions are {', '.join([*FUNCTIONS, REGEXP_LIKE])}"
    if name.lower() in AGGREGATES:
        near = ""
        hint = "aggregates go in a window's SELECT list and HAVING, and are of repeated steps"
    near = FUNCTIONS_ELSEWHERE.get(name.lower(), near)
    message = f"there is no function {name!r} for values"
    return context.refuse(node.function.at, message, near or hint)


def _digits(typed: Typed, at: Span, context: Context) -> int:
    number = typed.expression
    whole = isinstance(number, Constant) and type(number.value) is int
    if isinstance(number, Constant) and whole and 0 <= int(number.value) <= ROUND_DIGITS_MAX:
        return int(number.value)
    raise context.refuse(at, f"round keeps a whole number of digits, 0 to {ROUND_DIGITS_MAX}")


def likeness_of(node: s.Call, item: Typed, pattern: Expression, context: Context) -> Likeness:
    """Return ``regexp_like(item, pattern)``."""
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        hint = "as in regexp_like(v, '^a.*z$')"
        raise context.refuse(node.at, "regexp_like takes a pattern in single quotes", hint)
    wrong = check_expression(pattern.value)
    if wrong is not None:
        raise context.refuse(node.arguments[1].at, f"this is no regular expression: {wrong}")
    return Likeness(_text(item, node.arguments[0].at, context), pattern.value, regular=True)


def _text(item: Typed, at: Span, context: Context) -> Expression:
    if item.kind not in _ARGUMENT_KINDS["text"]:
        hint = argument_hint(item.kind, _ARGUMENT_KINDS["text"], item.expression)
        raise context.refuse(at, f"this is {item.kind}, and LIKE and regexp_like take text", hint)
    return item.expression


def _nested(node: Expression | Predicate | None) -> int:
    inside = max((_nested(part) for part in parts_of(node)), default=0)
    return inside + isinstance(node, FunctionCall | Case)


# Calls with a special meaning in some clauses, replaced by names.


def with_names(node: s.Node, named: Callable[[s.Call], s.Node]) -> s.Node:
    """Return ``node`` with each call that is not a function replaced by ``named(call)``."""
    parts = tuple(with_names(part, named) for part in s.parts_of(node))
    match node:
        case s.Call(function=function, star=star):
            plain = function.text.lower() in FUNCTIONS and not star
            return node._replace(arguments=parts) if plain else named(node)
        case s.Operation():
            return node._replace(parts=parts)
    return node


# From the written form of a condition to the plan's predicates and expressions.
# From the syntax tree of a condition to the plan's predicates and expressions.
#
# Checks what is known before any event: text against numbers, division by zero, constants beyond
# int64. A number without a unit that is compared with a time is in the trace's time unit.

MAX_DIGITS: Final = 40
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


def _conjuncts(node: s.Node) -> list[s.Node]:
    """Return the terms that AND joins at the top of ``node``, in written order."""
    if isinstance(node, s.Operation) and node.op == "and":
        return [inner for term in node.parts for inner in _conjuncts(term)]
    return [node]


def terms_of(node: s.Node | None, context: Context) -> list[tuple[Predicate, Span]]:
    """Return the predicates whose conjunction is ``node``, and the place of each in the text.

    Raises:
        UserError: as ``condition``.
    """
    found: list[tuple[Predicate, Span]] = []
    for each in _conjuncts(node) if node is not None else []:
        predicate = condition(each, context)
        every = isinstance(predicate, Logic) and predicate.op == "and"
        terms = predicate.terms if isinstance(predicate, Logic) and every else (predicate,)
        found += [(term, each.at) for term in terms]
    return found


def condition(node: s.Node, context: Context) -> Predicate:
    """Return the predicate for ``node``.

    Raises:
        UserError: ``node`` is a value rather than a condition, or compares text with numbers.
    """
    match node:
        case s.Operation("not", (term,)):
            inner = condition(term, context)
            match inner:
                case Logic(op="not", terms=(Presence() as there,)):
                    return there
            return Logic("not", (inner,))
        case s.Operation("and" | "or" as op, parts):
            terms: list[Predicate] = []
            for term in parts:
                inner = condition(term, context)
                same = isinstance(inner, Logic) and inner.op == op
                terms.extend(inner.terms if same and isinstance(inner, Logic) else (inner,))
            return Logic(op, tuple(terms))
        case s.Operation("in"):
            return _checked(_membership(node, context), node, context)
        case s.Operation("is null", (item,)):
            absent = Logic("not", (Presence(value_of(item, context).expression),))
            return _checked(absent, node, context)
        case s.Operation("like", (item, pattern)):
            assert isinstance(pattern, s.Literal)
            found = Likeness(_text(value_of(item, context), item.at, context), str(pattern.value))
            return _checked(found, node, context)
        case s.Call() if node.function.text.lower() == REGEXP_LIKE and len(node.arguments) == 2:
            text, like = (value_of(each, context) for each in node.arguments)
            found = likeness_of(node, text, like.expression, context)
            return _checked(found, node, context)
        case s.Operation() if node.op in COMPARISONS:
            return _checked(_comparison(node, context), node, context)
        case _:
            typed = value_of(node, context)
            hint = "compare it with something, as in x > 5"
            if typed.kind in {ValueKind.TRUTH, ValueKind.ANY}:
                hint = "compare it with something, as in x = true or x > 5"
            raise context.refuse(node.at, "a condition is needed here, and this is a value", hint)


def _checked(predicate: Predicate, node: s.Node, context: Context) -> Predicate:
    """Refuse functions and remainders of times, as clock errors can be followed only through sums
    and products; and functions of texts and times of several events.
    """
    parts = list(inside(predicate))
    calls = [part for part in parts if isinstance(part, FunctionCall | Case)]
    rests = [part for part in parts if isinstance(part, Arithmetic) and part.op == "%"]
    if clocked_aliases([*calls, *rests]):
        message = "a function of ts, te or ref depends on how far clocks err"
        hint = "compare sums and differences of times, or use raw_ts, raw_te, arrival"
        raise context.refuse(node.at, message, hint)
    for value in calls:
        takes = FUNCTIONS[value.function].takes if isinstance(value, FunctionCall) else "any"
        if takes in {"text", "time"} and len({each.alias for each in attributes_in(value)}) > 1:
            message = f"this makes a {takes} of several events"
            hint = "compare a value of one event with one of another"
            raise context.refuse(node.at, message, hint)
    return predicate


def _comparison(node: s.Operation[s.Node], context: Context) -> Predicate:
    left, right = (value_of(part, context) for part in node.parts)
    left, right = unify_pair(left, right, node.at, context)
    op, one, other = node.op, left.expression, right.expression
    if isinstance(other, FunctionCall) and other.function == "abs":
        op, one, other = MIRRORED[op], other, one
    if (
        isinstance(one, FunctionCall)
        and one.function == "abs"
        and coefficients(one.arguments[0]) != {}
    ):
        if isinstance(other, Constant) and not isinstance(other.value, str) and other.value < 0:
            raise context.refuse(node.at, "abs(...) is never below 0", "leave this out")
        return _distance(op, one.arguments[0], other)
    return Comparison(node.op, left.expression, right.expression)


def _distance(op: str, apart: Expression, other: Expression) -> Predicate:
    """Convert ``abs(apart) op other`` to comparisons without ``abs``, which clock errors
    require.
    """
    if op in {"=", "!="}:
        either = Comparison("=", apart, other), Comparison("=", apart, _opposite(other))
        equal = Logic("or", either)
        if not isinstance(other, Constant):
            equal = Logic("and", (Comparison(">=", other, Constant(0)), equal))
        return equal if op == "=" else Logic("not", (equal,))
    both = Comparison(op, apart, other), Comparison(MIRRORED[op], apart, _opposite(other))
    return Logic("and" if op in {"<", "<="} else "or", both)


def _opposite(value: Expression) -> Expression:
    if isinstance(value, Constant) and not isinstance(value.value, str):
        return Constant(-value.value)
    return Arithmetic("-", Constant(0), value)


def value(node: s.Node, context: Context) -> Expression:
    """Return the expression for ``node``.

    Raises:
        UserError: ``node`` is a condition, has a wrong type, or calls a function wrongly.
    """
    return value_of(node, context).expression


def duration_ns(duration: s.Duration, context: Context, what: str) -> int:
    """Return the length of ``duration`` [ns]; ``what`` names it in errors.

    Raises:
        UserError: it is 0 or negative, finer than 1 ns, longer than 36 years, or has an unknown
            unit.
    """
    length = _length(duration.number, context)
    if duration.negative or length == 0:
        raise context.refuse(duration.at, f"{what} must be longer than 0", "as in 10 s")
    if length > DURATION_MAX_NS:
        raise context.refuse(duration.at, f"{what} is longer than 36 years", "as in 10 s")
    return length


def length_of(
    duration: s.Duration, zone: s.Literal | None, context: Context, what: str
) -> int | Period:
    """Return the length after the keyword ``what`` [ns], or a number of workdays.

    Raises:
        UserError: it is neither.
    """
    at, number = duration.at, duration.number
    of_workdays = number.unit is not None and number.unit.text.lower() in {"workday", "workdays"}
    if not of_workdays and zone is None:
        return duration_ns(duration, context, what)
    count = s.whole(number.text) if of_workdays and not number.more else 0
    if duration.negative or not 1 <= count <= PERIODS_MAX["workday"]:
        message = f"{what} is a length of time, or a whole number of workdays, up to 36 years"
        hint = f"as in {what} 6 workdays TIMEZONE 'Europe/Berlin'"
        raise context.refuse(at, message, hint)
    return Period(count, "workday", zone_of(zone, context))


def fixed_length(within: s.Within, context: Context, why: str) -> int:
    """Return the length of WITHIN [ns].

    Raises:
        UserError: it counts workdays, which is not possible in ``why``.
    """
    length = length_of(within.duration, within.zone, context, "WITHIN")
    if isinstance(length, Period):
        _, instead = no_such_unit("workdays")
        raise context.refuse(within.duration.at, f"WITHIN counts no workdays in {why}", instead)
    return length


def zone_of(zone: s.Literal | None, context: Context) -> str:
    """Return the name of the zone after TIMEZONE; None: UTC.

    Raises:
        UserError: this machine does not know the zone.
    """
    if zone is None:
        return "UTC"
    try:
        check_zone(str(zone.value), "TIMEZONE")
    except UserError as error:
        raise context.refuse(zone.at, str(error)) from None
    return str(zone.value)


def _length(number: s.Number, context: Context) -> int:
    """Return the length [ns]; ``1 min 30 s`` is a sum."""
    return _one_length(number, context) + sum(_one_length(each, context) for each in number.more)


def _one_length(number: s.Number, context: Context) -> int:
    _check_unit(number, context)
    if len(number.text) > MAX_DIGITS:
        raise context.refuse(number.at, "this number has too many digits")
    unit = f" {number.unit.text}" if number.unit else ""
    try:
        return parse_duration(number.text + unit, context.time_unit)
    except UserError as error:
        raise context.refuse(number.at, str(error)) from None


def _check_unit(number: s.Number, context: Context) -> None:
    if number.unit is None:
        return
    try:
        unit_ns(number.unit.text)
    except UserError:
        clauses = [word.upper() for word in RESERVED] + ["group by"]
        message, hint = no_such_unit(number.unit.text)
        near = closest(number.unit.text, clauses)
        raise context.refuse(number.unit.at, message, near or hint) from None


def _membership(node: s.Operation[s.Node], context: Context) -> Membership:
    item = value_of(node.parts[0], context)
    options: list[Constant] = []
    for option in node.parts[1:]:
        right = unify_pair(item, value_of(option, context), option.at, context)[1]
        if not isinstance(right.expression, Constant):
            raise context.refuse(option.at, "IN takes constants only", "as in x IN (4, 8)")
        options.append(right.expression)
    kinds = {isinstance(option.value, str) for option in options}
    if len(kinds) > 1:
        raise context.refuse(
            node.at,
            "IN mixes text and numbers",
            "write all as text, in single quotes, or all as numbers",
        )
    return Membership(item.expression, tuple(options))


def value_of(node: s.Node, context: Context) -> Typed:
    """Return ``value`` and its kind."""
    match node:
        case s.Reference():
            attribute = replace(context.resolve(node), at=node.parts[-1].at)
            return Typed(attribute, context.kinds.get(attribute.name, ValueKind.ANY))
        case s.Number():
            return _number(node, 1, node.at, context)
        case s.Literal(value=value):
            if value is None:
                hint = "ask whether a value is there by IS NULL or IS NOT NULL"
                raise context.refuse(node.at, "nothing is compared or calculated with NULL", hint)
            kind = ValueKind.TRUTH if isinstance(value, bool) else ValueKind.TEXT
            return Typed(Constant(value), kind)
        case s.Operation("-", (term,)):
            return _negative(node, term, context)
        case s.Operation("+" | "-" | "*" | "/" | "%"):
            return _arithmetic(node, context)
        case s.Call() if (collected := context.collected(node)) is not None:
            return collected
        case s.Call():
            if node.function.text.lower() not in FUNCTIONS:
                raise _unknown(node, context)
            arguments = [(value_of(each, context), each.at) for each in node.arguments]
            return call_of(node, arguments, context)
        case s.Operation("case"):
            return _case(node, context)
        case s.Operation():
            hint = "1 where it holds: CASE WHEN v > 3 THEN 1 ELSE 0 END"
            raise context.refuse(node.at, "a value is needed here, and this is a condition", hint)


def _case(node: s.Operation[s.Node], context: Context) -> Typed:
    *pairs, otherwise = node.parts
    whens = [condition(when, context) for when in pairs[::2]]
    values = [
        None if isinstance(then, s.Literal) and then.value is None
        else (value_of(then, context), then.at)
        for then in (*pairs[1::2], otherwise)
    ]  # fmt: skip
    choices = [each for each in values if each is not None]
    if not choices:
        message = "every value of this CASE is NULL"
        raise context.refuse(node.at, message, "give one of them a value")
    results, kind = unify_kinds(choices, context)
    rest = iter(results)
    *thens, last = (None if each is None else next(rest) for each in values)
    case = Case(tuple(zip(whens, thens, strict=True)), last)
    if _nested(case) > MAX_CALLS:
        raise context.refuse(node.at, f"functions are nested more than {MAX_CALLS} deep")
    return Typed(case, kind)


def _number(node: s.Number, sign: int, at: Span, context: Context) -> Typed:
    if node.unit is not None:
        return Typed(int64_constant(sign * _length(node, context), at, context), ValueKind.TIME)
    if len(node.text) > MAX_DIGITS:
        raise context.refuse(at, "this number has too many digits")
    if node.text.isdecimal():
        return Typed(int64_constant(sign * int(node.text), at, context), ValueKind.BARE)
    number = sign * float(node.text)
    if isinf(number):
        raise context.refuse(at, "this number is too large")
    return Typed(Constant(number), ValueKind.BARE)


def _negative(node: s.Node, of: s.Node, context: Context) -> Typed:
    if isinstance(of, s.Number):
        return _number(of, -1, node.at, context)
    term = value_of(of, context)
    _check_operand(term, of.at, context)
    if isinstance(term.expression, Constant):
        assert isinstance(term.expression.value, int | float)
        number = -term.expression.value
        if isinstance(number, int):
            int64_constant(number, node.at, context)
        return Typed(Constant(number), term.kind)
    kind = ValueKind.NUMBER if term.kind == ValueKind.ANY else term.kind
    return Typed(Arithmetic("-", Constant(0), term.expression), kind)


def _check_operand(operand: Typed, at: Span, context: Context) -> None:
    if operand.kind in {ValueKind.TEXT, ValueKind.TRUTH}:
        hint = argument_hint(operand.kind, {ValueKind.NUMBER}, operand.expression)
        raise context.refuse(at, f"this is {operand.kind}, and + - * / % take numbers", hint)


def _arithmetic(node: s.Operation[s.Node], context: Context) -> Typed:
    left, right = (value_of(part, context) for part in node.parts)
    for side, part in zip((left, right), node.parts, strict=True):
        _check_operand(side, part.at, context)
    zero = isinstance(right.expression, Constant) and not right.expression.value
    if node.op in "/%" and zero:
        raise context.refuse(node.parts[1].at, "division by zero")
    kinds = {left.kind, right.kind}
    if node.op in "+-%":
        left, right = unify_pair(left, right, node.at, context)
        kind = ValueKind.TIME if ValueKind.TIME in kinds else ValueKind.NUMBER
    else:
        # A number times a time is a time; a time by a time is a number, and so is a number by a
        # time.
        left_time, right_time = left.kind == ValueKind.TIME, right.kind == ValueKind.TIME
        one = left_time != right_time and (left_time or node.op == "*")
        kind = ValueKind.TIME if one else ValueKind.NUMBER
    if kinds == {ValueKind.BARE}:
        kind = ValueKind.BARE
    return Typed(Arithmetic(node.op, left.expression, right.expression), kind)
