"""UNDER CONSTRAINT: what is known of a trace, and which patterns it says something about."""

from __future__ import annotations

from typing import Final

from engine.query.analysis.conditions import condition, duration_ns
from engine.query.analysis.typed import Context
from engine.query.clocked import is_clocked
from engine.query.fields import OWN, attribute_name
from engine.query.language import syntax as s
from engine.query.language.place import Span, refuse
from engine.query.language.syntax import (
    OccurrenceNode,
    RegularNode,
    RepetitionNode,
    TraceNode,
    Under,
)
from engine.query.monitor_plan import (
    Alternatives,
    Concatenation,
    Interleaving,
    MonitorPlan,
    Occurrence,
    Regular,
    Repetition,
)
from engine.query.plan import Attribute, OrPlan, SeqPlan, TreePlan
from engine.query.repeat_plan import RepeatPlan
from engine.query.shape import of_intervals, shape_of

MAX_TIMES: Final = 1_000
"""Of one part of a constraint."""
_TIMES: Final[dict[tuple[str, ...], tuple[int, int | None]]] = {
    ("*",): (0, None),
    ("+",): (1, None),
    ("?",): (0, 1),
}
_GROUPS: Final[dict[str, type[Concatenation | Alternatives | Interleaving]]] = {
    ",": Concatenation,
    "|": Alternatives,
    "&": Interleaving,
}


def monitor_plan(
    pattern: SeqPlan | OrPlan, parsed: s.EventQuery, under: Under, text: str, time_unit: str
) -> MonitorPlan:
    """The plan of ``pattern`` under a constraint.

    Raises:
        UserError: the constraint is at fault, or says nothing of such a pattern.
    """
    _check_pattern(pattern, parsed, under, text)
    context = Context(text, time_unit, lambda reference: _attribute(reference, text))
    return MonitorPlan(
        pattern.name,
        text,
        pattern,
        under.name.text,
        _attribute(under.trace, text),
        _expression(under.expression, context),
        _timeout(under, context),
    )


def _check_pattern(
    pattern: SeqPlan | OrPlan, parsed: s.EventQuery, under: Under, text: str
) -> None:
    if isinstance(pattern, TreePlan) or any(of_intervals(each) for each in pattern.branches):
        message = "a constraint tells the order of points; this pattern is one of intervals"
        raise refuse(text, parsed.pattern.at, message, "use SEQ, AND, OR without relations")
    if isinstance(pattern, RepeatPlan):
        message = "alerts are of patterns whose steps occur once, all of one trace"
        hint = "leave out + ? {m,n} [], UNTIL, CONTIGUITY, SKIP, LIMIT, FROM and PARTITION BY"
        raise refuse(text, parsed.pattern.at, message, hint)
    for clause in parsed.clauses:
        if isinstance(clause, s.Returns | s.Realtime):
            word = "RETURN" if isinstance(clause, s.Returns) else "REALTIME"
            message = f"{word} is of matches; UNDER gives alerts, which show no events"
            raise refuse(text, clause.at, message, f"leave {word} out, or ask in a second query")
    for branch in pattern.branches:
        for between in shape_of(branch).between:
            if not between.left or not between.right:
                alias = branch.steps[between.step].alias
                message = f"{alias!r} is negated and at an end"
                hint = "under a constraint a negated step goes between two others"
                raise refuse(text, parsed.pattern.at, message, hint)
        for step in branch.steps:
            if step.types:
                message = f"{step.alias!r} is of several types, and a constraint's steps are of one"
                each = ", ".join(f"{kind} {step.alias}{n}" for n, kind in enumerate(step.types, 1))
                hint = f"name each: OR({each})"
                raise refuse(text, parsed.pattern.at, message, hint)
            if step.where is not None and is_clocked(step.where):
                message = f"a condition on {step.alias!r} compares times that clocks may err in"
                hint = "under a constraint, conditions are on attributes"
                raise refuse(text, under.at, message, hint)


def _timeout(under: Under, context: Context) -> int | None:
    if under.timeout is None:
        return None
    return duration_ns(under.timeout, context, "TIMEOUT")


def _attribute(reference: s.Reference, text: str) -> Attribute:
    parts = reference.parts
    own = len(parts) == 2 and parts[0].text == OWN and not parts[0].quoted
    if len(parts) > 1 and not own:
        message = "a constraint names attributes of an event as they are"
        raise refuse(text, reference.at, message, f"write {parts[-1].text}")
    return Attribute(attribute_name(parts[-1].text, own=own))


def _expression(node: TraceNode, context: Context) -> Regular:
    match node:
        case OccurrenceNode(type=event_type, where=where):
            if where is None:
                return Occurrence(event_type.text)
            guard = condition(where, context)
            if is_clocked(guard):
                message = "this compares times that clocks may err in"
                raise refuse(context.text, where.at, message, "compare attributes")
            return Occurrence(event_type.text, guard)
        case RepetitionNode(part=part, times=times, times_at=at):
            least, most = _TIMES.get(times) or _counted(times, at, context)
            return Repetition(_expression(part, context), least, most)
        case RegularNode(op=op, parts=parts):
            return _GROUPS[op](tuple(_expression(part, context) for part in parts))


def _counted(times: tuple[str, ...], at: Span, context: Context) -> tuple[int, int | None]:
    """``{3}`` is three times, ``{3,}`` three times and more."""
    numbers = [word for word in times if word != ","]
    if not all(word.isdecimal() and int(word) <= MAX_TIMES for word in numbers):
        message = f"a number of times is whole and at most {MAX_TIMES:,}"
        raise refuse(context.text, at, message, "for any number write *, for one and more +")
    least = int(numbers[0])
    most = int(numbers[1]) if len(numbers) == 2 else None if len(times) == 2 else least
    if most is not None and most < least:
        raise refuse(context.text, at, f"at least {least} and at most {most} times is never", "")
    return least, most
