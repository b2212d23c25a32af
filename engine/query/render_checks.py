"""Clauses about results as text, as the language reads them back."""

from __future__ import annotations

from engine.query.check_plan import Checks
from engine.query.render_values import (
    quote,
    render_duration,
    render_expression,
    render_predicate,
)


def render_checks(checks: Checks | None) -> list[str]:
    """``HISTORY BY a.id``, ``CHECK name (past_count(1 h) < 3) HOLD 10 s DROP``: the clauses."""
    if checks is None:
        return []
    found = [f"HISTORY BY {', '.join(map(render_expression, checks.key))}"] if checks.key else []
    for rule in checks.rules:
        hold = f" HOLD {render_duration(rule.hold_ns)}" if rule.hold_ns else ""
        drop = " DROP" if rule.drop else ""
        found.append(f"CHECK {quote(rule.name)} ({render_predicate(rule.condition)}){hold}{drop}")
    return found
