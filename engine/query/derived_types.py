"""Types of what statements read: the log's attributes, or columns of other results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from engine.query.analysis.returned import OF_ALERTS, OF_MATCHES, OF_WINDOWS, returned_values
from engine.query.derived_plan import DerivedPlan, asked_plan
from engine.query.fields import FIELDS
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Aggregate, Expression, Plan, WindowPlan

Known = Mapping[str, str] | None
"""Types (``int float bool str``) of attributes by name; None: not known."""


class DerivedTypes:
    """Types of what the statements of one pass read.

    Args:
        attributes: the log's.
        of_aggregate: the type of an aggregate over attributes.
        of_value: the type of a value that is made of them.
    """

    def __init__(
        self,
        attributes: Known,
        of_aggregate: Callable[[Aggregate, Known], str],
        of_value: Callable[[Expression, Known], str],
    ) -> None:
        self._attributes = attributes
        self._of_aggregate, self._of_value = of_aggregate, of_value

    def read_by(self, plan: Plan) -> Known:
        """Of the attributes that the events of ``plan`` have."""
        if not isinstance(plan, DerivedPlan):
            return self._attributes
        return {name: kind for source in plan.sources for name, kind in self._made_by(source)}

    def _made_by(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """The columns of the results of ``plan``, and their types."""
        known, asked = self.read_by(plan), asked_plan(plan)
        if isinstance(asked, WindowPlan):
            yield from OF_WINDOWS.items()
            for key in asked.group_by:
                if key.name not in FIELDS:
                    yield key.name, self._of_value(key, known)
            for one in asked.aggregates:
                yield one.label, self._of_aggregate(one, known)
        elif isinstance(asked, MonitorPlan):
            yield from OF_ALERTS.items()
        else:
            yield from OF_MATCHES.items()
            for branch in asked.branches:
                for value in returned_values(branch):
                    yield value.label, self._of_value(value.expression, known)
