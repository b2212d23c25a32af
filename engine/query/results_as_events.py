"""What a plan's results are where another statement reads them as events."""

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

# What is computed of aggregates, as if it were of single events: its kind and its unit.


_NUMBERS: Final = frozenset({"count", "count_distinct", "var"})
"""Numbers without a unit, whatever they are of."""


def over_events(plan: WindowPlan, one: Aggregate) -> Expression | None:
    """The argument of ``one``; of arithmetic, with the aggregates' arguments in their places."""
    if one.function != COMPUTED:
        return one.argument
    of = {default_label(each): each for each in plan.worked_out.aggregates}

    def argument(of_one: Attribute) -> Expression:
        each = of[of_one.name]
        return Constant(1) if each.argument is None or each.function in _NUMBERS else each.argument

    return with_attributes(one.argument, argument)


def times_of(window: WindowPlan) -> set[str]:
    """The aggregates whose values are times, by name."""
    return {
        one.label
        for one in window.aggregates
        if one.function not in _NUMBERS
        and (of := over_events(window, one)) is not None
        and is_time(of)
    }


def _value_of(window: WindowPlan, one: Aggregate) -> TimeValue | None:
    of = over_events(window, one)
    kind = None if of is None or one.function in _NUMBERS else time_value(of)
    if one.function == "stddev":
        return kind and TimeValue.SPAN
    return None if one.function == "sum" and kind is TimeValue.INSTANT else kind


def time_values(plans: Iterable[Plan]) -> dict[str, TimeValue]:
    """By name, the aggregates and computed values that are times for every plan that has them."""
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


# What a plan says of its results to who reads them as events: when they come, and how long.


_SECOND: Final = 10**9
_FINE: Final = 8
"""So many steps of progress in the shortest span that a statement names."""


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """Of a plan.

    ``window_ns``: the size of its windows (a gap, of sessions; 0 of ROWS); None: it has none.
    ``on_clock``: its windows lie on the clock. ``match_ns``: how long a match may be; None: it has
    none, or it is not said. ``is_pattern``; ``negated``: something must not occur in a match.
    ``realtime``: as of the plan. ``times_err``: the times of results are known no better than those
    of events; of windows they are.
    """

    window_ns: int | None
    on_clock: bool
    match_ns: int | None
    is_pattern: bool
    negated: bool
    realtime: int | None
    times_err: bool


def sources_of(plan: Plan) -> tuple[Plan, ...]:
    """The statements whose results ``plan`` reads; none: it reads the log."""
    return plan.sources if isinstance(plan, DerivedPlan) else ()


def whole_text(plan: Plan) -> str:
    """The text of a statement, behind those of all that it reads."""
    return "; ".join([*map(whole_text, sources_of(plan)), plan.text])


def facts_of(plan: Plan) -> ResultFacts:
    """Of the results of ``plan``."""
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
    """Progress of what ``plan`` reads is reported when it passes a multiple of this [ns]: windows
    close exactly on time; other operators look a few times within their shortest span.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan) and statement.kind is WindowKind.TIME:
        return gcd(gcd(statement.size_ns, statement.step_ns), _SECOND)
    spans = [one.step_ns for source in sources_of(plan) for one in statement_plan(source).windows]
    spans += [branch.within_ns for branch in statement.branches if branch.within_ns]
    spans += [window.size_ns for window in statement.windows]
    return max(1, min([_SECOND, *(span // _FINE for span in spans if span > 0)]))


# Which columns the results of a plan have where another statement reads them as events.
#
# A result is an interval: of a window from its start to the last instant in it, of a match from its
# first event's start to its last one's end, of an alert the instant of its event. Columns are what
# a SELECT aggregates and groups by, or what RETURN names; and what is known of the result itself.


OF_WINDOWS: Final = {"certain": "int", "ambiguous": "int", "missing": "int"}
"""What every result of a window tells of itself, beside its aggregates; types."""
OF_MATCHES: Final = {"probability": "float", "certainty": "str"}
OF_ALERTS: Final = {
    "alert": "str", "trace": "str", "certainty": "str", "event_type": "str", "allowed": "str",
}  # fmt: skip
_COUNTS: Final = frozenset({"count", "count_distinct"})
_ORDERED: Final = frozenset({"first", "last", "min_by", "max_by"})
_SPREADS: Final = frozenset({"avg", "stddev", "var"})


def returned_values(plan: SeqPlan) -> tuple[Computed, ...]:
    """What RETURN of one branch names, each with the name that its column has.

    An attribute is named as in its event, or with its step where two have the same name.
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
    """The columns of ``plan``'s results by name: what each is of, or its type if it is fixed."""
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
    """The columns of ``plan``'s results by name, with what they are of where that is said."""
    return {
        name: over_events(*of) if isinstance(of, tuple) else None if isinstance(of, str) else of
        for name, of in _columns_of(plan)
    }


def time_columns(plan: Plan) -> frozenset[str]:
    """Those of ``returned_columns`` that are times or spans of time: sure as clocks are."""
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
    """Those of ``returned_columns`` whose values clocks' errors move: made of ``ts``, ``te`` and
    ``ref``, or of which event is the first or the last.
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
    """Those of ``returned_columns`` whose values may be others where clocks err: ``moved_columns``,
    aggregates, as a window may have more events or fewer, and what is made of these.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        return frozenset(one.label for one in statement.aggregates)
    read, columns = read_varying(plan), returned_columns(statement).items()
    return moved_columns(plan) | {name for name, of in columns if _reads(attributes_in(of), read)}


def ordered_columns(window: WindowPlan) -> frozenset[str]:
    """The aggregates that depend on the order of events, by name."""
    of = {default_label(each): each for each in window.worked_out.aggregates}

    def is_ordered(one: Aggregate) -> bool:
        if one.function == COMPUTED:
            return any(is_ordered(of[each.name]) for each in attributes_in(one.argument))
        return one.function in _ORDERED

    return frozenset(one.label for one in window.aggregates if is_ordered(one))


def deciding_columns(plan: Plan) -> frozenset[str]:
    """The columns of results by which ``plan`` decides which of them count, and for what: all but
    those that it only shows or counts. Windows of time say nothing of whether they are certain, so
    of them HAVING and CHECK decide nothing.
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
    """What the aggregates are of that HAVING and CHECK name."""
    judges = (*attributes_in(window.having), *result_attributes(window.checks))
    names = {each.name for each in judges}
    for one in (*window.aggregates, *window.hidden):
        if one.label in names:
            yield from attributes_in(over_events(window, one))


def chooses(plan: Plan) -> bool:
    """Whether results of ``plan`` that are there would not be if clocks erred otherwise, and do not
    say so: another one would take their place (SKIP, LIMIT, EMIT AT MOST), or HAVING goes by a
    value that clocks move.
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


def hides(plan: Plan) -> bool:
    """Whether results of ``plan`` are left out that would be there if clocks erred otherwise, as
    what decides goes by values as measured: HAVING, a choice among results, GROUP BY, conditions
    between steps, and what partitions events.
    """
    statement, varying = statement_plan(plan), read_varying(plan)
    if chooses(plan) or any(map(hides, sources_of(plan))):
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
    """The columns of the results that ``plan`` reads whose values may be others."""
    return frozenset[str]().union(*map(varying_columns, sources_of(plan)))


def _reads(attributes: Iterable[Attribute], columns: frozenset[str]) -> bool:
    return any(own_attribute(each.name) in columns for each in attributes)


def _parts_by(plan: Plan, columns: frozenset[str]) -> bool:
    """Whether it keeps events apart by one of ``columns``."""
    parts = [
        name for one in plan.branches if isinstance(one, RepeatPlan) for name in partitioned(one)[0]
    ]
    return not columns.isdisjoint(parts)


def _count_key(plan: Plan) -> tuple[Attribute, ...] | None:
    """What tells the results of ``plan`` apart that are counted together, by rules of its CHECK or
    by EMIT AT MOST; None: none are.
    """
    checks = getattr(plan, "checks", None)
    if checks is None or not (checks.lookups or checks.limit):
        return None
    limited = () if checks.limit is None else checks.limit.key
    return tuple(chain(*map(attributes_in, (*checks.key, *limited))))


def _matches_one_event(statement: Plan) -> bool:
    """Whether its results are matches of one event."""
    of_one = isinstance(statement, SeqPlan) and len(statement.steps) == 1
    return of_one and not isinstance(statement, RepeatPlan)


def span_of(plan: Plan) -> int | None:
    """How far apart results that ``plan`` reads may be and bear on each other [ns]; None: as far as
    may be.
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
    """Whether the times of results of ``plan`` err by more than they say: borders of sessions and
    ROWS are events, and say nothing of their clocks.
    """
    statement = statement_plan(plan)
    if isinstance(statement, WindowPlan):
        return statement.kind is not WindowKind.TIME
    return any(map(_ends_move, sources_of(plan)))


def uncertain_sources(plan: DerivedPlan) -> frozenset[str]:
    """The sources by name no result of which is sure to ``plan`` once clocks err: it may have taken
    the place of another one, or come at another time, or another one may be hidden that would
    count beside it, or rule out what it makes.
    """
    statement, varying = plan.plan, read_varying(plan)
    alone = _matches_one_event(statement)
    moving = frozenset(one.name for one in plan.sources if not alone and _ends_move(one))
    hidden = bool(moving) or any(map(hides, plan.sources))
    choosing = moving.union(one.name for one in plan.sources if chooses(one))
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
    """The type (``int float bool str``) of each column of ``plan``'s results.

    Args:
        plan: of a statement.
        known: types of the log's own attributes.
    """
    return dict(DerivedTypes(known, _aggregate_type, _value_type).made_by(plan))


def _aggregate_type(window: WindowPlan, one: Aggregate, known: Known) -> str:
    if one.function in _COUNTS:
        return "int"
    of = over_events(window, one)
    return "float" if of is None or one.function in _SPREADS else _value_type(of, known)


def _value_type(value: Expression, known: Known) -> str:
    return value_type(value, known or {})


# Types of what statements read: the log's attributes, or columns of other results.


Known = Mapping[str, str] | None
"""Types (``int float bool str``) of attributes by name; None: not known."""


class DerivedTypes:
    """Types of what the statements of one pass read.

    Args:
        attributes: the log's.
        of_aggregate: the type of a window's aggregate over attributes.
        of_value: the type of a value that is made of them.
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
        """Of the attributes that the events of ``plan`` have."""
        if not isinstance(plan, DerivedPlan):
            looked_up = {name: of for each in lookups_of(plan) for name, of in each.types.items()}
            return self._attributes and {**self._attributes, **looked_up}
        return {name: kind for source in plan.sources for name, kind in self.made_by(source)}

    def made_by(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """The columns of the results of ``plan``, and their types."""
        known = self.read_by(plan)
        for name, of in _columns_of(plan):
            if isinstance(of, tuple):
                yield name, self._of_aggregate(*of, known)
            else:
                yield name, of if isinstance(of, str) else self._of_value(of, known)


# Checks a plan against what it reads: the log's attributes, or columns of other results.


def check_attributes(plan: Plan, known: Mapping[str, str]) -> None:
    """Refuses a plan whose attributes are not there, or of a type that cannot be meant.

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
        check_attributes(source, known)  # types of columns are those of attributes that are there
        columns |= returned_types(source, known)
    check_own(plan.plan, columns)


def attributes_of_log(plan: Plan) -> frozenset[str]:
    """Attributes of the log's events that ``plan`` depends on, through its sources as well."""
    if not isinstance(plan, DerivedPlan):
        return named_attributes(plan)
    return frozenset[str]().union(*map(attributes_of_log, plan.sources))


def time_labels(plans: Iterable[Plan]) -> dict[str, set[str]]:
    """Per SELECT but joins, by name, the aggregates or columns whose values are times."""
    found = {}
    for plan in plans:
        statement = statement_plan(plan)
        for window in statement.windows:
            found[plan.name] = times_of(window)
        if isinstance(statement, SeqPlan) and statement.computed and of_rows(statement):
            found[plan.name] = {one.label for one in statement.computed if is_time(one.expression)}
    return found
