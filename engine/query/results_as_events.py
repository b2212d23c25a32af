"""The results of a statement as events of another statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import Final

from msgspec.structs import replace

from slackwater.engine.query.clock_sensitivity import CLOCKED
from slackwater.engine.query.fields import (
    FIELDS,
    TimeValue,
    attributes_in,
    attributes_of,
    is_time,
    named_attributes,
    own_attribute,
    result_attributes,
    time_value,
    with_attributes,
)
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.query.plan import (
    COMPUTED,
    Aggregate,
    Attribute,
    Checks,
    Computed,
    Constant,
    DerivedPlan,
    Expression,
    OrPlan,
    Plan,
    SeqPlan,
    WindowKind,
    WindowPlan,
    lookups_of,
    statement_plan,
)
from slackwater.engine.query.render import default_label, render_expression
from slackwater.engine.query.repeat_plan import Contiguity, RepeatPlan, partitioned
from slackwater.engine.query.schema import check_attributes as check_own
from slackwater.engine.query.schema import value_type
from slackwater.engine.query.shape import of_rows

# Kinds and units of values that are computed from aggregates.


_NUMBERS: Final = frozenset({"count", "count_distinct", "var"})
"""Aggregates that are numbers without a unit for any argument."""


def event_value(plan: WindowPlan, one: Aggregate) -> Expression | None:
    """Return the argument of ``one``; in arithmetic, aggregates are replaced by their arguments."""
    if one.function != COMPUTED:
        return one.argument
    of = {default_label(each): each for each in plan.worked_out.aggregates}

    def argument(of_one: Attribute) -> Expression:
        each = of[of_one.name]
        return Constant(1) if each.argument is None or each.function in _NUMBERS else each.argument

    return with_attributes(one.argument, argument)


def times_of(window: WindowPlan) -> set[str]:
    """Return names of the aggregates whose values are times."""
    return {
        one.label
        for one in window.aggregates
        if one.function not in _NUMBERS
        and (of := event_value(window, one)) is not None
        and is_time(of)
    }


def _value_of(window: WindowPlan, one: Aggregate) -> TimeValue | None:
    of = event_value(window, one)
    kind = None if of is None or one.function in _NUMBERS else time_value(of)
    if one.function == "stddev":
        return kind and TimeValue.SPAN
    return None if one.function == "sum" and kind is TimeValue.INSTANT else kind


def time_values(plans: Iterable[Plan]) -> dict[str, TimeValue]:
    """By name: aggregates and computed values that are times in every plan that has them."""
    found: dict[str, set[TimeValue | None]] = {}
    for plan in map(statement_plan, plans):
        for window in plan.windows:
            for one in window.aggregates:
                found.setdefault(one.label, set()).add(_value_of(window, one))
        for branch in plan.branches:
            for value in branch.computed:
                found.setdefault(value.label, set()).add(time_value(value.expression))
    alike = {name: min(kinds, key=str) for name, kinds in found.items() if len(kinds) == 1}
    return {name: kind for name, kind in alike.items() if kind is not None}


# Times and lengths of a plan's results, for statements that read them as events.


_SECOND: Final = 10**9
_FINE: Final = 8
"""Steps of progress per shortest span of a statement."""


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """Properties of a plan's results.

    ``window_ns``: size of its windows (of sessions: the gap; of ROWS: 0); None: no windows.
    ``on_clock``: its windows are TIME windows. ``match_ns``: longest match; None: no matches, or
    unbounded. ``is_pattern``; ``negated``: it has negated steps. ``realtime``: as in the plan.
    ``times_err``: times of results are as uncertain as those of events; those of windows are exact.
    """

    window_ns: int | None
    on_clock: bool
    match_ns: int | None
    is_pattern: bool
    negated: bool
    realtime: int | None
    times_err: bool


def sources_of(plan: Plan) -> tuple[Plan, ...]:
    """Return the statements whose results ``plan`` reads; none: it reads the log."""
    return plan.sources if isinstance(plan, DerivedPlan) else ()


def whole_text(plan: Plan) -> str:
    """Return the text of a statement after those of all its sources."""
    return "; ".join([*map(whole_text, sources_of(plan)), plan.text])


def facts_of(plan: Plan) -> ResultFacts:
    """Return the properties of the results of ``plan``."""
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        on_clock = statement.kind is WindowKind.TIME
        return ResultFacts(statement.size_ns, on_clock, None, False, False, None, False)
    sources = sources_of(plan)
    times_err = not sources or any(facts_of(source).times_err for source in sources)
    if isinstance(statement, MonitorPlan):
        return ResultFacts(None, False, None, False, False, None, times_err)
    assert isinstance(statement, SeqPlan | OrPlan)
    negated = any(step.negated for branch in statement.branches for step in branch.steps)
    within = statement.branches[0].within_ns
    return ResultFacts(None, False, within, True, negated, statement.realtime, times_err)


def quantum_of(plan: Plan) -> int:
    """Progress of the sources of ``plan`` is reported at multiples of this [ns].

    Windows close exactly on time; other operators need a few reports in their shortest span.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan) and statement.kind is WindowKind.TIME:
        return gcd(gcd(statement.size_ns, statement.step_ns), _SECOND)
    spans = [one.step_ns for source in sources_of(plan) for one in statement_plan(source).windows]
    spans += [branch.within_ns for branch in statement.branches if branch.within_ns]
    spans += [window.size_ns for window in statement.windows]
    return max(1, min([_SECOND, *(span // _FINE for span in spans if span > 0)]))


# The columns of a plan's results, for statements that read them as events.
#
# A result is an interval: a window from its start to its last instant, a match from the start of
# its first event to the end of its last one, an alert at the instant of its event. Columns are the
# aggregates and keys of a SELECT or the values of RETURN, and properties of the result itself.


OF_WINDOWS: Final = {"certain": "int", "ambiguous": "int", "missing": "int"}
"""Columns of every window's result besides its aggregates, with types."""
OF_MATCHES: Final = {"probability": "float", "certainty": "str"}
OF_ALERTS: Final = {
    "alert": "str", "trace": "str", "certainty": "str", "event_type": "str", "allowed": "str",
}  # fmt: skip
_COUNTS: Final = frozenset({"count", "count_distinct"})
_ORDERED: Final = frozenset({"first", "last", "min_by", "max_by"})
_SPREADS: Final = frozenset({"avg", "stddev", "var"})


def returned_values(plan: SeqPlan) -> tuple[Computed, ...]:
    """Return the values of RETURN of one branch with the names of their columns.

    An attribute has the name in its event, or with its step where two have the same name.
    """
    names = [attribute.name for attribute in plan.returns]
    plain = tuple(
        Computed(one.name if names.count(one.name) == 1 else render_expression(one), one)
        for one in plan.returns
    )
    return (*plain, *plan.computed)


def _columns_of(
    plan: Plan,
) -> Iterator[tuple[str, str | tuple[WindowPlan, Aggregate] | Expression]]:
    """Yield the columns of ``plan``'s results by name, with their value, or type if it is fixed."""
    plan = statement_plan(plan)
    if isinstance(plan, WindowPlan):
        yield from OF_WINDOWS.items()
        yield from ((key.name, key) for key in plan.group_by if key.name not in FIELDS)
        yield from ((one.label, (plan, one)) for one in plan.aggregates)
    elif isinstance(plan, MonitorPlan):
        yield from OF_ALERTS.items()
    else:
        yield from OF_MATCHES.items()
        for branch in plan.branches:
            yield from ((one.label, one.expression) for one in returned_values(branch))


def returned_columns(plan: Plan) -> dict[str, Expression | None]:
    """The columns of ``plan``'s results by name, with their expressions; None: fixed columns."""
    return {
        name: event_value(*of) if isinstance(of, tuple) else None if isinstance(of, str) else of
        for name, of in _columns_of(plan)
    }


def time_columns(plan: Plan) -> frozenset[str]:
    """Return the ``returned_columns`` that are times or spans of time, as certain as clocks are."""
    read: frozenset[str] = frozenset()
    if isinstance(plan, DerivedPlan):
        read = read.union(*map(time_columns, plan.sources))
    return frozenset(
        name
        for name, of in returned_columns(plan).items()
        if of is not None
        and (is_time(of) or any(own_attribute(one.name) in read for one in attributes_in(of)))
    )


def moved_columns(plan: Plan) -> frozenset[str]:
    """Return the ``returned_columns`` whose values change with clock errors: from ``ts``, ``te``
    and ``ref``, or from which event is the first or the last.
    """
    return _moved_in(statement_plan(plan), sources_of(plan))


def _moved_in(statement: Plan, sources: Iterable[Plan]) -> frozenset[str]:
    """``moved_columns`` of ``statement``, which reads the results of ``sources``."""
    read = frozenset[str]().union(*map(moved_columns, sources))
    found = {
        name
        for name, of in returned_columns(statement).items()
        if any(one.name in CLOCKED or own_attribute(one.name) in read for one in attributes_in(of))
    }
    if isinstance(statement, WindowPlan):
        found -= {one.label for one in statement.aggregates if one.function in _COUNTS}
        found |= ordered_columns(statement)
    return frozenset(found)


def varying_columns(plan: Plan) -> frozenset[str]:
    """Return the ``returned_columns`` whose values may differ if clocks err: ``moved_columns``,
    aggregates, as a window may have more or fewer events, and values computed from these.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        return frozenset(one.label for one in statement.aggregates)
    read, columns = read_varying(plan), returned_columns(statement).items()
    return moved_columns(plan) | {name for name, of in columns if _reads(attributes_in(of), read)}


def ordered_columns(window: WindowPlan) -> frozenset[str]:
    """Return names of the aggregates that depend on the order of events."""
    of = {default_label(each): each for each in window.worked_out.aggregates}

    def is_ordered(one: Aggregate) -> bool:
        if one.function == COMPUTED:
            return any(is_ordered(of[each.name]) for each in attributes_in(one.argument))
        return one.function in _ORDERED

    return frozenset(one.label for one in window.aggregates if is_ordered(one))


def deciding_columns(plan: Plan) -> frozenset[str]:
    """Return the columns of its sources that ``plan`` filters, groups or joins by; not those that
    it only returns or counts. Results of TIME windows have no certainty, so columns in HAVING and
    CHECK do not count there.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        named = [*attributes_in(statement.where), *statement.group_by]
        if statement.kind is not WindowKind.TIME:
            named += _judged_by(statement)
    elif isinstance(statement, MonitorPlan):
        named = list(attributes_of(statement))
    else:
        named = [
            each
            for branch in statement.branches
            for each in attributes_of(replace(branch, returns=(), computed=()))
        ]
        named += [Attribute(name) for name in getattr(statement, "partition", ())]
    return frozenset(column for each in named if (column := own_attribute(each.name)) is not None)


def _judged_by(window: WindowPlan) -> Iterator[Attribute]:
    """Yield the attributes in aggregates that HAVING and CHECK name."""
    judges = (*attributes_in(window.having), *result_attributes(window.checks))
    names = {each.name for each in judges}
    for one in (*window.aggregates, *window.hidden):
        if one.label in names:
            yield from attributes_in(event_value(window, one))


def may_replace_results(plan: Plan) -> bool:
    """Whether a result of ``plan`` could be missing under other clock errors without being marked
    uncertain: another result would replace it (SKIP, LIMIT, EMIT AT MOST), or HAVING depends on a
    value that clocks change.
    """
    statement = statement_plan(plan)
    checks = getattr(statement, "checks", None)
    if checks is not None and checks.limit is not None:
        return True
    if isinstance(statement, WindowPlan):
        every = replace(statement, aggregates=(*statement.aggregates, *statement.hidden))
        moved = _moved_in(every, sources_of(plan))
        return statement.ranking is not None or _reads(attributes_in(statement.having), moved)
    return any(one.chooses for one in statement.branches if isinstance(one, RepeatPlan))


def may_omit_results(plan: Plan) -> bool:
    """Whether ``plan`` may lack results that it would have under other clock errors, as measured
    values decide: by HAVING, a choice among results, GROUP BY, conditions between steps, or
    partitions.
    """
    statement, varying = statement_plan(plan), read_varying(plan)
    if may_replace_results(plan) or any(map(may_omit_results, sources_of(plan))):
        return True
    if isinstance(statement, WindowPlan):
        return statement.having is not None or _reads(statement.group_by, varying)
    between = [
        each
        for branch in statement.branches
        for each in (*chain(*branch.equalities), *chain(*map(attributes_in, branch.others)))
    ]
    return _reads(between, varying) or _parts_by(statement, varying)


def read_varying(plan: Plan) -> frozenset[str]:
    """Return the ``varying_columns`` of the sources of ``plan``."""
    return frozenset[str]().union(*map(varying_columns, sources_of(plan)))


def _reads(attributes: Iterable[Attribute], columns: frozenset[str]) -> bool:
    return any(own_attribute(each.name) in columns for each in attributes)


def _parts_by(plan: Plan, columns: frozenset[str]) -> bool:
    """Whether ``plan`` partitions events by one of ``columns``."""
    parts = [
        name for one in plan.branches if isinstance(one, RepeatPlan) for name in partitioned(one)[0]
    ]
    return not columns.isdisjoint(parts)


def _count_key(plan: Plan) -> tuple[Attribute, ...] | None:
    """Return the attributes by which CHECK rules or EMIT AT MOST of ``plan`` group the results that
    they count; None: they count none.
    """
    checks = getattr(plan, "checks", None)
    if checks is None or not (checks.lookups or checks.limit):
        return None
    limited = () if checks.limit is None else checks.limit.key
    return tuple(chain(*map(attributes_in, (*checks.key, *limited))))


def _matches_one_event(statement: Plan) -> bool:
    """Whether every match of the plan has one event."""
    of_one = isinstance(statement, SeqPlan) and len(statement.steps) == 1
    return of_one and not isinstance(statement, RepeatPlan)


def span_of(plan: Plan) -> int | None:
    """Return the longest time between two source results that affect each other in ``plan`` [ns];
    None: unbounded.
    """
    statement, facts = statement_plan(plan), facts_of(plan)
    span = (
        facts.match_ns
        if facts.is_pattern and not _matches_one_event(statement)
        else facts.window_ns or 0
    )
    checks: Checks | None = getattr(statement, "checks", None)
    if span is None or checks is None:
        return span
    spans = [one.within_ns for one in checks.lookups]
    return span + max(*spans, checks.limit.every_ns if checks.limit else 0, 0)


def _ends_move(plan: Plan) -> bool:
    """Whether the times of results of ``plan`` err by more than stated: borders of sessions and
    ROWS windows are events, but results do not have the errors of their clocks.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        return statement.kind is not WindowKind.TIME
    return any(map(_ends_move, sources_of(plan)))


def uncertain_sources(plan: DerivedPlan) -> frozenset[str]:
    """Return names of the sources whose results are all uncertain for ``plan`` if clocks err: a
    result may replace another one or have another time, or a missing result would be counted with
    it or invalidate a match.
    """
    statement, varying = plan.plan, read_varying(plan)
    alone = _matches_one_event(statement)
    moving = frozenset(one.name for one in plan.sources if not alone and _ends_move(one))
    hidden = bool(moving) or any(map(may_omit_results, plan.sources))
    choosing = moving.union(one.name for one in plan.sources if may_replace_results(one))
    if isinstance(statement, WindowPlan):
        doubted = hidden or _reads(statement.group_by, varying)
        return frozenset(one.name for one in plan.sources) if doubted else frozenset()
    count_key = _count_key(statement)
    excludes = (
        facts_of(plan).negated
        or count_key is not None
        or any(
            one.chooses
            or one.contiguity is not Contiguity.ANY
            or any(each.until for each in one.often)
            for one in statement.branches
            if isinstance(one, RepeatPlan)
        )
    )
    if not excludes or not (
        hidden or _parts_by(statement, varying) or _reads(count_key or (), varying)
    ):
        return choosing
    steps = [step for branch in statement.branches for step in branch.steps if not step.negated]
    return choosing.union(*(step.reads for step in steps))


def returned_types(plan: Plan, known: Mapping[str, str]) -> dict[str, str]:
    """Return the type (``int float bool str``) of each column of ``plan``'s results.

    Args:
        plan: of a statement.
        known: types of the log's own attributes.
    """
    return dict(DerivedTypes(known, _aggregate_type, _value_type).made_by(plan))


def _aggregate_type(window: WindowPlan, one: Aggregate, known: Known) -> str:
    if one.function in _COUNTS:
        return "int"
    of = event_value(window, one)
    return "float" if of is None or one.function in _SPREADS else _value_type(of, known)


def _value_type(value: Expression, known: Known) -> str:
    return value_type(value, known or {})


# Types of the attributes that statements read: of the log, or columns of other results.


Known = Mapping[str, str] | None
"""Types (``int float bool str``) of attributes by name; None: not known."""


class DerivedTypes:
    """Types of the attributes that the statements of one pass read.

    Args:
        attributes: the log's.
        of_aggregate: the type of a window's aggregate over attributes.
        of_value: the type of an expression over attributes.
    """

    def __init__(
        self,
        attributes: Known,
        of_aggregate: Callable[[WindowPlan, Aggregate, Known], str],
        of_value: Callable[[Expression, Known], str],
    ) -> None:
        self._attributes = attributes
        self._of_aggregate, self._of_value = of_aggregate, of_value

    def read_by(self, plan: Plan) -> Known:
        """Return types of the attributes of the events that ``plan`` reads; None: unknown."""
        if not isinstance(plan, DerivedPlan):
            looked_up = {name: of for each in lookups_of(plan) for name, of in each.types.items()}
            return self._attributes and {**self._attributes, **looked_up}
        return {name: kind for source in plan.sources for name, kind in self.made_by(source)}

    def made_by(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the columns of the results of ``plan``, and their types."""
        known = self.read_by(plan)
        for name, of in _columns_of(plan):
            if isinstance(of, tuple):
                yield name, self._of_aggregate(*of, known)
            else:
                yield name, of if isinstance(of, str) else self._of_value(of, known)


# Checks a plan against the attributes that it reads.


def check_attributes(plan: Plan, known: Mapping[str, str]) -> None:
    """Refuse a plan with unknown attributes, or with attributes of wrong types.

    Args:
        plan: of a query or a statement, or built in Python (whose errors have no caret).
        known: type (``int float bool str``) by the own attributes of the log's events.

    Raises:
        UserError: an attribute is unknown (the message names the ones there are), text is
            compared or calculated with as if it were a number, or the other way round.
    """
    if not isinstance(plan, DerivedPlan):
        check_own(plan, known)
        return
    columns: dict[str, str] = {}
    for source in plan.sources:
        check_attributes(source, known)  # else columns have no types
        columns |= returned_types(source, known)
    check_own(plan.plan, columns)


def attributes_of_log(plan: Plan) -> frozenset[str]:
    """Attributes of the log's events that ``plan`` depends on, through its sources as well."""
    if not isinstance(plan, DerivedPlan):
        return named_attributes(plan)
    return frozenset[str]().union(*map(attributes_of_log, plan.sources))


def time_labels(plans: Iterable[Plan]) -> dict[str, set[str]]:
    """By name of each SELECT without JOIN: the aggregates or columns whose values are times."""
    found = {}
    for plan in plans:
        statement = statement_plan(plan)
        for window in statement.windows:
            found[plan.name] = times_of(window)
        if isinstance(statement, SeqPlan) and statement.computed and of_rows(statement):
            found[plan.name] = {one.label for one in statement.computed if is_time(one.expression)}
    return found
