"""Values of a condition with what is known of their kind, and how two of them go together.

A number without a unit beside a time is in the trace's time unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from msgspec import Struct, field

from engine.errors import UserError
from engine.query.fields import FIELDS, ValueKind, comparable
from engine.query.language import syntax as s
from engine.query.language.place import Span, refuse
from engine.query.plan import Arithmetic, Attribute, Constant, Expression
from engine.query.unlike import to_compare
from engine.units import INT64_MAX, unit_ns


class Context(Struct, frozen=True):
    """What conditions of one query share: its text, its time unit, and what its names mean.

    ``collected``: the aggregate that a call is, of a pattern whose steps repeat; else None.
    ``kinds``: of the values of names, where they are known.
    """

    text: str
    time_unit: str
    resolve: Callable[[s.Reference], Attribute]
    collected: Callable[[s.Call], Typed | None] = lambda _call: None
    kinds: Mapping[str, ValueKind] = field(default_factory=lambda: FIELDS)

    def refuse(self, at: Span, message: str, hint: str = "") -> UserError:
        return refuse(self.text, at, message, hint)


class Typed(Struct, frozen=True):
    """An expression and its kind."""

    expression: Expression
    kind: ValueKind


def paired(left: Typed, right: Typed, at: Span, context: Context) -> tuple[Typed, Typed]:
    """Both sides of a comparison, plain numbers beside a time brought to ns."""
    if not comparable(left.kind, right.kind):
        hint = to_compare(left.kind, right.kind, left.expression, right.expression)
        raise context.refuse(at, f"{left.kind} is compared with {right.kind}", hint)
    return _beside(left, right, at, context), _beside(right, left, at, context)


def _beside(typed: Typed, other: Typed, at: Span, context: Context) -> Typed:
    if typed.kind == ValueKind.BARE and other.kind == ValueKind.TIME:
        return Typed(_scaled(typed.expression, at, context), ValueKind.TIME)
    return typed


def _scaled(expression: Expression, at: Span, context: Context) -> Expression:
    """A plain number, or a sum or multiple of such, from the trace's time unit to ns."""
    scale = unit_ns(context.time_unit)
    match expression:
        case Constant(value=number) if scale > 1:
            assert not isinstance(number, str)
            exact = Decimal(repr(number)) * scale
            if exact == exact.to_integral_value():
                return bounded(int(exact), at, context)
            return Constant(float(exact))
        case Arithmetic(op="*" | "/" as op, left=left, right=right):
            return Arithmetic(op, _scaled(left, at, context), right)
        case Arithmetic(op=op, left=left, right=right):
            return Arithmetic(op, _scaled(left, at, context), _scaled(right, at, context))
    return expression


def bounded(number: int, at: Span, context: Context) -> Constant:
    """The constant ``number``, if int64 has it."""
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise context.refuse(at, "this number does not fit into 64 bits")
    return Constant(number)


def alike(values: list[tuple[Typed, Span]], context: Context) -> tuple[list[Expression], ValueKind]:
    """Values of which one is chosen, as they go together, and the kind of all.

    Raises:
        UserError: text among numbers, and the like.
    """
    first, _ = values[0]
    for other, at in values[1:]:
        kinds = {first.kind, other.kind}
        if not comparable(first.kind, other.kind):
            hint = to_compare(first.kind, other.kind, first.expression, other.expression)
            raise context.refuse(at, f"this is {other.kind} where another is {first.kind}", hint)
        if first.kind in {ValueKind.ANY, ValueKind.BARE} or kinds == {
            ValueKind.TIME, ValueKind.NUMBER,
        }:  # fmt: skip
            first = other if other.kind != ValueKind.ANY else first
    scaled = [_beside(typed, first, at, context).expression for typed, at in values]
    return scaled, ValueKind.NUMBER if first.kind == ValueKind.BARE else first.kind
