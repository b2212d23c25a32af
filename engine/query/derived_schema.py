"""Checks a plan against what it reads: the log's attributes, or columns of other results."""

from __future__ import annotations

from collections.abc import Mapping

from engine.query.analysis.returned import returned_types
from engine.query.derived_plan import DerivedPlan
from engine.query.fields import named_attributes
from engine.query.plan import Plan
from engine.query.schema import check_attributes as check_own


def check_attributes(plan: Plan, known: Mapping[str, str]) -> None:
    """Refuses a plan whose attributes are not there, or of a type that cannot be meant.

    Args:
        plan: of a query or a statement, or built in Python (whose errors have no caret).
        known: type (``int float bool str``) by the own attributes of the log's events.

    Raises:
        UserError: an attribute is unknown (the message names the ones there are), text is
            compared or calculated with as if it were a number, or the other way round.
    """
    if not isinstance(plan, DerivedPlan):
        check_own(plan, known)
        return
    columns: dict[str, str] = {}
    for source in plan.sources:
        check_attributes(source, known)  # types of columns are those of attributes that are there
        columns |= returned_types(source, known)
    check_own(plan.plan, columns)


def attributes_of_log(plan: Plan) -> frozenset[str]:
    """The own attributes of the log's events that ``plan`` hangs on, also by what it reads."""
    if not isinstance(plan, DerivedPlan):
        return named_attributes(plan)
    return frozenset[str]().union(*map(attributes_of_log, plan.sources))
