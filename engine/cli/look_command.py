"""``slackwater look``: what is in a file, and the command to go on with."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.cli.options import InputOptions, takes_options
from slackwater.engine.cli.terminal import PlainConsole
from slackwater.engine.cli.visible import json_out
from slackwater.engine.core.errors import UserError
from slackwater.engine.log.describe import LogSummary, readable_duration
from slackwater.engine.log.input.input_read import PLAIN_FORM
from slackwater.engine.log.input.look import UNFIT, Column, Look, look, options_of
from slackwater.engine.log.record.times import instant_text
from slackwater.engine.query.analysis.cascade import read_statements

_WIDTH: Final = 200
_WINDOWS: Final = tuple(
    (f"{count} {unit}", count * NS_PER[unit])
    for unit, counts in (
        ("ms", (1, 10, 100)), ("s", (1, 10)), ("min", (1, 10)), ("h", (1, 6)), ("d", (1, 10)),
    )
    for count in counts
)  # fmt: skip
_WINDOWS_SHOWN: Final = 40
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATES_FROM: Final = NS_PER["d"] * 365
"""Times beyond are dates; those before may count from any start."""


@takes_options
def look_at(
    *,
    source: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Traces, CSV, Parquet or an arrival log.")
    ],
    read: InputOptions,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as JSON, on standard output.")
    ] = False,
) -> None:
    """Says what is in a file: columns, times, sources, disorder, and the command to go on with."""
    found = look(source, read.form())
    command = None if found.fault and not found.skipped else going_on(source, found)
    if as_json:
        about = {
            "input": ", ".join(source), "kind": found.kind, "fault": found.fault,
            "command": command,
            "columns": [
                {"name": each.name, "type": each.type, "read_as": each.field, "why": each.why,
                 "unit": each.unit, "samples": each.samples} for each in found.columns
            ],
            "found": None if found.summary is None else found.summary.as_dict(),
        }  # fmt: skip
        json_out().write(json.dumps(about, ensure_ascii=False) + "\n")
    else:
        _print(", ".join(source), found, command)
    if found.fault:
        raise typer.Exit(2)


def going_on(sources: Sequence[str], found: Look) -> str:
    """A command that answers a first question of what was looked at."""
    options = options_of(PLAIN_FORM, found.form)
    inputs = [word for source in sources for word in ("--input", source)]
    skip = ["--on-bad", "skip"] if found.skipped else []
    return shlex.join(["slackwater", "query", _question(found), *inputs, *options, *skip])


def _question(found: Look) -> str:
    """Averages and counts of the first numbers, for each source. Where lines are bad, a column
    need not have numbers alone.
    """
    numbers = [
        each for each in found.columns
        if each.field is None and each.type in ("number", "int") and not found.skipped
    ]  # fmt: skip
    numbers.sort(key=lambda each: each.type == "int")  # which may be a code or a count
    kept = found.form.attrs
    named = [_name(each) for each in numbers if kept is None or each.name in kept]
    group = " GROUP BY source" if len(_sources(found.summary)) > 1 else ""
    values = ", ".join([*(f"avg({name})" for name in named[:1]), "count(*)"])
    size = _window(found.summary)
    return f"SELECT {values}{group} WINDOW TUMBLING {size}"


def _name(column: Column) -> str:
    """An attribute as a query writes it."""
    name = column.name.replace(".", "_")
    if _PLAIN.fullmatch(name):
        try:
            read_statements([f"SELECT avg({name}) WINDOW TUMBLING 1 s"], "ns")
        except UserError:
            pass  # a word of the language
        else:
            return name
    return json.dumps(name, ensure_ascii=False)


def _window(summary: LogSummary | None) -> str:
    first, last = _span(summary)
    span = 0 if first is None or last is None else last - first
    return next((text for text, ns in _WINDOWS if ns * _WINDOWS_SHOWN >= span), _WINDOWS[-1][0])


def _sources(summary: LogSummary | None) -> set[str]:
    return (
        set[str]().union(*(site.sources for site in summary.sites.values())) if summary else set()
    )


def _span(summary: LogSummary | None) -> tuple[int | None, int | None]:
    sites = [] if summary is None else list(summary.sites.values())
    firsts = [site.first_ts for site in sites if site.first_ts is not None]
    lasts = [site.last_ts for site in sites if site.last_ts is not None]
    return min(firsts, default=None), max(lasts, default=None)


def _print(source: str, found: Look, command: str | None) -> None:
    console = PlainConsole(width=None if sys.stdout.isatty() else _WIDTH)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(", ".join([f"{source}: {found.kind}", *_facts(found.summary)]))
    if found.columns:
        console.print(_table(found.columns))
    if found.fault:
        say(f"not readable as it is: {found.fault}")
    if found.skipped:
        say(f"to go on without the {found.skipped:,} bad:\n  {command}")
    elif command:
        say(f"to go on:\n  {command}")


def _facts(summary: LogSummary | None) -> Iterator[str]:
    if summary is None:
        return
    yield f"{summary.records:,} rows"
    first, last = _span(summary)
    if first is not None and last is not None:
        if first >= _DATES_FROM:
            yield f"{instant_text(first)} to {instant_text(last)}"
        yield f"{readable_duration(last - first)} long"
    sources = sorted(_sources(summary))
    if sources != [r.DEFAULT_SOURCE]:
        more = f" and {len(sources) - 5} more" if len(sources) > 5 else ""
        yield f"{len(sources):,} sources ({', '.join(sources[:5])}{more})"
    late = summary.out_of_order
    most = f", by up to {readable_duration(summary.lateness.largest_ns)}" if late else ""
    yield f"{late:,} out of order{most}"


def _table(columns: Sequence[Column]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 2))
    for heading in ("column", "type", "is", "samples"):
        shown.add_column(heading, overflow="fold")
    for each in columns:
        role = "left out" if each.type in UNFIT else "attribute"
        role = role if each.field is None else f"{each.field} ({each.why})"
        cells: list[Any] = [each.name, each.type, role, ", ".join(each.samples)]
        shown.add_row(*(escape(str(cell)) for cell in cells))
    return shown
