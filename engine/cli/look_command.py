"""``slackwater look``: describes a file and suggests a command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Final

import typer
from msgspec.structs import replace
from rich.table import Table

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import json_out
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.cli.options import InputOptions, Json, takes_options
from slackwater.engine.cli.terminal import copying, plain_console, table_of
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.describe import LogSummary, readable_duration
from slackwater.engine.log.input.input_read import PLAIN_FORM
from slackwater.engine.log.input.look import UNFIT, Column, Look, is_called, look, options_of
from slackwater.engine.log.record.times import instant_text
from slackwater.engine.query.analysis.cascade import read_statements

_WINDOWS: Final = tuple(
    (f"{count} {unit}", count * NS_PER[unit])
    for unit, counts in (
        ("ms", (1, 10, 100)), ("s", (1, 10)), ("min", (1, 10)), ("h", (1, 6)), ("d", (1, 10)),
    )
    for count in counts
)  # fmt: skip
_WINDOWS_SHOWN: Final = 40
_UNITS: Final = ("s", "ms")
_FAR: Final = 1_000
"""Some wrong times make a span more than this factor longer than the span of the others."""
_AVERAGES_MAX: Final = 4
_CODE: Final = re.compile(
    r"(?i)(.*[a-z]_|.*(?=Id$|No$|Nr$))?(id|no|nr|number|code|index|table|port)"
)
"""Names of whole numbers that are codes, not measurements."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATES_FROM: Final = NS_PER["d"] * 365
"""Later times are dates; earlier ones may count from any start [ns]."""


@takes_options
def look_at(
    *,
    source: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Traces, CSV, Parquet or an arrival log.")
    ],
    read: InputOptions,
    as_json: Json = False,
) -> None:
    """Says what is in a file: columns, times, sources, disorder, and the command to go on with."""
    found = look(source, read.form(), copying(quiet=as_json))
    command = None if found.fault and not found.skipped else going_on(source, found)
    others = [] if command is None else alternatives(source, found)
    if as_json:
        about = {
            "input": ", ".join(source), "kind": found.kind, "fault": found.fault,
            "command": command,
            "alternatives": [{"if": reason, "command": other} for reason, other in others],
            "columns": [
                {"name": each.name, "type": each.type, "read_as": each.field, "why": each.why,
                 "unit": each.unit, "samples": each.samples} for each in found.columns
            ],
            "found": None if found.summary is None else found.summary.as_dict(),
        }  # fmt: skip
        json_out().write(json.dumps(about, ensure_ascii=False) + "\n")
    else:
        _print(", ".join(source), found, command, others)
    if found.fault:
        raise typer.Exit(2)


def going_on(sources: Sequence[str], found: Look, unit: str | None = None, *more: str) -> str:
    """A command that answers a first question about the file.

    ``unit``: of times that were read as ns; ``more``: last arguments.
    """
    form = found.form if unit is None else replace(found.form, unit=unit)
    inputs = [word for source in sources for word in ("--input", source)]
    skip = ["--on-bad", "skip"] if found.skipped else []
    words = [_question(found, NS_PER[unit or "ns"]), *inputs, *options_of(PLAIN_FORM, form), *skip]
    return shlex.join(["slackwater", "query", *words, *more])


def alternatives(sources: Sequence[str], found: Look) -> list[tuple[str, str]]:
    """What only the user knows, and the command for that case: the unit of numbers that are no
    dates, and different clocks of several sources.
    """
    if found.summary is None:
        return []
    commands = []
    first, last = _span(found.summary)
    number = any(each.field == r.TS and each.type == "int" for each in found.columns)
    if number and found.form.unit is None and first is not None and last is not None:
        for unit in _UNITS if last < _DATES_FROM else ():
            if last <= INT64_MAX // NS_PER[unit]:
                long = readable_duration((last - first) * NS_PER[unit])
                reason = f"its times are in {unit} ({long} long) and not in ns"
                commands.append((reason, going_on(sources, found, unit)))
    names = sorted(_sources(found.summary))
    if len(names) < 2 or found.summary.kinds["sync"]:
        return commands
    if any(each.field == r.ARRIVAL for each in found.columns):
        if not found.skipped:
            words = ["slackwater", "clocks", *sources, *options_of(PLAIN_FORM, found.form)]
            commands.append(("some clock may be wrong", shlex.join(words)))
        return commands
    exact = going_on(sources, found, None, "--clock", "exact")
    name = next(
        each for each in names if each != r.DEFAULT_SOURCE
    )  # whose files may have their own clocks
    off = going_on(sources, found, None, "--clock", f"{name}=-3.2s±0.1s")
    return [
        *commands,
        ("one clock stamped all", exact),
        (f"the clock of {name} is off, as here 3.2 s fast, give or take 0.1 s", off),
    ]


def _question(found: Look, scale: int) -> str:
    """A query for averages of measurements, or counts, per source; times are ``scale`` times as
    long as read. If lines are bad, a column may not be numeric.
    """
    numbers = [
        each for each in found.columns
        if each.field is None and each.type in ("number", "int") and not found.skipped
        and each.attribute
        and not (each.type == "int" and _is_code(each.name.rpartition(".")[2]))
    ]  # fmt: skip
    numbers = [each for each in numbers if each.distinct > 1] or numbers
    numbers.sort(key=lambda each: each.type == "int")  # whole numbers may be codes or counts
    kept = found.form.attrs
    named = [_name(each) for each in numbers if kept is None or each.name in kept]
    group = " GROUP BY source" if len(_sources(found.summary)) > 1 else ""
    values = ", ".join([*(f"avg({name})" for name in named[:_AVERAGES_MAX]), "count(*)"])
    size = _window(found.summary, scale)
    return f"SELECT {values}{group} WINDOW TUMBLING {size}"


def _is_code(name: str) -> bool:
    """Whether whole numbers of this name are codes, or count events."""
    return _CODE.fullmatch(name) is not None or is_called(name, r.SEQ)


def _name(column: Column) -> str:
    """An attribute's name as written in a query."""
    name = column.attribute
    if _PLAIN.fullmatch(name):
        try:
            read_statements([f"SELECT avg({name}) WINDOW TUMBLING 1 s"], "ns")
        except UserError:
            pass  # a keyword of the language
        else:
            return name
    return json.dumps(name, ensure_ascii=False)


def _window(summary: LogSummary | None, scale: int) -> str:
    first, last = _span(summary)
    span = 0 if first is None or last is None else last - first
    window_count = _WINDOWS_SHOWN
    if summary is not None:
        span = 2 * summary.half_ns if _has_far_times(summary) else span
        each = summary.records // max(len(_sources(summary)), 1)
        window_count = min(window_count, max(each, 1))  # a window should have some events
    return next(
        (text for text, ns in _WINDOWS if ns * window_count >= span * scale), _WINDOWS[-1][0]
    )


def _has_far_times(summary: LogSummary) -> bool:
    """Whether a few times are so far from the others that they are most likely wrong."""
    first, last = _span(summary)
    half = summary.half_ns
    return first is not None and last is not None and 0 < _FAR * half < last - first


def _sources(summary: LogSummary | None) -> set[str]:
    return (
        set[str]().union(*(site.sources for site in summary.sites.values())) if summary else set()
    )


def _span(summary: LogSummary | None) -> tuple[int | None, int | None]:
    sites = [] if summary is None else list(summary.sites.values())
    firsts = [site.first_ts for site in sites if site.first_ts is not None]
    lasts = [site.last_ts for site in sites if site.last_ts is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _print(
    source: str, found: Look, command: str | None, others: Sequence[tuple[str, str]]
) -> None:
    console = plain_console()
    say = partial(console.say, wrapped=False)
    say(", ".join([f"{source}: {found.kind}", *_facts(found.summary)]))
    if found.columns:
        console.print(_table(found.columns, found.summary))
    if found.fault:
        say(f"not readable as it is: {found.fault}")
    if found.skipped:
        say(f"to go on without the {found.skipped:,} bad:\n  {command}")
    elif command:
        say(f"to go on:\n  {command}")
    for reason, other in others:
        say(f"if {reason}:\n  {other}")


def _facts(summary: LogSummary | None) -> Iterator[str]:
    if summary is None:
        return
    yield f"{summary.records:,} rows"
    first, last = _span(summary)
    if first is not None and last is not None:
        if first >= _DATES_FROM:
            yield f"{instant_text(first)} to {instant_text(last)}"
        half = f", half of it within {readable_duration(summary.half_ns)}"
        yield f"{readable_duration(last - first)} long{half if _has_far_times(summary) else ''}"
    sources = sorted(_sources(summary))
    if sources != [r.DEFAULT_SOURCE]:
        more = f" and {len(sources) - 5} more" if len(sources) > 5 else ""
        yield f"{len(sources):,} sources ({', '.join(sources[:5])}{more})"
    late = summary.out_of_order
    most = f", by up to {readable_duration(summary.lateness.largest_ns)}" if late else ""
    yield f"{late:,} out of order{most}"


def _table(columns: Sequence[Column], summary: LogSummary | None) -> Table:
    rows = []
    for each in columns:
        role = "left out" if each.type in UNFIT else f"attribute{_nulls(each, summary)}"
        role = f"{each.field or role} ({each.why})" if each.why else each.field or role
        rows.append((each.name, each.type, role, ", ".join(each.samples)))
    return table_of(("column", "type", "is", "samples"), rows, box=None, padding=(0, 2, 0, 2))


def _nulls(column: Column, summary: LogSummary | None) -> str:
    """Text with the number of events without a value of the column (empty, or a word such as
    N/A).
    """
    if summary is None:
        return ""
    nulls = summary.kinds["event"] - summary.values[column.attribute]
    return f" ({nulls:,} null)" if nulls > 0 else ""
