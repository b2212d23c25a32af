"""The names that a query may use, record fields and attributes of events, and their kinds.

On corrected streams event time is ``ref`` (SPEC 4.1), so ``ts`` and ``te`` are the corrected times;
``raw_ts`` and ``raw_te`` are the times by the source's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache, singledispatch
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.monitor_plan import MonitorPlan, occurrences
from slackwater.engine.query.plan import (
    APART,
    Arithmetic,
    Attribute,
    Case,
    Checks,
    Comparison,
    DerivedPlan,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Membership,
    OrPlan,
    Plan,
    Predicate,
    Presence,
    SeqPlan,
    WindowPlan,
    lookups_of,
)
from slackwater.engine.query.values import FUNCTIONS

_P = TypeVar("_P")


NO_TYPE: Final = "null"
"""The type of an attribute that is null in every event."""


class ValueKind(StrEnum):
    """What is known about a value before any event arrives; the values appear in messages."""

    TIME = "a time"
    NUMBER = "a number"
    BARE = "a number without a unit"
    """In a comparison with a time it has the trace's time unit."""
    TEXT = "text"
    TRUTH = "a truth value"
    ANY = "unknown"


FIELDS: Final[dict[str, ValueKind]] = {
    "ts": ValueKind.TIME,
    "te": ValueKind.TIME,
    "ref": ValueKind.TIME,
    "raw_ts": ValueKind.TIME,
    "raw_te": ValueKind.TIME,
    "arrival": ValueKind.TIME,
    "release": ValueKind.TIME,
    "seq": ValueKind.NUMBER,
    "source": ValueKind.TEXT,
    "stream": ValueKind.TEXT,
    "type": ValueKind.TEXT,
    "site": ValueKind.TEXT,
}
"""Record fields; they take precedence over attributes of the same name."""

ATTRS: Final = "attrs"
_COLUMNS_OF: Final[dict[str, tuple[str, ...]]] = {
    "ts": ("ref",),
    "te": ("te", "ref", "ts"),
    "raw_ts": ("ts",),
    "raw_te": ("te",),
}
KIND_OF_TYPE: Final = {
    "int": ValueKind.NUMBER,
    "float": ValueKind.NUMBER,
    "bool": ValueKind.TRUTH,
    "str": ValueKind.TEXT,
    NO_TYPE: ValueKind.ANY,
}
_NUMERIC: Final = {ValueKind.TIME, ValueKind.NUMBER, ValueKind.BARE}


def attribute_name(word: str, *, qualified: bool) -> str:
    """Return the plan's name of the attribute ``word`` (``qualified``: written ``attrs.word``).

    >>> attribute_name("ts", qualified=False), attribute_name("ts", qualified=True)
    ('ts', 'attrs.ts')
    >>> attribute_name("v", qualified=False), attribute_name("v", qualified=True)
    ('v', 'v')
    """
    if (qualified and word in FIELDS) or word.startswith(ATTR_PREFIX):
        return ATTR_PREFIX + word
    return word


def own_attribute(name: str) -> str | None:
    """Return the attribute of events that ``name`` means; None for a record field."""
    if name in FIELDS:
        return None
    return name.removeprefix(ATTR_PREFIX)


def comparable(left: ValueKind, right: ValueKind) -> bool:
    """Whether a comparison of values of these kinds can have a known result."""
    if ValueKind.ANY in {left, right}:
        return True
    return left == right or {left, right} <= _NUMERIC


def parts_of(node: Expression | Predicate | None) -> tuple[Expression | Predicate | None, ...]:
    """Return the direct parts of ``node``."""
    match node:
        case Arithmetic(left=left, right=right) | Comparison(left=left, right=right):
            return left, right
        case Membership(item=item, options=options):
            return item, *options
        case Presence(item=item) | Likeness(item=item):
            return (item,)
        case FunctionCall(arguments=parts) | Logic(terms=parts):
            return parts
        case Case(whens=whens, otherwise=otherwise):
            return (*(part for when in whens for part in when), otherwise)
    return ()


def inside(node: Expression | Predicate | None) -> Iterator[Expression | Predicate]:
    """Yield every part of ``node``, parts before the whole, and ``node`` last."""
    for part in parts_of(node):
        yield from inside(part)
    if node is not None:
        yield node


def attributes_in(node: Expression | Predicate | None) -> Iterator[Attribute]:
    """Yield every attribute in ``node``, in order of appearance, with repeats."""
    return (part for part in inside(node) if isinstance(part, Attribute))


def bare(node: _P) -> _P:
    """Return ``node`` without aliases of attributes."""
    return with_alias(node, None)


def with_alias(node: _P, alias: str | None) -> _P:
    """Return ``node`` with ``alias`` on every attribute."""
    return with_attributes(node, lambda attribute: replace(attribute, alias=alias))


def with_attributes(node: _P, of: Callable[[Attribute], Expression]) -> _P:
    """Return ``node`` (expression, predicate, tuple or plan) with ``of(attribute)`` for each
    one.
    """
    if isinstance(node, Attribute):
        return of(node)  # type: ignore[return-value]
    if isinstance(node, tuple):
        return tuple(with_attributes(part, of) for part in node)  # type: ignore[return-value]
    if isinstance(node, Struct):
        parts: dict[str, Any] = {
            name: with_attributes(getattr(node, name), of) for name in node.__struct_fields__
        }
        return structs.replace(node, **parts)
    return node


def result_attributes(checks: Checks | None) -> Iterator[Attribute]:
    """Yield every attribute in ``checks``, with repeats, including history lookups."""
    if checks is not None:
        limited = () if checks.limit is None else checks.limit.key
        for part in (*(rule.condition for rule in checks.rules), *checks.key, *limited):
            yield from attributes_in(part)


def _of_events(checks: Checks) -> Iterator[Attribute]:
    for attribute in result_attributes(checks):
        if attribute.alias not in APART:
            yield attribute


@singledispatch
def attributes_of(plan: Plan) -> Iterator[Attribute]:
    """Yield every attribute of events in ``plan``, with repeats.

    Plan classes outside the language ``register`` their own function.
    """
    raise ContractViolation(f"attributes_of knows no {type(plan).__name__}: register it")


@attributes_of.register
def _of_pattern(plan: SeqPlan) -> Iterator[Attribute]:
    for step in plan.steps:
        yield from attributes_in(step.where)
    for group in plan.equalities:
        yield from group
    for other in plan.others:
        yield from attributes_in(other)
    yield from plan.returns
    for one in plan.computed:
        yield from attributes_in(one.expression)
    if plan.checks is not None:
        yield from _of_events(plan.checks)


@attributes_of.register
def _of_branches(plan: OrPlan) -> Iterator[Attribute]:
    for branch in plan.branches:
        yield from attributes_of(branch)


@attributes_of.register
def _of_monitor(plan: MonitorPlan) -> Iterator[Attribute]:
    yield plan.trace
    yield from attributes_of(plan.pattern)
    for occurrence in occurrences(plan.expression):
        yield from attributes_in(occurrence.where)


@attributes_of.register
def _of_derived(plan: DerivedPlan) -> Iterator[Attribute]:
    """Yield the attributes of the sources; the statement's own names are columns of results."""
    for source in plan.sources:
        yield from attributes_of(source)


@attributes_of.register
def _of_window(plan: WindowPlan) -> Iterator[Attribute]:
    for aggregate in plan.worked_out.aggregates:
        yield from attributes_in(aggregate.argument)
        yield from attributes_in(aggregate.by)
    yield from attributes_in(plan.where)
    yield from plan.group_by


@lru_cache(maxsize=64)
def names(plans: tuple[Plan, ...], field: str) -> bool:
    """Whether one of ``plans`` names the record field ``field``."""
    return any(attribute.name == field for plan in plans for attribute in attributes_of(plan))


def shows_everything(plan: SeqPlan) -> bool:
    """Whether a match of ``plan`` shows all attributes of its events."""
    return plan.everything or (not plan.returns and not plan.computed)


@lru_cache(maxsize=64)
def needed_attributes(plan: Plan) -> frozenset[str] | None:
    """Return the attributes of events that ``plan`` needs; None: all, as matches show them."""
    if any(shows_everything(branch) for branch in plan.branches):
        return None
    return named_attributes(plan)


@lru_cache(maxsize=64)
def named_attributes(plan: Plan) -> frozenset[str]:
    """Return the attributes of events that ``plan`` names, including the keys of table lookups."""
    names = {own_attribute(attribute.name) for attribute in attributes_of(plan)}
    for lookup in lookups_of(plan):
        names = (names - lookup.types.keys()) | {own_attribute(lookup.attribute)}
    return frozenset(name for name in names if name is not None)


def looked_up_attributes(plan: Plan) -> set[str]:
    """Return the attributes that ``plan`` names and LOOKUP adds."""
    named = {attribute.name for attribute in attributes_of(plan)}
    return {name for each in lookups_of(plan) for name in each.types if name in named}


def named_types(plan: Plan) -> dict[str, None]:
    """Return the types that a pattern and its constraint name, in order."""
    if not isinstance(plan, MonitorPlan):
        return dict.fromkeys(step.type for step in plan.steps if step.type != ANY_TYPE)
    found = [step.type for branch in plan.pattern.branches for step in branch.steps]
    return dict.fromkeys([*found, *(each.type for each in occurrences(plan.expression))])


def needed_types(plan: Plan) -> list[set[str]]:
    """Return, for each alternative of a pattern, the types that every match needs.

    A plan with a constraint needs none, as the constraint may exclude a type.
    """
    if isinstance(plan, MonitorPlan):
        return [set()]
    branches = plan.branches if isinstance(plan, SeqPlan | OrPlan) else ()
    return [branch.needed_types for branch in branches]


def is_time(expression: Expression) -> bool:
    """Whether it is a time or a span of time, including sums and multiples."""
    match expression:
        case Attribute(name=name):
            return FIELDS.get(name) is ValueKind.TIME
        case Arithmetic(op="+" | "-" | "%", left=left, right=right):
            return is_time(left) or is_time(right)
        case FunctionCall(function=function, arguments=arguments):
            return FUNCTIONS[function].gives == "same" and any(map(is_time, arguments))
        case Case(values=values):
            return any(map(is_time, values))
        case Arithmetic(op="*", left=left, right=right):
            return is_time(left) != is_time(right)
        case Arithmetic(left=left, right=right):
            return is_time(left) and not is_time(right)
    return False


class TimeValue(StrEnum):
    """A value that is a time."""

    INSTANT = "instant"
    SPAN = "span"


_TIMES: Final[dict[tuple[str, TimeValue | None, TimeValue | None], TimeValue]] = {
    ("+", TimeValue.INSTANT, None): TimeValue.INSTANT,
    ("+", None, TimeValue.INSTANT): TimeValue.INSTANT,
    ("+", TimeValue.INSTANT, TimeValue.SPAN): TimeValue.INSTANT,
    ("+", TimeValue.SPAN, TimeValue.INSTANT): TimeValue.INSTANT,
    ("-", TimeValue.INSTANT, TimeValue.SPAN): TimeValue.INSTANT,
    ("-", TimeValue.INSTANT, None): TimeValue.INSTANT,
    ("-", TimeValue.INSTANT, TimeValue.INSTANT): TimeValue.SPAN,
    ("%", TimeValue.INSTANT, None): TimeValue.SPAN,
    ("/", TimeValue.SPAN, None): TimeValue.SPAN,
    **{(op, TimeValue.SPAN, None): TimeValue.SPAN for op in "+-*%"},
    **{(op, None, TimeValue.SPAN): TimeValue.SPAN for op in "+-*"},
    **{(op, TimeValue.SPAN, TimeValue.SPAN): TimeValue.SPAN for op in "+-%"},
}  # fmt: skip
"""The kind of ``left op right``; None: a number, or a duration literal."""


def time_value(expression: Expression) -> TimeValue | None:
    """Return whether ``expression`` is an instant or a span; None: neither."""
    match expression:
        case Attribute(name=name):
            return TimeValue.INSTANT if FIELDS.get(name) is ValueKind.TIME else None
        case Arithmetic(op=op, left=left, right=right):
            return _TIMES.get((op, time_value(left), time_value(right)))
        case FunctionCall(function=function, arguments=values):
            kinds = {*map(time_value, values)} if FUNCTIONS[function].gives == "same" else {None}
        case Case(values=values):
            kinds = {*map(time_value, values)}
        case _:
            return None
    return kinds.pop() if len(kinds) == 1 else None


def released_columns(attributes: Iterable[Attribute]) -> set[str]:
    """Return the columns of ``engine.core.released.Released`` that ``attributes`` read."""
    columns: set[str] = set()
    for attribute in attributes:
        name = attribute.name
        if name in FIELDS:
            columns.update(_COLUMNS_OF.get(name, (name,)))
        else:
            plain_name = name.removeprefix(ATTR_PREFIX)
            columns.update((ATTR_PREFIX + plain_name, "valid." + plain_name))
    return columns
