"""The parts of EXPLAIN that belong to one operator: windows, joins, repetition, intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_of_windows
from slackwater.engine.query.fields import bare, shows_everything
from slackwater.engine.query.interval_relations import LESS, representation
from slackwater.engine.query.joins import IBP, in_order, indexed_path, series_of
from slackwater.engine.query.language.mistakes import listed
from slackwater.engine.query.plan import (
    Drift,
    Emit,
    Expression,
    JoinKind,
    JoinPlan,
    Plan,
    PointRelation,
    SeqPlan,
    Step,
    WindowKind,
    WindowPlan,
)
from slackwater.engine.query.render import (
    render_duration,
    render_expression,
    render_having,
    render_predicate,
    render_ranking,
    render_relation,
    render_type,
)
from slackwater.engine.query.repeat_plan import Contiguity, Often, RepeatPlan, Skip, partitioned
from slackwater.engine.query.shape import endpoint_order

# Parts shared by several operators.


Section = tuple[str, list[str]]
"""Heading and lines; a section without lines is not shown."""


def step_lines(plan: SeqPlan) -> list[str]:
    """Return the steps in columns: name, types, repetition, and conditions on one event."""
    repeats = isinstance(plan, RepeatPlan)
    often = plan.often if isinstance(plan, RepeatPlan) else (Often(),) * len(plan.steps)
    rows = []
    for step, each in zip(plan.steps, often, strict=True):
        name = f"{'!' if step.negated else ''}{step.alias}{'[]' if each.repeats else ''}"
        tests = [f"if {render_predicate(step.where)}"] if step.where is not None else []
        tests += [f"until {render_predicate(each.until)}"] if each.until is not None else []
        times = _times(each) if repeats and not step.negated else ""
        rows.append((name, render_type(step), times, "  ".join(tests)))
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]


def key_lines(plan: SeqPlan) -> list[str]:
    """Return the equalities, such as ``a.id = b.id``."""
    return [" = ".join(map(render_expression, group)) for group in plan.equalities]


def return_lines(
    plan: SeqPlan, written: Callable[[Expression], Expression] = lambda one: one
) -> list[str]:
    """Return what a result shows; ``written`` rewrites each expression first."""
    everything = ["the events with all their attributes"] if shows_everything(plan) else []
    computed = [
        f"{one.label} = {render_expression(written(one.expression))}" for one in plan.computed
    ]
    return [*everything, *map(render_expression, plan.returns), *computed]


def row_sections(plan: SeqPlan) -> list[Section]:
    """Return the sections of a SELECT without WINDOW (``engine.query.explain``)."""
    (step,) = plan.steps
    return [
        ("streams", [", ".join(step.streams) or "all"]),
        ("filter", [f"if {render_predicate(bare(step.where))}"] if step.where is not None else []),
        ("returns", return_lines(plan, bare)),
    ]


def waits(barrier: BarrierSettings, slack: str, promise: str, nothing: str) -> str:
    """Return the text for what ``barrier`` waits for; ``{span}`` in ``slack`` is its duration."""
    texts = {Closes.PROMISE: promise, Closes.NOTHING: nothing}
    span = render_duration(barrier.span_ns)
    return texts.get(BARRIERS[barrier.name].closes) or slack.replace("{span}", span)


# EXPLAIN of windows: bounds, closing, and early results. ``engine.operators.window`` implements
# them, ``engine.operators.window.progress`` their barriers.


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


def window_sections(plan: WindowPlan, barrier: BarrierSettings | None) -> list[Section]:
    """Return the sections of a query with WINDOW (``engine.query.explain``).

    Raises:
        UserError: windows do not support the barrier.
    """
    keys = [render_expression(attribute) for attribute in plan.group_by]
    ranks = [f"a window's groups: {render_ranking(plan, plan.ranking)}"] if plan.ranking else []
    return [
        ("streams", [", ".join(plan.streams) or "all"]),
        ("filter", [f"if {render_predicate(plan.where)}"] if plan.where else []),
        ("windows", [_borders(plan)]),
        ("panes", _panes(plan)),
        ("groups", keys and [f"one result for each {listed(keys)}"]),
        ("shows", [f"if {render_having(plan, plan.having)}"] if plan.having else []),
        ("ranks", ranks),
        ("computes", [aggregate.label for aggregate in plan.aggregates]),
        ("not shown", [aggregate.label for aggregate in plan.hidden]),
        ("early", _early(plan)),
        ("closes", [_closes(plan, barrier_of_windows(barrier, plan.name))]),
    ]


def _overlapping(plan: WindowPlan) -> int:
    """Return how many windows may hold one event."""
    if plan.kind is WindowKind.TIME:
        return -(-plan.size_ns // plan.step_ns)
    return -(-plan.rows // plan.every_rows) if plan.kind is WindowKind.ROWS else 1


def _panes(plan: WindowPlan) -> list[str]:
    """Return the line about the panes that sliding windows share; empty without panes."""
    if plan.every_ns in (None, plan.size_ns) or plan.kind is not WindowKind.TIME:
        return []
    why = ""
    if any(one.function in _OF_ALL_VALUES for one in plan.worked_out.aggregates):
        why = listed(sorted(_OF_ALL_VALUES.values()))
    elif plan.emit is not Emit.CLOSE:
        why = "early results"
    if why:
        return [f"none, for {why}: an event is added up to {_overlapping(plan)} times"]
    step = render_duration(plan.step_ns)
    rest = plan.size_ns % plan.step_ns
    cut = f", each cut after {render_duration(rest)}" if rest else ""
    return [f"of {step}{cut}: an event is added once, and a window sums them up when it closes"]


def _borders(plan: WindowPlan) -> str:
    """Return the text about where windows begin and end."""
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
    if plan.period is not None:
        monday = ", from Mondays" if plan.period.unit == "week" else ""
        return f"tumbling, {plan.period} of the calendar in {plan.period.zone}{monday}; {shifted}"
    if plan.every_ns is not None:
        kind = f"sliding, {size} every {step}, aligned to multiples of {step}"
    return f"{kind} since the epoch; {shifted}"


def _early(plan: WindowPlan) -> list[str]:
    """Return the lines about early results."""
    back = "it is retracted when another one is emitted"
    if plan.emit is Emit.EARLY:
        every = render_duration(plan.early_ns)
        return [f"the value so far at every multiple of {every} of time, if it is another; {back}"]
    if plan.emit is Emit.CHANGE:
        most = _overlapping(plan)
        of = f"each of its up to {most} windows" if most > 1 else "its window"
        return [f"at every event the value so far of {of}; {back}"]
    return []


def _closes(plan: WindowPlan, barrier: BarrierSettings | None) -> str:
    """Return the text about when a window closes, and about events after that."""
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


# EXPLAIN of a join: its sides, the condition for partners, and when a row is final.


_ROWS: Final = {
    JoinKind.INNER: "the pairs",
    JoinKind.LEFT: "the pairs, and each {left} without a partner",
    JoinKind.RIGHT: "the pairs, and each {right} without a partner",
    JoinKind.FULL: "the pairs, and each {left} and each {right} without a partner",
    JoinKind.ANTI: "each {left} without a partner",
}


def cost_without_key(plan: Plan) -> str:
    """Return a text about the cost of a join without equality; empty if it does not apply."""
    if not isinstance(plan, JoinPlan) or plan.pair.equalities:
        return ""
    left, right = (step.alias for step in plan.pair.steps)
    return (
        f"no attribute of {left} must equal one of {right}, so each event is compared with all "
        f"events of the other side {_near(plan)}: the cost grows with the square of their rate"
    )


def join_sections(plan: JoinPlan, barrier: BarrierSettings) -> list[Section]:
    """Return the sections of a join (``engine.query.explain``)."""
    left, right = (step.alias for step in plan.pair.steps)
    on = [render_predicate(each) for each in plan.on]
    return [
        ("join", [_ROWS[plan.kind].format(left=left, right=right)]),
        ("sides", [f"{step.alias}: stream {step.streams[0]}" for step in plan.pair.steps]),
        ("partners", [*on, _near(plan)]),
        ("where", [render_predicate(each) for each in plan.conjuncts]),
        ("partition", key_lines(plan.pair) or [f"nothing: {cost_without_key(plan)}"]),
        ("final", list(_final(plan, barrier))),
        ("returns", return_lines(plan.pair)),
    ]


def _near(plan: JoinPlan) -> str:
    if plan.every_ns is not None:
        every = f", of which one begins each {render_duration(plan.every_ns)}"
        return f"in one window of {render_duration(plan.window_ns or 0)}{every}"
    if plan.window_ns is not None:
        return f"in the same window of {render_duration(plan.window_ns)}"
    return f"at most {render_duration(plan.pair.within_ns or 0)} before or after it"


def _final(plan: JoinPlan, barrier: BarrierSettings) -> Iterator[str]:
    if plan.kind is not JoinKind.ANTI:
        yield "a pair as soon as both are there"
    if plan.kind is JoinKind.INNER:
        return
    apart = render_duration(plan.pair.within_ns or 0)
    when = waits(
        barrier,
        f"once the largest time yet lies {{span}} beyond its time + {apart}",
        f"once it is promised that nothing up to its time + {apart} can come any more",
        "not at all: it is given without waiting",
    )
    yield f"an event without a partner {when}; a partner that comes later takes it back"


# EXPLAIN of a pattern with repeated steps: repetition, choice of matches, and cost.


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
    """Return a text about the cost of unbounded repetition; empty if it does not apply."""
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


def repetition_sections(plan: RepeatPlan, barrier: BarrierSettings) -> list[Section]:
    """Return the sections of a pattern with repetition (``engine.query.explain``)."""
    order = [step.alias + ("[]" if often.repeats else "") for step, often in _positive(plan)]
    names, others = partitioned(plan)
    keys = [f"{name} of all events" for name in names]
    nothing = "nothing: all events of a site are one partition"
    chosen = [_SKIPS[plan.skip]] if plan.skip in _SKIPS else []
    if plan.limit is not None:
        chosen.append(f"of the matches with one last event the first {plan.limit}")
    cost = cost_of_repetition(plan)
    beyond = " of its partition" if plan.partition else ""
    if plan.sources:
        beyond += f" in {', '.join(plan.sources)}"
    return [
        ("streams", [", ".join(plan.sources)] if plan.sources else []),
        ("steps", step_lines(plan)),
        ("order", [" then ".join(order)]),
        ("contiguity", [_CONTIGUITY[plan.contiguity].format(beyond)]),
        ("chosen", chosen),
        ("partition", keys or [nothing]),
        ("asked", [render_predicate(other) for other in others]),
        ("changes", list(_changes(plan, barrier))),
        ("cost", [f"unbounded: {cost}"] if cost else []),
        ("returns", return_lines(plan)),
    ]


def _positive(plan: RepeatPlan) -> list[tuple[Step, Often]]:
    steps = zip(plan.steps, plan.often, strict=True)
    return [(step, often) for step, often in steps if not step.negated]


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
    if plan.chooses:
        causes.append("another match that is chosen in its place")
    if not causes:
        return
    yield f"a match is taken back by {', or '.join(causes)}, that comes later"
    yield waits(
        barrier,
        "it waits until the largest time yet lies {span} beyond what could change it",
        "it waits until it is promised that nothing that could change it comes any more",
        "it does not wait for that",
    )


# EXPLAIN of an ISEQ: what its TList implies, the indexed path, and which events are dropped.


_ENDS = ("ts", "te")


def interval_sections(plan: SeqPlan, index: str, *, promises: bool) -> Iterator[Section]:
    """Yield the sections of an ISEQ; ``promises``: promises purge events without a partner."""
    negated = {step.alias for step in plan.steps if step.negated}
    relations = [
        each for each in plan.relations if not negated & {each.left.alias, each.right.alias}
    ]
    yield "related", [", ".join(map(render_relation, relations)) or "in no way: any combination"]
    reach = endpoint_order(plan)
    inferred = list(_inferred(plan, reach, relations))
    if inferred:
        yield "inferred", [", ".join(inferred)]
    path = indexed_path(plan, index)
    chain = " < ".join(_point(plan, point) for point in path)
    yield "index", [f"{index}: {chain or 'none; every interval in the window is tested'}"]
    yield "drops", list(_drops(plan, index, promises=promises))


def counts_when(plan: SeqPlan, alias: str) -> str:
    """Return the condition under which an event of a negated step counts."""
    conditions = [
        render_relation(each)
        for each in plan.relations
        if alias in (each.left.alias, each.right.alias)
    ]
    near = "" if plan.within_ns is None else "it lies WITHIN with the whole match"
    return " and ".join([*conditions, near] if near else conditions)


def _inferred(plan: SeqPlan, reach: np.ndarray, relations: list[PointRelation]) -> Iterator[str]:
    """Yield the implied orders of end points of two steps that the query does not state."""
    known = {frozenset((_name(each, left=True), _name(each, left=False))) for each in relations}
    for below, above in np.argwhere(reach > 0).tolist():
        one, two = _point(plan, below), _point(plan, above)
        if below // 2 != above // 2 and frozenset((one, two)) not in known:
            yield f"{one} {'<' if reach[below, above] == LESS else '<='} {two}"


def _drops(plan: SeqPlan, index: str, *, promises: bool) -> Iterator[str]:
    """Yield which intervals are not kept on arrival, without and with IBPs."""
    if not promises:
        yield "nothing before its time: late intervals may still come (--purge promises drops)"
        return
    path = indexed_path(plan, index)
    if not path:
        yield "nothing: no chain of end points is indexed"
        return
    for number, point in enumerate(path[1:], 1):
        name = plan.steps[point // 2].alias
        below = [p for p in path[:number] if p // 2 != point // 2]
        ends = [_point(plan, p) for p in below if p % 2]
        starts = [_point(plan, p) for p in below if not p % 2]
        if ends:
            yield f"{name} without {_each(ends)} below its {_ENDS[point % 2]}"
        if starts and index == IBP:
            yield f"with IBPs: {name} also without {_each(starts)} below its {_ENDS[point % 2]}"
    yield "what loses those as they leave the window goes with them"


def _each(points: list[str]) -> str:
    return points[0] if len(points) == 1 else f"a chain of {listed(points)}"


def _name(each: PointRelation, *, left: bool) -> str:
    of = each.left if left else each.right
    return f"{of.alias}.{of.name}"


def _point(plan: SeqPlan, point: int) -> str:
    return f"{plan.steps[point // 2].alias}.{_ENDS[point % 2]}"


# EXPLAIN of a SEQ/PAL tree: end points, half intervals, and the join order.


def tree_sections(plan: SeqPlan, joins: str) -> list[Section]:
    """Return the sections of a tree (``engine.query.explain``), none of them empty.

    ``5 counts``: Z10's representation, if the tree implies one order of all end points.
    """
    ends = [render_relation(relation) for relation in plan.relations]
    negated = {step.alias for step in plan.steps if step.negated}
    enough = {"start": plan.starts, "end": plan.ends}
    halves = [
        f"the {half} of {listed(some)} is enough for a match"
        for half, aliases in enough.items()
        if (some := [alias for alias in aliases if alias not in negated])
    ]
    found = [("end points", [", ".join(ends) or "in any order"])]
    series = series_of(plan)
    if series is not None and all(alias.isidentifier() for alias in series):
        found.append(("5 counts", [representation(series)]))
    if halves:
        found.append(("halves", halves))
    return [*found, ("joins", [f"{joins}: {_found_in(plan, joins)}"])]


def _found_in(plan: SeqPlan, joins: str) -> str:
    """Return the join order, such as ``after a: b, c; after b: ...``."""
    alias = [step.alias for step in plan.steps]
    found = []
    for place, step in enumerate(plan.steps):
        others = [alias[other] for other in in_order(plan, joins, place)]
        if not step.negated and others:
            found.append(f"after {step.alias}: {', '.join(others)}")
    return "; ".join(found) or "one step alone"
