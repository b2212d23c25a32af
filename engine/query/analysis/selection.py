"""Analyse SELECT queries: build a plan from the parsed clauses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from slackwater.engine.core.timeline import ANY_TYPE
from slackwater.engine.core.units import PERIODS_MAX, Period, period_lengths
from slackwater.engine.query.analysis.conditions import (
    condition,
    duration_ns,
    terms_of,
    value_of,
    with_names,
    zone_of,
)
from slackwater.engine.query.analysis.consistency import check_pattern, check_select
from slackwater.engine.query.analysis.pattern import read_terms
from slackwater.engine.query.analysis.value_kinds import (
    Context,
    attribute_of,
    check_label,
    is_attrs,
    only_clause,
    whole_number,
)
from slackwater.engine.query.clock_sensitivity import CLOCKED
from slackwater.engine.query.fields import FIELDS, ValueKind, attributes_in
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import QueryReader, Span, closest, listed, or_meant
from slackwater.engine.query.language.other_dialects import AGGREGATES_ELSEWHERE
from slackwater.engine.query.plan import (
    AGGREGATES,
    COMPUTED,
    TAKES_TEXT,
    Aggregate,
    Attribute,
    Computed,
    Drift,
    Emit,
    Expression,
    Predicate,
    Ranking,
    SeqPlan,
    Step,
    WindowKind,
    WindowPlan,
    combined,
    conjunction,
)
from slackwater.engine.query.render import computed_text, default_label, row_label
from slackwater.engine.query.values import FUNCTIONS

Window = s.TimeWindow | s.SessionWindow | s.CountWindow
SLIDES_MAX: Final = 10_000
"""Most windows that may hold one event; a larger number is most likely a wrong unit."""
_ROWS_MAX: Final = 1 << 24
"""Most rows in a window: each group keeps that many events."""


def extent_of(window: Window, context: Context) -> dict[str, Any]:
    """Return the fields of a ``WindowPlan`` that ``window`` determines.

    Raises:
        UserError: the length or number is not valid for a window.
    """
    match window:
        case s.TimeWindow():
            drift, period = Drift(window.drift or "none"), _period(window, context)
            if period is not None:
                size, every = period_lengths(period)[1], None
            else:
                size, every = size_and_slide(window, context)
            return {"size_ns": size, "every_ns": every, "drift": drift, "period": period}
        case s.SessionWindow():
            gap = duration_ns(window.gap, context, "the gap")
            return {"size_ns": gap, "kind": WindowKind.SESSION}
        case s.CountWindow():
            rows, every = _rows(window, context)
            return {"size_ns": 0, "rows": rows, "every_rows": every, "kind": WindowKind.ROWS}


_CALENDAR: Final = {
    "d": ("day", 1), "day": ("day", 1), "w": ("week", 1), "week": ("week", 1),
    "month": ("month", 1), "quarter": ("month", 3), "year": ("month", 12),
}  # fmt: skip
"""Unit and number of units, by the singular of the word."""
_OF_CALENDAR: Final = "as in WINDOW TUMBLING 1 month TIMEZONE 'Europe/Berlin'"


def _period(window: s.TimeWindow, context: Context) -> Period | None:
    """Return the period of calendar windows: months, years and any window with a zone; else
    None.
    """
    number, zone = window.size.number, window.zone
    word = number.unit.text.lower().removesuffix("s") if number.unit else ""
    unit, times = _CALENDAR.get(word, ("", 1))
    if window.every is not None or (zone is None and unit != "month"):
        return None
    if not unit or number.more:
        message = "TIMEZONE is for windows of days, weeks, months, quarters or years"
        raise context.refuse(window.size.at, message, _OF_CALENDAR)
    count = s.whole(number.text) * times
    if window.size.negative or not 1 <= count <= PERIODS_MAX[unit]:
        message = "windows of a calendar have a whole number of its units, up to 36 years"
        raise context.refuse(window.size.at, message, _OF_CALENDAR)
    return Period(count, unit, zone_of(zone, context))


def size_and_slide(window: s.TimeWindow, context: Context) -> tuple[int, int | None]:
    """Return size and slide [ns]; the slide of a tumbling window is None.

    Raises:
        UserError: the length is not valid for a window.
    """
    size = duration_ns(window.size, context, "the window")
    if window.every is None:
        return size, None
    every = duration_ns(window.every, context, "the slide")
    _check_slide(size, every, window.every.at, "long as the window", context)
    return size, every


def _check_slide(size: int, every: int, at: Span, most: str, context: Context) -> None:
    """Refuse a slide that is larger than the window or far smaller; ``most``: the size in words."""
    more = f"{most.partition(' ')[0].removesuffix('e')}er"
    if every > size:
        message = f"the slide is {more} than the window, so events between two are in none"
        raise context.refuse(at, message, f"make EVERY at most as {most}")
    if size // every > SLIDES_MAX:
        message = f"{size // every} windows would hold an event; at most {SLIDES_MAX} may"
        raise context.refuse(at, message, f"make EVERY {more}")


def _rows(window: s.CountWindow, context: Context) -> tuple[int, int]:
    """Return the number of rows in a window and the number of rows between two window starts."""
    rows = _number(window.rows, context)
    if window.every is None:
        return rows, rows
    every = _number(window.every, context)
    _check_slide(rows, every, window.every.at, "large as ROWS", context)
    return rows, every


def emit_of(
    clause: s.EmitClause | None, extent: dict[str, Any], context: Context
) -> dict[str, Any]:
    """Return the fields of a ``WindowPlan`` that EMIT determines; ``extent`` has the others.

    Raises:
        UserError: EMIT EARLY fires only when the window closes.
    """
    if clause is None:
        return {}
    if clause.every is None:
        return {"emit": Emit(clause.when)}
    every = duration_ns(clause.every, context, "EMIT EARLY EVERY")
    tumbles = extent.get("kind") is None and extent["every_ns"] in (None, extent["size_ns"])
    if tumbles and every % extent["size_ns"] == 0:
        message = "every window closes where it would emit early results"
        hint = "make EMIT EARLY EVERY shorter than the window, or leave EMIT out"
        raise context.refuse(clause.every.at, message, hint)
    return {"emit": Emit.EARLY, "early_ns": every}


def _number(number: s.Number, context: Context) -> int:
    message, hint = f"a window has 1 to {_ROWS_MAX} events", "as in ROWS 100 EVERY 10"
    return whole_number(number, _ROWS_MAX, context.text, message, hint)


_COUNTS: Final = frozenset({"count", "count_distinct"})
"""Aggregates whose result is a number even over text."""
_OF_ONE_GROUP: Final = {s.SessionWindow: "SESSION", s.CountWindow: "ROWS"}
_LIMIT_MAX: Final = 1 << 24
_ROWS_HINT: Final = "or leave WINDOW out: each event is a row then"
_ONE_WINDOW: Final = "add, for example, WINDOW TUMBLING 10 s"
_OF_WINDOWS: Final[dict[type, tuple[str, str]]] = {
    s.GroupBy: ("GROUP BY", _ONE_WINDOW),
    s.Having: ("HAVING", "conditions on events go in WHERE"),
    s.OrderBy: ("ORDER BY ... LIMIT", "leave it out: rows come in order of time"),
    s.EmitClause: ("EMIT", "leave it out; --barrier says how long rows are held back"),
}
"""Clauses that need WINDOW: their keywords, and a hint."""
_OF_WINDOW: Final = {"window_start", "window_end", "window_time", "rowtime", "current_timestamp"}
_BY: Final = ("min_by", "max_by")
_OF_ONE_EVENT: Final = ("first", "last", *_BY)


def select_plan(
    parsed: s.SelectQuery, text: str, time_unit: str, name: str
) -> WindowPlan | SeqPlan:
    """Build the plan of a SELECT query without JOIN; without WINDOW, a pattern of one event.

    Raises:
        UserError: a name, a clause, an aggregate or a condition is invalid or not supported.
    """
    select = _Select(parsed, text, time_unit)
    if any(isinstance(clause, Window) for clause in parsed.clauses):
        return select.plan(name)
    return select.rows(name)


def labelled(columns: Iterable[tuple[s.Item, Computed]], context: Context) -> tuple[Computed, ...]:
    """Return the columns of rows, renamed by AS.

    Raises:
        UserError: two columns have the same name.
    """
    found: list[Computed] = []
    for item, column in columns:
        label = item.label.text if item.label else column.label
        check_label(item, label, (other.label for other in found), context.text, "columns")
        found.append(Computed(label, column.expression))
    return tuple(found)


class _Select(QueryReader):
    """The analysis of one SELECT query."""

    def __init__(self, parsed: s.SelectQuery, text: str, time_unit: str) -> None:
        self.parsed = parsed
        self.text = text
        self.context = Context(text, time_unit, self._resolve)
        self.streams: tuple[str, ...] = ()
        self.called: frozenset[str] = frozenset()
        self.named: dict[str, Aggregate] = {}
        self.worked_out: list[tuple[Aggregate, Span]] = []
        self.selected: tuple[Aggregate, ...] = ()
        self.hidden: list[Aggregate] = []
        """Aggregates that are computed but not part of the results; each label is its call."""

    def plan(self, name: str) -> WindowPlan:
        """Build the plan of a query with WINDOW."""
        clauses = self.parsed.clauses
        where = only_clause(clauses, s.Where, self.text)
        groups = only_clause(clauses, s.GroupBy, self.text)
        self._read_from()
        window = self._window()
        group_by = self._group_by(groups)
        aggregates = self._aggregates(group_by)
        extent = extent_of(window, self.context)
        having = only_clause(clauses, s.Having, self.text)
        ranking = only_clause(clauses, s.OrderBy, self.text)
        emit = only_clause(clauses, s.EmitClause, self.text)

        self.selected, self.hidden = aggregates, self._hidden(aggregates)
        judged = None if having is None else self._having(having)
        ranked = None if ranking is None else self._ranking(ranking, window, group_by)
        if isinstance(window, s.TimeWindow) and window.drift == "together":
            self._check_means()
        return WindowPlan(
            name=name,
            text=self.text,
            aggregates=aggregates,
            hidden=tuple(self.hidden),
            streams=self.streams,
            **extent,
            **emit_of(emit, extent, self.context),
            where=self._where(where),
            having=judged,
            ranking=ranked,
            group_by=group_by,
        )

    def rows(self, name: str) -> SeqPlan:
        """Build the plan of a query without WINDOW: a pattern of one event of any type."""
        self._read_from()
        for clause in self.parsed.clauses:
            if type(clause) in _OF_WINDOWS:
                word, hint = _OF_WINDOWS[type(clause)]
                message = f"{word} is of windows; without WINDOW each event is a row"
                raise self.refuse(clause.at, message, hint)
        alias = next(iter(self.called)) if len(self.called) == 1 else "event"
        self.context = replace(
            self.context,
            resolve=lambda reference: dataclasses.replace(self._resolve(reference), alias=alias),
        )
        where = only_clause(self.parsed.clauses, s.Where, self.text)
        step = Step(alias, ANY_TYPE, streams=self.streams)
        terms = read_terms(None if where is None else where.condition, [step], self.context)
        plan = SeqPlan(
            name, self.text, (step,), computed=labelled(self._columns(), self.context),
            everything=self.parsed.everything is not None,
        )  # fmt: skip
        check_pattern([(term.predicate, term.at) for term in terms], plan, self.context)
        condition = conjunction([term.predicate for term in terms])
        return replace(plan, steps=(replace(step, where=condition),))

    def _columns(self) -> Iterator[tuple[s.Item, Computed]]:
        """Yield the columns of a row; the label is the text of the expression."""
        for item in self.parsed.items:
            for call in s.inside(item.value):
                function = call.function.text.lower() if isinstance(call, s.Call) else ""
                if function in AGGREGATES:
                    message = "aggregates are of windows; without WINDOW each event is a row"
                    raise self.refuse(call.at, message, _ONE_WINDOW)
                if function in AGGREGATES_ELSEWHERE:
                    message = f"there is no function {function!r} of one event"
                    raise self.refuse(call.at, message, AGGREGATES_ELSEWHERE[function])
            expression = value_of(item.value, self.context).expression
            if next(attributes_in(expression), None) is None:
                raise self.refuse(item.value.at, "this is the same for every row", "leave it out")
            yield item, Computed(row_label(expression), expression)

    def _read_from(self) -> None:
        """Read the streams of FROM and their aliases."""
        clauses = self.parsed.clauses
        source = only_clause(clauses, s.From, self.text)
        if source is not None:
            for place, stream in enumerate(source.streams):
                if stream.text in [each.text for each in source.streams[:place]]:
                    raise self.refuse(stream.at, f"stream {stream.text!r} is named twice")
            self.streams = tuple(each.text for each in source.streams)
            self.called = frozenset(
                (alias or each).text
                for each, alias in zip(source.streams, source.aliases, strict=True)
            )
        within = only_clause(clauses, s.Within, self.text)
        if within is not None:
            hint = "a window has its length: WINDOW TUMBLING 10 s"
            if len(self.streams) > 1:
                hint = "two streams beside one another: FROM a JOIN b ON a.x = b.x WITHIN 10 s"
            raise self.refuse(within.at, "WITHIN is of patterns and joins", hint)

    def _window(self) -> Window:
        """Return the only WINDOW clause."""
        windows = [c for c in self.parsed.clauses if isinstance(c, Window)]
        if len(windows) > 1:
            raise self.refuse(windows[1].at, "WINDOW is given twice", "keep one of them")
        if self.parsed.everything is not None:
            hint = f"name aggregates alone, as in SELECT count(*), {_ROWS_HINT}"
            raise self.refuse(self.parsed.everything.at, "* is no aggregate", hint)
        return windows[0]

    def _resolve(self, reference: s.Reference) -> Attribute:
        before, name = attribute_of(reference.parts)
        if before and not is_attrs(before[0]):
            stream, *before = before
            if stream.text not in self.called:
                message = f"there is no stream named {stream.text!r} in FROM"
                near = closest(stream.text, self.called)
                joined = "_".join([stream.text, *(each.text for each in before), name])
                hint = f"of an object within, the names are joined: {joined}"
                hint = f"there is {listed(sorted(self.called))}" if self.called else hint
                raise self.refuse(stream.at, message, near or hint)
            if len(self.streams) > 1:
                message = "streams named in one FROM are read as one"
                word = self.text[stream.at[0] : stream.at[1]]
                hint = f"leave out {word}.; two beside one another: FROM a JOIN b ON a.x = b.x"
                raise self.refuse(stream.at, message, hint)
        if before:
            raise self.refuse(reference.at, "too many dots", 'as in v, attrs.v or "x.y"')
        return Attribute(name)

    def _group_by(self, clause: s.GroupBy | None) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        for reference in clause.references if clause else ():
            attribute = self._resolve(reference)
            if attribute in found:
                raise self.refuse(reference.at, "this is grouped by twice")
            if attribute.name in CLOCKED:
                message = f"{attribute.name!r} depends on how far clocks err"
                raise self.refuse(reference.at, message, "group by raw_ts, raw_te or an attribute")
            found.append(attribute)
        return tuple(found)

    def _where(self, clause: s.Where | None) -> Predicate | None:
        if clause is None:
            return None
        terms: list[tuple[Predicate, Span]] = []
        for predicate, at in terms_of(clause.condition, self.context):
            if next(attributes_in(predicate), None) is None:
                raise self.refuse(at, "this condition names no attribute", "leave it out")
            terms.append((predicate, at))
        check_select(terms, self.context)
        return combined("and", [predicate for predicate, _ in terms])

    def _aggregates(self, group_by: tuple[Attribute, ...]) -> tuple[Aggregate, ...]:
        found: list[Aggregate] = []
        for item in self.parsed.items:
            if isinstance(item.value, s.Reference):
                self._plain(item, item.value, group_by)
                continue
            # Unknown calls are reported as aggregates.
            if isinstance(item.value, s.Call) and item.value.function.text.lower() not in FUNCTIONS:
                aggregate = self._aggregate(item.value, item.label)
            else:
                aggregate = self._computed(item)
            taken = (other.label for other in found)
            check_label(item, aggregate.label, taken, self.text, "results")
            found.append(aggregate)
        if not found:
            at = self.parsed.items[0].value.at
            raise self.refuse(at, "nothing is aggregated", "add, for example, count(*)")
        return tuple(found)

    def _hidden(self, aggregates: Sequence[Aggregate]) -> list[Aggregate]:
        """Return the aggregates that are used only inside computed columns."""
        known = {default_label(one) for one in aggregates if one.function != COMPUTED}
        return [one for label, one in self.named.items() if label not in known]

    def _aggregate_label(self, node: s.Call | s.Reference, clause: str) -> str:
        """Return the label of the aggregate that ``node`` names in HAVING or ORDER BY; add an
        aggregate that is not selected to the hidden ones.
        """
        if isinstance(node, s.Reference):
            name = node.parts[-1].text
            if len(node.parts) == 1 and name in [one.label for one in self.selected]:
                return name
            hint = "conditions on events and groups go in WHERE"
            if clause != "HAVING":
                hint = f"{clause} takes aggregates, as in sum(v), or the names of selected ones"
            raise self.refuse(node.at, f"{name!r} is none of the aggregates", hint)
        aggregate, known = self._aggregate(node), (*self.selected, *self.hidden)
        for one in known:
            if replace(one, label=aggregate.label) == aggregate:
                return one.label
        if aggregate.label in [one.label for one in known]:
            message = f"another result is named {aggregate.label!r}, too"
            hint = f"give it another name with AS, or {clause} could mean either"
            raise self.refuse(node.at, message, hint)
        self.hidden.append(aggregate)
        return aggregate.label

    def _having(self, clause: s.Having) -> Predicate:
        """Return the condition of HAVING; its attributes are labels of aggregates."""

        def resolve(reference: s.Reference) -> Attribute:
            name = reference.parts[-1].text
            if name not in called or len(reference.parts) > 1:
                name = self._aggregate_label(reference, "HAVING")
            if name in FIELDS:
                hint = "give it another name with AS"
                raise self.refuse(reference.at, f"{name!r} is a field of events, too", hint)
            return Attribute(name)

        called: set[str] = set()

        def named(call: s.Call) -> s.Reference:
            label = self._aggregate_label(call, "HAVING")
            called.add(label)
            return s.Reference((s.Name(label, call.at, quoted=True),), call.at)

        of_calls = with_names(clause.condition, named)
        kinds = {
            one.label: ValueKind.NUMBER for one in (*self.selected, *self.hidden)
            if one.function in _COUNTS or one.function not in TAKES_TEXT
        }  # fmt: skip
        return condition(of_calls, replace(self.context, resolve=resolve, kinds=kinds))

    def _ranking(
        self, clause: s.OrderBy, window: Window, group_by: tuple[Attribute, ...]
    ) -> Ranking:
        """Return the ranking that limits the groups of each window."""
        kind = _OF_ONE_GROUP.get(type(window))
        if kind is not None:
            message = f"ORDER BY ranks the groups of one window, and one of {kind} has one group"
            hint = "use TUMBLING or SLIDING, or leave it out"
            raise self.refuse(clause.at, f"{message} alone", hint)
        if not group_by:
            message = "ORDER BY ranks the groups of a window, and there is one group"
            raise self.refuse(clause.at, message, "add GROUP BY, or leave it out")
        message = f"LIMIT is a whole number from 1 to {_LIMIT_MAX}"
        hint = "as in ORDER BY count(*) DESC LIMIT 5"
        limit = whole_number(clause.limit, _LIMIT_MAX, self.text, message, hint)
        labels: list[str] = []
        for node, _ in clause.entries:
            if not isinstance(node, s.Call | s.Reference):
                message = "ORDER BY takes aggregates, and no arithmetic of them"
                raise self.refuse(node.at, message, "select it under a name, and ORDER BY this")
            label = self._aggregate_label(node, "ORDER BY")
            if label in labels:
                raise self.refuse(node.at, "this is ordered by twice", "keep one of them")
            labels.append(label)
        return Ranking(tuple(labels), tuple(one.descending for one in clause.entries), limit)

    def _check_means(self) -> None:
        for aggregate, at in self.worked_out:
            if aggregate.function in _OF_ONE_EVENT:
                name = aggregate.function
                message = f"{name} is one event's value: those of LOW, MIDDLE and HIGH have no mean"
                hint = "tell each of the three: DRIFT EACH; or leave DRIFT out"
                raise self.refuse(at, message, hint)

    def _computed(self, item: s.Item) -> Aggregate:
        """Return arithmetic over aggregates; those that are not selected are computed too."""

        def named(call: s.Call) -> s.Reference:
            one = self._aggregate(call)
            self.named[one.label] = one
            return s.Reference((s.Name(one.label, call.at, quoted=True),), call.at)

        def resolve(reference: s.Reference) -> Attribute:
            name = reference.parts[-1].text
            if name in self.named:
                return Attribute(name)
            hint = f"write avg({name}); of a group's own attribute, max({name})"
            raise self.refuse(reference.at, f"{name!r} is beside aggregates", hint)

        before = len(self.worked_out)
        node = with_names(item.value, named)
        if len(self.worked_out) == before:
            if isinstance(item.value, s.Call):
                name = item.value.function.text
                hint = f"as in avg({name}(v)), or {name}(avg(v))"
                raise self.refuse(item.value.at, f"this {name} is not aggregated", hint)
            raise self.refuse(item.value.at, "this is not aggregated", "as in max(v) - min(v)")
        typed = value_of(node, replace(self.context, resolve=resolve, kinds={}))
        if typed.kind == ValueKind.TEXT:
            raise self.refuse(item.value.at, "this is text", "arithmetic of aggregates is a number")
        made = typed.expression
        label = item.label.text if item.label else computed_text(made, {n: n for n in self.named})
        return Aggregate(COMPUTED, made, label)

    def _plain(self, item: s.Item, reference: s.Reference, group_by: tuple[Attribute, ...]) -> None:
        attribute = self._resolve(reference)
        name = reference.parts[-1].text
        if attribute not in group_by:
            message = f"{name!r} is neither aggregated nor in GROUP BY"
            hint = f"write avg({name}), or add GROUP BY {name}"
            if name.lower() in _OF_WINDOW:
                hint = "leave it out: each result has its window's start and end"
            raise self.refuse(reference.at, message, hint)
        if item.label is not None and item.label.text != attribute.name:
            hint = "leave AS out; to rename it, CREATE STREAM t AS SELECT v AS name FROM s"
            raise self.refuse(item.label.at, "a group has the name of its attribute", hint)

    def _aggregate(self, call: s.Call, label: s.Name | None = None) -> Aggregate:
        function = call.function.text.lower()
        if function not in AGGREGATES:
            hint = or_meant(f"the aggregates are {', '.join(AGGREGATES)}", function, AGGREGATES)
            message = f"unknown aggregate {call.function.text!r}"
            raise self.refuse(call.function.at, message, AGGREGATES_ELSEWHERE.get(function, hint))
        if call.distinct and function != "count":
            hint = "count(DISTINCT v) counts different values"
            raise self.refuse(call.at, f"only count takes DISTINCT, not {function}", hint)
        parameter, by = None, None
        arguments = call.arguments
        if function == "quantile":
            parameter = self._parameter(call)
            arguments = arguments[:1]
        if function in _BY:
            if call.star or len(arguments) != 2:
                hint = f"as in {function}(name, v): name where v is {function[:3]}imal"
                raise self.refuse(call.at, f"{function} takes two attributes", hint)
            argument = self._argument(function, arguments[0])
            by = self._argument(function, arguments[1], is_by=True)
        elif call.star and function == "count":
            argument = None
        elif call.star or len(arguments) != 1:
            hint = f"as in {function}(v)" + (", or count(*)" if function == "count" else "")
            raise self.refuse(call.at, f"{function} takes one attribute", hint)
        else:
            argument = self._argument(function, arguments[0])
        made = Aggregate(
            "count_distinct" if call.distinct else function, argument, "", parameter, by
        )
        self.worked_out.append((made, call.at))
        return replace(made, label=label.text if label else default_label(made))

    def _argument(self, function: str, node: s.Node, *, is_by: bool = False) -> Expression:
        """Return the argument of ``function`` or (``is_by``) the value that it orders by."""
        typed = value_of(node, self.context)
        argument, verb = typed.expression, "goes by" if is_by else "takes"
        if next(attributes_in(argument), None) is None:
            hint = "count(*) counts events" if function == "count" else "name an attribute"
            raise self.refuse(node.at, "this is the same for every event", hint)
        if function in TAKES_TEXT and not is_by:
            return argument
        named = argument.name if isinstance(argument, Attribute) else ""
        if FIELDS.get(named) == ValueKind.TEXT:
            hint = f"as in {function}({named}, v)" if is_by else f"count({named}) counts its values"
            raise self.refuse(node.at, f"{named!r} is text, and {function} {verb} numbers", hint)
        if typed.kind == ValueKind.TEXT:
            hint = "length(...) is a number" + (
                "" if is_by else "; count, first and last take text"
            )
            raise self.refuse(node.at, f"this is text, and {function} {verb} numbers", hint)
        return argument

    def _parameter(self, call: s.Call) -> float:
        hint = "as in quantile(v, 0.9)"
        if call.star or len(call.arguments) != 2:
            message = "quantile takes an attribute and a share between 0 and 1"
            raise self.refuse(call.at, message, hint)
        share = call.arguments[1]
        if isinstance(share, s.Number) and share.unit is None and 0 <= float(share.text) <= 1:
            return float(share.text)
        raise self.refuse(share.at, "the share of a quantile lies between 0 and 1", hint)
