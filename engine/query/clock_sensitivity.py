"""How conditions depend on clocks: the events whose clock errors change their values, and by how
much.

``ts``, ``te`` and ``ref`` are on the engine's clock (``engine.query.fields``), known only up to the
error of their event's clock; the source's own stamps (``raw_ts``), arrivals and attributes are
exact. A value that is a sum of times changes with the error of each time by a known factor, its
*coefficient*; the two ends of one event change together except for its clock's rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.choice import Lane
from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.query.fields import attributes_in
from slackwater.engine.query.plan import (
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Constant,
    DerivedPlan,
    Expression,
    FunctionCall,
    Likeness,
    Logic,
    Membership,
    Predicate,
    Presence,
    Step,
    statement_plan,
)

CLOCKED: Final = frozenset({"ts", "te", "ref"})
"""Names of times that are uncertain if the event's clock is."""
AS_STAMPED: Final = "compare attributes, or raw_ts and raw_te, which are as the clock says them"
"""The remedy where uncertain values are not allowed."""
Coefficients = dict[tuple[str | None, bool], float]
"""By alias, and whether it is the end: the change of a value per unit of the clock's error there;
never 0.
"""


def is_clocked(predicate: Predicate, *, lengths: bool = True) -> bool:
    """Whether clock errors can change ``predicate``; without ``lengths``: if the events' lengths,
    which a clock's rate changes, are assumed to be exact.

    >>> from slackwater.engine.query import query
    >>> [is_clocked(p) for p in query("EVENT SEQ(A a, B b) WHERE b.ts - a.ts < 3").others]
    [True]
    >>> lasting = query("EVENT SEQ(A a) WHERE a.te - a.ts < 3").steps[0].where
    >>> is_clocked(lasting), is_clocked(lasting, lengths=False)
    (True, False)
    """
    match predicate:
        case Logic(terms=terms):
            return any(is_clocked(term, lengths=lengths) for term in terms)
        case Membership(item=item) | Likeness(item=item):
            moved = coefficients(item)
        case Presence():
            return False
        case Comparison(left=left, right=right):
            moved = difference(left, right)
    if moved is None or lengths:
        return moved != {}
    return any(factor for factor, _ in by_event(moved).values())


def by_event(moved: Coefficients) -> dict[str | None, tuple[float, float]]:
    """Return by alias the change of a value per error of its event, and per error of its length."""
    found: dict[str | None, tuple[float, float]] = {}
    for alias, _ in moved:
        start, end = moved.get((alias, False), 0.0), moved.get((alias, True), 0.0)
        found[alias] = start + end, min(abs(start), abs(end))
    return found


def coefficients(value: Expression) -> Coefficients | None:
    """Return coefficients; empty: clock errors do not change ``value``; None: by no fixed
    factor.
    """
    match value:
        case Constant():
            return {}
        case Attribute(name=name, alias=alias):
            return {(alias, name == "te"): 1.0} if name in CLOCKED else {}
        case Arithmetic(op="+" | "-" as op, left=left, right=right):
            return difference(left, right) if op == "-" else _sum(left, right, 1.0)
        case Arithmetic(op=op, left=left, right=right):
            first, second = coefficients(left), coefficients(right)
            if first == {} and second == {}:
                return {}
            if op == "*" and isinstance(left, Constant) and second is not None:
                return _times(second, left)
            if isinstance(right, Constant) and first is not None and op != "%":
                return _times(first, right, inverse=op == "/")
            return None
        case FunctionCall() | Case():
            return None if clocked_aliases([value]) else {}


def difference(left: Expression, right: Expression) -> Coefficients | None:
    """Return the ``coefficients`` of ``left - right``."""
    return _sum(left, right, -1.0)


def clocked_aliases(values: Iterable[Expression]) -> list[str | None]:
    """Return the distinct events whose clocks the ``values`` read, by alias."""
    found = {
        each.alias for value in values for each in attributes_in(value) if each.name in CLOCKED
    }
    return sorted(found, key=str)


def _sum(left: Expression, right: Expression, sign: float) -> Coefficients | None:
    first, second = coefficients(left), coefficients(right)
    if first is None or second is None:
        return None
    both = {
        time: first.get(time, 0.0) + sign * second.get(time, 0.0)
        for time in dict.fromkeys([*first, *second])
    }
    return {time: factor for time, factor in both.items() if factor}


def _times(found: Coefficients, by: Constant, *, inverse: bool = False) -> Coefficients | None:
    if isinstance(by.value, str):
        return {}
    factor = float(by.value)
    if inverse:
        factor = 1.0 / factor if factor else 0.0
    return {time: weight * factor for time, weight in found.items() if weight * factor}


# Clocks of the events that a statement reads.


_LANE: Final = (r.CLOCK, r.SOURCE, r.STREAM, r.TYPE)


def lanes_read(plan: Any, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Return the ``lanes`` whose events ``plan`` may read; ``plan`` reads the log."""
    streams = plan.streams or getattr(plan, "sources", ())
    types, where = getattr(plan, "types", ()), getattr(plan, "where", None)
    steps: list[Step] = [step for branch in plan.branches for step in branch.steps] or [
        Step("", kind, where=where) for kind in types or (ANY_TYPE,)
    ]
    found = []
    for lane in lanes:
        of = dict(zip(_LANE, lane[1], strict=True))
        if streams and of[r.STREAM] not in (None, *streams):
            continue
        if any(_may_be(step, of) for step in steps):
            found.append(lane)
    return tuple(found)


def result_lanes(plan: DerivedPlan, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Return the lanes of the results that ``plan`` reads as events; ``lanes``: lanes of the
    log.
    """
    found = dict[Lane, None]()
    for each in plan.sources:
        statement = statement_plan(each)
        read = lanes_read(
            statement, result_lanes(each, lanes) if isinstance(each, DerivedPlan) else lanes
        )
        keys = {key.name for window in statement.windows for key in window.group_by}
        for clock, (_, source, *_) in read:
            name = (
                source
                if r.SOURCE in keys
                else None
                if statement.result_kind == "alerts"
                else statement.name
            )
            found[clock, (name, name, statement.name, statement.name)] = None
    return tuple(found)


def _may_be(step: Step, of: dict[str, str | None]) -> bool:
    """Whether an event of these names may match ``step``."""
    kind = of[r.TYPE]
    types = step.types if step.type == ANY_TYPE else (step.type,)
    if kind is not None and types and kind not in types:
        return False
    if step.streams and of[r.STREAM] not in (None, *step.streams):
        return False
    return step.where is None or _outcomes(step.where, of)[0]


def _outcomes(predicate: Predicate, of: dict[str, str | None]) -> tuple[bool, bool]:
    """Return whether ``predicate`` may be true for an event of these names, and whether false."""
    match predicate:
        case Logic(op="not", terms=(term,)):
            true, false = _outcomes(term, of)
            return false, true
        case Logic(op=op, terms=terms):
            found = [_outcomes(term, of) for term in terms]
            one, every = (any, all) if op == "and" else (all, any)
            return every(each[0] for each in found), one(each[1] for each in found)
        case Comparison(
            op="=" | "!=" as op, left=Attribute(name=name), right=Constant(value=value)
        ):
            options = {value}
        case Comparison(
            op="=" | "!=" as op, left=Constant(value=value), right=Attribute(name=name)
        ):
            options = {value}
        case Membership(item=Attribute(name=name), options=some):
            op, options = "=", {each.value for each in some}
        case _:
            return True, True
    if of.get(name) is None:
        return True, True
    is_one = of[name] in options
    return (is_one, not is_one) if op == "=" else (not is_one, is_one)
