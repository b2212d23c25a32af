"""What EXPLAIN tells of a pattern whose steps repeat: how often, which matches, at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.barrier.registry import BARRIERS, BarrierSettings, Closes
from engine.query.equal_everywhere import partitioned
from engine.query.fields import shows_everything
from engine.query.plan import Plan, Step
from engine.query.render import render_type
from engine.query.render_values import render_duration, render_expression, render_predicate
from engine.query.repeat_plan import Contiguity, Often, RepeatPlan, Skip

_CONTIGUITY: Final = {
    Contiguity.ANY: "any: between two events of a match there may be others (skip till any match)",
    Contiguity.NEXT: "next: between two events of a match there is none that the match, up to "
    "there, could have taken (skip till next match)",
    Contiguity.STRICT: "strict: between two events of a match there is no other one{} "
    "(strict contiguity)",
}
_SKIPS: Final = {
    Skip.PAST_LAST: "matches do not overlap: in order of their last events, each begins after the "
    "one before has ended",
    Skip.TO_NEXT: "one match of each first event: that which ends first",
}


def cost_of_repetition(plan: Plan) -> str:
    """What a pattern costs whose matches nothing bounds; empty: something does."""
    if not isinstance(plan, RepeatPlan) or not plan.unbounded:
        return ""
    most = max((often.most for often in plan.often if often.most), default=0)
    many = "double with each event of a step that repeats"
    if all(often.most is not None for often in plan.often):
        many = f"grow with the number of events to the power of {most}"
    within = "WITHIN" if plan.within_ns is None else render_duration(plan.within_ns)
    return (
        f"the matches {many}, as every choice of its events within {within} is one; CONTIGUITY "
        "NEXT or STRICT, SKIP or LIMIT n bound them"
    )


def repetition_sections(plan: RepeatPlan, barrier: BarrierSettings) -> list[tuple[str, list[str]]]:
    """Sections of ``engine.query.explain``."""
    order = [step.alias + ("[]" if often.repeats else "") for step, often in _positive(plan)]
    names, others = partitioned(plan)
    keys = [f"{name} of all events" for name in names]
    nothing = "nothing: all events of a site are one partition"
    chosen = [_SKIPS[plan.skip]] if plan.skip in _SKIPS else []
    if plan.limit is not None:
        chosen.append(f"of the matches with one last event the first {plan.limit}")
    cost = cost_of_repetition(plan)
    returned = [render_expression(attribute) for attribute in plan.returns]
    computed = [f"{one.label} = {render_expression(one.expression)}" for one in plan.computed]
    everything = ["the events with all their attributes"] if shows_everything(plan) else []
    beyond = " of its partition" if plan.partition else ""
    if plan.sources:
        beyond += f" in {', '.join(plan.sources)}"
    found = [
        ("streams", [", ".join(plan.sources)] if plan.sources else []),
        ("steps", list(_steps(plan))),
        ("order", [" then ".join(order)]),
        ("contiguity", [_CONTIGUITY[plan.contiguity].format(beyond)]),
        ("chosen", chosen),
        ("partition", keys or [nothing]),
        ("asked", [render_predicate(other) for other in others]),
        ("changes", list(_changes(plan, barrier))),
        ("cost", [f"unbounded: {cost}"] if cost else []),
        ("returns", [*everything, *returned, *computed]),
    ]
    return [section for section in found if section[1]]


def _positive(plan: RepeatPlan) -> list[tuple[Step, Often]]:
    steps = zip(plan.steps, plan.often, strict=True)
    return [(step, often) for step, often in steps if not step.negated]


def _steps(plan: RepeatPlan) -> Iterator[str]:
    rows = []
    for step, often in zip(plan.steps, plan.often, strict=True):
        name = f"{'!' if step.negated else ''}{step.alias}{'[]' if often.repeats else ''}"
        rows.append((name, render_type(step), "" if step.negated else _times(often)))
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    for words, step, often in zip(rows, plan.steps, plan.often, strict=True):
        text = "  ".join(f"{word:<{width}}" for word, width in zip(words, widths, strict=True))
        if step.where is not None:
            text += f"  if {render_predicate(step.where)}"
        if often.until is not None:
            text += f"  until {render_predicate(often.until)}"
        yield text.rstrip()


def _times(often: Often) -> str:
    if often.least == often.most:
        return "once" if often.least == 1 else f"{often.least} times"
    if often.most is None:
        return {0: "any number", 1: "once or more"}.get(often.least, f"{often.least} times or more")
    either = (often.least, often.most) == (0, 1)
    return "once or not" if either else f"{often.least} to {often.most} times"


def _changes(plan: RepeatPlan, barrier: BarrierSettings) -> Iterator[str]:
    causes = [f"a {render_type(step)} that counts as !{step.alias}"
              for step in plan.steps if step.negated]  # fmt: skip
    if plan.contiguity is not Contiguity.ANY:
        causes.append("an event between two of its events")
    causes += [f"one that ends {step.alias}" for step, often in _positive(plan) if often.until]
    if plan.skip is not Skip.NONE or plan.limit is not None:
        causes.append("another match that is chosen in its place")
    if not causes:
        return
    yield f"a match is taken back by {', or '.join(causes)}, that comes later"
    match BARRIERS[barrier.name].closes:
        case Closes.SLACK:
            slack = render_duration(barrier.span_ns)
            yield f"it waits until the largest time yet lies {slack} beyond what could change it"
        case Closes.PROMISE:
            yield "it waits until it is promised that nothing that could change it comes any more"
        case Closes.NOTHING:
            yield "it does not wait for that"
