"""Values of a condition and their kinds, and the checks that EVENT and SELECT queries share."""

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

# Values of a condition with what is known of their kind, and how two of them go together.
#
# A number without a unit beside a time is in the trace's time unit.


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


# What to do about a value of one kind where one of another is wanted: the remedies in messages.


def to_compare(first: ValueKind, second: ValueKind, *values: Expression) -> str:
    """Of two values that are compared, or chosen among; ``values``: what they are, if known."""
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


def to_take(kind: ValueKind, wanted: set[ValueKind], value: Expression | None = None) -> str:
    """Of a value that a function or an operator takes."""
    if ValueKind.TEXT in wanted:
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


def is_own(name: s.Name) -> bool:
    """Whether it is the word that stands for an event's own attributes."""
    return name.text == ATTRS and not name.quoted


def attribute_of(parts: Sequence[s.Name]) -> tuple[list[s.Name], str]:
    """What is before an attribute, and its name in a plan."""
    *before, last = parts
    own = bool(before) and is_own(before[-1])
    return before[: len(before) - own], attribute_name(last.text, qualified=own)


def member_of(reference: s.Reference, text: str, owner: str) -> str:
    """The name of the attribute of what ``reference`` names first, which is ``owner``.

    Raises:
        UserError: it names no attribute, or one of an attribute.
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


# Whole numbers, and labels that are there once.


def whole_number(number: s.Number, most: int, text: str, message: str, hint: str) -> int:
    """From 1 to ``most``.

    Raises:
        UserError: it is not; says ``message``.
    """
    found = s.whole(number.text)
    if not 1 <= found <= most:
        raise refuse(text, number.at, message, hint)
    return found


def check_label(item: s.Item, label: str, taken: Iterable[str], text: str, noun: str) -> None:
    """Refuses a ``label`` that another one of the list has ``taken``.

    Raises:
        UserError: it is so.
    """
    if label in taken:
        at = item.label.at if item.label else item.value.at
        hint = "give one of them another name with AS"
        raise refuse(text, at, f"two {noun} are named {label!r}", hint)


# How often something occurs: ``*``, ``+``, ``?``, ``{3}``, ``{3,}``, ``{3,5}``.


def times_of(words: tuple[str, ...], limit: int, at: Span, text: str) -> tuple[int, int | None]:
    """At least and at most so many times (None: any number).

    Raises:
        UserError: no whole numbers up to ``limit``, or the second one is below the first.
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


# Checks that EVENT and SELECT queries share: clauses given twice, and what is not built yet.


C = TypeVar("C", bound=s.Clause)


def only(clauses: tuple[s.Clause, ...], kind: type[C], text: str) -> C | None:
    """The one clause of ``kind``, if there is one.

    Raises:
        UserError: there are two.
    """
    found = [clause for clause in clauses if isinstance(clause, kind)]
    if len(found) > 1:
        word = " ".join(text[found[1].at[0] : found[1].at[1]].upper().split())
        hint = "join the conditions with AND" if kind is s.Where else "keep one of them"
        raise refuse(text, found[1].at, f"{word} is given twice", hint)
    return found[0] if found else None


def unsupported(text: str, at: Span, what: str) -> UserError:
    """The error for what the grammar reads and no operator of this version does."""
    return refuse(text, at, f"{what} is not supported by this version")
