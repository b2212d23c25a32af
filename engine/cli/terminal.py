"""Output for people at a terminal: progress, tables, summaries, safe text."""

from __future__ import annotations

import html
import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from slackwater.edge_agent.errors import print_stderr, visible
from slackwater.edge_agent.standard_streams import writing_output
from slackwater.engine.cli.options import spoken_host
from slackwater.engine.core.errors import Interrupted
from slackwater.engine.core.units import date, date_digits, exact_units, is_date, unit_ns
from slackwater.engine.hosts.pipeline import Host
from slackwater.engine.hosts.result_files import Answers, StoredEvents, write
from slackwater.engine.hosts.warnings import check_names, of_streams, unseen_types
from slackwater.engine.kernels.jit import when_compiling
from slackwater.engine.log.arrival_log import Log
from slackwater.engine.log.input.input_log import Copying
from slackwater.engine.query.fields import attributes_of, own_attribute
from slackwater.engine.query.plan import Plan

# A rich console on which text from data has no effect on the terminal.


class PlainConsole(Console):
    """A console whose own styles are rich's; all text that it is given is made visible."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def say(self, text: str, *, wrapped: bool = True) -> None:
        """Print a line without markup; ``wrapped`` False: for copying."""
        self.print(text, highlight=False, markup=False, soft_wrap=not wrapped)


WIDTH: Final = 200
"""Width of output into a file or a pipe, which have none: cells cut at 80 columns are useless."""
NO_BOX: Final[dict[str, Any]] = {"box": None, "padding": (0, 2, 0, 0)}
"""Style of a table without lines."""


def plain_console(width: int = WIDTH) -> PlainConsole:
    """A console on standard output, as wide as the terminal, or ``width``."""
    return PlainConsole(width=None if sys.stdout.isatty() else width)


def table_of(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    right: Callable[[int], object] = lambda _place: False,
    **look: Any,
) -> Table:
    """A table with text cells, None as a dash; ``right``: whether a column is right-aligned."""
    table = Table(**look)
    for place, heading in enumerate(headings):
        justify: Literal["right", "left"] = "right" if right(place) else "left"
        table.add_column(escape(heading), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*("\N{EN DASH}" if cell is None else escape(str(cell)) for cell in row))
    return table


# Progress on standard error if it is a terminal; otherwise silent.


COMPILING: Final = (
    "compiling for this machine, once for what was asked: up to a minute or two "
    "(slackwater warm compiles all that most commands use)\n"
)


def print_compiling(*, quiet: bool) -> None:
    """Announce compilation, so that a user knows why the first pass takes longer."""
    if not quiet and not when_compiling:
        when_compiling.append(_say)


def _say() -> None:
    sys.stderr.write(COMPILING)
    sys.stderr.flush()


@contextmanager
def if_interrupted(hint: str) -> Iterator[None]:
    """Print ``hint`` (how to continue) if Ctrl-C interrupts the context.

    Raises:
        Interrupted: instead of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(f"interrupted; {hint}") from error


@contextmanager
def watched(
    verb: str, *, quiet: bool, unit: str = "records", total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Show ``verb``, the number of records and the time; yield the function to count with.

    Args:
        verb: what is done.
        quiet: show nothing.
        unit: what is counted.
        total: the expected number; None: unknown.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import (  # noqa: PLC0415 - only for people
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    of = "" if total is None else f" of {total:,}"
    columns = (
        SpinnerColumn(),
        TextColumn(f"{{task.description}} {{task.completed:,.0f}}{of} {unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(verb, total=total)
        yield lambda records: bar.advance(task, records)


def copying(*, quiet: bool) -> Copying:
    """Progress of copying remote input files, for ``files_of``."""
    return lambda files: watched("copying", quiet=quiet, unit="files", total=files)


# Destinations of answers and events: a file, a pipe, or a terminal.


def write_output(
    out: Path | None, output: Answers | StoredEvents, terminal_rows: Path, times: TableTimes
) -> int:
    """Write ``output``; return the number of results.

    Args:
        out: the file; None: standard output.
        output: results of a finished pass.
        terminal_rows: a temporary file for output to a terminal.
        times: how a table shows times.
    """
    return _show(output, terminal_rows, times) if out is None else write(output, out)


def _show(output: Answers | StoredEvents, terminal_rows: Path, times: TableTimes) -> int:
    if not sys.stdout.isatty():  # a pipe gets JSON lines
        with writing_output():
            return output.lines(sys.stdout)
    count = output.in_ns().lines(terminal_rows)
    show_results(terminal_rows, times=times)
    terminal_rows.unlink()
    return count


# Results as a table on a terminal; a pipe or a file gets all of them as JSON.


ROWS_SHOWN: Final = 50
_CELL_MAX: Final = 60
_SPREAD: Final = ("low", "middle", "high")
_INSTANTS: Final = frozenset({"start", "end", "ts", "te", "ref", "at", "known_at"})
_OF_ARRIVAL: Final = frozenset({"at", "known_at", "arrival", "release"})
_ALIKE: Final = frozenset({"query", "site", "op"})
"""Columns that are omitted if all rows have the same value."""
_P_MOST: Final = 0.999
_OF_ROW: Final = ("query", "site", "op", "at", "value", "certainty", "clock_status", "doubtful")
"""Columns of a row of a SELECT without WINDOW, after its event."""


@dataclass(frozen=True)
class TableTimes:
    """How a table shows times, which are in ns in the lines.

    Attributes:
        unit: unit of numbers.
        zone: time zone of dates, for example ``Europe/Berlin``.
        labels: per query, names of values that are times or durations.
        arrives: whether arrivals are instants; otherwise they are line numbers.
    """

    unit: str = "ns"
    zone: str = "UTC"
    labels: Mapping[str, Collection[str]] = field(default_factory=dict)
    arrives: bool = True


class _Instant(int):
    """A time [ns]."""


class _Span(int):
    """A time or a duration [ns]."""


@dataclass(frozen=True)
class ShownRows:
    """The first results as text for people, by column; ``more``: number of further results."""

    names: list[str]
    rows: list[list[str]]
    numbers: list[bool]
    more: int

    @property
    def rest(self) -> str:
        """Text below the table."""
        return f"... and {self.more:,} more" if self.more else ""

    def html(self) -> str:
        """The rows as an HTML table, for a notebook."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell_html(cell)}</td>' for cell in row)}</tr>"
            for row in self.rows
        )
        if not self.rows:
            return "<p>no results</p>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + (f"<p>{self.rest}</p>" if self.more else "")


def _cell_html(cell: str) -> str:
    return html.escape(cell).replace("\n", "<br>")


def show_results(
    lines: Path, console: Console | None = None, times: TableTimes | None = None
) -> None:
    """Print the first results of a JSONL file as a table, and the number of others."""
    output = shown_rows(lines, times or TableTimes())
    console = console or PlainConsole()
    table = table_of(output.names, output.rows, output.numbers.__getitem__)
    console.print(table if output.rows else "no results")
    if output.more:
        console.print(f"{output.rest}; --out FILE keeps all of them", highlight=False)


def shown_rows(lines: Path, times: TableTimes, most: int = ROWS_SHOWN) -> ShownRows:
    """The first results of a JSONL file with times in ns."""
    with lines.open(encoding="utf-8") as file:
        records = [json.loads(line) for line in islice(file, most)]
        more = sum(1 for _ in file)
    rows = [_columns(record, times.labels.get(record.get("query", ""), ())) for record in records]
    dates = [each for row in rows for each in _times_in(row) if is_date(each)]
    digits = max(map(date_digits, dates), default=0)
    left_out = {name for name in _ALIKE if len({str(row.get(name)) for row in rows}) <= 1}
    if "op" in left_out and any("op" in row for row in rows):
        left_out |= {"at", "known_at"}
    if dates and not times.arrives:
        left_out |= _OF_ARRIVAL
    names = [*dict.fromkeys(name for row in rows for name in row if name not in left_out)]
    numbers = [
        all(row.get(name) is None or isinstance(row[name], int | float) for row in rows)
        for name in names
    ]
    texts = [[_cell(name, row.get(name), times, digits) for name in names] for row in rows]
    return ShownRows(names, texts, numbers, more)


def _columns(record: Mapping[str, Any], spans: Collection[str]) -> dict[str, Any]:
    """One row: nested objects by dotted names, a match's events in one cell, times marked."""
    row: dict[str, Any] = {}
    if "uncertainty_ns" in (record.get("events") or [()])[0]:
        row, record = _row(record), {name: record[name] for name in _OF_ROW if name in record}
    for name, value in record.items():
        if name in ("events", "so_far"):
            row[name] = [_event(event) for event in value]
        elif name in _SPREAD and value == record.get("value"):
            continue  # no DRIFT, or DRIFT without effect
        elif name == "bounds":
            row |= _bounds(value or {}, spans)
        elif name in ("certain", "ambiguous") and not record.get("ambiguous"):
            continue
        elif isinstance(value, Mapping):
            prefix = "" if name in ("window", "value", "key", "attrs") else f"{name}."
            marked = _INSTANTS if name == "window" else ()
            row |= {
                f"{prefix}{inner}": _marked(inner, each, marked, spans)
                for inner, each in value.items()
            }
        else:
            row[name] = _marked(name, value, _INSTANTS | _OF_ARRIVAL, ())
    return row


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a SELECT without WINDOW: corrected begin and, for an interval, end."""
    (event,) = record["events"]
    begins, lasts = event["ref"], event["te"] - event["ts"]
    times = [_Instant(begins), _Instant(begins + lasts)]
    row = {"ref": times if lasts else times[0], "source": event["source"], "type": event["type"]}
    row |= {"uncertainty": _Span(unc)} if (unc := event["uncertainty_ns"]) else {}
    row |= {"late": True} if event["late"] else {}
    row = {name: value for name, value in row.items() if value is not None}
    return row | {
        f"attrs.{name}" if name in row else name: value for name, value in event["attrs"].items()
    }


def _bounds(bounds: Mapping[str, Any], spans: Collection[str]) -> dict[str, Any]:
    """The least and the largest value of each aggregate, if they differ."""
    return {
        f"{name} from .. to": [_marked(name, end, (), spans) for end in ends]
        for name, ends in bounds.items()
        if ends is not None and ends[0] != ends[1]
    }


def _marked(name: str, value: Any, instants: Collection[str], spans: Collection[str]) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return _Instant(value) if name in instants else _Span(value) if name in spans else value


def _event(event: Mapping[str, Any]) -> list[Any]:
    """Type with source and number, attributes, corrected begin and, for an interval, end."""
    number = "" if event.get("seq") is None else f"#{event['seq']}"
    who = f"{event.get('type') or 'event'} {event.get('source') or ''}{number}".rstrip()
    ts, te = event.get("ts"), event.get("te")
    begins = event.get("ref", ts)
    ends = begins + te - ts if None not in (begins, ts, te) and te != ts else None
    attrs = event.get("attrs") or {}
    return [who, attrs, *(_Instant(time) for time in (begins, ends) if time is not None)]


def _times_in(value: Any) -> Iterator[int]:
    if isinstance(value, _Instant):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _times_in(each)


def _cell(name: str, value: Any, times: TableTimes, digits: int) -> str:
    if name != "events":
        return _short(_text(name, value, times, digits))
    return "\n".join(
        " ".join(
            [
                _short(who),
                " .. ".join(_text("", each, times, digits) for each in when),
                *(_short(f"{key}={_text(key, of, times, digits)}") for key, of in attrs.items()),
            ]
        )
        for who, attrs, *when in value or ()
    )


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 3] + "..."


def _text(name: str, value: Any, times: TableTimes, digits: int) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, _Instant | _Span) and is_date(value):
        return date(value, times.zone, digits)
    if isinstance(value, _Instant | _Span):
        return exact_units(value, unit_ns(times.unit))
    if isinstance(value, float):
        if name == "probability" and 0 < value < 1:
            return f"{min(max(value, 1 - _P_MOST), _P_MOST):.3f}".rstrip("0")
        return f"{value:.6g}"
    if isinstance(value, list) and name == "so_far":
        return ", ".join(f"{who} {_text('', when[0], times, digits)}" for who, _, *when in value)
    if isinstance(value, list) and (name == "ref" or name.endswith(" .. to")):
        return " .. ".join(_text("", each, times, digits) for each in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Findings of a pass over an input, on standard error: counts and likely mistakes.


_SOURCES_SHOWN: Final = 3


def print_summary(counters: dict[str, Any], host: Host) -> None:
    """Print the notable counters, one line each, to standard error."""
    lanes = [lane for site in counters["sites"].values() for lane in site["lanes"]]

    def total(*names: str) -> int:
        return sum(int(lane.get(name, 0)) for lane in lanes for name in names)

    counts = {
        "late": total("late_passed", "late_dropped"),
        "residual disorder": total("residual", "residual_dropped"),
        "missing": total("missing_total") - total("missing_filled"),
        "duplicates": total("duplicate"),
        "reused numbers": total("reused"),
        "without a number": total("unnumbered"),
        "quarantined": total("quarantined_future", "quarantined_jump"),
        "promises before their events": total("promises_unproven"),
    }
    found = ", ".join(
        f"{value:,} {name}{_sources_that_miss(lanes) if name == 'missing' else ''}"
        for name, value in counts.items() if value
    )  # fmt: skip
    events = f"{total('arrived'):,} events {spoken_host(host)}"
    print_stderr(f"{events}{': ' + found if found else ''}\n")
    earlier = total("earlier_start")
    if earlier:
        print_stderr(
            f"{earlier:,} of the late events are of an earlier start of their source: numbers "
            "begin again with each start, so each needs a larger incarnation than the one before; "
            "orders that do not go by numbers, such as kslack:1s, take them as they are\n"
        )
    for name, value in sorted(_refusals(counters).items()):
        of_results = any(word in name for word in ("matches", "checks", "doubtful", "limit"))
        print_stderr(f"{name}: {value:,}{'' if of_results else ' events'}\n")


def _sources_that_miss(lanes: Sequence[dict[str, Any]]) -> str:
    """Sources with missing events, and their numbers if there are several."""
    of = Counter[str]()
    for lane in lanes:
        of[lane["source"]] += lane.get("missing_total", 0) - lane.get("missing_filled", 0)
    if len(of) < 2:
        return ""
    most = [(name, value) for name, value in of.most_common() if value > 0]
    names = [name if len(most) == 1 else f"{name}: {value:,}" for name, value in most]
    more = [f"{len(names) - _SOURCES_SHOWN:,} more"] if len(names) > _SOURCES_SHOWN else []
    return f" ({', '.join([*names[:_SOURCES_SHOWN], *more])})"


def print_unseen_types(
    log: Path | Log, plans: tuple[Plan, ...], *, quiet: bool, ends: bool = False
) -> None:
    """Warn before the pass about types that no event has, which are most likely typing errors.

    Raises:
        UserError: the log ``ends``, and lacks a stream or type that a query needs.
    """
    lines = check_names(log, plans) if ends else unseen_types(log, plans)
    for line in () if quiet else lines:
        print_stderr(f"{line}\n")


def print_unused(plans: Sequence[Plan], counters: dict[str, Any], nulls: Mapping[str, int]) -> None:
    """Warn about streams that contributed nothing, most likely typing errors, and about nulls in
    attributes that queries use.
    """
    for line in of_streams(plans, counters):
        print_stderr(f"{line}\n")
    named = {own_attribute(one.name) for plan in plans for one in attributes_of(plan)}
    for name, rows in sorted(nulls.items()):
        if name in named:
            print_stderr(f"{name}: null in {rows:,} rows (empty, or a word such as N/A)\n")


_OF_SIZE: Final = (
    "buffered", "buffered_max", "stack_moves", "looked_at", "spilled", "chunks", "chunk_loads",
    "put_off", "turns", "results_read", "results_kept", "results_corrected", "kept_by_limit",
)  # fmt: skip
"""Counters of work and memory, which indicate no problem."""


def _refusals(counters: dict[str, Any]) -> Counter[str]:
    """What the queries' operators could not use, over all sites, and failed table look-ups."""
    found: Counter[str] = Counter()
    for site in counters["sites"].values():
        for alias, missed in site.get("lookup_missed", {}).items():
            if missed:
                found[f"lookup_missed in {alias}"] += missed
        for query_name, counts in site["queries"].items():
            for what, value in counts.items():
                if value and what not in _OF_SIZE:
                    found[f"{query_name}: {what.replace('_', ' ')}"] += value
    return found
