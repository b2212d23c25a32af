"""What a constraint by itself says: a definition read, and the types that a plan names."""

from __future__ import annotations

from engine.query.analysis.analyse import query
from engine.query.automata.compiled import Automata, automata_of
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Attribute, Plan
from engine.query.regular import occurrences
from engine.stream.timeline import ANY_TYPE


def automata_under(text: str, time_unit: str = "ns") -> tuple[Attribute, Automata]:
    """What the events of a trace share, and the automata, of a pattern under a constraint.

    Raises:
        UserError: the text is at fault.
    """
    plan = query(text, time_unit)
    assert isinstance(plan, MonitorPlan), "the text has a constraint"
    return plan.trace, automata_of(plan)


def named_types(plan: Plan) -> dict[str, None]:
    """The types that a pattern names, and its constraint, in order."""
    if not isinstance(plan, MonitorPlan):
        return dict.fromkeys(step.type for step in plan.steps if step.type != ANY_TYPE)
    found = [step.type for branch in plan.pattern.branches for step in branch.steps]
    return dict.fromkeys([*found, *(each.type for each in occurrences(plan.expression))])
