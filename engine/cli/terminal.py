"""What a person at a terminal sees: progress, tables, summaries, safe texts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from slackwater.edge_agent.standard_streams import writing_output
from slackwater.engine.cli.options import spoken_host
from slackwater.engine.cli.visible import print_stderr, visible
from slackwater.engine.core.errors import Interrupted
from slackwater.engine.hosts.pipeline import Host
from slackwater.engine.hosts.result_files import Answers, StoredEvents, write, writing
from slackwater.engine.hosts.warnings import check_names, of_streams, unseen_types
from slackwater.engine.kernels.jit import when_compiling
from slackwater.engine.log.following import Log
from slackwater.engine.query.plan import Plan

# A console of rich on which texts out of data do nothing but stand there.


class PlainConsole(Console):
    """Its own colours and lines are rich's; every text it is given is made visible."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


# Progress on a terminal's standard error; silent anywhere else.


COMPILING: Final = (
    "compiling for this machine, once for what was asked: up to a minute or two "
    "(slackwater warm compiles all that most commands use)\n"
)


def print_compiling(*, quiet: bool) -> None:
    """The first pass after an installation takes longer; a user who waits should know."""
    if not quiet and not when_compiling:
        when_compiling.append(_say)


def _say() -> None:
    sys.stderr.write(COMPILING)
    sys.stderr.flush()


@contextmanager
def if_interrupted(hint: str) -> Iterator[None]:
    """Ctrl-C within prints ``hint``: how to go on.

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
    """Shows ``verb``, the number of records and the time; gives the function to count with.

    Args:
        verb: what is done.
        quiet: shows nothing.
        unit: what is counted.
        total: how many there will be; None: nobody knows.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only for people
    from rich.progress import (  # noqa: PLC0415
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


# Where answers and events go: a file, a pipe, or a person's eyes.


def output_to(
    out: Path | None, output: Answers | StoredEvents, shown: Path, host: Host
) -> AbstractContextManager[Callable[[], int]]:
    """What writes ``output`` once it is there and gives its number; some is written while it comes.

    Args:
        out: the file; None: standard output.
        output: of a pass within the block.
        shown: a file for the while that a person is shown it.
        host: of the pass.
    """
    if out is None:
        return nullcontext(partial(_show, output, shown))
    return nullcontext(partial(write, output, out)) if host.master else writing(output, out)


def _show(output: Answers | StoredEvents, shown: Path) -> int:
    if not sys.stdout.isatty():  # a pipe gets JSON lines
        with writing_output():
            return output.lines(sys.stdout)
    count = output.lines(shown)
    show_results(shown)
    shown.unlink()
    return count


# Results as a table, for a person at a terminal; a pipe or a file gets all of them as JSON.


ROWS_SHOWN: Final = 50
_CELL_MAX: Final = 60
_SPREAD: Final = ("low", "middle", "high")


def show_results(lines: Path, console: Console | None = None) -> None:
    """Prints the first results of a JSONL file as a table, and how many more there are."""
    with lines.open(encoding="utf-8") as file:
        shown = [_flat(json.loads(line)) for line in islice(file, ROWS_SHOWN)]
        more = sum(1 for _ in file)
    console = console or PlainConsole()
    table = Table()
    columns = list(dict.fromkeys(name for row in shown for name in row))
    used = [name for name in columns if name not in ("query", "site") or _differ(shown, name)]
    for name in used:
        numbers = all(isinstance(row.get(name, 0), int | float) for row in shown)
        table.add_column(escape(name), justify="right" if numbers else "left", overflow="fold")
    for row in shown:
        table.add_row(*(escape(_cell(row.get(name))) for name in used))
    console.print(table if shown else "no results")
    if more:
        console.print(f"... and {more:,} more; --out FILE keeps all of them", highlight=False)


def _differ(rows: Iterable[Mapping[str, Any]], name: str) -> bool:
    return len({row.get(name) for row in rows}) > 1


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """One row: objects by their names with dots, a match's events in one cell."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name == "events":
            row[name] = ", ".join(_event(event) for event in value)
        elif name in _SPREAD and value == record.get("value"):
            continue  # without DRIFT, or where it changed nothing
        elif name == "bounds":
            continue  # of every aggregate, two numbers: too wide for a terminal
        elif isinstance(value, Mapping):
            prefix = "" if name in ("window", "value", "key", "attrs") else f"{name}."
            row |= {f"{prefix}{inner}": each for inner, each in value.items()}
        else:
            row[name] = value
    return row


def _event(event: Mapping[str, Any]) -> str:
    number = "" if event.get("seq") is None else f"#{event['seq']}"
    return f"{event.get('type') or 'event'} {event.get('source', '')}{number} @{event.get('ts')}"


def _cell(value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 3] + "..."


# What a pass over an input met, on standard error: counts, slips of the pen.


def print_summary(counters: dict[str, Any], host: Host) -> None:
    """One line per thing worth knowing, on standard error."""
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
    found = ", ".join(f"{value:,} {name}" for name, value in counts.items() if value)
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
        of_results = "matches" in name or "checks" in name or "doubtful" in name
        print_stderr(f"{name}: {value:,}{'' if of_results else ' events'}\n")


def print_unseen_types(
    log: Path | Log, plans: tuple[Plan, ...], *, quiet: bool, ends: bool = False
) -> None:
    """A type that no event has is most likely a slip of the pen. Printed before the work.

    Raises:
        UserError: the log ``ends``, and a stream or type that it lacks is needed.
    """
    lines = check_names(log, plans) if ends else unseen_types(log, plans)
    for line in () if quiet else lines:
        print_stderr(f"{line}\n")


def print_unused_streams(plans: Sequence[Plan], counters: dict[str, Any]) -> None:
    """A stream of a query that nothing came of is most likely a slip of the pen."""
    for line in of_streams(plans, counters):
        print_stderr(f"{line}\n")


_OF_SIZE: Final = (
    "buffered", "buffered_max", "stack_moves", "looked_at", "spilled", "chunks", "chunk_loads",
    "put_off", "turns", "results_read", "results_kept", "results_corrected",
)  # fmt: skip
"""Counters of work and memory, not of anything that went wrong."""


def _refusals(counters: dict[str, Any]) -> Counter[str]:
    """What the queries' operators could not use, over all sites."""
    found: Counter[str] = Counter()
    for site in counters["sites"].values():
        for query_name, counts in site["queries"].items():
            for what, value in counts.items():
                if value and what not in _OF_SIZE:
                    found[f"{query_name}: {what.replace('_', ' ')}"] += value
    return found
