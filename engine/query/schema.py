"""Check a plan against the attributes of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.query.analysis.value_kinds import (
    argument_hint,
    attribute_of,
    comparison_hint,
)
from slackwater.engine.query.fields import (
    FIELDS,
    KIND_OF_TYPE,
    ValueKind,
    attributes_in,
    attributes_of,
    comparable,
    inside,
    own_attribute,
)
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import or_meant, refuse
from slackwater.engine.query.language.parse import parse
from slackwater.engine.query.monitor_plan import MonitorPlan, occurrences
from slackwater.engine.query.plan import (
    TAKES_TEXT,
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    JoinPlan,
    Likeness,
    Membership,
    OrPlan,
    Plan,
    Predicate,
    SeqPlan,
    StatementPlan,
    WindowPlan,
    lookups_of,
)
from slackwater.engine.query.render import render_attribute
from slackwater.engine.query.repeat_plan import step_and_role
from slackwater.engine.query.values import FUNCTIONS

_NUMBERS: Final = {ValueKind.TIME, ValueKind.NUMBER, ValueKind.BARE}
_TYPES: Final = {ValueKind.TEXT: "str", ValueKind.TRUTH: "bool"}


def check_attributes(plan: StatementPlan, known: Mapping[str, str]) -> None:
    """Refuse a plan with attributes that the data does not have, or of an unsuitable type.

    Args:
        plan: a query's plan, or one built in Python (its errors have no caret).
        known: type (``int float bool str``) of each attribute of the events.

    Raises:
        UserError: an attribute is unknown (the message lists the known ones), or text and numbers
            are mixed in a comparison or in arithmetic.
    """
    queries = MonitorPlan | SeqPlan | OrPlan | WindowPlan
    if isinstance(plan, queries) and plan.lookups:
        known = _with_tables(plan, known)
    if isinstance(plan, JoinPlan):
        plan = plan.pair
    for attribute in attributes_of(plan):
        name = own_attribute(attribute.name)
        if name is not None and name not in known:
            hint = _remedy(plan, name, known)
            raise refuse_named(plan, attribute, f"no event has an attribute {name!r}", hint)
    pattern = plan
    if isinstance(plan, MonitorPlan):
        pattern = plan.pattern
        for occurrence in occurrences(plan.expression):
            _check(plan, occurrence.where, known)
    for branch in (pattern,) if isinstance(pattern, SeqPlan) else pattern.branches:
        _check_pattern(branch, known)
    for window in plan.windows:
        _check_window(window, known)


def _check_window(plan: WindowPlan, known: Mapping[str, str]) -> None:
    _check(plan, plan.where, known)
    for aggregate in plan.worked_out.aggregates:
        takes_text = aggregate.function in TAKES_TEXT
        for named, text in ((aggregate.argument, takes_text), (aggregate.by, False)):
            if named is not None and not isinstance(named, Attribute):
                _check(plan, named, known)
            elif named and not text and _kind(named, known) == ValueKind.TEXT:
                message = f"{named.name!r} is text, and {aggregate.function} takes numbers"
                if named is aggregate.by:
                    message = f"{named.name!r} is text, and {aggregate.function} goes by numbers"
                hint = f"count({named.name}) counts its values; one that is no number makes it text"
                raise refuse_named(plan, named, message, hint)


def _with_tables(plan: StatementPlan, known: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``known`` with the columns that LOOKUP adds; check the attributes it looks up by."""
    found = dict(known)
    for lookup in lookups_of(plan):
        name, at = own_attribute(lookup.attribute), lookup.at
        attribute = Attribute(lookup.attribute, lookup.step, at)
        if name is not None and name not in known:
            hint = _remedy(plan, name, known)
            raise refuse_named(plan, attribute, f"no event has an attribute {name!r}", hint)
        taken = lookup.types.keys() & known.keys()
        if taken:
            hint = f"give the table another name here: LOOKUP {lookup.table.name} AS other ON ..."
            message = f"events have an attribute {min(taken)!r} of their own"
            raise refuse_named(plan, attribute, message, hint)
        table = lookup.table
        kinds = _kind(attribute, known), KIND_OF_TYPE[table.types[lookup.key]]
        if not comparable(*kinds):
            there = f"{table.source} has {kinds[1]} in {lookup.key!r}"
            message = f"{name or lookup.attribute!r} is {kinds[0]}, and {there}"
            hint = "write both alike: as numbers, or as text (in JSON with quotes)"
            raise refuse_named(plan, attribute, message, hint)
        found |= lookup.types
    return found


def _check_pattern(plan: SeqPlan, known: Mapping[str, str]) -> None:
    for group in plan.equalities:
        for other in group[1:]:
            _check_pair(plan, group[0], other, known)
    for predicate in [*(step.where for step in plan.steps), *plan.others]:
        _check(plan, predicate, known)
    for one in plan.computed:
        _check(plan, one.expression, known)


def _remedy(plan: StatementPlan, wrong: str, known: Mapping[str, str]) -> str:
    if wrong.replace(".", "_") in known:
        return f"of an object within, the names are joined: {wrong.replace('.', '_')}"
    if f'"{wrong}"' in plan.text:
        return f"text goes in single quotes: '{wrong}'"
    if isinstance(plan, WindowPlan) and wrong in {one.label for one in plan.aggregates}:
        return f"conditions on aggregates go in HAVING: HAVING {wrong} > 3"
    if wrong == r.ID:
        return "the record's own id is not an attribute; --map attrs.id=id makes it one"
    if not known:
        return f"the events have no attributes; there is {', '.join(FIELDS)}"
    return or_meant(f"there is {', '.join(sorted(known))}", wrong, [*known, *FIELDS])


def _kind(expression: Expression, known: Mapping[str, str]) -> ValueKind:
    match expression:
        case Attribute(name=name):
            attribute = own_attribute(name)
            return FIELDS[name] if attribute is None else KIND_OF_TYPE[known[attribute]]
        case Constant(value=str()):
            return ValueKind.TEXT
        case Constant(value=bool()):
            return ValueKind.TRUTH
        case FunctionCall(function=function, arguments=arguments):
            gives = FUNCTIONS[function].gives
            if gives == "same":
                return _kind(arguments[0], known)
            return ValueKind.TEXT if gives == "text" else ValueKind.NUMBER
        case Case(values=values):
            return _kind(values[0], known)
        case Constant() | Arithmetic():
            return ValueKind.NUMBER


def value_type(expression: Expression, known: Mapping[str, str]) -> str:
    """Return the type of a value (``float``, ``bool`` or ``str``; all numbers are ``float``)."""
    return _TYPES.get(_kind(expression, known), "float")


def _check(plan: Plan, node: Expression | Predicate | None, known: Mapping[str, str]) -> None:
    """Refuse comparisons, arithmetic, functions and CASEs with operands of unsuitable types."""
    for part in inside(node):
        match part:
            case Comparison(left=left, right=right):
                _check_pair(plan, left, right, known)
            case Membership(item=item, options=options):
                for option in options:
                    _check_pair(plan, item, option, known)
            case Likeness(item=item):
                _check_operand(
                    plan, item, "LIKE and regexp_like take text", {ValueKind.TEXT}, known
                )
            case Arithmetic(left=left, right=right):
                for side in (left, right):
                    _check_operand(plan, side, "+ - * / % take numbers", _NUMBERS, known)
            case FunctionCall(function=function, arguments=arguments):
                takes = FUNCTIONS[function].takes
                kinds = {"text": {ValueKind.TEXT}, "any": set(ValueKind)}.get(takes, _NUMBERS)
                noun = "text" if takes == "text" else "numbers"
                for argument in arguments:
                    _check_operand(plan, argument, f"{function} takes {noun}", kinds, known)
                _check_alike(plan, arguments, known)
            case Case(values=values):
                _check_alike(plan, values, known)


def _check_pair(plan: Plan, left: Expression, right: Expression, known: Mapping[str, str]) -> None:
    first, second = _kind(left, known), _kind(right, known)
    if not comparable(first, second):
        message, hint = (
            f"{first} is compared with {second}",
            comparison_hint(first, second, left, right),
        )
        named = [f"{each.name!r} is {_kind(each, known)}" for each in (left, right)
                 if isinstance(each, Attribute)]  # fmt: skip
        remedy = "; ".join([*named, hint])
        raise _about(plan, left if isinstance(left, Attribute) else right, message, remedy)


def _check_alike(plan: Plan, values: Sequence[Expression], known: Mapping[str, str]) -> None:
    """Refuse alternatives of different kinds, and texts of several events."""
    first, *others = (_kind(value, known) for value in values)
    for value, kind in zip(values[1:], others, strict=True):
        if not comparable(first, kind):
            hint = comparison_hint(first, kind, values[0], value)
            raise _about(plan, value, f"this is {kind} where another is {first}", hint)
    named = [each for value in values for each in attributes_in(value)]
    if first == ValueKind.TEXT and len({each.alias for each in named}) > 1:
        hint = "compare a value of one event with one of another"
        raise _about(plan, values[0], "this chooses among texts of several events", hint)


def _check_operand(
    plan: Plan, value: Expression, rule: str, kinds: set[ValueKind], known: Mapping[str, str]
) -> None:
    kind = _kind(value, known)
    if kind not in {*kinds, ValueKind.ANY}:
        what = repr(value.name) if isinstance(value, Attribute) else "this"
        raise _about(
            plan, value, f"{what} is {kind}, and {rule}", argument_hint(kind, kinds, value)
        )


def _about(plan: Plan, value: Expression, message: str, hint: str) -> UserError:
    """Return the error with a caret at the first attribute in ``value``."""
    named = next(attributes_in(value), None)
    if named is not None:
        return refuse_named(plan, named, message, hint)
    return UserError(f"query {plan.name}: {message}\n  {hint}" if hint else message)


def refuse_named(plan: Plan, attribute: Attribute, message: str, hint: str) -> UserError:
    """Return the error with a caret at ``attribute``; without a known place, at its first mention
    in ``plan.text``.
    """
    if attribute.at is not None:
        return refuse(plan.text, attribute.at, message, hint)
    for reference in _references(plan.text):
        if _means(reference, attribute):
            return refuse(plan.text, reference.parts[-1].at, message, hint)
    text = f"query {plan.name}, {render_attribute(attribute)}: {message}"
    return UserError(f"{text}\n  {hint}" if hint else text)


def _means(reference: s.Reference, attribute: Attribute) -> bool:
    before, name = attribute_of(reference.parts)
    alias = None if attribute.alias is None else step_and_role(attribute.alias)[0]
    return name == attribute.name and (not before or alias in {None, before[0].text})


def _references(text: str) -> list[s.Reference]:
    """Return all references in a query, in order; none if the text does not parse."""
    try:
        parsed = parse(text)
    except UserError:
        return []
    found = (node for node in s.walk(parsed) if isinstance(node, s.Reference))
    return sorted(found, key=lambda reference: reference.at)
