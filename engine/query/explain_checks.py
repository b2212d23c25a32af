"""EXPLAIN of what results are checked against before they go out."""

from __future__ import annotations

from engine.query.check_plan import checks_of
from engine.query.plan import Plan
from engine.query.render import render_duration, render_expression, render_predicate


def check_sections(plan: Plan) -> list[tuple[str, list[str]]]:
    """Labels and lines; none if nothing is checked."""
    checks = checks_of(plan)
    if checks is None:
        return []
    by = ", ".join(map(render_expression, checks.key))
    if plan.windows:
        by = "the group"
    lines = [f"results with one history have the same {by}" if by else "all results: one history"]
    for rule in checks.rules:
        text = (
            f"{rule.name}: {render_predicate(rule.condition)}; where that is false, the result is "
        )
        if rule.hold_ns:
            text += f"held {render_duration(rule.hold_ns)}, judged again, and if it still is, "
        lines.append(text + ("dropped" if rule.drop else "marked as doubtful"))
    return [("checks", lines)]
