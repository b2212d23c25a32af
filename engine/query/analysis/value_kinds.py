"""Values of a condition and their kinds; checks that EVENT and SELECT queries share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from msgspec import Struct, field

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import INT64_MAX, unit_ns
from slackwater.engine.query.fields import ATTRS, FIELDS, ValueKind, attribute_name, comparable
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span, refuse
from slackwater.engine.query.plan import Arithmetic, Attribute, Constant, Expression
from slackwater.engine.query.repeat_plan import TIMES

# Values of a condition with their kinds, and the common kind of two values.
#
# A number without a unit that is compared with a time is in the trace's time unit.


class Context(Struct, frozen=True):
    """The shared context of a query's conditions: its text, time unit, and the meaning of names.

    ``collected``: returns the aggregate that a call means in a pattern with repeated steps; else
    None. ``kinds``: the kinds of named values, if known.
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


def unify_pair(left: Typed, right: Typed, at: Span, context: Context) -> tuple[Typed, Typed]:
    """Return both sides of a comparison; a plain number that is compared with a time becomes ns."""
    if not comparable(left.kind, right.kind):
        hint = comparison_hint(left.kind, right.kind, left.expression, right.expression)
        raise context.refuse(at, f"{left.kind} is compared with {right.kind}", hint)
    return _in_time_unit(left, right, at, context), _in_time_unit(right, left, at, context)


def _in_time_unit(typed: Typed, other: Typed, at: Span, context: Context) -> Typed:
    if typed.kind == ValueKind.BARE and other.kind == ValueKind.TIME:
        return Typed(_to_ns(typed.expression, at, context), ValueKind.TIME)
    return typed


def _to_ns(expression: Expression, at: Span, context: Context) -> Expression:
    """Convert a plain number, or a sum or multiple of such, from the trace's time unit to ns."""
    scale = unit_ns(context.time_unit)
    match expression:
        case Constant(value=number) if scale > 1:
            assert not isinstance(number, str)
            exact = Decimal(repr(number)) * scale
            if exact == exact.to_integral_value():
                return int64_constant(int(exact), at, context)
            return Constant(float(exact))
        case Arithmetic(op="*" | "/" as op, left=left, right=right):
            return Arithmetic(op, _to_ns(left, at, context), right)
        case Arithmetic(op=op, left=left, right=right):
            return Arithmetic(op, _to_ns(left, at, context), _to_ns(right, at, context))
    return expression


def int64_constant(number: int, at: Span, context: Context) -> Constant:
    """Return the constant ``number``.

    Raises:
        UserError: it does not fit into int64.
    """
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise context.refuse(at, "this number does not fit into 64 bits")
    return Constant(number)


def unify_kinds(
    values: list[tuple[Typed, Span]], context: Context
) -> tuple[list[Expression], ValueKind]:
    """Return alternative values (of CASE, ``coalesce``) in one kind, and that kind.

    Raises:
        UserError: their kinds differ, such as text and numbers.
    """
    first, _ = values[0]
    for other, at in values[1:]:
        kinds = {first.kind, other.kind}
        if not comparable(first.kind, other.kind):
            hint = comparison_hint(first.kind, other.kind, first.expression, other.expression)
            raise context.refuse(at, f"this is {other.kind} where another is {first.kind}", hint)
        if first.kind in {ValueKind.ANY, ValueKind.BARE} or kinds == {
            ValueKind.TIME, ValueKind.NUMBER,
        }:  # fmt: skip
            first = other if other.kind != ValueKind.ANY else first
    scaled = [_in_time_unit(typed, first, at, context).expression for typed, at in values]
    return scaled, ValueKind.NUMBER if first.kind == ValueKind.BARE else first.kind


# Hints of messages about a value of the wrong kind.


def comparison_hint(first: ValueKind, second: ValueKind, *values: Expression) -> str:
    """Return the hint for two values that cannot be compared; ``values``: the expressions, if
    known.
    """
    kinds = {first, second}
    texts = [each.value for each in values if isinstance(each, Constant)]
    if ValueKind.TRUTH in kinds:
        return "a truth value is compared with TRUE or FALSE"
    for text in texts:
        if isinstance(text, str) and _is_number(text):
            return f"a number goes without quotes: {text}"
    if ValueKind.TIME in kinds:
        return "a time is compared with other times and with durations, such as ts and 5 s"
    for number in texts:
        if not isinstance(number, str):
            return f"text goes in single quotes: '{number}'"
    return "compare text with text, and numbers with numbers"


def argument_hint(kind: ValueKind, kinds: set[ValueKind], value: Expression | None = None) -> str:
    """Return the hint for an argument of ``kind`` where a function or an operator takes
    ``kinds``.
    """
    if ValueKind.TEXT in kinds:
        if isinstance(value, Constant):
            return f"text goes in single quotes: '{value.value}'"
        return "it takes attributes that are text, such as source or type"
    if kind == ValueKind.TRUTH:
        return "CASE WHEN ... THEN 1 ELSE 0 END makes a number of it"
    if isinstance(value, Constant) and _is_number(str(value.value)):
        return f"a number goes without quotes: {value.value}"
    if kind == ValueKind.TEXT:
        return "name an attribute that is a number; length(...) is one of a text"
    return "name an attribute that is a number"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Names: ``v``, ``alias.v``, ``attrs.v``, ``alias.attrs.v``.


def is_attrs(name: s.Name) -> bool:
    """Whether ``name`` is ``attrs``, which qualifies an event's own attributes."""
    return name.text == ATTRS and not name.quoted


def attribute_of(parts: Sequence[s.Name]) -> tuple[list[s.Name], str]:
    """Return the qualifiers of an attribute, and its name in a plan."""
    *before, last = parts
    qualified = bool(before) and is_attrs(before[-1])
    return before[: len(before) - qualified], attribute_name(last.text, qualified=qualified)


def member_of(reference: s.Reference, text: str, owner: str) -> str:
    """Return the attribute that ``reference`` names after its first part, which is ``owner``.

    Raises:
        UserError: it names no attribute, or has too many parts.
    """
    alias, *rest = reference.parts
    if not rest:
        hint = f"name one of its attributes: {alias.text}.ts"
        raise refuse(text, alias.at, f"{alias.text!r} is {owner}, not a value", hint)
    before, name = attribute_of(rest)
    if before:
        hint = 'as in a.v, a.attrs.v or a."x.y"; of an object within, a.x_y'
        raise refuse(text, reference.at, "too many dots", hint)
    return name


# Whole numbers, and unique labels.


def whole_number(number: s.Number, most: int, text: str, message: str, hint: str) -> int:
    """Return a number from 1 to ``most``.

    Raises:
        UserError: the number is outside this range; the error is ``message``.
    """
    found = s.whole(number.text)
    if not 1 <= found <= most:
        raise refuse(text, number.at, message, hint)
    return found


def check_label(item: s.Item, label: str, taken: Iterable[str], text: str, noun: str) -> None:
    """Refuse a duplicate label.

    Raises:
        UserError: ``label`` is in ``taken``.
    """
    if label in taken:
        at = item.label.at if item.label else item.value.at
        hint = "give one of them another name with AS"
        raise refuse(text, at, f"two {noun} are named {label!r}", hint)


# Repetition: ``*``, ``+``, ``?``, ``{3}``, ``{3,}``, ``{3,5}``.


def repetition_bounds(
    words: tuple[str, ...], limit: int, at: Span, text: str
) -> tuple[int, int | None]:
    """Return the least and the most repetitions (None: unbounded).

    Raises:
        UserError: a number is above ``limit``, or the second one is below the first.
    """
    if len(words) == 1 and words[0] in TIMES:
        return TIMES[words[0]]
    numbers = [s.whole(word) for word in words if word != ","]
    if not all(0 <= number <= limit for number in numbers):
        message = f"a number of times is whole and at most {limit:,}"
        raise refuse(text, at, message, "for any number write *, for one and more +")
    least = numbers[0]
    most = numbers[1] if len(numbers) > 1 else None if "," in words else least
    if most is not None and most < least:
        message = f"at least {least} and at most {most} times is never"
        raise refuse(text, at, message, f"did you mean {{{most},{least}}}?")
    return least, most


# Checks that EVENT and SELECT queries share: duplicate clauses, unsupported syntax.


C = TypeVar("C", bound=s.Clause)


def only_clause(clauses: tuple[s.Clause, ...], kind: type[C], text: str) -> C | None:
    """Return the clause of ``kind``, if there is one.

    Raises:
        UserError: there are several.
    """
    found = [clause for clause in clauses if isinstance(clause, kind)]
    if len(found) > 1:
        word = " ".join(text[found[1].at[0] : found[1].at[1]].upper().split())
        hint = "join the conditions with AND" if kind is s.Where else "keep one of them"
        raise refuse(text, found[1].at, f"{word} is given twice", hint)
    return found[0] if found else None


def unsupported(text: str, at: Span, what: str) -> UserError:
    """Return the error for syntax that the grammar accepts and no operator implements."""
    return refuse(text, at, f"{what} is not supported by this version")
