"""What EXPLAIN tells of a join: its sides, who is a partner, and when a row is final."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.barrier.registry import BARRIERS, BarrierSettings, Closes
from engine.query.join_plan import JoinKind, JoinPlan
from engine.query.plan import Plan
from engine.query.render_values import render_duration, render_expression, render_predicate

_ROWS: Final = {
    JoinKind.INNER: "the pairs",
    JoinKind.LEFT: "the pairs, and each {left} without a partner",
    JoinKind.RIGHT: "the pairs, and each {right} without a partner",
    JoinKind.FULL: "the pairs, and each {left} and each {right} without a partner",
    JoinKind.ANTI: "each {left} without a partner",
}


def cost_without_key(plan: Plan) -> str:
    """What a join costs that no equality bounds; empty: one does, or the plan is none."""
    if not isinstance(plan, JoinPlan) or plan.pair.equalities:
        return ""
    left, right = (step.alias for step in plan.pair.steps)
    return (
        f"no attribute of {left} must equal one of {right}, so each event is compared with all "
        f"events of the other side {_near(plan)}: the cost grows with the square of their rate"
    )


def join_sections(plan: JoinPlan, barrier: BarrierSettings) -> list[tuple[str, list[str]]]:
    """Sections of ``engine.query.explain``."""
    left, right = (step.alias for step in plan.pair.steps)
    keys = [
        " = ".join(render_expression(attribute) for attribute in group)
        for group in plan.pair.equalities
    ]
    on = [render_predicate(each) for each in plan.on]
    columns = [f"{one.label} = {render_expression(one.expression)}" for one in plan.computed]
    found = [
        ("join", [_ROWS[plan.kind].format(left=left, right=right)]),
        ("sides", [f"{step.alias}: stream {step.stream}" for step in plan.pair.steps]),
        ("partners", [*on, _near(plan)]),
        ("where", [render_predicate(each) for each in plan.conjuncts]),
        ("partition", keys or [f"nothing: {cost_without_key(plan)}"]),
        ("final", list(_final(plan, barrier))),
        ("returns", columns or ["the events with all their attributes"]),
    ]
    return [section for section in found if section[1]]


def _near(plan: JoinPlan) -> str:
    if plan.window_ns is not None:
        return f"in the same window of {render_duration(plan.window_ns)}"
    return f"at most {render_duration(plan.pair.within_ns or 0)} before or after it"


def _final(plan: JoinPlan, barrier: BarrierSettings) -> Iterator[str]:
    if plan.kind is not JoinKind.ANTI:
        yield "a pair as soon as both are there"
    if plan.kind is JoinKind.INNER:
        return
    apart = render_duration(plan.pair.within_ns or 0)
    match BARRIERS[barrier.name].closes:
        case Closes.SLACK:
            slack = render_duration(barrier.span_ns)
            when = f"once the largest time yet lies {slack} beyond its time + {apart}"
        case Closes.NOTHING:
            when = "not at all: it is given without waiting"
        case Closes.PROMISE:
            when = f"once it is promised that nothing up to its time + {apart} can come any more"
    yield f"an event without a partner {when}; a partner that comes later takes it back"
