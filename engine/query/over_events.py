"""What is computed of aggregates, as if it were of single events: its kind and its unit."""

from __future__ import annotations

from typing import Final

from engine.query.aggregates import COMPUTED
from engine.query.fields import is_time, with_attributes
from engine.query.plan import Aggregate, Attribute, Constant, Expression, WindowPlan
from engine.query.render import default_label

_NUMBERS: Final = frozenset({"count", "count_distinct", "var"})
"""Numbers without a unit, whatever they are of."""


def over_events(plan: WindowPlan, one: Aggregate) -> Expression | None:
    """The argument of ``one``; of arithmetic, with the aggregates' arguments in their places."""
    if one.function != COMPUTED:
        return one.argument
    of = {default_label(each): each for each in plan.worked_out.aggregates}

    def argument(of_one: Attribute) -> Expression:
        each = of[of_one.name]
        return Constant(1) if each.argument is None or each.function in _NUMBERS else each.argument

    return with_attributes(one.argument, argument)


def times_of(window: WindowPlan) -> set[str]:
    """The aggregates whose values are times, by name."""
    return {
        one.label
        for one in window.aggregates
        if one.function not in _NUMBERS
        and (of := over_events(window, one)) is not None
        and is_time(of)
    }
