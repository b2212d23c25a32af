"""``slackwater query`` and ``slackwater order``: answers, or the ordered stream, from any input."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.chain import ChainSettings
from engine.cli.log_commands import parse_mapping
from engine.cli.watch import watched
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.pipeline import Host, Prepared, check_plans, prepare
from engine.query import query as parse_query
from engine.results.export import export_jsonl, export_parquet
from engine.results.ordered import export_ordered_jsonl, export_ordered_parquet
from engine.units import parse_duration, unit_ns

Input = Annotated[
    str, typer.Option("--input", help="Trace, CSV, Parquet or arrival log; - = stdin.")
]
OrderText = Annotated[
    str, typer.Option("--order", help="none, or sequence[:timeout=..,latency=..,late=..].")
]
Out = Annotated[
    Path | None, typer.Option("--out", help="File .jsonl or .parquet; default: standard output.")
]
InProcess = Annotated[bool, typer.Option("--in-process", help="Without Spark, in this process.")]
Master = Annotated[str, typer.Option(help="Spark master.")]
TimeUnit = Annotated[str, typer.Option(help="Unit of the input's and the output's times.")]
Guard = Annotated[
    str,
    typer.Option(help="Quarantine events stamped this far beyond their arrival; off = never."),
]
OnBad = Annotated[str, typer.Option(help="stop at a bad line, or skip, count and keep it.")]
DeadLetter = Annotated[Path | None, typer.Option(help="JSONL file for the skipped lines.")]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", help="FIELD=COLUMN of CSV or Parquet, e.g. ts=Client.Time; repeatable."),
]
Work = Annotated[
    Path | None,
    typer.Option(help="Folder for log and checkpoint; called again with it, Spark goes on there."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]


def query(
    text: Annotated[str, typer.Argument(metavar="QUERY", help="The query, or @FILE.")],
    source: Input,
    order_text: OrderText = "sequence",
    barrier: Annotated[str, typer.Option(help="When results are let go: immediate.")] = "immediate",
    certainty: Annotated[str, typer.Option(help="pairwise or max-delay (R19's T_a).")] = "pairwise",
    out: Out = None,
    in_process: InProcess = False,
    master: Master = "local[*]",
    time_unit: TimeUnit = "ns",
    guard: Guard = "1s",
    on_bad: OnBad = "stop",
    dead_letter: DeadLetter = None,
    columns: Map = None,
    work: Work = None,
    quiet: Quiet = False,
) -> None:
    """Answers a query over a trace or log, one JSON line per result."""
    unit_ns(time_unit)
    _check_suffix(out)
    plan = parse_query(_text(text), time_unit)
    order = parse_order(order_text, time_unit)
    with _folder(work) as folder:
        given = _prepare(source, folder, time_unit, on_bad, dead_letter, columns)
        check_plans(given.log, [plan])
        settings = ChainSettings(
            order, (plan,), barrier, certainty, _guards(guard, given, time_unit)
        )
        made = folder / "parts"
        host = Host(None if in_process else master)
        with watched("processing", quiet=quiet) as advanced:
            counters = host.run(given.log, settings, made, advanced)
        if out is not None and out.suffix == ".parquet":
            export_parquet(made, out)
        else:
            export_jsonl(made, out or sys.stdout, time_unit, (plan.name,))
    if not quiet:
        _summary(counters, given)


def order(
    source: Input,
    order_text: OrderText = "sequence",
    out: Out = None,
    in_process: InProcess = False,
    master: Master = "local[*]",
    time_unit: TimeUnit = "ns",
    guard: Guard = "1s",
    on_bad: OnBad = "stop",
    dead_letter: DeadLetter = None,
    columns: Map = None,
    work: Work = None,
    quiet: Quiet = False,
) -> None:
    """Writes the events in release order, with ref, release and late."""
    unit_ns(time_unit)
    _check_suffix(out)
    chosen = parse_order(order_text, time_unit)
    with _folder(work) as folder:
        given = _prepare(source, folder, time_unit, on_bad, dead_letter, columns)
        settings = ChainSettings(chosen, guards=_guards(guard, given, time_unit), ordered="full")
        made = folder / "parts"
        host = Host(None if in_process else master)
        with watched("ordering", quiet=quiet) as advanced:
            counters = host.run(given.log, settings, made, advanced)
        if out is not None and out.suffix == ".parquet":
            export_ordered_parquet(made, out)
        else:
            export_ordered_jsonl(made, out or sys.stdout, time_unit)
    if not quiet:
        _summary(counters, given)


def _text(argument: str) -> str:
    """The query itself, or the content of ``@FILE``."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{argument[1:]}: cannot read the query: {error}") from error


def _check_suffix(out: Path | None) -> None:
    if out is not None and out.suffix not in (".jsonl", ".json", ".parquet"):
        raise UserError(f"{out}: name it .jsonl or .parquet")


@contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    """The folder of log, checkpoint and parts: the user's, or one that goes away."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        yield Path(folder)


def _prepare(
    source: str,
    folder: Path,
    time_unit: str,
    on_bad: str,
    dead_letter: Path | None,
    columns: list[str] | None,
) -> Prepared:
    mapping = parse_mapping(columns or [])
    return prepare(source, folder, time_unit, on_bad, dead_letter, mapping)


def _guards(text: str, given: Prepared, time_unit: str) -> Guards:
    """The future guard; off where arrivals are only line numbers, which are no instants."""
    if text == "off" or not given.arrival_given:
        return Guards(None)
    return Guards(parse_duration(text, time_unit))


def _summary(counters: dict[str, Any], given: Prepared) -> None:
    """One line per thing worth knowing, on standard error."""
    lanes = [lane for site in counters["sites"].values() for lane in site["lanes"]]

    def total(*names: str) -> int:
        return sum(int(lane.get(name, 0)) for lane in lanes for name in names)

    told = {
        "late": total("late_passed", "late_dropped"),
        "residual disorder": total("residual", "residual_dropped"),
        "missing": total("missing_total") - total("missing_filled"),
        "duplicates": total("duplicate"),
        "quarantined": total("quarantined_future", "quarantined_jump"),
        "bad lines skipped": given.bad_count,
    }
    found = ", ".join(f"{value:,} {name}" for name, value in told.items() if value)
    sys.stderr.write(f"{total('arrived'):,} events{': ' + found if found else ''}\n")
    for name, value in sorted(_refusals(counters).items()):
        sys.stderr.write(f"{name}: {value:,} events\n")


def _refusals(counters: dict[str, Any]) -> Counter[str]:
    """What the queries' operators could not use, over all sites."""
    found: Counter[str] = Counter()
    for site in counters["sites"].values():
        for query_name, counts in site["queries"].items():
            for what, value in counts.items():
                if value and what != "buffered":
                    found[f"{query_name}: {what.replace('_', ' ')}"] += value
    return found
