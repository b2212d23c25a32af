"""Render a plan as its canonical text; ``parse`` and ``analyse`` give the same plan back.

Clauses are in the order of the language: conditions of single steps first, then equalities, then
the rest. Durations use the largest unit that divides them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.query.fields import ATTRS, bare, with_attributes
from slackwater.engine.query.language.mistakes import RESERVED
from slackwater.engine.query.monitor_plan import (
    MonitorPlan,
    Occurrence,
    Regular,
    Repetition,
)
from slackwater.engine.query.plan import (
    APART,
    COMPUTED,
    HISTORY,
    RESULT,
    Aggregate,
    Arithmetic,
    Attribute,
    Case,
    Checks,
    Comparison,
    Computed,
    Constant,
    Drift,
    Emit,
    Expression,
    FunctionCall,
    JoinKind,
    JoinPlan,
    Likeness,
    Logic,
    Lookup,
    Membership,
    OrPlan,
    Part,
    Plan,
    PointRelation,
    Predicate,
    Presence,
    Ranking,
    SeqPlan,
    StatementPlan,
    Step,
    TreePart,
    TreePlan,
    WindowKind,
    WindowPlan,
    lookups_of,
    statement_plan,
)
from slackwater.engine.query.repeat_plan import (
    BEFORE,
    COUNT,
    EACH,
    ROLE,
    TIMES,
    Contiguity,
    Often,
    RepeatPlan,
    Skip,
    step_and_role,
    with_role,
)
from slackwater.engine.query.shape import of_intervals, of_rows, whole_pattern

if TYPE_CHECKING:
    from slackwater.engine.core.units import Period
    from slackwater.engine.query.reference_tables import TableLookup

# A history lookup in a CHECK, as a name in its condition.


_NOTHING = Lookup("", None, 0)


@dataclass(frozen=True, slots=True)
class LookedUp(Attribute):
    """``past_count(1 h)``: an attribute of HISTORY; ``name`` is its place in ``Checks.lookups``."""

    lookup: Lookup = _NOTHING


def looked_up(place: int, lookup: Lookup) -> LookedUp:
    """Return the attribute for the lookup at ``place`` of a query's ``lookups``."""
    return LookedUp(str(place), HISTORY, lookup=lookup)


# Values and conditions as text that the parser reads back.


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that cannot be names in some places; they are quoted everywhere.
_SOFT: Final = frozenset({
    "seq", "pal", "iseq", "before", "after", "contain", "during", "overlap", "meet", "start",
    "finish", "equal", "meets", "overlaps", "starts", "contains", "finishes", "equals", "join",
    "tumbling", "drift", "each", "together", "sliding", "every",
    "rows", "session", "inner", "left", "right", "full", "outer", "anti", "history", "check",
    "hold", "drop", "lookup", ATTRS,
})  # fmt: skip


def render_duration(duration_ns: int) -> str:
    """Return ``5 s`` for 5_000_000_000 and ``90 min`` for an hour and a half."""
    for unit, length in reversed(NS_PER.items()):
        if duration_ns % length == 0:
            return f"{duration_ns // length} {unit}"
    raise ContractViolation(f"{duration_ns!r} is not a whole number of ns")


def render_predicate(predicate: Predicate) -> str:
    """Return the text of a condition; AND, OR and NOT inside AND and OR are in parentheses."""
    match predicate:
        case Comparison(op=op, left=left, right=right):
            return f"{render_expression(left)} {op} {render_expression(right)}"
        case Membership(item=item, options=options):
            listed = ", ".join(render_expression(option) for option in options)
            return f"{render_expression(item)} IN ({listed})"
        case Presence(item=item):
            return f"{render_expression(item)} IS NOT NULL"
        case Likeness(item=item, pattern=pattern, regular=regular):
            value, text = render_expression(item), render_expression(Constant(pattern))
            return f"regexp_like({value}, {text})" if regular else f"{value} LIKE {text}"
        case Logic(op="not", terms=(Presence(item=item),)):
            return f"{render_expression(item)} IS NULL"
        case Logic(op="not", terms=(term,)):
            return f"NOT ({render_predicate(term)})"
        case Logic(op=op, terms=terms):
            return f" {op.upper()} ".join(render_term(term) for term in terms)


def render_expression(expression: Expression, tightness: int = 0) -> str:
    """Return the text of a value, in parentheses if it binds less tightly than ``tightness``."""
    match expression:
        case Constant(value=bool() as truth):
            return "TRUE" if truth else "FALSE"
        case Constant(value=str() as text):
            return "'" + text.replace("'", "''") + "'"
        case Constant(value=number):
            return repr(number)
        case Attribute():
            return render_attribute(expression)
        case Arithmetic(op=op, left=left, right=right):
            rank = 1 if op in "+-" else 2
            # Operators of the same rank are left-associative.
            first, second = (
                render_expression(left, rank),
                render_expression(right, rank + 1),
            )
            text = f"{first} {op} {second}"
            return f"({text})" if rank < tightness else text
        case FunctionCall(function=function, arguments=arguments):
            return f"{function}({', '.join(map(render_expression, arguments))})"
        case Case(whens=whens, otherwise=otherwise):
            cases = [f"WHEN {render_predicate(w)} THEN {_or_null(then)}" for w, then in whens]
            return f"CASE {' '.join(cases)} ELSE {_or_null(otherwise)} END"


def _or_null(expression: Expression | None) -> str:
    return "NULL" if expression is None else render_expression(expression)


def quote(name: str) -> str:
    """Return ``name``, in quotes if the grammar needs them."""
    if _PLAIN.fullmatch(name) and name.lower() not in RESERVED | _SOFT:
        return name
    return '"' + name.replace('"', '""') + '"'


def render_attribute(attribute: Attribute) -> str:
    """``a.v``, ``a[i].v``, ``first(a.v)``, ``v``."""
    if isinstance(attribute, LookedUp):
        return render_lookup(attribute.lookup)
    if attribute.alias == RESULT:
        return attribute.name
    name = attribute.name
    is_attribute = name.startswith(ATTR_PREFIX)
    text = f"{ATTRS}.{quote(name.removeprefix(ATTR_PREFIX))}" if is_attribute else quote(name)
    if attribute.alias is None:
        return text
    alias, role = step_and_role(attribute.alias)
    if role == COUNT:
        return f"count({quote(alias)})"
    if role in {EACH, BEFORE}:
        return f"{quote(alias)}[{'i' if role == EACH else 'i - 1'}].{text}"
    return f"{role}({quote(alias)}.{text})" if role else f"{quote(alias)}.{text}"


def render_lookup(lookup: Lookup) -> str:
    """``past_count(other, 1 h)``."""
    other = "" if lookup.query is None else f"{quote(lookup.query)}, "
    return f"{lookup.function}({other}{render_duration(lookup.within_ns)})"


def render_term(term: Predicate) -> str:
    """Return the text of one term of an AND or OR; a nested AND or OR is in parentheses."""
    text = render_predicate(term)
    return f"({text})" if isinstance(term, Logic) and term.op != "not" else text


def render_conjunct(predicate: Predicate) -> str:
    """Return the text as ``render_term`` does, but without parentheses around an AND."""
    inner = isinstance(predicate, Logic) and predicate.op == "and"
    return render_predicate(predicate) if inner else render_term(predicate)


# Clauses about results as text that the parser reads back.


def render_checks(checks: Checks | None) -> list[str]:
    """Return the clauses, such as ``CHECK name (past_count(1 h) < 3) HOLD 10 s DROP``."""
    if checks is None:
        return []
    found = [f"HISTORY BY {', '.join(map(render_expression, checks.key))}"] if checks.key else []
    for rule in checks.rules:
        hold = f" HOLD {render_duration(rule.hold_ns)}" if rule.hold_ns else ""
        drop = " DROP" if rule.drop else ""
        found.append(f"CHECK {quote(rule.name)} ({render_predicate(rule.condition)}){hold}{drop}")
    limit = checks.limit
    if limit is not None:
        by = f" BY {', '.join(map(render_expression, limit.key))}" if limit.key else ""
        every = render_duration(limit.every_ns)
        found.append(f"EMIT AT MOST {limit.most} EVERY {every}{by}")
    return found


# Queries as canonical text.


_P = TypeVar("_P", Expression, Predicate)


def render_table_lookup(lookup: TableLookup) -> str:
    """``LOOKUP tags ON e.tag = tags.tag``."""
    name, alias = quote(lookup.table.name), quote(lookup.alias)
    event_key = render_attribute(Attribute(lookup.attribute, lookup.step))
    called = "" if name == alias else f" AS {alias}"
    return f"LOOKUP {name}{called} ON {event_key} = {alias}.{quote(lookup.key)}"


def render(plan: Plan) -> str:
    """Return the text of ``plan`` on one line; numbers without a unit are in ns.

    >>> from slackwater.engine.query import query
    >>> render(query("event seq(A a, B b) where a.id=b.id within 5000 ms"))
    'EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 5 s'
    """
    plan = statement_plan(plan)
    return " ".join([_without_tables(plan), *map(render_table_lookup, lookups_of(plan))])


def _without_tables(plan: StatementPlan) -> str:
    match plan:
        case RepeatPlan():
            return _repeated(plan)
        case SeqPlan():
            return _rows(plan) if of_rows(plan) else _seq(plan)
        case JoinPlan():
            return _join(plan)
        case TreePlan():
            return _event(
                render_tree(plan.tree, plan.steps), map(render_term, plan.conjuncts), plan
            )
        case OrPlan():
            pattern = render_pattern(plan.pattern, plan.steps)
            return _event(pattern, map(render_term, plan.conjuncts), plan)
        case WindowPlan():
            return _windows(plan)
        case MonitorPlan():
            trace = f"{quote(plan.constraint)} FOR TRACE BY {render_attribute(plan.trace)}"
            if plan.timeout_ns is not None:
                trace += f" TIMEOUT {render_duration(plan.timeout_ns)}"
            if plan.workdays is not None:
                trace += f" TIMEOUT {_calendar(plan.workdays)}"
            expression = render_regular(plan.expression)
            return f"{render(plan.pattern)} UNDER CONSTRAINT {trace} AS {expression}"


_SIGNS: Final = {"|": (" | ", 0), "&": (" & ", 1), ",": (", ", 2)}
_UNIT: Final = 4
_TIMES: Final = {times: sign for sign, times in TIMES.items()}


def _times(least: int, most: int | None) -> str:
    """``+``, ``{2,5}``."""
    counts = f"{least}" if least == most else f"{least},{'' if most is None else most}"
    return _TIMES.get((least, most), f"{{{counts}}}")


def render_regular(expression: Regular, tightness: int = 0) -> str:
    """Return the text of a constraint, in parentheses if its context binds as tightly."""
    match expression:
        case Occurrence(type=event_type, where=guard):
            return quote(event_type) + ("" if guard is None else f"[{render_predicate(guard)}]")
        case Repetition(part=part, least=least, most=most):
            text = f"{render_regular(part, _UNIT)}{_times(least, most)}"
            return f"({text})" if tightness == _UNIT else text
    sign, level = _SIGNS[expression.op]
    text = sign.join(render_regular(part, level + 1) for part in expression.parts)
    return f"({text})" if level < tightness else text


def _step(step: Step) -> str:
    alias = "" if step.alias == step.type else f" {quote(step.alias)}"
    return f"{'!' if step.negated else ''}{render_type(step)}{alias}"


def render_type(step: Step) -> str:
    """``A``, or ``OR(A, B)``."""
    if step.types:
        return f"OR({', '.join(map(quote, step.types))})"
    return quote(step.type)


def render_pattern(pattern: Part, steps: Sequence[Step]) -> str:
    """Return, e.g., ``SEQ(A a, AND(B b, C c))``; the places in ``pattern`` index ``steps``."""
    if isinstance(pattern, int):
        return _step(steps[pattern])
    return f"{pattern.op}({', '.join(render_pattern(part, steps) for part in pattern.parts)})"


def _seq(plan: SeqPlan) -> str:
    terms = [render_conjunct(step.where) for step in plan.steps if step.where is not None]
    for group in plan.equalities:
        # Only positive steps continue the chain; a negated step is compared with the last one.
        negated = {step.alias for step in plan.steps if step.negated}
        chain = sorted(group, key=lambda attribute: attribute.alias in negated)
        anchor = chain[0]
        for attribute in chain[1:]:
            terms.append(f"{render_attribute(anchor)} = {render_attribute(attribute)}")
            anchor = anchor if attribute.alias in negated else attribute
    terms += [render_term(other) for other in plan.others]
    pattern = render_pattern(whole_pattern(plan), plan.steps)
    if of_intervals(plan):
        related = ", ".join(map(render_relation, plan.relations))
        pattern = pattern.replace("ISEQ(", f"ISEQ[{related}](", 1)
    return _event(pattern, terms, plan)


def _repeated(plan: RepeatPlan) -> str:
    each = {
        step.alias: with_role(step.alias, EACH) if often.repeats else step.alias
        for step, often in zip(plan.steps, plan.often, strict=True)
    }
    terms = [
        render_conjunct(with_attributes(step.where, lambda a: replace(a, alias=each[str(a.alias)])))
        for step in plan.steps
        if step.where is not None
    ]
    terms += [render_term(other) for other in plan.others]
    steps = zip(plan.steps, plan.often, strict=True)
    more = [f"FROM {', '.join(map(quote, plan.sources))}"] if plan.sources else []
    if plan.partition:
        names = (render_attribute(Attribute(name)) for name in plan.partition)
        more.append(f"PARTITION BY {', '.join(names)}")
    if plan.contiguity is not Contiguity.ANY:
        more.append(f"CONTIGUITY {plan.contiguity.upper()}")
    if plan.skip is not Skip.NONE:
        more.append(f"SKIP {plan.skip.upper()}")
    if plan.limit is not None:
        more.append(f"LIMIT {plan.limit}")
    pattern = f"SEQ({', '.join(render_often(*each) for each in steps)})"
    return _event(pattern, terms, plan, more)


def render_often(step: Step, often: Often) -> str:
    """``B{2,5} b[] UNTIL b.v > 3``."""
    if often == Often():
        return _step(step)
    times = _times(often.least, often.most)
    text = f"{render_type(step)}{times} {quote(step.alias)}{'[]' if often.repeats else ''}"
    return text if often.until is None else f"{text} UNTIL {render_predicate(often.until)}"


def render_tree(part: TreePart, steps: Sequence[Step]) -> str:
    """Return, e.g., ``SEQ(A a OVERLAP[0,0,0,1,0] B b, !C c)``; places index ``steps``."""
    if isinstance(part, int):
        return _step(steps[part])
    text = render_tree(part.parts[0], steps)
    for link, inner in zip(part.links, part.parts[1:], strict=True):
        counts = "" if link.counts is None else f"[{','.join(map(str, link.counts))}]"
        text += ", " if link.word == "," else f" {link.word}{counts} "
        text += render_tree(inner, steps)
    return f"{part.op}({text})"


def render_relation(relation: PointRelation) -> str:
    """``a.ts < b.te``."""
    bound = f" + {render_duration(relation.bound_ns)}" if relation.bound_ns else ""
    return (
        f"{render_attribute(relation.left)} {relation.op} {render_attribute(relation.right)}{bound}"
    )


def _event(
    pattern: str, terms: Iterable[str], plan: SeqPlan | OrPlan, more: Sequence[str] = ()
) -> str:
    first, clauses = plan.branches[0], [f"EVENT {pattern}"]
    if where := " AND ".join(terms):
        clauses.append(f"WHERE {where}")
    if first.workdays is not None:
        clauses.append(f"WITHIN {_calendar(first.workdays)}")
    elif first.within_ns is not None:
        clauses.append(f"WITHIN {render_duration(first.within_ns)}")
    if plan.realtime is not None:
        clauses.append(f"REALTIME {plan.realtime}")
    clauses += more
    returned = ["*"] if first.everything else []
    returned += [*map(render_attribute, plan.returns), *map(_computed, plan.computed)]
    if returned:
        clauses.append(f"RETURN {', '.join(returned)}")
    return " ".join([*clauses, *render_checks(plan.checks)])


def _join(plan: JoinPlan) -> str:
    kept = "" if plan.kind is JoinKind.INNER else f"{plan.kind.upper()} "
    left, right = map(_source, plan.pair.steps)
    columns = ", ".join(_column(one, plan.computed) for one in plan.computed) or "*"
    clauses = [f"SELECT {columns}", f"FROM {left} {kept}JOIN {right}"]
    if plan.on:
        clauses.append(f"ON {' AND '.join(render_term(each) for each in plan.on)}")
    if plan.conjuncts:
        clauses.append(f"WHERE {' AND '.join(render_term(each) for each in plan.conjuncts)}")
    if plan.window_ns is not None:
        kind, every = "TUMBLING", ""
        if plan.every_ns is not None:
            kind, every = "SLIDING", f" EVERY {render_duration(plan.every_ns)}"
        clauses.append(f"WINDOW {kind} {render_duration(plan.window_ns)}{every}")
    else:
        clauses.append(f"WITHIN {render_duration(plan.pair.within_ns or 0)}")
    return " ".join([*clauses, *render_checks(plan.checks)])


def _source(step: Step) -> str:
    """Return a stream of FROM, with its alias."""
    stream = step.streams[0]
    return quote(stream) + ("" if step.alias == stream else f" {quote(step.alias)}")


def row_label(expression: Expression) -> str:
    """Return the name of a row's column without AS; an attribute keeps its name."""
    one = bare(expression)
    return one.name if isinstance(one, Attribute) else render_expression(one)


def _rows(plan: SeqPlan) -> str:
    (step,) = plan.steps
    columns = ["*"] if plan.everything else []
    for one in plan.computed:
        text = render_expression(bare(one.expression))
        columns.append(_named(text, one.label, row_label(one.expression)))
    clauses = [f"SELECT {', '.join(columns)}"]
    if step.streams:
        several = len(step.streams) > 1
        read = map(quote, step.streams) if several else [_source(step)]
        clauses.append(f"FROM {', '.join(read)}")
    if step.where is not None:
        clauses.append(f"WHERE {render_conjunct(bare(step.where))}")
    checks = with_attributes(
        plan.checks, lambda one: replace(one, alias=one.alias if one.alias in APART else None)
    )
    return " ".join([*clauses, *render_checks(checks)])


def _column(one: Computed, columns: Sequence[Computed]) -> str:
    """Return a column of a join's SELECT; a plain attribute is labelled by its name, or with its
    side if both sides have it.
    """
    text = plain = render_expression(one.expression)
    if isinstance(one.expression, Attribute):
        each = [other.expression for other in columns]
        names = [other.name for other in each if isinstance(other, Attribute)]
        plain = one.expression.name if names.count(one.expression.name) == 1 else text
    return _named(text, one.label, plain)


def _named(text: str, label: str, plain: str) -> str:
    """Return an entry of a list, with AS unless ``label`` is the default ``plain``."""
    return text if label == plain else f"{text} AS {quote(label)}"


def _computed(one: Computed) -> str:
    text = render_expression(one.expression)
    plain = isinstance(one.expression, Attribute) and ROLE not in str(one.expression.alias)
    return _named(text, one.label, "" if plain else text)


def default_label(aggregate: Aggregate) -> str:
    """Return the result field's name without AS: ``avg(v)``, ``count(*)``, ``avg(v * 3.6)``."""
    return _call(aggregate, lambda of: of.name if isinstance(of, Attribute) else None)


def _call(
    aggregate: Aggregate, named: Callable[[Expression], str | None] = lambda _of: None
) -> str:
    """Return the aggregate as a call; ``named`` overrides the text of an argument."""
    function, distinct = aggregate.function, ""
    if function == "count_distinct":
        function, distinct = "count", "DISTINCT "
    operands = [one for one in (aggregate.argument, aggregate.by) if one is not None]
    arguments = [named(one) or render_expression(one) for one in operands] or ["*"]
    if aggregate.parameter is not None:
        arguments.append(repr(aggregate.parameter))
    return f"{function}({distinct}{', '.join(arguments)})"


def _aggregate(aggregate: Aggregate) -> str:
    return _named(_call(aggregate), aggregate.label, default_label(aggregate))


def computed_text(expression: Expression, of: Mapping[str, str]) -> str:
    """Return the text of arithmetic over aggregates; ``of`` has the text of each aggregate."""
    return _written(expression, of, render_expression)


def _written(node: _P, of: Mapping[str, str], render: Callable[[_P], str]) -> str:
    """Return the text of ``node``; ``of`` has the text of each aggregate."""
    numbers = {name: f"\0{place}" for place, name in enumerate(of)}
    text = render(with_attributes(node, lambda one: replace(one, name=numbers[one.name])))
    names = list(of)
    return re.sub(r'"\0(\d+)"', lambda found: of[names[int(found[1])]], text)


def _names(plan: WindowPlan) -> dict[str, str]:
    """Return the text of each aggregate in HAVING and ORDER BY, by label: hidden ones as calls."""
    hidden = {one.label: _call(one) for one in plan.hidden}
    return hidden | {one.label: quote(one.label) for one in plan.aggregates}


def _arithmetic(one: Aggregate, of: Mapping[str, str]) -> str:
    assert one.argument is not None
    plain = computed_text(one.argument, {name: name for name in of})
    return _named(computed_text(one.argument, of), one.label, plain)


def _windows(plan: WindowPlan) -> str:
    of = {default_label(one): _call(one) for one in plan.worked_out.aggregates}
    entries = [
        _aggregate(one) if one.function != COMPUTED else _arithmetic(one, of)
        for one in plan.aggregates
    ]
    clauses = [f"SELECT {', '.join(entries)}"]
    if plan.streams:
        clauses.append(f"FROM {', '.join(map(quote, plan.streams))}")
    if plan.where is not None:
        clauses.append(f"WHERE {render_conjunct(plan.where)}")
    if plan.group_by:
        clauses.append(f"GROUP BY {', '.join(map(render_attribute, plan.group_by))}")
    if plan.having is not None:
        clauses.append(f"HAVING {_written(plan.having, _names(plan), render_conjunct)}")
    if plan.ranking is not None:
        clauses.append(render_ranking(plan, plan.ranking))
    clauses.append(f"WINDOW {_extent(plan)}")
    if plan.emit is Emit.CHANGE:
        clauses.append("EMIT ON CHANGE")
    elif plan.emit is Emit.EARLY:
        clauses.append(f"EMIT EARLY EVERY {render_duration(plan.early_ns)}")
    return " ".join([*clauses, *render_checks(plan.checks)])


def render_having(plan: WindowPlan, having: Predicate) -> str:
    """``count(*) > 5``."""
    return _written(having, _names(plan), render_predicate)


def render_ranking(plan: WindowPlan, ranking: Ranking) -> str:
    """``ORDER BY label DESC LIMIT 5``."""
    names = _names(plan)
    entries = [
        names[label] + (" DESC" if down else "")
        for label, down in zip(ranking.labels, ranking.descending, strict=True)
    ]
    return f"ORDER BY {', '.join(entries)} LIMIT {ranking.limit}"


def _calendar(period: Period) -> str:
    return f"{period} TIMEZONE '{period.zone}'"


def _extent(plan: WindowPlan) -> str:
    if plan.kind is WindowKind.ROWS:
        every = "" if plan.every_rows == plan.rows else f" EVERY {plan.every_rows}"
        return f"ROWS {plan.rows}{every}"
    size = render_duration(plan.size_ns)
    if plan.period is not None:
        size = _calendar(plan.period)
    if plan.kind is WindowKind.SESSION:
        return f"SESSION {size}"
    drift = "" if plan.drift is Drift.NONE else f" DRIFT {plan.drift.upper()}"
    every = "" if plan.every_ns is None else f" EVERY {render_duration(plan.every_ns)}"
    return f"{'SLIDING' if every else 'TUMBLING'} {size}{every}{drift}"
