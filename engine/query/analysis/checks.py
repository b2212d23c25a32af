"""Analyse CHECK and HISTORY BY, conditions on results before their emission (Z10 5.2), EMIT AT
MOST, which limits their number, and UNDER CONSTRAINT.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import Period
from slackwater.engine.query.analysis.conditions import (
    condition,
    duration_ns,
    length_of,
    value,
    with_names,
)
from slackwater.engine.query.analysis.repetition import ROLES_OF_ALL, RepeatedNames
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    attribute_of,
    only_clause,
    repetition_bounds,
    whole_number,
)
from slackwater.engine.query.clock_sensitivity import AS_STAMPED, is_clocked
from slackwater.engine.query.fields import attributes_in
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import closest, listed, refuse
from slackwater.engine.query.monitor_plan import (
    MonitorPlan,
    Occurrence,
    Regular,
    RegularGroup,
    Repetition,
)
from slackwater.engine.query.plan import (
    HISTORY,
    LOOKUPS,
    RESULT,
    RESULT_FIELDS,
    Attribute,
    Checks,
    Drift,
    Emit,
    EmitLimit,
    Expression,
    Lookup,
    OrPlan,
    Plan,
    ResultRule,
    SeqPlan,
    TreePlan,
    WindowKind,
    WindowPlan,
)
from slackwater.engine.query.render import looked_up
from slackwater.engine.query.repeat_plan import RepeatPlan
from slackwater.engine.query.shape import of_intervals, of_rows, shape_of

# UNDER CONSTRAINT: the constraint of a trace, and the patterns that support it.


MAX_TIMES: Final = 1_000
"""Most repetitions of one part of a constraint."""


def monitor_plan(
    pattern: SeqPlan | OrPlan, parsed: s.EventQuery, under: s.Under, text: str, time_unit: str
) -> MonitorPlan:
    """Build the plan of ``pattern`` under a constraint.

    Raises:
        UserError: the constraint is invalid, or it does not support this kind of pattern.
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
        **_timeout(under, context),
    )


def _check_pattern(
    pattern: SeqPlan | OrPlan, parsed: s.EventQuery, under: s.Under, text: str
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
                raise refuse(text, under.at, message, AS_STAMPED)


def _timeout(under: s.Under, context: Context) -> dict[str, Any]:
    """Return the fields of a ``MonitorPlan`` that TIMEOUT determines."""
    if under.timeout is None:
        return {}
    length = length_of(under.timeout, under.zone, context, "TIMEOUT")
    return {"workdays" if isinstance(length, Period) else "timeout_ns": length}


def _attribute(reference: s.Reference, text: str) -> Attribute:
    before, name = attribute_of(reference.parts)
    if before:
        message = "a constraint names attributes of an event as they are"
        raise refuse(text, reference.at, message, f"write {reference.parts[-1].text}")
    return Attribute(name)


def _expression(node: s.TraceNode, context: Context) -> Regular:
    match node:
        case s.OccurrenceNode(type=event_type, where=where):
            if where is None:
                return Occurrence(event_type.text)
            guard = condition(where, context)
            if is_clocked(guard):
                message = "this compares times that clocks may err in"
                raise refuse(context.text, where.at, message, AS_STAMPED)
            return Occurrence(event_type.text, guard)
        case s.RepetitionNode(part=part, times=times, times_at=at):
            least, most = repetition_bounds(times, MAX_TIMES, at, context.text)
            return Repetition(_expression(part, context), least, most)
        case s.Operation(op=op, parts=parts):
            return RegularGroup(op, tuple(_expression(part, context) for part in parts))


MAX_RULES: Final = 32
MAX_SHOWN: Final = 1_000
"""Largest number in EMIT AT MOST: each result reads up to that many earlier results."""
_FORMS: Final = "as in past_count(1 h) < 3, or past_count(other_query, 1 h) >= 1"


def checked_plan(
    plan: Plan, clauses: tuple[s.Clause, ...], text: str, time_unit: str
) -> Plan:  # fmt: skip
    """Return ``plan`` with the checks in ``clauses``; ``plan`` itself if there are none.

    Raises:
        UserError: a rule names an unknown column, two rules share a name, or the plan gives alerts.
    """
    nodes = [clause for clause in clauses if isinstance(clause, s.CheckNode)]
    history = only_clause(clauses, s.HistoryBy, text)
    limit = only_clause(clauses, s.EmitLimitClause, text)
    if not nodes and history is None and limit is None:
        return plan
    reading = _CheckReader(plan, text, time_unit)
    if limit is not None and isinstance(plan, MonitorPlan):
        hint = "leave it out, or ask for the pattern's own matches without UNDER CONSTRAINT"
        raise reading.context.refuse(limit.at, "EMIT AT MOST is not of alerts", hint)
    if not isinstance(plan, SeqPlan | OrPlan | WindowPlan):
        at = (nodes[0] if nodes else history).at  # type: ignore[union-attr]
        hint = "check the pattern's own matches, in a query without UNDER CONSTRAINT"
        raise reading.context.refuse(at, "alerts are not checked against their history", hint)
    if len(nodes) > MAX_RULES:
        at = nodes[MAX_RULES].at
        raise reading.context.refuse(at, f"a query has at most {MAX_RULES} checks")
    rules: list[ResultRule] = []
    for node in nodes:
        if any(rule.name == node.name.text for rule in rules):
            message = f"two checks are named {node.name.text!r}"
            raise reading.context.refuse(node.name.at, message, "give one another name")
        rules.append(reading.rule(node))
    key = () if history is None else reading.key(history)
    checks = Checks(
        tuple(rules), key, tuple(reading.lookups),
        None if limit is None else reading.limit(limit, rules),
    )  # fmt: skip
    if isinstance(plan, OrPlan):
        branches = tuple(replace(branch, checks=checks) for branch in plan.branches)
        plan = replace(plan, branches=branches)
    return replace(plan, checks=checks)


class _CheckReader:
    """Reads the checks of one plan and resolves their names."""

    def __init__(self, plan: Plan, text: str, time_unit: str) -> None:
        self.repeated: RepeatedNames | None = None
        self.context = Context(text, time_unit, self._resolve)
        if isinstance(plan, RepeatPlan):
            steps = {step.alias: step for step in plan.steps}
            often = dict(zip(steps, plan.often, strict=True))
            self.repeated = RepeatedNames(text, steps, often)
            self.context = replace(self.context, collected=self.repeated.collected)
        self.plan = plan
        self.lookups: list[Lookup] = []
        branches = plan.branches
        self.aliases = [
            alias
            for alias in dict.fromkeys(
                step.alias for branch in branches for step in branch.steps if not step.negated
            )
            if alias.isprintable()
        ]
        self.labels = [one.label for window in plan.windows for one in window.aggregates]

    def rule(self, node: s.CheckNode) -> ResultRule:
        """Return the rule of one CHECK."""
        before = len(self.lookups)
        found = condition(with_names(node.condition, self._history_reference), self.context)
        if next(attributes_in(found), None) is None:
            hint = "name a value of the result, or look into its history: " + _FORMS
            raise self.context.refuse(node.condition.at, "this names nothing", hint)
        if self.aliases and is_clocked(found):
            message = f"CHECK {node.name.text} compares times that clocks may err in"
            hint = f"put it into WHERE, which says what is uncertain; or {AS_STAMPED}"
            raise self.context.refuse(node.condition.at, message, hint)
        hold = 0
        if node.hold is not None:
            hold = duration_ns(node.hold, self.context, "HOLD")
            if len(self.lookups) == before:
                message = "this says the same now and later, so there is nothing to wait for"
                raise self.context.refuse(node.hold.at, message, "leave HOLD out")
        return ResultRule(node.name.text, found, hold, node.drop)

    def key(self, clause: s.HistoryBy) -> tuple[Expression, ...]:
        """Return the key expressions of HISTORY BY."""
        if self.plan.windows:
            hint = "leave HISTORY BY out: windows have a history for each group"
            raise self.context.refuse(clause.at, "HISTORY BY is of patterns and joins", hint)
        return self._values(clause.values)

    def limit(self, clause: s.EmitLimitClause, rules: list[ResultRule]) -> EmitLimit:
        """Return the limit of EMIT AT MOST."""
        message = f"EMIT AT MOST takes a whole number from 1 to {MAX_SHOWN}"
        hint = "as in EMIT AT MOST 1 EVERY 1 h"
        most = whole_number(clause.most, MAX_SHOWN, self.context.text, message, hint)
        every = duration_ns(clause.every, self.context, "EMIT AT MOST EVERY")
        dropping = next((rule.name for rule in rules if rule.drop), None)
        if dropping is not None:
            message = f"this counts results as shown that CHECK {dropping} may drop"
            hint = "leave DROP out, or put what must hold into WHERE or HAVING"
            raise self.context.refuse(clause.at, message, hint)
        for window in self.plan.windows:
            if window.drift is Drift.EACH:
                message = "DRIFT EACH has three results of each window"
                raise self.context.refuse(clause.at, message, "write DRIFT TOGETHER, which has one")
            if window.kind is WindowKind.ROWS and window.emit is not Emit.CLOSE:
                message = "this counts windows that are full; EMIT shows them before that, too"
                raise self.context.refuse(clause.at, message, "write one EMIT, and leave one out")
        return EmitLimit(most, every, self._limit_key(clause))

    def _limit_key(self, clause: s.EmitLimitClause) -> tuple[Expression, ...]:
        if not self.plan.windows:
            return self._values(clause.values)
        (window,) = self.plan.windows
        groups = {group.name: group for group in window.group_by}
        found: list[Expression] = []
        for node in clause.values:
            names = attribute_of(node.parts) if isinstance(node, s.Reference) else ("", "")
            if names[0] or names[1] not in groups:
                message = "BY takes what windows are grouped by"
                hint = f"GROUP BY names {listed(groups)}" if groups else "leave BY out: no GROUP BY"
                raise self.context.refuse(node.at, message, hint)
            if groups[names[1]] in found:
                raise self.context.refuse(node.at, "this is there twice")
            found.append(groups[names[1]])
        return tuple(found)

    def _values(self, nodes: tuple[s.Node, ...]) -> tuple[Expression, ...]:
        found: list[Expression] = []
        for node in nodes:
            one = value(node, self.context)
            names = {attribute.alias for attribute in attributes_in(one)}
            if not names:
                hint = "name an attribute, as in BY a.k, or leave BY out"
                raise self.context.refuse(node.at, "this is the same for every result", hint)
            if RESULT in names:
                hint = "name attributes of the pattern's events"
                raise self.context.refuse(node.at, "results have no key of their own", hint)
            if one in found:
                raise self.context.refuse(node.at, "this is there twice")
            found.append(one)
        return tuple(found)

    def _history_reference(self, call: s.Call) -> s.Node:
        """Return a reference in place of a history function; keep an aggregate over a repeated
        step.
        """
        name = call.function.text.lower()
        if self.repeated is not None and name in ROLES_OF_ALL:
            return call
        if name not in LOOKUPS:
            hint = closest(name, LOOKUPS) or f"the history is asked by {listed(LOOKUPS)}"
            if self.labels:
                hint += "; an aggregate is named by its AS name"
            message = f"there is no function {call.function.text!r} in a CHECK"
            raise self.context.refuse(call.function.at, message, hint)
        if call.star or call.distinct or not 1 <= len(call.arguments) <= 2:
            raise self.context.refuse(call.at, f"{name} takes a length of time", _FORMS)
        *other, within = call.arguments
        query = None
        if other:
            if not isinstance(other[0], s.Reference) or len(other[0].parts) > 1:
                raise self.context.refuse(other[0].at, "here goes the name of a query", _FORMS)
            query = other[0].parts[0].text
            query = None if query == self.plan.name else query
        if not isinstance(within, s.Number):
            raise self.context.refuse(within.at, "here goes a duration", _FORMS)
        length = duration_ns(s.Duration(within, False, within.at), self.context, name)
        lookup = Lookup(name, query, length)
        if lookup not in self.lookups:
            self.lookups.append(lookup)
        place = s.Name(str(self.lookups.index(lookup)), call.at)
        return s.Reference((s.Name(HISTORY, call.at), place), call.at)

    def _resolve(self, reference: s.Reference) -> Attribute:
        first, *rest = reference.parts
        if first.text == HISTORY and rest:
            place = int(rest[0].text)
            return looked_up(place, self.lookups[place])
        fields = RESULT_FIELDS.get(self.plan.result_kind, ())
        if not rest and first.text in self.labels:
            return Attribute(first.text)
        if not rest and first.text in fields:
            return Attribute(first.text, RESULT)
        if rest and first.text in self.aliases:
            if self.repeated is not None:
                return self.repeated.one_value(reference)
            before, name = attribute_of(rest)
            if not before:
                return Attribute(name, first.text)
        before, name = attribute_of(reference.parts)
        if of_rows(self.plan) and not before:
            return Attribute(name, self.aliases[0])
        raise self._unknown(reference)

    def _unknown(self, reference: s.Reference) -> UserError:
        fields = RESULT_FIELDS.get(self.plan.result_kind, ())
        known = [*self.labels, *fields, *(f"{alias}.v" for alias in self.aliases)]
        written = self.context.text[reference.at[0] : reference.at[1]]
        *before, name = ".".join(part.text for part in reference.parts).split(".")
        near = closest(reference.parts[0].text, [*self.labels, *fields, *self.aliases])
        if before and isinstance(self.plan, WindowPlan):
            near = f"SELECT max({written}) AS {name} gives it one"
        elif len(before) > 1:
            near = f"LOOKUP {before[-1]} gives steps its columns"
        hint = f"it has {listed(known)}" + (f"; {near}" if near else "")
        return self.context.refuse(reference.at, f"a result has no {written!r}", hint)
