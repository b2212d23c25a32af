"""``order``, ``query`` and ``explain``: the commands of these names, in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import SparkFailure, UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.clock_faults import excluded_lines
from slackwater.engine.hosts.options import (
    OrderOptions,
    QueryOptions,
    read_definitions,
    read_tables,
)
from slackwater.engine.hosts.pipeline import (
    Host,
    check_plans,
    run_pass,
    warnings_after,
    with_default_order,
    with_log_kept,
)
from slackwater.engine.hosts.result_files import Answers, StoredEvents
from slackwater.engine.hosts.warnings import (
    before_pass,
    check_names,
    of_declared,
    of_streams,
    unseen_types,
)
from slackwater.engine.output.ordered_stream import SIDE_OUTPUT
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.query import check_attributes
from slackwater.engine.query import explain as explanation
from slackwater.engine.query import query as parse_query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.explain import cascade_lines
from slackwater.engine.query.joins import check_index
from slackwater.engine.query.language.statements import expanded, is_cascade
from slackwater.engine.query.pattern_settings import MATCHES_MAX, parse_purge
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.reference_tables import NO_TABLES, Tables
from slackwater.folder import Folder
from slackwater.inputs import Input, Source, opened
from slackwater.results import Results
from slackwater.translate_options import translate_options
from slackwater.warning import warn


class BuiltPlan(Protocol):
    """A plan built by Python code (``slackwater.grouping``, or a custom operator)."""

    @property
    def name(self) -> str:
        """Name of the query."""


Asking = str | BuiltPlan
Queries = Asking | Sequence[Asking] | Mapping[str, Asking]
"""Texts of queries, or plans; one, several, or by name."""
_SEE = "slackwater.compare"


@translate_options
def order(
    source: Source | Input,
    order: str | None = None,
    *,
    guard: str = "1s",
    clock: str | Sequence[str] = (),
    late: bool = False,
    master: str | None = None,
    mapping: Mapping[str, str] | None = None,
    time_unit: str | None = None,
) -> Results:
    """The events of ``source`` in release order, with ``ref``, ``release`` and ``late``.

    Args:
        source: result of ``read``, or anything that ``read`` takes.
        order: the ordering operator, such as ``sequence:latency=500ms`` or ``kslack:1s``; None:
            ``sequence``, or by event time where the events have no numbers.
        guard: events stamped this far beyond their arrival are quarantined; ``off``: never.
        clock: declarations of clocks without a sync: ``exact`` (one clock stamped all), offsets
            such as ``badge=-3.2s±0.1s``, several in a list, or a TOML file of these; without a
            declaration a clock is unknown.
        late: keep late and quarantined events, with their reasons, as ``Results.late``.
        master: a Spark master, such as ``local[2]``; None: in this process.
        mapping: as in ``read``, for a ``source`` that was not read yet.
        time_unit: as in ``read``, likewise.

    >>> events = {"type": ["A", "C", "B"], "seq": [0, 2, 1], "ts": [10, 30, 20]}
    >>> [event["type"] for event in order(events)]
    ['A', 'B', 'C']

    Raises:
        UserError: the input or an option is invalid.
    """
    with opened(source, mapping, time_unit) as data:
        options = OrderOptions(order=order, guard=guard, clock=clock)
        settings = options.ordering(data.time_unit, late=late)
        warn(of_declared(data.log, settings))
        folder, parts, counters = _pass(data, settings, Host(master), by_default=order is None)
        output = StoredEvents(parts, data.time_unit)
        found = Results(output, counters, folder, _set_aside(output, counters, folder, late=late))
        warnings = _warnings_after(data, counters)
    warn(warnings)
    return found


@translate_options
def query(
    source: Source | Input,
    queries: Queries,
    *,
    order: str | None = None, barrier: str | None = None, certainty: str = "pairwise",
    purge: str = "late", intervals: str = "ibp",
    window: str | None = None, monitor: str | None = None,
    constraints: str | Path | None = None, tables: Mapping[str, Any] = NO_TABLES,
    guard: str = "1s", clock: str | Sequence[str] = (), late: bool = False,
    spill: str | None = None, matches_max: int = MATCHES_MAX, master: str | None = None,
    attributes: Mapping[str, str] | None = None,
    mapping: Mapping[str, str] | None = None, time_unit: str | None = None,
) -> Results:  # fmt: skip
    """Answer one or more queries over ``source`` in one pass.

    Args:
        source: result of ``read``, or anything that ``read`` takes.
        queries: a query, or statements separated by ``;``; several (``q1``, ``q2`` ...), or by
            name; plans from Python (``slackwater.grouping``) have their own names.
        order: as in ``order``.
        barrier: when results are released, such as ``bounded:1s``; None: as in a query's REALTIME.
        certainty: ``pairwise``, ``max-delay`` or ``max-delay-r19`` (SPEC 4.3).
        purge: when a pattern's events are dropped: ``late:10s``, ``slack:1s``, ``promises``.
        intervals: search method of an ISEQ: ``naive``, ``indexed``, ``ibp``; results are the same.
        window: how long after its end a window is corrected, as ``horizon=10m``.
        monitor: how traces under a constraint are followed, such as ``horizon=10s``.
        constraints: a file of constraints that queries name.
        tables: tables for LOOKUP: paths (CSV, JSON, Parquet), or tables as ``read`` takes them.
        guard: events stamped this far beyond their arrival are quarantined; ``off``: never.
        clock: declarations of clocks without a sync, as in ``order``.
        late: keep late and quarantined events, with their reasons, as ``Results.late``.
        spill: folder for old events of patterns: ``FOLDER,hot=10min``; None: they stay in memory.
        matches_max: most matches that one event may complete or change; beyond, the call fails.
        master: a Spark master, such as ``local[2]``; None: in this process.
        attributes: types (``int float bool str``) of attributes that events may have.
        mapping: as in ``read``, for a ``source`` that was not read yet.
        time_unit: as in ``read``, likewise.

    >>> found = query({"ts": [1, 4, 12], "v": [1., 2., 5.]}, "SELECT avg(v) WINDOW TUMBLING 10")
    >>> [(each["window"]["start"], each["value"]) for each in found]
    [(0, {'avg(v)': 1.5}), (10, {'avg(v)': 5.0})]

    Raises:
        UserError: the input, an option or a query (then shown with a caret) is invalid.
    """
    with opened(source, mapping, time_unit) as data:
        log, unit = data.log, data.time_unit
        plans = plans_of(queries, unit, constraints, read_tables(tables))
        settings = QueryOptions(
            order=order, barrier=barrier, certainty=certainty, purge=purge, intervals=intervals,
            window=window, monitor=monitor, guard=guard, clock=clock, spill=spill,
            matches_max=matches_max,
        ).answering(plans, unit, late=late, on_spark=master is not None)  # fmt: skip
        check_plans(log, plans, attributes)
        warn(before_pass(log, plans, settings, unit, arrival_given=data.arrival_given))
        lacks = (
            data.prepared.ends and attributes is None
        )  # declared attributes may be absent from the log
        warn((check_names if lacks else unseen_types)(log, plans))
        folder, parts, counters = _pass(data, settings, Host(master), by_default=order is None)
        warn([*_warnings_after(data, counters), *of_streams(plans, counters)])
        aside = _set_aside(StoredEvents(parts, unit), counters, folder, late=late)
        final = data.prepared.ends and master is None
        output = Answers(parts, plans, unit, final, table_dates=data.dates)
        return Results(output, counters, folder, aside)


@translate_options
def explain(
    query: str, *, time_unit: str = "ns", barrier: str | None = None, purge: str = "late",
    intervals: str = "ibp", attributes: Mapping[str, str] | None = None,
    tables: Mapping[str, Any] = NO_TABLES,
) -> str:  # fmt: skip
    """Return the plan of a query: steps, order, scopes, partition, barrier, and state retention.

    Args:
        query: with or without EXPLAIN.
        time_unit: unit of durations without one.
        barrier: as in ``query``.
        purge: as in ``query``.
        intervals: as in ``query``.
        attributes: type (``int float bool str``) per attribute of events; others are refused.
        tables: as in ``query``.

    >>> print(explain("EVENT SEQ(A a, B b) WITHIN 5 s").splitlines()[1])
    query       EVENT SEQ(A a, B b) WITHIN 5 s

    Raises:
        UserError: the query or an option is invalid.
    """
    plans, _ = read_statements([query], time_unit, tables=read_tables(tables))
    for plan in plans if attributes is not None else ():
        check_attributes(plan, attributes or {})
    waits = None if barrier is None else parse_barrier(barrier, time_unit)
    purged, index = parse_purge(purge, time_unit), check_index(intervals)
    explained = [explanation(plan, waits, purged, index) for plan in plans]
    return "\n".join([*explained, *cascade_lines(plans)])


def plans_of(
    queries: Queries,
    time_unit: str,
    constraints: str | Path | None = None,
    tables: Tables = NO_TABLES,
) -> tuple[Plan, ...]:
    """The plans of ``queries``, by name or ``q1``, ``q2``...; ``constraints``: a file of named
    constraints; ``tables``: tables for LOOKUP.

    Raises:
        UserError: a query is invalid (shown with a caret), or there is none.
    """
    named: dict[str, Asking]
    if isinstance(queries, Mapping):
        named = dict(queries)
    else:
        several = isinstance(queries, Sequence) and not isinstance(queries, str)
        listed = cast("Sequence[Asking]", queries if several else [queries])
        named = {f"q{number}": item for number, item in enumerate(listed, 1)}
    if not named:
        raise UserError("no query is given")
    known = read_definitions(None if constraints is None else Path(constraints))
    texts = {name: expanded(item, known) for name, item in named.items() if isinstance(item, str)}
    if len(texts) < len(named) or not any(map(is_cascade, texts.values())):
        return tuple(
            parse_query(texts[name], time_unit, name, tables)
            if name in texts
            else cast("Plan", item)
            for name, item in named.items()
        )
    names = list(texts) if isinstance(queries, Mapping) else None
    plans, explained = read_statements(list(texts.values()), time_unit, names, tables)
    if explained:
        raise UserError("EXPLAIN asks for plans, which have no answer: call slackwater.explain")
    return plans


def _pass(
    data: Input, settings: ChainSettings, host: Host, *, by_default: bool
) -> tuple[Folder, PartStore, dict[str, Any]]:
    """Run one pass; return its new folder, the files of its output, and the counters.

    ``by_default``: whether the order is the input's default.
    """
    if by_default:
        settings, _ = with_default_order(data.prepared, settings, data.time_unit)
    folder = Folder()
    parts = PartStore(folder.path / "parts")
    try:
        counters = run_pass(data.prepared, settings, host, parts, lambda _rows: None)
    except SparkFailure as failure:
        log = folder.path.with_name(f"{folder.path.name}.spark.log")
        kept = with_log_kept(failure, log)
        folder.close()
        raise kept from failure
    except BaseException:
        folder.close()
        raise
    return folder, parts, counters


def _warnings_after(data: Input, counters: dict[str, Any]) -> list[str]:
    """Warnings that need a pass."""
    return warnings_after(data.prepared, counters, excluded_lines(counters, data.log), _SEE)


def _set_aside(
    output: StoredEvents, counters: dict[str, Any], folder: Folder, *, late: bool
) -> Results | None:
    if not late:
        return None
    return Results(StoredEvents(output.parts, output.time_unit, SIDE_OUTPUT), counters, folder)
