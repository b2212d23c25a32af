"""``slackwater log``: conversion between arrival logs and JSONL, CSV, Parquet; facts about a
log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec.structs import replace

from slackwater.edge_agent.errors import did_you_mean, json_out, print_stderr, visible
from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.cli.examples import epilog
from slackwater.engine.cli.options import (
    BadLineOptions,
    ExportedInputOptions,
    InputOptions,
    Json,
    Quiet,
    bad_file,
    ending_with_a_command,
    takes_options,
)
from slackwater.engine.cli.terminal import PlainConsole, copying, watched
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.core.units import duration, parse_duration, unit_ns
from slackwater.engine.hosts.warnings import numbering_warnings
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.describe import describe, summary_tables
from slackwater.engine.log.input.input_log import files_of, open_input
from slackwater.engine.log.input.input_read import InputRead
from slackwater.engine.log.input.lines import STDIN
from slackwater.engine.log.retention import forget
from slackwater.engine.log.row_export import write_rows
from slackwater.engine.log.whole_file import sync_folder, whole_folder
from slackwater.engine.output.export import text_out
from slackwater.engine.output.json_lines import write_trace
from slackwater.engine.server.merged_logs import ClockComparison, MergedLogs

log_app = typer.Typer(
    no_args_is_help=True,
    help="Between arrival logs and JSONL, CSV and row-wise Parquet.",
    epilog=epilog("log"),
)
FORMATS: Final = ("jsonl", "csv", "parquet")


@log_app.command(
    "import", short_help="A log from a trace, CSV or Parquet.", epilog=epilog("log import")
)
@takes_options
def import_log(
    *,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...", help="Traces (- is standard input), CSV or Parquet files."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new arrival log.")],
    read: InputOptions,
    bad: BadLineOptions,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Makes an arrival log of a trace, a CSV or a row-wise Parquet file, whole or not at all."""
    if out.exists():
        raise UserError(f"{out}: exists already; choose a new folder")
    name = ", ".join(source)
    letters = bad.dead_letter
    if letters is None and bad.on_bad == "skip":
        letters = bad_file(out)
    files = files_of(source, copying(quiet=quiet))
    log = open_input(files, read.form(), bad.on_bad, letters)
    with ending_with_a_command(files, read.form(), may_skip=True):
        frames, records = _write_log(log, out, quiet=quiet)
    _print_bad(name, log.bad_count, letters)
    for line in numbering_warnings(log.counted_lanes):
        print_stderr(f"warning: {line}\n")
    if as_json:
        made: dict[str, Any] = {"input": name, "kind": str(log.kind), "log": str(out)}
        typer.echo(json.dumps(made | {"frames": frames, "records": records, "bad": log.bad_count}))
    else:
        typer.echo(f"{visible(str(out))}: {records:,} records in {frames:,} frames")


@log_app.command(
    "export", short_help="A log as JSONL, CSV or Parquet.", epilog=epilog("log export")
)
@takes_options
def export_log(
    *,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Arrival log, or any other input.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File; default: JSONL to standard output.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="jsonl, csv or parquet; default: by the suffix."
        ),
    ] = None,
    input_unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Unit of an input that is no log; default: --time-unit."),
    ] = None,
    read: ExportedInputOptions,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Writes a log as JSONL, CSV or row-wise Parquet, one record a line or row."""
    unit_ns(read.unit)
    chosen = _format(out, format_)
    if as_json and out is None:
        raise UserError("--json describes what is written to --out FILE; give one")
    log = open_input(source, replace(read.form(), unit=input_unit or read.time_unit))
    if chosen != "jsonl" and (out is None or source == STDIN):
        raise UserError(f"{chosen} goes from a file to a file (it is written in two passes)")
    with _progress("exporting", quiet=quiet) as watch:
        if out is None:
            records = write_trace(watch(log), json_out(), read.unit)
        elif chosen == "jsonl":
            with text_out(out) as stream:
                records = write_trace(watch(log), stream, read.unit)
        else:
            records = write_rows(log, out, read.unit, csv=chosen == "csv")
    if as_json:
        typer.echo(
            json.dumps({"log": source, "out": str(out), "format": chosen, "records": records})
        )
    elif out is not None:
        typer.echo(f"{visible(str(out))}: {records:,} records")


@log_app.command("show", short_help="What is in a log.", epilog=epilog("log show"))
@takes_options
def show_log(
    *,
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Arrival log, or any other input.")
    ],
    read: InputOptions,
    bad: BadLineOptions,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Says what is in a log: records, sites, sources, times and disorder."""
    name = ", ".join(source)
    log = open_input(source, read.form(), bad.on_bad, bad.dead_letter)
    with _progress("reading", quiet=quiet) as watch:
        summary = describe(watch(log))
    _print_bad(name, log.bad_count, bad.dead_letter)
    if as_json:
        about = {"log": name, "kind": str(log.kind), "bad": log.bad_count}
        json_out().write(json.dumps(about | summary.as_dict(), ensure_ascii=False) + "\n")
    else:
        PlainConsole().print(summary_tables(name, summary, read.unit))


@log_app.command(
    "merge", short_help="One log of those of several gateways.", epilog=epilog("log merge")
)
def merge_logs(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG LOG...", help="Arrival logs of gateways.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new arrival log.")],
    apart: Annotated[
        str,
        typer.Option(
            metavar="D",
            help="How far the gateways' clocks may be apart (needed); 0s: one clock.",
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Merges the logs of gateways that agents use in turn: each event once, by arrival.

    Times are by the clock of the first log's gateway. Bounds of clocks that another gateway
    measured become wider by --apart. What agents that used several gateways measured of the
    difference of their clocks is printed; where it is more than --apart, with a warning.
    """
    if out.exists():
        raise UserError(f"{out}: exists already; choose a new folder")
    if len(set(map(Path.resolve, logs))) < max(len(logs), 2):
        raise UserError("name two logs or more, each once")
    if not apart:
        raise UserError(
            "add --apart, how far the clocks of these gateways may be apart, as in --apart 5ms: of "
            "each, half the root delay plus the root dispersion of chronyc tracking, added up"
        )
    if apart.strip().isdigit() and int(apart):
        raise UserError(f"--apart {apart}: write its unit, as in {apart}ms")
    apart_ns = parse_duration(apart)
    merged = MergedLogs(logs, apart_ns)
    frames, records = _write_log(merged, out, quiet=quiet)
    compared = merged.comparisons()
    for each in compared:
        if each.low_ns > apart_ns or each.high_ns < -apart_ns:
            print_stderr(
                f"warning: {_difference(each)}, more than --apart {apart}: results may be called "
                "confirmed that are not. Merge again, with --apart "
                f"{-(-max(-each.low_ns, each.high_ns) // 10**6)}ms or more\n"
            )
    if as_json:
        clocks = [{**asdict(c), "log": str(c.log), "other": str(c.other)} for c in compared]
        numbers = {
            "frames": frames, "records": records, "copies": merged.copies, "clocks": clocks,
        }  # fmt: skip
        typer.echo(json.dumps({"logs": list(map(str, logs)), "log": str(out)} | numbers))
        return
    copies = f"; {merged.copies:,} events were in two logs" if merged.copies else ""
    typer.echo(f"{visible(str(out))}: {records:,} records in {frames:,} frames{copies}")
    for each in compared:
        typer.echo(_difference(each))


def _difference(of: ClockComparison) -> str:
    low, high = duration(of.low_ns), duration(of.high_ns)
    return visible(
        f"the clock of {of.log} was {low} to {high} ahead of that of {of.other}, by "
        f"{of.changes:,} change{'s'[: of.changes > 1]} of an agent between them"
    )


@log_app.command("forget", short_help="A source's newest start goes.", epilog=epilog("log forget"))
def forget_source(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Arrival log that no server writes.")],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="As SITE/SOURCE; without a site: of main.")
    ],
    as_json: Json = False,
) -> None:
    """Takes the newest start of a source out of a log: smaller incarnations get in again."""
    site, slash, name = source.partition("/")
    site, name = (site, name) if slash else (DEFAULT_SITE, source)
    done = forget(log, site, name)
    if as_json:
        about = {"log": str(log), "site": site, "source": name, "former": str(done.former)}
        numbers = {"incarnation": done.incarnation, "records": done.records}
        json_out().write(json.dumps(about | numbers, ensure_ascii=False) + "\n")
        return
    typer.echo(
        visible(
            f"{log}: {done.records:,} records of incarnation {done.incarnation} of {site}/{name} "
            f"are left out; the log as it was is {done.former}. Move the folders of answers away: "
            "they are made again from the log"
        )
    )


def _format(out: Path | None, name: str | None) -> str:
    if name is not None:
        if name not in FORMATS:
            raise UserError(f'unknown --format "{name}"{did_you_mean(name, FORMATS)}')
        return name
    if out is None:
        return "jsonl"
    suffix = out.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise UserError(f"{out}: name it .jsonl, .csv or .parquet, or give --format")
    return suffix


def _write_log(
    log: InputRead | LogReader | MergedLogs, out: Path, *, quiet: bool
) -> tuple[int, int]:
    """Write an arrival log; it gets its name when it is complete. Return frames and records."""
    frames = records = 0
    with whole_folder(out) as unfinished:
        with (
            _progress("importing", quiet=quiet) as watch,
            LogWriter(unfinished, called=out) as writer,
        ):
            for frame in watch(log):
                writer.arrival_given = log.arrival_given
                writer.append(frame)
                frames += 1
                records += frame.rows
        unfinished.rename(out)
    sync_folder(out.parent)
    return frames, records


def _print_bad(source: str, bad: int, dead_letter: Path | None) -> None:
    if bad:
        kept = f", kept in {dead_letter}" if dead_letter is not None else ""
        print_stderr(f"{source}: {bad:,} bad lines skipped{kept}\n")


@contextmanager
def _progress(verb: str, *, quiet: bool) -> Iterator[Callable[[Iterable[Frame]], Iterator[Frame]]]:
    """Yield a function that counts the frames of an iteration."""
    with watched(verb, quiet=quiet) as advanced:

        def count_rows(frames: Iterable[Frame]) -> Iterator[Frame]:
            for frame in frames:
                advanced(frame.rows)
                yield frame

        yield count_rows
