"""What is computed of aggregates, as if it were of single events: its kind and its unit."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from engine.query.aggregates import COMPUTED
from engine.query.fields import is_time
from engine.query.plan import Aggregate, Attribute, Constant, Expression, WindowPlan
from engine.query.render import default_label

_NUMBERS: Final = frozenset({"count", "count_distinct", "var"})
"""Numbers without a unit, whatever they are of."""


def over_events(plan: WindowPlan, one: Aggregate) -> Expression | None:
    """The argument of ``one``; of arithmetic, with the aggregates' arguments in their places."""
    if one.function != COMPUTED:
        return one.argument
    of = {default_label(each): each for each in plan.worked_out.aggregates}

    def put(node: Any) -> Any:
        if isinstance(node, Attribute):
            each = of[node.name]
            return Constant(1) if each.function in _NUMBERS else each.argument
        if isinstance(node, tuple):
            return tuple(map(put, node))
        if isinstance(node, Struct):
            parts: dict[str, Any] = {
                name: put(getattr(node, name)) for name in node.__struct_fields__
            }
            return structs.replace(node, **parts)
        return node

    found: Expression = put(one.argument)
    return found


def times_of(window: WindowPlan) -> set[str]:
    """The aggregates whose values are times, by name."""
    return {
        one.label
        for one in window.aggregates
        if one.function not in _NUMBERS
        and (of := over_events(window, one)) is not None
        and is_time(of)
    }
