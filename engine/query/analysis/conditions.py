"""From the written form of a condition to the plan's predicates and expressions.

Checks what can be known before any event: text against numbers, division by zero, constants
beyond int64. A number without a unit beside a time is in the trace's time unit.
"""

from __future__ import annotations

from dataclasses import replace
from math import isinf
from typing import Final

from edge_agent.units import no_such_unit
from engine.errors import UserError
from engine.query.analysis.calls import (
    REGEXP_LIKE,
    call_of,
    case_of,
    check_decidable,
    check_known,
    check_one_event,
    like_of,
    likeness_of,
)
from engine.query.analysis.typed import Context, Typed, bounded, paired
from engine.query.clocked import coefficients
from engine.query.fields import ValueKind
from engine.query.language import syntax as s
from engine.query.language.mistakes import RESERVED
from engine.query.language.place import Span, closest
from engine.query.plan import (
    MIRRORED,
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    Logic,
    Membership,
    Predicate,
    Presence,
)
from engine.query.unlike import to_take
from engine.units import DURATION_MAX_NS, parse_duration, unit_ns

MAX_DIGITS: Final = 40
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


def _conjuncts(node: s.Node) -> list[s.Node]:
    """The terms that AND joins at the top of ``node``, in written order."""
    if isinstance(node, s.Junction) and node.op == "and":
        return [inner for term in node.terms for inner in _conjuncts(term)]
    return [node]


def terms_of(node: s.Node | None, context: Context) -> list[tuple[Predicate, Span]]:
    """The predicates that must all be true for ``node`` to be, and where each is written.

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
    """The predicate that ``node`` writes.

    Raises:
        UserError: ``node`` is a value rather than a condition, or compares text with numbers.
    """
    match node:
        case s.Junction(op="not"):
            inner = condition(node.terms[0], context)
            match inner:
                case Logic(op="not", terms=(Presence() as there,)):
                    return there
            return Logic("not", (inner,))
        case s.Junction():
            terms: list[Predicate] = []
            for term in node.terms:
                inner = condition(term, context)
                same = isinstance(inner, Logic) and inner.op == node.op
                terms.extend(inner.terms if same and isinstance(inner, Logic) else (inner,))
            return Logic(node.op, tuple(terms))
        case s.Among():
            return _checked(_membership(node, context), node, context)
        case s.IsNull(item=item):
            return Logic("not", (Presence(_typed(item, context).expression),))
        case s.Like(item=item):
            return _checked(like_of(node, _typed(item, context), context), node, context)
        case s.Call() if node.function.text.lower() == REGEXP_LIKE and len(node.arguments) == 2:
            text, pattern = (_typed(each, context) for each in node.arguments)
            found = likeness_of(node, text, pattern.expression, context)
            return _checked(found, node, context)
        case s.Binary() if node.op in COMPARISONS:
            return _checked(_comparison(node, context), node, context)
        case _:
            typed = _typed(node, context)
            hint = "compare it with something, as in x > 5"
            if typed.kind in {ValueKind.TRUTH, ValueKind.ANY}:
                hint = "compare it with something, as in x = true or x > 5"
            raise context.refuse(node.at, "a condition is needed here, and this is a value", hint)


def _checked(predicate: Predicate, node: s.Node, context: Context) -> Predicate:
    check_decidable(predicate, node.at, context)
    check_one_event(predicate, node.at, context)
    return predicate


def _comparison(node: s.Binary, context: Context) -> Predicate:
    left, right = _typed(node.left, context), _typed(node.right, context)
    left, right = paired(left, right, node.at, context)
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
    """``abs(apart) op other`` as two comparisons: how far clocks err goes through them."""
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
    """The expression that ``node`` writes.

    Raises:
        UserError: ``node`` is a condition or calls a function, or is arithmetic on text.
    """
    return _typed(node, context).expression


def value_of(node: s.Node, context: Context) -> Typed:
    """``value``, and what kind it is of."""
    return _typed(node, context)


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
    """In ns; of ``1 min 30 s`` the sum."""
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


def _membership(node: s.Among, context: Context) -> Membership:
    item = _typed(node.item, context)
    options: list[Constant] = []
    for option in node.options:
        right = paired(item, _typed(option, context), option.at, context)[1]
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


def _typed(node: s.Node, context: Context) -> Typed:
    match node:
        case s.Reference():
            attribute = replace(context.resolve(node), at=node.parts[-1].at)
            return Typed(attribute, context.kinds.get(attribute.name, ValueKind.ANY))
        case s.Number():
            return _number(node, 1, node.at, context)
        case s.Literal(value=bool() as truth):
            return Typed(Constant(truth), ValueKind.TRUTH)
        case s.Literal(value=text):
            return Typed(Constant(text), ValueKind.TEXT)
        case s.Negative():
            return _negative(node, context)
        case s.Binary() if node.op not in COMPARISONS:
            return _arithmetic(node, context)
        case s.Null():
            hint = "ask whether a value is there by IS NULL or IS NOT NULL"
            raise context.refuse(node.at, "nothing is compared or calculated with NULL", hint)
        case s.Call() if (collected := context.collected(node)) is not None:
            return collected
        case s.Call():
            check_known(node, context)
            return call_of(
                node, [(_typed(each, context), each.at) for each in node.arguments], context
            )
        case s.CaseNode():
            return _case(node, context)
        case s.Binary() | s.Among() | s.Junction() | s.IsNull() | s.Like():
            hint = "1 where it holds: CASE WHEN v > 3 THEN 1 ELSE 0 END"
            raise context.refuse(node.at, "a value is needed here, and this is a condition", hint)


def _case(node: s.CaseNode, context: Context) -> Typed:
    whens: list[tuple[Predicate, Typed | None, Span]] = []
    for when, then in node.whens:
        asked = when
        if node.operand is not None:
            asked = s.Binary("=", node.operand, when, when.at, when.depth)
        whens.append((condition(asked, context), _or_null(then, context), then.at))
    otherwise = None if node.otherwise is None else _or_null(node.otherwise, context)
    last = None if otherwise is None or node.otherwise is None else (otherwise, node.otherwise.at)
    return case_of(whens, last, node.at, context)


def _or_null(node: s.Node, context: Context) -> Typed | None:
    return None if isinstance(node, s.Null) else _typed(node, context)


def _number(node: s.Number, sign: int, at: Span, context: Context) -> Typed:
    if node.unit is not None:
        return Typed(bounded(sign * _length(node, context), at, context), ValueKind.TIME)
    if len(node.text) > MAX_DIGITS:
        raise context.refuse(at, "this number has too many digits")
    if node.text.isdecimal():
        return Typed(bounded(sign * int(node.text), at, context), ValueKind.BARE)
    number = sign * float(node.text)
    if isinf(number):
        raise context.refuse(at, "this number is too large")
    return Typed(Constant(number), ValueKind.BARE)


def _negative(node: s.Negative, context: Context) -> Typed:
    if isinstance(node.term, s.Number):
        return _number(node.term, -1, node.at, context)
    term = _typed(node.term, context)
    _check_operand(term, node.term.at, context)
    if isinstance(term.expression, Constant):
        assert isinstance(term.expression.value, int | float)
        return Typed(_negated(term.expression.value, node.at, context), term.kind)
    kind = ValueKind.NUMBER if term.kind == ValueKind.ANY else term.kind
    return Typed(Arithmetic("-", Constant(0), term.expression), kind)


def _negated(number: int | float, at: Span, context: Context) -> Constant:
    return Constant(-number) if isinstance(number, float) else bounded(-number, at, context)


def _check_operand(operand: Typed, at: Span, context: Context) -> None:
    if operand.kind in {ValueKind.TEXT, ValueKind.TRUTH}:
        hint = to_take(operand.kind, {ValueKind.NUMBER}, operand.expression)
        raise context.refuse(at, f"this is {operand.kind}, and + - * / % take numbers", hint)


def _arithmetic(node: s.Binary, context: Context) -> Typed:
    left, right = _typed(node.left, context), _typed(node.right, context)
    _check_operand(left, node.left.at, context)
    _check_operand(right, node.right.at, context)
    zero = isinstance(right.expression, Constant) and not right.expression.value
    if node.op in "/%" and zero:
        raise context.refuse(node.right.at, "division by zero")
    kinds = {left.kind, right.kind}
    if node.op in "+-%":
        left, right = paired(left, right, node.at, context)
        kind = ValueKind.TIME if ValueKind.TIME in kinds else ValueKind.NUMBER
    else:
        # Twice a time is a time, a time by a time is a number, and so is one over a time.
        left_time, right_time = left.kind == ValueKind.TIME, right.kind == ValueKind.TIME
        one = left_time != right_time and (left_time or node.op == "*")
        kind = ValueKind.TIME if one else ValueKind.NUMBER
    if kinds == {ValueKind.BARE}:
        kind = ValueKind.BARE
    return Typed(Arithmetic(node.op, left.expression, right.expression), kind)
