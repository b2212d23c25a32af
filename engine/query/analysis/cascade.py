"""From statements to plans; statements that read the results of others form a cascade.

A statement reads the streams of its FROM, its JOIN or the steps of its pattern. It reads results if
``CREATE STREAM`` defines one of them. The order of the statements has no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.analysis.analyse import read_query
from slackwater.engine.query.fields import FIELDS, attributes_of, own_attribute
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span, closest, listed, refuse
from slackwater.engine.query.language.parse import parse
from slackwater.engine.query.language.statements import Statement, check_name, statements
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.query.plan import (
    Attribute,
    Comparison,
    DerivedPlan,
    Drift,
    OrPlan,
    Plan,
    SeqPlan,
    WindowPlan,
    checks_of,
    lookups_of,
    statement_plan,
)
from slackwater.engine.query.reference_tables import NO_TABLES, Tables
from slackwater.engine.query.render import render
from slackwater.engine.query.results_as_events import (
    moved_columns,
    read_varying,
    returned_columns,
    uncertain_sources,
)
from slackwater.engine.query.schema import refuse_named


class StatementError(UserError):
    """A statement is invalid; ``place``: the index of its text in the call."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


class _Read(Struct, frozen=True):
    """A statement, its plan and the streams it reads; ``whole``: the text that contains it,
    ``place``: the index of that text.
    """

    statement: Statement
    whole: str
    place: int
    plan: Plan
    named: tuple[str, ...]


@contextmanager
def _at(place: int) -> Iterator[None]:
    """Give errors inside the block the index ``place`` of the text."""
    try:
        yield
    except StatementError:
        raise
    except UserError as error:
        raise StatementError(str(error), place) from error


def statement_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Return, by name of statement, the name of the text that contains it."""
    return {one.stream or name: name for name, text in texts.items() for one in statements(text)}


def read_statements(
    texts: Sequence[str],
    time_unit: str = "ns",
    names: Sequence[str] | None = None,
    tables: Tables = NO_TABLES,
) -> tuple[tuple[Plan, ...], bool]:
    """Return the plans of all statements in ``texts``, and whether EXPLAIN asks for the plans only.

    Plans that read the log come first; each other plan follows the plans that it reads.

    Args:
        texts: each has one or more statements.
        time_unit: unit of times that are written without one.
        names: name for the statement of each text that CREATE STREAM does not name; by default
            ``q1``, ``q2`` ... by position among all statements.
        tables: reference tables for LOOKUP.

    Raises:
        UserError: a statement is invalid; the message shows line, caret and remedy. It is a
            ``StatementError`` unless the error concerns two statements.
    """
    found: list[tuple[Statement, str, int]] = []
    for place, text in enumerate(texts):
        with _at(place):
            found += [(one, text, place) for one in statements(text)]
    taken = _streams(found)
    read_all: list[_Read] = []
    explained = []
    for number, (one, text, place) in enumerate(found, 1):
        name = one.stream or (f"q{number}" if names is None else names[place])
        with _at(place):
            plan, asks = read_query(one.text, time_unit, name, tables)
        explained.append(asks or one.explained)
        read_all.append(_Read(one, text, place, plan, _named(plan)))
    firsts = {place: asks for asks, (*_, place) in reversed([*zip(explained, found, strict=True)])}
    if len({*firsts.values()}) > 1:
        raise UserError("EXPLAIN answers nothing: ask for plans and for answers in two calls")
    _check_names(read_all)
    return _plans_in_order(read_all, taken), explained[0]


def _streams(found: Sequence[tuple[Statement, str, int]]) -> set[str]:
    """Return the names that CREATE STREAM defines; each must be unique."""
    taken: set[str] = set()
    for one, text, place in found:
        if one.stream is None:
            continue
        with _at(place):
            check_name(one.stream, text, one.named_at)
            if one.stream in taken:
                message = f"there are two streams named {one.stream!r}"
                raise refuse(text, one.named_at, message, "give one of them another name")
        taken.add(one.stream)
    return taken


def _check_names(read: Sequence[_Read]) -> None:
    """Refuse two statements with the same name."""
    names = [each.plan.name for each in read]
    for each in read:
        if names.count(each.plan.name) > 1:
            name = each.plan.name
            if each.statement.stream is None:
                raise UserError(
                    f"two statements are named {name!r}; give one a name of its own: "
                    "CREATE STREAM name AS ..."
                )
            message = f"another statement is named {name!r}"
            with _at(each.place):
                raise refuse(each.whole, each.statement.named_at, message, "choose another name")


def _named(plan: Plan) -> tuple[str, ...]:
    """Return the streams or types that ``plan`` reads, in written order; empty: every stream."""
    if isinstance(plan, WindowPlan):
        return plan.streams
    pattern = plan.pattern if isinstance(plan, MonitorPlan) else plan
    assert isinstance(pattern, SeqPlan | OrPlan)
    steps = [step for branch in pattern.branches for step in branch.steps]
    steps += pattern.steps
    return tuple(dict.fromkeys(name for step in steps for name in step.reads))


def _plans_in_order(read: Sequence[_Read], streams: set[str]) -> tuple[Plan, ...]:
    by_name = {each.plan.name: each for each in read}
    reads: dict[str, list[str]] = {}
    for each in read:
        made = [name for name in each.named if name in streams]
        others = [name for name in each.named if name not in streams]
        if made and others:
            with _at(each.place):
                raise _mixed(each, made[0], others[0])
        reads[each.plan.name] = made
    _check_unknown(read, streams, {name for made in reads.values() for name in made})
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        # graphlib lists the cycle in the direction of the results.
        circle = error.args[1][::-1]
        with _at(by_name[circle[0]].place):
            raise _circle(by_name, circle) from None
    plans: dict[str, Plan] = {
        each.plan.name: each.plan for each in read if not reads[each.plan.name]
    }
    for name in order:
        if not reads[name]:
            continue
        each, sources = by_name[name], tuple(plans[source] for source in reads[name])
        with _at(each.place):
            _check_derived(each, sources)
        statement = statement_plan(each.plan)
        derived = DerivedPlan(statement, sources)
        varying = read_varying(derived)
        if isinstance(statement, WindowPlan):
            statement = replace(
                statement, moved=frozenset().union(*map(moved_columns, sources)), varying=varying,
                lacks=bool(uncertain_sources(derived)),
            )  # fmt: skip
        elif isinstance(statement, SeqPlan):
            statement = _keys_to_conditions(statement, varying)
        elif isinstance(statement, OrPlan):
            statement = replace(
                statement,
                branches=tuple(_keys_to_conditions(one, varying) for one in statement.branches),
            )
        plans[name] = DerivedPlan(statement, sources)
    return tuple(plans.values())


def _keys_to_conditions(plan: SeqPlan, varying: frozenset[str]) -> SeqPlan:
    """Return ``plan`` with equalities of negated steps on ``varying`` columns moved to ``others``.

    As a partition key they would exclude events whose value can still change.
    """
    negated = {step.alias for step in plan.steps if step.negated}
    groups, others = [], list(plan.others)
    for group in plan.equalities:
        partners = [one for one in group if one.alias not in negated]
        moved = {a for a in group if partners and a.alias in negated} & {
            a for a in group if own_attribute(a.name) in varying
        }
        others += [Comparison("=", one, partners[0]) for one in group if one in moved]
        left = tuple(one for one in group if one not in moved)
        groups += [left] if len(left) > 1 else []
    return replace(plan, equalities=tuple(groups), others=tuple(others))


def _mixed(each: _Read, made: str, other: str) -> UserError:
    message = f"{made!r} is the stream of a statement, and {other!r} is none"
    hint = (
        f"a statement reads results or the log: give {other!r} a statement of its own, such as "
        f"CREATE STREAM its_name AS EVENT SEQ({other} x) WITHIN 1 s RETURN x.v"
    )
    return refuse(each.statement.text, _place(each, other), message, hint)


def _circle(by_name: dict[str, _Read], circle: Sequence[str]) -> UserError:
    first = by_name[circle[0]]
    if len(circle) == 2:
        message = f"{circle[0]!r} reads its own results"
    else:
        message = "a circle: " + ", ".join(
            f"{one!r} reads {other!r}" for one, other in pairwise(circle)
        )
    hint = "results flow from the log on, each statement after those it reads"
    return refuse(first.statement.text, _place(first, circle[1]), message, hint)


def _check_unknown(read: Sequence[_Read], streams: set[str], used: set[str]) -> None:
    """Refuse a name close to an unread stream: it is most likely a misspelling."""
    unread = streams - used
    for each in read:
        for name in each.named:
            near = closest(name, unread) if name not in streams else ""
            if near:
                message = f"no statement makes a stream {name!r}"
                hint = f"there is {listed(sorted(streams))}; {near}"
                with _at(each.place):
                    raise refuse(each.statement.text, _place(each, name), message, hint)


def _check_derived(each: _Read, sources: tuple[Plan, ...]) -> None:
    """Refuse unknown columns of the results, and clauses that need events of the log."""
    plan, columns = each.plan, {source.name: returned_columns(source) for source in sources}
    pattern = plan.pattern if isinstance(plan, MonitorPlan) else plan
    for lookup in lookups_of(plan):
        message = "LOOKUP is of events of the log, and this statement reads results"
        hint = "look it up in the statement that it reads, which names the columns in its results"
        raise refuse(each.statement.text, lookup.at, message, hint)
    for one in sources:
        checks = checks_of(one)
        dropping = [] if checks is None else [rule.name for rule in checks.rules if rule.drop]
        if dropping:
            message = (
                f"CHECK {dropping[0]} of {one.name!r} drops results that go out; a statement reads "
                "them all"
            )
            hint = "leave DROP out there, and put what must hold into the WHERE of this statement"
            raise refuse(each.statement.text, _place(each, one.name), message, hint)
    if isinstance(plan, WindowPlan) and plan.drift is not Drift.NONE:
        message = "DRIFT is of sources' delays, which results have not"
        *_, drift = re.finditer(r"\bDRIFT\b", each.statement.text, re.IGNORECASE)
        hint = "leave it out: each result counts with what its own events' clocks may err by"
        raise refuse(each.statement.text, drift.span(), message, hint)
    for source in sources:
        window = source.plan if isinstance(source, DerivedPlan) else source
        if isinstance(window, WindowPlan) and window.drift is Drift.EACH:
            message = f"{source.name!r} has three results of each window (DRIFT EACH)"
            hint = "write DRIFT TOGETHER there, which gives one"
            raise refuse(each.statement.text, _place(each, source.name), message, hint)
    of_alias: dict[str, tuple[str, ...]] = {}
    if isinstance(pattern, SeqPlan | OrPlan):
        steps = [*pattern.steps, *(step for branch in pattern.branches for step in branch.steps)]
        of_alias = {step.alias: step.reads for step in steps}
    for attribute in attributes_of(plan):
        column = own_attribute(attribute.name)
        if column is None:
            continue
        named = of_alias.get(attribute.alias or "") or tuple(columns)
        if not any(column in columns[name] for name in named):
            read = named[0]
            clause = render(next(one for one in sources if one.name == read)).split()[0]
            raise _missing_column(plan, attribute, column, read, columns[read], clause)


def _missing_column(
    plan: Plan, attribute: Attribute, column: str, source: str, columns: Mapping[str, object],
    clause: str,
) -> UserError:  # fmt: skip
    near = closest(column, [*columns, *FIELDS])
    names = listed(sorted(columns))
    add = f"name it in its {'SELECT' if clause == 'SELECT' else 'RETURN'}"
    hint = f"it has {names}; {near or add}"
    return refuse_named(
        plan, attribute, f"the results of {source!r} have no column {column!r}", hint
    )


def _place(each: _Read, name: str) -> Span:
    """Return where the statement first names a stream or type."""
    for node in s.walk(parse(each.statement.text)):
        names: tuple[s.Name, ...] = ()
        match node:
            case s.From(streams=streams):
                names = streams
            case s.JoinSide(stream=one) | s.StepNode(type=one):
                names = (one,)
        for one in names:
            if one.text == name:
                return one.at
    return each.statement.named_at


# Queries by name, as in a scenario: each text has one or more statements, which may read others.


def parse_queries(queries: Mapping[str, str], tables: Tables = NO_TABLES) -> tuple[Plan, ...]:
    """Return the plans of all statements; each plan follows those that it reads.

    Args:
        queries: text by name; a name in ``CREATE STREAM`` takes precedence.
        tables: reference tables for LOOKUP.

    Raises:
        UserError: a statement is invalid (``StatementError``).
    """
    if not queries:
        return ()
    plans, explained = read_statements(list(queries.values()), names=list(queries), tables=tables)
    if explained:
        raise UserError("EXPLAIN asks for plans, which have no answer: leave it out")
    return plans
