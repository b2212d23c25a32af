"""What EXPLAIN tells of windows: their borders, when they close, and what is told before that.

It is what the operators do: ``engine.window`` and, of barriers, ``engine.window.progress``.
"""

from __future__ import annotations

from typing import Final

from engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_of_windows
from engine.query.emit import Emit
from engine.query.language.place import listed
from engine.query.plan import Drift, WindowKind, WindowPlan
from engine.query.render import render_having, render_ranking
from engine.query.render_values import render_duration, render_expression, render_predicate

_OF_ALL_VALUES: Final = {name: name for name in ("median", "quantile")} | {
    "count_distinct": "count(DISTINCT)"
}
_CLOSES: Final = (
    "when {progress} passes its end{late}; an event that comes later corrects its result for "
    "1 min, or for a window's length if that is longer"
)
_CLOCKS: Final = (
    "passes its last event{} and what clocks may err{{late}}; an event that comes later "
)
_OWN_CLOSES: Final = {
    WindowKind.SESSION: "when {progress} " + _CLOCKS.format(" by the gap") + "extends it or makes "
    "one session of two, for 1 min after its end, or for the gap if that is longer",
    WindowKind.ROWS: "when it is full and {progress} " + _CLOCKS.format("") + "moves the group's "
    "events behind it by one, and corrects all windows that have them, for 1 min",
}


def window_sections(
    plan: WindowPlan, barrier: BarrierSettings | None
) -> list[tuple[str, list[str]]]:
    """Sections of ``engine.query.explain``.

    Raises:
        UserError: a barrier that windows do not have.
    """
    keys = [render_expression(attribute) for attribute in plan.group_by]
    found: list[tuple[str, list[str]]] = [
        ("streams", [", ".join(plan.streams) or "all"]),
        ("filter", [f"if {render_predicate(plan.where)}"] if plan.where else []),
        ("windows", [_borders(plan)]),
        ("panes", _panes(plan)),
        ("groups", keys and [f"one result for each {listed(keys)}"]),
        ("shows", [f"if {render_having(plan, plan.having)}"] if plan.having else []),
        ("ranks", _ranks(plan)),
        ("computes", [aggregate.label for aggregate in plan.aggregates]),
        ("not shown", [aggregate.label for aggregate in plan.hidden]),
        ("early", _early(plan)),
        ("closes", [_closes(plan, barrier_of_windows(barrier, plan.name))]),
    ]
    return [section for section in found if section[1]]


def _ranks(plan: WindowPlan) -> list[str]:
    if plan.ranking is None:
        return []
    return [f"a window's groups: {render_ranking(plan, plan.ranking)}"]


def _overlapping(plan: WindowPlan) -> int:
    """Windows that may hold one event."""
    if plan.kind is WindowKind.TIME:
        return -(-plan.size_ns // plan.step_ns)
    return -(-plan.rows // plan.every_rows) if plan.kind is WindowKind.ROWS else 1


def _panes(plan: WindowPlan) -> list[str]:
    """What windows that slide share."""
    if plan.step_ns == plan.size_ns or plan.kind is not WindowKind.TIME:
        return []
    why = ""
    if any(one.function in _OF_ALL_VALUES for one in plan.worked_out.aggregates):
        why = listed(sorted(_OF_ALL_VALUES.values()))
    elif plan.emit is not Emit.CLOSE:
        why = "what is told early"
    if why:
        return [f"none, for {why}: an event is added up to {_overlapping(plan)} times"]
    step = render_duration(plan.step_ns)
    rest = plan.size_ns % plan.step_ns
    cut = f", each cut after {render_duration(rest)}" if rest else ""
    return [f"of {step}{cut}: an event is added once, and a window sums them up when it closes"]


def _borders(plan: WindowPlan) -> str:
    """By what windows begin and end."""
    if plan.kind is WindowKind.ROWS:
        every = plan.every_rows
        cost = _overlapping(plan)
        more = f"; an event is added up {cost} times" if cost > 1 else ""
        which = "" if every == plan.rows else f", from every {every} on"
        return f"{plan.rows} events of a group in order of reference time{which}{more}"
    size = render_duration(plan.size_ns)
    if plan.kind is WindowKind.SESSION:
        return f"sessions: events of a group less than {size} apart, and {size} of silence"
    shifted = {
        Drift.NONE: "one result when it closes",
        Drift.EACH: "LOW, MIDDLE and HIGH, shifted by the clocks' error, each when it closes",
        Drift.TOGETHER: "LOW, MIDDLE and HIGH, shifted by the clocks' error, once with their mean",
    }[plan.drift]
    step = render_duration(plan.step_ns)
    kind = f"tumbling, {size}, aligned to multiples of it"
    if plan.every_ns is not None:
        kind = f"sliding, {size} every {step}, aligned to multiples of {step}"
    return f"{kind} since the epoch; {shifted}"


def _early(plan: WindowPlan) -> list[str]:
    """What is told before a window closes."""
    back = "it is taken back when another one is told"
    if plan.emit is Emit.EARLY:
        every = render_duration(plan.early_ns)
        return [f"the value so far at every multiple of {every} of time, if it is another; {back}"]
    if plan.emit is Emit.CHANGE:
        most = _overlapping(plan)
        of = f"each of its up to {most} windows" if most > 1 else "its window"
        return [f"at every event the value so far of {of}; {back}"]
    return []


def _closes(plan: WindowPlan, barrier: BarrierSettings | None) -> str:
    """When a window closes, and what happens to what is later."""
    text = _CLOSES if plan.kind is WindowKind.TIME else _OWN_CLOSES[plan.kind]
    progress, late = "the order's progress", ""
    if barrier is not None:
        kind, span = BARRIERS[barrier.name], render_duration(barrier.span_ns)
        if kind.closes is Closes.SLACK:
            progress = f"the largest time yet, less {span},"
        elif kind.closes is Closes.PROMISE:
            progress = "what is promised of all types"
        elif kind.by_arrival:
            late = f", and {span} later by the arrival clock"
    return text.format(progress=progress, late=late)
