"""From the written form of a condition to the plan's predicates and expressions.

Checks what can be known before any event: text against numbers, division by zero, constants
beyond int64. A number without a unit beside a time is in the trace's time unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Final

from edge_agent.units import NS_PER
from engine.errors import UserError
from engine.query.fields import FIELDS, ValueKind, comparable
from engine.query.language import syntax as s
from engine.query.language.mistakes import RESERVED
from engine.query.language.place import Span, closest, refuse
from engine.query.plan import (
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    Predicate,
)
from engine.units import DURATION_MAX_NS, INT64_MAX, parse_duration, unit_ns

MAX_DIGITS: Final = 40
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Context:
    """What conditions of one query share: its text, its time unit, and what its names mean."""

    text: str
    time_unit: str
    resolve: Callable[[s.Reference], Attribute]

    def refuse(self, at: Span, message: str, hint: str = "") -> UserError:
        return refuse(self.text, at, message, hint)


@dataclass(frozen=True, slots=True)
class _Typed:
    expression: Expression
    kind: ValueKind


def conjuncts(node: s.Node) -> list[s.Node]:
    """The terms that AND joins at the top of ``node``, in written order."""
    if isinstance(node, s.Junction) and node.op == "and":
        return [inner for term in node.terms for inner in conjuncts(term)]
    return [node]


def condition(node: s.Node, context: Context) -> Predicate:
    """The predicate that ``node`` writes.

    Raises:
        UserError: ``node`` is a value rather than a condition, or compares text with numbers.
    """
    match node:
        case s.Junction(op="not"):
            return Logic("not", (condition(node.terms[0], context),))
        case s.Junction():
            terms: list[Predicate] = []
            for term in node.terms:
                inner = condition(term, context)
                same = isinstance(inner, Logic) and inner.op == node.op
                terms.extend(inner.terms if same and isinstance(inner, Logic) else (inner,))
            return Logic(node.op, tuple(terms))
        case s.Among():
            return _membership(node, context)
        case s.Binary() if node.op in COMPARISONS:
            left, right = _typed(node.left, context), _typed(node.right, context)
            left, right = _paired(left, right, node.at, context)
            return Comparison(node.op, left.expression, right.expression)
        case _:
            typed = _typed(node, context)
            hint = "compare it with something, as in x > 5"
            if typed.kind in {ValueKind.TRUTH, ValueKind.ANY}:
                hint = "compare it with something, as in x = true or x > 5"
            raise context.refuse(node.at, "a condition is needed here, and this is a value", hint)


def value(node: s.Node, context: Context) -> Expression:
    """The expression that ``node`` writes.

    Raises:
        UserError: ``node`` is a condition or calls a function, or is arithmetic on text.
    """
    return _typed(node, context).expression


def duration_ns(duration: s.Duration, context: Context, what: str) -> int:
    """Length of ``duration`` in ns; ``what`` names it in errors.

    Raises:
        UserError: not above zero, finer than 1 ns, beyond int64, or an unknown unit.
    """
    length = _length(duration.number, context)
    if duration.negative or length == 0:
        raise context.refuse(duration.at, f"{what} must be longer than 0", "as in 10 s")
    if length > DURATION_MAX_NS:
        raise context.refuse(duration.at, f"{what} is longer than 36 years", "as in 10 s")
    return length


def _length(number: s.Number, context: Context) -> int:
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
        hint = f"use one of {', '.join(NS_PER)}"
        near = closest(number.unit.text, clauses)
        message = f"unknown time unit {number.unit.text!r}"
        raise context.refuse(number.unit.at, message, near or hint) from None


def _membership(node: s.Among, context: Context) -> Membership:
    item = _typed(node.item, context)
    options: list[Constant] = []
    for option in node.options:
        right = _paired(item, _typed(option, context), option.at, context)[1]
        if not isinstance(right.expression, Constant):
            raise context.refuse(option.at, "IN takes constants only", "as in x IN (4, 8)")
        options.append(right.expression)
    kinds = {isinstance(option.value, str) for option in options}
    if len(kinds) > 1:
        raise context.refuse(node.at, "IN mixes text and numbers")
    return Membership(item.expression, tuple(options))


def _paired(left: _Typed, right: _Typed, at: Span, context: Context) -> tuple[_Typed, _Typed]:
    """Both sides of a comparison, plain numbers beside a time brought to ns."""
    if not comparable(left.kind, right.kind):
        raise context.refuse(at, f"{left.kind} is compared with {right.kind}")
    return _beside(left, right, at, context), _beside(right, left, at, context)


def _beside(typed: _Typed, other: _Typed, at: Span, context: Context) -> _Typed:
    if typed.kind == ValueKind.BARE and other.kind == ValueKind.TIME:
        return _Typed(_scaled(typed.expression, at, context), ValueKind.TIME)
    return typed


def _scaled(expression: Expression, at: Span, context: Context) -> Expression:
    """A plain number, or a sum or multiple of such, from the trace's time unit to ns."""
    scale = unit_ns(context.time_unit)
    match expression:
        case Constant(value=number) if scale > 1:
            assert not isinstance(number, str)
            exact = Decimal(repr(number)) * scale
            if exact == exact.to_integral_value():
                return _bounded(int(exact), at, context)
            return Constant(float(exact))
        case Arithmetic(op="*" | "/" as op, left=left, right=right):
            return Arithmetic(op, _scaled(left, at, context), right)
        case Arithmetic(op=op, left=left, right=right):
            return Arithmetic(op, _scaled(left, at, context), _scaled(right, at, context))
    return expression


def _bounded(number: int, at: Span, context: Context) -> Constant:
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise context.refuse(at, "this number does not fit into 64 bits")
    return Constant(number)


def _typed(node: s.Node, context: Context) -> _Typed:
    match node:
        case s.Reference():
            attribute = context.resolve(node)
            return _Typed(attribute, FIELDS.get(attribute.name, ValueKind.ANY))
        case s.Number():
            return _number(node, 1, node.at, context)
        case s.Literal(value=bool() as truth):
            return _Typed(Constant(truth), ValueKind.TRUTH)
        case s.Literal(value=text):
            return _Typed(Constant(text), ValueKind.TEXT)
        case s.Negative():
            return _negative(node, context)
        case s.Binary() if node.op not in COMPARISONS:
            return _arithmetic(node, context)
        case s.Call():
            name = f"{node.function.text}(...)"
            raise context.refuse(
                node.function.at,
                f"{name} cannot stand here",
                "aggregates stand in the SELECT list, each as an entry of its own",
            )
        case s.Binary() | s.Among() | s.Junction():
            raise context.refuse(node.at, "a value is needed here, and this is a condition")


def _number(node: s.Number, sign: int, at: Span, context: Context) -> _Typed:
    if node.unit is not None:
        return _Typed(Constant(sign * _length(node, context)), ValueKind.TIME)
    if len(node.text) > MAX_DIGITS:
        raise context.refuse(at, "this number has too many digits")
    if node.text.isdecimal():
        return _Typed(_bounded(sign * int(node.text), at, context), ValueKind.BARE)
    number = sign * float(node.text)
    if isinf(number):
        raise context.refuse(at, "this number is too large")
    return _Typed(Constant(number), ValueKind.BARE)


def _negative(node: s.Negative, context: Context) -> _Typed:
    if isinstance(node.term, s.Number):
        return _number(node.term, -1, node.at, context)
    term = _typed(node.term, context)
    _check_operand(term, node.term.at, context)
    if isinstance(term.expression, Constant):
        assert isinstance(term.expression.value, int | float)
        return _Typed(_negated(term.expression.value, node.at, context), term.kind)
    kind = ValueKind.NUMBER if term.kind == ValueKind.ANY else term.kind
    return _Typed(Arithmetic("-", Constant(0), term.expression), kind)


def _negated(number: int | float, at: Span, context: Context) -> Constant:
    return Constant(-number) if isinstance(number, float) else _bounded(-number, at, context)


def _check_operand(operand: _Typed, at: Span, context: Context) -> None:
    if operand.kind in {ValueKind.TEXT, ValueKind.TRUTH}:
        raise context.refuse(at, f"this is {operand.kind}, and + - * / take numbers")


def _arithmetic(node: s.Binary, context: Context) -> _Typed:
    left, right = _typed(node.left, context), _typed(node.right, context)
    _check_operand(left, node.left.at, context)
    _check_operand(right, node.right.at, context)
    if node.op == "/" and isinstance(right.expression, Constant) and not right.expression.value:
        raise context.refuse(node.right.at, "division by zero")
    kinds = {left.kind, right.kind}
    if node.op in "+-":
        left, right = _paired(left, right, node.at, context)
        kind = ValueKind.TIME if ValueKind.TIME in kinds else ValueKind.NUMBER
    else:
        # Twice a time is a time, a time by a time is a number, and so is one over a time.
        left_time, right_time = left.kind == ValueKind.TIME, right.kind == ValueKind.TIME
        one = left_time != right_time and (left_time or node.op == "*")
        kind = ValueKind.TIME if one else ValueKind.NUMBER
    if kinds == {ValueKind.BARE}:
        kind = ValueKind.BARE
    return _Typed(Arithmetic(node.op, left.expression, right.expression), kind)
