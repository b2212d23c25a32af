"""Which columns the results of a plan have where another statement reads them as events.

A result is an interval: of a window from its start to the last instant in it, of a match from its
first event's start to its last one's end, of an alert the instant of its event. Columns are what a
SELECT aggregates and groups by, or what RETURN names; and what is known of the result itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.query.derived_plan import DerivedPlan, asked_plan
from engine.query.fields import FIELDS, attributes_in, is_time, own_attribute
from engine.query.monitor_plan import MonitorPlan
from engine.query.over_events import over_events
from engine.query.plan import Computed, Expression, OrPlan, Plan, SeqPlan, WindowPlan
from engine.query.render_values import render_expression
from engine.query.schema import value_type

OF_WINDOWS: Final = {"certain": "int", "ambiguous": "int", "missing": "int"}
"""What every result of a window tells of itself, beside its aggregates; types."""
OF_MATCHES: Final = {"probability": "float", "certainty": "str"}
OF_ALERTS: Final = {
    "alert": "str", "trace": "str", "certainty": "str", "event_type": "str", "allowed": "str",
}  # fmt: skip
_COUNTS: Final = frozenset({"count", "count_distinct"})
_SPREADS: Final = frozenset({"avg", "stddev", "var"})


def returned_values(plan: SeqPlan) -> tuple[Computed, ...]:
    """What RETURN of one branch names, each with the name that its column has.

    An attribute is named as in its event, or with its step where two have the same name.
    """
    names = [attribute.name for attribute in plan.returns]
    plain = tuple(
        Computed(one.name if names.count(one.name) == 1 else render_expression(one), one)
        for one in plan.returns
    )
    return (*plain, *plan.computed)


def returned_columns(plan: Plan) -> dict[str, Expression | None]:
    """The columns of ``plan``'s results by name, with what they are of where that is said."""
    plan = asked_plan(plan)
    if isinstance(plan, WindowPlan):
        keys = {key.name: key for key in plan.group_by if key.name not in FIELDS}
        values = {one.label: over_events(plan, one) for one in plan.aggregates}
        return {**dict.fromkeys(OF_WINDOWS), **keys, **values}
    if isinstance(plan, MonitorPlan):
        return dict.fromkeys(OF_ALERTS)
    branches = plan.branches if isinstance(plan, OrPlan | SeqPlan) else ()
    found: dict[str, Expression | None] = dict.fromkeys(OF_MATCHES)
    for branch in branches:
        found |= {one.label: one.expression for one in returned_values(branch)}
    return found


def time_columns(plan: Plan) -> frozenset[str]:
    """Those of ``returned_columns`` that are times or spans of time: sure as clocks are."""
    read: frozenset[str] = frozenset()
    if isinstance(plan, DerivedPlan):
        read = read.union(*map(time_columns, plan.sources))
    return frozenset(
        name
        for name, of in returned_columns(plan).items()
        if of is not None
        and (is_time(of) or any(own_attribute(one.name) in read for one in attributes_in(of)))
    )


def returned_types(plan: Plan, known: Mapping[str, str]) -> dict[str, str]:
    """The type (``int float bool str``) of each column of ``plan``'s results.

    Args:
        plan: of a statement.
        known: types of the log's own attributes.
    """
    if isinstance(plan, DerivedPlan):
        known = {
            name: of
            for source in plan.sources
            for name, of in returned_types(source, known).items()
        }
    asked = asked_plan(plan)
    found = {**OF_WINDOWS, **OF_MATCHES, **OF_ALERTS}
    functions = {}
    if isinstance(asked, WindowPlan):
        functions = {one.label: one.function for one in asked.aggregates}
    types = {}
    for name, expression in returned_columns(plan).items():
        if functions.get(name) in _COUNTS:
            types[name] = "int"
        elif functions.get(name) in _SPREADS:
            types[name] = "float"
        elif expression is None:
            types[name] = found[name]
        else:
            types[name] = value_type(expression, known)
    return types
