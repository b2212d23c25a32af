"""Checks a plan against the attributes that the data really has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.errors import UserError
from engine.query.fields import (
    FIELDS,
    KIND_OF_TYPE,
    OWN,
    ValueKind,
    attribute_name,
    attributes_of,
    comparable,
    own_attribute,
)
from engine.query.language import syntax as s
from engine.query.language.parse import parse
from engine.query.language.place import Span, closest, refuse
from engine.query.plan import (
    TAKES_TEXT,
    Arithmetic,
    Attribute,
    Comparison,
    Constant,
    Expression,
    Logic,
    Membership,
    MonitorPlan,
    OrPlan,
    Plan,
    Predicate,
    SeqPlan,
)
from engine.query.regular import occurrences


def check_attributes(plan: Plan, known: Mapping[str, str]) -> None:
    """Refuses a plan whose attributes are not in the data, or of a type that cannot be meant.

    Args:
        plan: of a query, or built in Python (whose errors have no caret).
        known: type (``int float bool str``) by the events' own attributes.

    Raises:
        UserError: an attribute is unknown (the message names the ones there are), text is
            compared or calculated with as if it were a number, or the other way round.
    """
    for attribute in attributes_of(plan):
        own = own_attribute(attribute.name)
        if own is not None and own not in known:
            raise _at(plan, attribute, f"no event has an attribute {own!r}", _remedy(own, known))
    if isinstance(plan, MonitorPlan):
        for occurrence in occurrences(plan.expression):
            _check(plan, occurrence.where, known)
        for branch in plan.pattern.branches:
            _check_pattern(branch, known)
        return
    if isinstance(plan, SeqPlan | OrPlan):
        for branch in plan.branches if isinstance(plan, OrPlan) else (plan,):
            _check_pattern(branch, known)
        return
    _check(plan, plan.where, known)
    for aggregate in plan.aggregates:
        takes_text = aggregate.function in TAKES_TEXT
        for named, text in ((aggregate.argument, takes_text), (aggregate.by, False)):
            if named is not None and not isinstance(named, Attribute):
                _check_operands(plan, named, known)
            elif named and not text and _kind(named, known) == ValueKind.TEXT:
                message = f"{named.name!r} is text, and {aggregate.function} takes numbers"
                if named is aggregate.by:
                    message = f"{named.name!r} is text, and {aggregate.function} goes by numbers"
                raise _at(plan, named, message, f"count({named.name}) counts its values")


def _check_pattern(plan: SeqPlan, known: Mapping[str, str]) -> None:
    for group in plan.equalities:
        for other in group[1:]:
            _check_pair(plan, group[0], other, known)
    for predicate in [*(step.where for step in plan.steps), *plan.others]:
        _check(plan, predicate, known)
    for one in plan.computed:
        _check_operands(plan, one.expression, known)


def _remedy(wrong: str, known: Mapping[str, str]) -> str:
    if not known:
        return f"the events have no attributes; there is {', '.join(FIELDS)}"
    near = closest(wrong, [*known, *FIELDS])
    return f"there is {', '.join(sorted(known))}" + (f"; {near}" if near else "")


def _kind(expression: Expression, known: Mapping[str, str]) -> ValueKind:
    match expression:
        case Attribute(name=name):
            own = own_attribute(name)
            return FIELDS[name] if own is None else KIND_OF_TYPE[known[own]]
        case Constant(value=str()):
            return ValueKind.TEXT
        case Constant(value=bool()):
            return ValueKind.TRUTH
        case Constant() | Arithmetic():
            return ValueKind.NUMBER


def _check(plan: Plan, predicate: Predicate | None, known: Mapping[str, str]) -> None:
    match predicate:
        case Logic(terms=terms):
            for term in terms:
                _check(plan, term, known)
        case Comparison(left=left, right=right):
            _check_pair(plan, left, right, known)
        case Membership(item=item, options=options):
            for option in options:
                _check_pair(plan, item, option, known)
        case None:
            return


def _check_pair(plan: Plan, left: Expression, right: Expression, known: Mapping[str, str]) -> None:
    _check_operands(plan, left, known)
    _check_operands(plan, right, known)
    first, second = _kind(left, known), _kind(right, known)
    if not comparable(first, second):
        named = left if isinstance(left, Attribute) else right
        message = f"{first} is compared with {second}"
        if isinstance(named, Attribute):
            raise _at(plan, named, message, f"{named.name!r} is {_kind(named, known)}")
        raise UserError(message)


def _check_operands(plan: Plan, expression: Expression, known: Mapping[str, str]) -> None:
    for operand in _operands(expression):
        kind = _kind(operand, known)
        if kind in {ValueKind.TEXT, ValueKind.TRUTH}:
            message = f"{operand.name!r} is {kind}, and + - * / take numbers"
            raise _at(plan, operand, message, "")


def _operands(expression: Expression) -> Iterator[Attribute]:
    """The attributes that arithmetic takes."""
    if isinstance(expression, Arithmetic):
        for side in (expression.left, expression.right):
            if isinstance(side, Attribute):
                yield side
            yield from _operands(side)


def _at(plan: Plan, attribute: Attribute, message: str, hint: str) -> UserError:
    """The error with a caret where ``plan.text`` first names ``attribute``."""
    for reference in _references(plan.text):
        if _means(reference, attribute):
            return refuse(plan.text, reference.parts[-1].at, message, hint)
    alias = f"{attribute.alias}." if attribute.alias else ""
    text = f"query {plan.name}, {alias}{attribute.name}: {message}"
    return UserError(f"{text}\n  {hint}" if hint else text)


def _means(reference: s.Reference, attribute: Attribute) -> bool:
    *before, last = reference.parts
    own = bool(before) and before[-1].text == OWN and not before[-1].quoted
    if attribute_name(last.text, own=own) != attribute.name:
        return False
    before = before[: len(before) - own]
    return not before or attribute.alias in {None, before[0].text}


def _references(text: str) -> list[s.Reference]:
    """All references of a query in order; none if the text is no query (a plan from Python)."""
    try:
        parsed = parse(text)
    except UserError:
        return []
    if isinstance(parsed, s.ExplainQuery):
        parsed = parsed.query
    nodes: list[s.Node] = []
    if isinstance(parsed, s.SelectQuery):
        nodes += [item.value for item in parsed.items]
    for clause in parsed.clauses:
        match clause:
            case s.Where(condition=node):
                nodes.append(node)
            case s.Returns(items=items):
                nodes += [item.value for item in items]
            case s.GroupBy(references=references):
                nodes += references
    found = [reference for node in nodes for reference in _inside(node)]
    return sorted(found, key=_start)


def _start(reference: s.Reference) -> Span:
    return reference.at


def _inside(node: s.Node) -> Iterator[s.Reference]:
    match node:
        case s.Reference():
            yield node
        case s.Negative(term=term):
            yield from _inside(term)
        case s.Binary(left=left, right=right):
            yield from _inside(left)
            yield from _inside(right)
        case s.Among(item=item):
            yield from _inside(item)
        case s.Junction(terms=terms) | s.Call(arguments=terms):
            for term in terms:
                yield from _inside(term)
        case s.Number() | s.Literal():
            return
