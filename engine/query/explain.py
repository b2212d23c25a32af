"""EXPLAIN: the plan of a query in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from slackwater.engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_in_force
from slackwater.engine.query.analysis.consistency import never_counts
from slackwater.engine.query.explain_operators import (
    Section,
    counts_when,
    interval_sections,
    join_sections,
    key_lines,
    repetition_sections,
    return_lines,
    row_sections,
    step_lines,
    tree_sections,
    waits,
    window_sections,
)
from slackwater.engine.query.fields import attributes_in, bare
from slackwater.engine.query.joins import COST, IBP
from slackwater.engine.query.language.mistakes import listed
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.query.pattern_settings import PurgeSettings
from slackwater.engine.query.plan import (
    Comparison,
    Group,
    JoinPlan,
    OrPlan,
    Part,
    Plan,
    Predicate,
    SeqPlan,
    TreePlan,
    WindowKind,
    WindowPlan,
    checks_of,
    lookups_of,
    statement_plan,
)
from slackwater.engine.query.reference_tables import TableLookup
from slackwater.engine.query.render import (
    render,
    render_duration,
    render_expression,
    render_pattern,
    render_predicate,
    render_type,
)
from slackwater.engine.query.repeat_plan import RepeatPlan
from slackwater.engine.query.results_as_events import returned_columns, sources_of
from slackwater.engine.query.shape import (
    INTERVALS,
    Between,
    Shape,
    of_intervals,
    of_rows,
    shape_of,
    whole_pattern,
)

# The words describe the operators ``seq`` (purge) and ``engine.barrier`` (release of matches); for
# windows see ``explain_operators``.


WIDTH: Final = 100
_LABEL: Final = 12


def explain(
    plan: Plan, barrier: BarrierSettings | None = None, purge: PurgeSettings | None = None,
    intervals: str = IBP, joins: str = COST,
) -> str:  # fmt: skip
    """Return a description of ``plan``, at most 100 columns wide, ending with a line feed.

    Args:
        plan: the plan to explain.
        barrier: the barrier in use; None: the one that REALTIME implies.
        purge: the purge of events; None: the default.
        intervals: the search strategy of an ISEQ (``engine.query.joins``).
        joins: the join order of a SEQ/PAL tree (``engine.query.joins``).
    """
    sections: list[Section] = [("query", [render(plan := statement_plan(plan))])]
    if isinstance(plan, WindowPlan):
        return _text(plan, [*sections, *window_sections(plan, barrier)])
    if isinstance(plan, MonitorPlan):
        from slackwater.engine.query.automata import monitor_sections  # noqa: PLC0415 - ten modules

        return _text(plan, [*sections, *monitor_sections(plan)])
    branches = plan.branches
    force = barrier_in_force(barrier, plan.realtime)
    sections += [
        ("within", [_within(branches[0])]),
        ("barrier", _barrier(plan, branches, force, explicit=barrier is not None)),
        ("purge", [_purge(branches, purge or PurgeSettings())]),
    ]
    if isinstance(plan, RepeatPlan):
        return _text(plan, [sections[0], *repetition_sections(plan, force), *sections[1:]])
    if isinstance(plan, SeqPlan) and of_rows(plan):
        return _text(plan, [sections[0], *row_sections(plan), *sections[2:]])
    if isinstance(plan, SeqPlan):
        found = _pattern(plan, force)
        if of_intervals(plan):
            by_promises = purge is not None and purge.name == "promises"
            found[1:2] = interval_sections(plan, intervals, promises=by_promises)
        return _text(plan, [sections[0], *found, *sections[1:]])
    if isinstance(plan, JoinPlan):
        return _text(plan, [sections[0], *join_sections(plan, force), *sections[2:]])
    tree = isinstance(plan, TreePlan)
    if not tree:
        union = f"{len(branches)}: each answers by itself; the matches are those of all"
        sections.append(("branches", [union]))
    for number, branch in enumerate(branches, 1):
        of = render_pattern(whole_pattern(branch), branch.steps)
        of = listed(step.alias for step in branch.steps) if tree else of
        sections += [("", []), (f"branch {number}", [of])] if len(branches) > 1 else []
        found = _pattern(branch, force)
        if tree:
            found[1:2] = tree_sections(branch, joins)
        sections += found
    return _text(plan, sections)


def _text(plan: Plan, sections: list[Section]) -> str:
    lookups = ("lookup", [*map(_looked_up, lookups_of(plan))])
    every = [*sections, lookups, *check_sections(plan)]
    nonempty = [each for each in every if each[1] or not each[0]]
    return f"{plan.name}\n{''.join(_set(label, lines) for label, lines in nonempty)}"


def _looked_up(lookup: TableLookup) -> str:
    table = lookup.table
    return (
        f"{lookup.step or 'each event'} gets {listed(lookup.types)} of {table.source} "
        f"({len(table.lines):,} rows) where {lookup.key} = {lookup.attribute}, else null"
    )


def _set(label: str, lines: list[str]) -> str:
    """Return one section: the label at the left, long lines wrapped and indented."""
    if not lines:
        return "\n"
    found = []
    for number, line in enumerate(lines):
        head = label if number == 0 else ""
        found += textwrap.wrap(
            line,
            WIDTH,
            initial_indent=f"{head:<{_LABEL}}",
            subsequent_indent=" " * (_LABEL + 2),
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in found)


# ---- patterns ---------------------------------------------------------------------------------
def _pattern(plan: SeqPlan, barrier: BarrierSettings) -> list[Section]:
    shape = shape_of(plan)
    negated = {step.alias for step in plan.steps if step.negated}
    nothing = "nothing: all events of a site are joined with one another"
    return [
        ("steps", step_lines(plan)),
        ("order", [_words(whole_pattern(plan), plan)]),
        ("negated", [*_negated(plan, shape, barrier)]),
        ("partition", key_lines(plan) or ([nothing] if len(plan.steps) > 1 else [])),
        ("join", [render_predicate(o) for o in plan.others if not _names(o) & negated]),
        ("returns", return_lines(plan)),
    ]


def _words(part: Part, plan: SeqPlan) -> str:
    """Return, e.g., ``a then (b and c in any order)``, without negated steps."""
    if isinstance(part, int):
        return "" if plan.steps[part].negated else plan.steps[part].alias
    inner = [
        f"({_words(each, plan)})" if isinstance(each, Group) else _words(each, plan)
        for each in part.parts
    ]
    parts = [words for words in inner if words]
    if part.op == INTERVALS:
        return listed(parts)
    if part.op == "SEQ":
        return " then ".join(parts)
    return f"{listed(parts)} in any order"


def _aliases(plan: SeqPlan, places: tuple[int, ...]) -> str:
    return listed(plan.steps[place].alias for place in places)


def _names(predicate: Predicate) -> set[str | None]:
    return {attribute.alias for attribute in attributes_in(predicate)}


def _negated(plan: SeqPlan, shape: Shape, barrier: BarrierSettings) -> Iterator[str]:
    for between in shape.between:
        step = plan.steps[between.step]
        if of_intervals(plan):
            yield f"!{step.alias}: no such {step.type} of which {counts_when(plan, step.alias)};"
        else:
            yield f"!{step.alias}: no such {render_type(step)} {_scope(between, plan, shape)};"
        if never_counts(_conditions(plan), step.alias, plan):
            yield "  none ever counts: what is asked of it excludes itself;"
        conditions = [render_predicate(o) for o in plan.others if step.alias in _names(o)]
        if conditions:
            yield f"  it counts only if {listed(conditions)};"
        yield f"  {_closed(between, plan, shape, barrier)}"


def _conditions(plan: SeqPlan) -> list[Predicate]:
    """Return all conditions of the plan on its events."""
    found = [step.where for step in plan.steps if step.where is not None]
    for group in plan.equalities:
        found += [Comparison("=", group[0], other) for other in group[1:]]
    return [*found, *plan.others]


def _scope(between: Between, plan: SeqPlan, shape: Shape) -> str:
    width = _width(plan)
    if between.leading:
        last = _end("last", shape.lasts, plan)
        first = _each("before", between.right, plan)
        return f"from {width} before {last} on, this instant included, and {first}"
    after = _each("after", between.left, plan)
    if between.after_first:
        after = f"strictly after {_end('first', between.after_first, plan)} begins"
    if between.right:
        return f"{after} and {_each('before', between.right, plan)}"
    first = _end("first", shape.firsts, plan)
    return f"{after}, up to {width} after {first}, this instant included"


def _each(word: str, places: tuple[int, ...], plan: SeqPlan) -> str:
    each = "" if len(places) == 1 else "each of "
    return f"strictly {word} {each}{_aliases(plan, places)}"


def _end(word: str, places: tuple[int, ...], plan: SeqPlan) -> str:
    if len(places) == 1:
        return _aliases(plan, places)
    return f"the {word} of {_aliases(plan, places)}"


def _closed(between: Between, plan: SeqPlan, shape: Shape, barrier: BarrierSettings) -> str:
    step = plan.steps[between.step]
    if of_intervals(plan):
        end = "what bounds its end"
        missing = f"no {render_type(step)} can end by then any more"
    elif between.right:
        end = _end("first", between.right, plan)
        missing = f"no {render_type(step)} before {end} can come any more"
    else:
        width = _width(plan)
        if plan.workdays is not None:
            width = f"{render_duration(plan.within_ns or 0)}, the most that {width} last,"
        end = f"{width} after {_end('first', shape.firsts, plan)}"
        missing = f"no {render_type(step)} up to {end} can come any more"
    return waits(
        barrier,
        f"closed once the largest time yet lies {{span}} beyond {end}",
        f"closed once it is promised that {missing}",
        "a match does not wait for it to close: one that comes later takes it back",
    )


def _width(plan: SeqPlan) -> str:
    if plan.workdays is not None:
        return f"{plan.workdays} of {plan.workdays.zone}"
    return "WITHIN" if plan.within_ns is None else render_duration(plan.within_ns)


def _within(plan: SeqPlan) -> str:
    if plan.within_ns is None:
        return "no bound"
    last = "the end of its last" if of_intervals(plan) else "its last"
    return f"{_width(plan)} at most from a match's first event to {last}"


def _barrier(
    plan: SeqPlan | OrPlan, branches: tuple[SeqPlan, ...], force: BarrierSettings, *, explicit: bool
) -> list[str]:
    span = f":{render_duration(force.span_ns).replace(' ', '')}" if force.span_ns else ""
    name = f"{force.name}{span}{',ordered' if force.ordered else ''}"
    origin = "as given"
    if not explicit:
        origin = "no REALTIME" if plan.realtime is None else f"REALTIME {plan.realtime}"
    kind = BARRIERS[force.name]
    lets_go = f": {kind.says.format(span=render_duration(force.span_ns))}"
    if isinstance(plan, JoinPlan):
        origin, lets_go = origin if explicit else "as joins have it", ""  # ``final`` says it
    found = [f"{name} ({origin}){lets_go}"]
    if kind.closes is Closes.PROMISE and any(s.negated for each in branches for s in each.steps):
        found.append("promises are the order's progress; behind order none, the POGs of the stream")
    if force.ordered:
        found.append("results leave in the order of their last event's time")
    return found


def _purge(branches: tuple[SeqPlan, ...], purge: PurgeSettings) -> str:
    within_ns = branches[0].within_ns
    by_promises = (
        "; before that, once promises leave it without a partner or a change that may still come"
    )
    if within_ns is None and not all(branch.alone for branch in branches):
        never = "never: without WITHIN any event may match a later one, so all are kept"
        return never + (by_promises if purge.name == "promises" else "")
    width = render_duration(within_ns or 0)
    span = "" if within_ns is None else f"{width} (WITHIN) + "
    leading = sorted({
        branch.steps[between.step].alias.partition("\0")[0]
        for branch in branches
        for between in shape_of(branch).between
        if between.leading
    })  # fmt: skip
    longer = (
        f"; of {listed(f'!{alias}' for alias in leading)} for another {width}" if leading else ""
    )
    if purge.name == "slack":
        slack = render_duration(purge.span_ns or 0)
        kept = f"{span}{slack} (K) lies behind the event clock"
    elif purge.span_ns is not None:
        kept = f"{span}{render_duration(purge.span_ns)} lies behind progress"
    else:
        least = "1 min" if within_ns is None else "WITHIN, but 1 min at least"
        kept = f"{span}keep-late ({least}) lies behind progress"
    kept = (
        f"an event is kept until its time + its uncertainty + {kept}, less what clocks may err"
        f"{longer}"
    )
    return kept + (by_promises if purge.name == "promises" else "")


# EXPLAIN of several statements: which statement reads which results, and their event times.


def cascade_lines(plans: Sequence[Plan]) -> list[str]:
    """Return one text on which statement reads which, in a list; empty if none reads results."""
    read = {source.name for plan in plans for source in sources_of(plan)}
    if not read:
        return []
    lines = ["cascade"]
    for plan in plans:
        sources = [source.name for source in sources_of(plan)]
        of = listed(sources) if sources else "the log"
        lines.append(f"{plan.name:<12}reads {of}")
        if plan.name in read:
            lines += _wrapped(
                f"its results are events of {plan.name}: {_time(statement_plan(plan))}"
            )
            lines += _wrapped(f"columns {', '.join(sorted(returned_columns(plan)))}")
    lines += _wrapped(
        "Results are read in the order of their times, once progress has passed them; one that is "
        "retracted or comes later retracts, or adds, what depends on it."
    )
    return ["\n".join(lines) + "\n"]


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


# EXPLAIN of EMIT AT MOST and CHECK.


def check_sections(plan: Plan) -> list[tuple[str, list[str]]]:
    """Return labels and lines; empty without checks and limit."""
    checks, limit = checks_of(plan), getattr(getattr(plan, "checks", None), "limit", None)
    found: list[tuple[str, list[str]]] = []
    if limit is not None:
        key = bare(limit.key) if of_rows(plan) else limit.key
        by = ", ".join(map(render_expression, key))
        text = (
            f"at most {limit.most} in any {render_duration(limit.every_ns)}"
            f"{f' for each {by}' if by else ''}: in order of their ends, a result is shown if "
            "fewer were until then; one that comes late or is retracted changes what is shown"
        )
        found.append(("shown", [text]))
    if checks is None:
        return found
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
    return [*found, ("checks", lines)]
