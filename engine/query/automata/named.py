"""What a constraint by itself says: a definition read."""

from __future__ import annotations

from engine.query.analysis.analyse import query
from engine.query.automata.compiled import Automata, automata_of
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Attribute


def automata_under(text: str, time_unit: str = "ns") -> tuple[Attribute, Automata]:
    """What the events of a trace share, and the automata, of a pattern under a constraint.

    Raises:
        UserError: the text is at fault.
    """
    plan = query(text, time_unit)
    assert isinstance(plan, MonitorPlan), "the text has a constraint"
    return plan.trace, automata_of(plan)
