"""EXPLAIN of several statements: which reads whose results, and what an event of these is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from engine.query.analysis.returned import returned_columns
from engine.query.derived_plan import DerivedPlan, asked_plan
from engine.query.language.place import listed
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import Plan, WindowKind, WindowPlan


def cascade_told(plans: Sequence[Plan]) -> list[str]:
    """A text of lines about who reads whom, in a list; none where nobody reads results."""
    read = {source.name for plan in plans for source in _sources(plan)}
    if not read:
        return []
    lines = ["cascade"]
    for plan in plans:
        sources = [source.name for source in _sources(plan)]
        of = listed(sources) if sources else "the log"
        lines.append(f"{plan.name:<12}reads {of}")
        if plan.name in read:
            lines += _wrapped(f"its results are events of {plan.name}: {_time(asked_plan(plan))}")
            lines += _wrapped(f"columns {', '.join(sorted(returned_columns(plan)))}")
    lines += _wrapped(
        "Results are read in the order of their times, once progress has passed them; one that is "
        "taken back or comes later takes back, or adds, what hangs on it."
    )
    return ["\n".join(lines) + "\n"]


def _sources(plan: Plan) -> tuple[Plan, ...]:
    return plan.sources if isinstance(plan, DerivedPlan) else ()


def _time(plan: Plan) -> str:
    if isinstance(plan, MonitorPlan):
        return "at the instant of the event that made each known"
    if not isinstance(plan, WindowPlan):
        return "from the start of a match's first event to the end of its last one"
    if plan.kind is WindowKind.ROWS:
        return "from a window's first event to its last one"
    return "from a window's start to the last ns before its end"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=" " * 12, subsequent_indent=" " * 12)
