"""``slackwater query`` and ``slackwater order``: answers, or the ordered stream, from any input."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from slackwater.edge_agent.errors import print_stderr
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.cli.options import (
    BadLineOptions,
    HostOptions,
    InputOptions,
    ReportOptions,
    bad_file,
    ending_with_a_command,
    print_against,
    takes_options,
    typed,
)
from slackwater.engine.cli.terminal import (
    TableTimes,
    copying,
    if_interrupted,
    print_compiling,
    print_summary,
    print_unseen_types,
    print_unused,
    watched,
    write_output,
)
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.clock_faults import excluded_lines
from slackwater.engine.hosts.options import (
    SEQUENCE,
    OrderOptions,
    PassRequest,
    QueryOptions,
    read_definitions,
    statement_text,
)
from slackwater.engine.hosts.pipeline import (
    Host,
    Prepared,
    check_plans,
    prepare,
    run_pass,
    warnings_after,
    with_default_order,
    work_folder,
)
from slackwater.engine.hosts.result_files import (
    TABLES,
    Answers,
    StoredEvents,
    check_name,
    mixed_kinds,
    write,
)
from slackwater.engine.hosts.warnings import before_pass, of_declared
from slackwater.engine.log.input.input_log import files_of, input_kind
from slackwater.engine.log.input.input_read import InputKind
from slackwater.engine.log.input.lines import STDIN
from slackwater.engine.output.json_lines import Dates
from slackwater.engine.output.ordered_stream import SIDE_OUTPUT
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.query import explain
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.explain import cascade_lines
from slackwater.engine.query.joins import check_index, check_joins
from slackwater.engine.query.language.statements import expanded
from slackwater.engine.query.pattern_settings import parse_purge
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.reference_tables import Tables
from slackwater.engine.query.results_as_events import time_columns

Input = Annotated[
    list[str],
    typer.Option(
        "--input",
        metavar="PATH",
        help="Trace, CSV, Parquet or arrival log; - = stdin; repeatable, a glob, a folder of such.",
    ),
]
_TERMINAL_ROWS: Final = "shown.jsonl"
_SENT: Final = "sent.jsonl"
TIMES: Final = ("iso", "number")
_RETRACTED: Final = "{:,} results; retracted on the way (see --changes): {:,}\n"
_BY_TIME: Final = (
    "the events have no numbers, so they go by their time (--order {}); --order sequence takes "
    "them as they stand"
)

Queries = Annotated[
    list[str],
    typer.Argument(
        metavar="QUERY",
        help="The query, or @FILE; several, also in one text with ; between them, are named q1, q2 "
        "... CREATE STREAM n AS: others read its results. EXPLAIN before it: its plan.",
    ),
]
InputOrNone = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Trace, CSV, Parquet or arrival log; - = stdin; repeatable, a glob, a folder of such. "
        "Not for EXPLAIN.",
    ),
]
ConstraintsFile = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Constraints that queries name: CONSTRAINT name FOR TRACE BY ... AS ...;",
    ),
]


Changes = Annotated[
    bool | None,
    typer.Option(
        "--changes/--final",
        help="Results as they come, + and - for retracted: the default of logs and on Spark; or "
        "those that remain, each once, in order of time: the default of other inputs.",
    ),
]


TimesOption = Annotated[
    str | None,
    typer.Option(
        "--times",
        metavar="|".join(TIMES),
        help="Times of the output: ISO 8601 in --timezone, typed in Parquet, the default where the "
        "input has dates and there is no --time-unit; or numbers in --time-unit.",
    ),
]


SinkOption = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar="TARGET",
        help="Send the results there instead of standard output: http://HOST/PATH, "
        "mqtt://HOST/TOPIC, postgres://USER@HOST/DATABASE, exec:'PROGRAM ARGUMENTS', or a .toml "
        "file with a [[sink]].",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """Options that ``query`` and ``order`` share."""

    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="File .jsonl, .parquet or .csv; default: standard output."
        ),
    ] = None
    late: Annotated[
        Path | None,
        typer.Option(
            "--late",
            metavar="FILE",
            help="File .jsonl, .parquet or .csv for late and quarantined events, with the reason.",
        ),
    ] = None
    page: ReportOptions
    input: InputOptions
    bad: BadLineOptions
    host: HostOptions
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep log and checkpoint there; on Spark, the same call goes on."
        ),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False

    def check_files(self, sources: Sequence[str], plans: tuple[Plan, ...] = ()) -> None:
        """Check early for file errors that would otherwise occur at the end.

        Raises:
            UserError: a file of results is the input, a folder, or of an unsuitable kind.
        """
        out, late = self.out, self.late
        for file in (out, late):
            for source in sources:
                _check_out(file, source)
        if out is not None and late is not None and out.absolute() == late.absolute():
            raise UserError(f"--out and --late name the same file ({out}); choose two")
        kinds = mixed_kinds(plans)
        if out is not None and out.suffix in TABLES and kinds:
            raise UserError(f"{out}: {kinds} have different columns; write .jsonl")

    def letters(self, sources: Sequence[str]) -> Path | None:
        """The file for skipped lines: the user's, or one next to the output; None: none is needed.

        Raises:
            UserError: it is the same as the output.
        """
        if self.bad.on_bad != "skip":
            return None
        source = sources[0]
        if Path(source).is_dir() and input_kind(source) == InputKind.LOG:
            return None
        if self.bad.dead_letter is None:
            name = "stdin" if source == STDIN else Path(source).name
            return bad_file(Path(name) if self.out is None else self.out)
        if self.out is not None and self.out.absolute() == self.bad.dead_letter.absolute():
            raise UserError(f"--out and --dead-letter name the same file ({self.out}); choose two")
        return self.bad.dead_letter


@takes_options
def query(
    texts: Queries,
    *,
    source: InputOrNone = None,
    how: QueryOptions,
    constraints: ConstraintsFile = None,
    changes: Changes = None,
    times: TimesOption = None,
    sink: SinkOption = None,
    run: PassOptions,
) -> None:
    """Answers queries over a trace or log in one pass, one JSON line per result."""
    unit = run.input.unit
    plans, explained = _plans(texts, unit, constraints, how.tables())
    if explained:
        _explain(plans, how, unit, run.out)
        return
    host = run.host.host()
    if not source:
        raise UserError("--input is missing: name a trace, CSV, Parquet or arrival log; - = stdin")
    files = files_of(source, copying(quiet=run.quiet))
    run.check_files(files, plans)
    run.page.check()
    sending = None if sink is None else _sending(sink, quiet=run.quiet)
    if times not in (None, *TIMES):
        raise UserError(f"--times {times}: write {' or '.join(TIMES)}")
    on_spark = host.master is not None
    settings = how.answering(plans, unit, late=run.late is not None, on_spark=on_spark)
    if run.page.report is not None:
        settings = replace(settings, ordered="bare")
    request = PassRequest(files, plans, how.order, how.barrier, typed())

    def before(prepared: Prepared) -> None:
        check_plans(prepared.log, plans)
        arrives = prepared.log.arrival_given
        _warn(before_pass(prepared.log, plans, settings, unit, arrival_given=arrives))
        print_unseen_types(prepared.log, plans, quiet=run.quiet, ends=prepared.ends)

    def answers(prepared: Prepared, parts: PartStore) -> Answers:
        final = prepared.ends and not on_spark if changes is None else not changes
        dates = Dates(run.input.timezone or "UTC", prepared.log.arrival_given)
        is_iso = prepared.dated and run.input.time_unit is None if times is None else times == "iso"
        return Answers(parts, plans, unit, final, dates if is_iso else None)

    _run(request, settings, run, host, before, answers, sending)


@takes_options
def order(*, source: Input, how: OrderOptions, run: PassOptions) -> None:
    """Writes the events in release order, with ref, release and late."""
    unit, host = run.input.unit, run.host.host()
    files = files_of(source, copying(quiet=run.quiet))
    run.check_files(files)
    run.page.check()
    settings = how.ordering(unit, late=run.late is not None)
    request = PassRequest(files, (), how.order, None, typed())

    def before(prepared: Prepared) -> None:
        _warn(of_declared(prepared.log, settings))

    _run(request, settings, run, host, before, lambda _, parts: StoredEvents(parts, unit))


def _run(
    request: PassRequest,
    settings: ChainSettings,
    run: PassOptions,
    host: Host,
    before: Callable[[Prepared], None],
    output: Callable[[Prepared, PartStore], Answers | StoredEvents],
    sending: Callable[[Answers | StoredEvents, Path], None] | None = None,
) -> None:
    """Run one pass from an input to its files, report and warnings.

    ``before``: called with the input before the pass. ``output``: selects what of the pass is
    written. ``sending``: sends it to a sink; gets a temporary folder, which may already have it.
    """
    files, form, letters = request.files, run.input.form(), run.letters(request.files)
    is_kept = run.work is not None or run.page.report is not None
    hold = run.work is None and host.master is None
    with work_folder(run.work) as folder:
        with ending_with_a_command(files, form, may_skip=True):
            prepared = prepare(files, folder, form, run.bad.on_bad, letters, hold=hold)
        before(prepared)
        if request.order is None:
            settings, order = with_default_order(prepared, settings, run.input.unit)
            request = replace(request, order=order)
            if order != SEQUENCE and not run.quiet:
                print_stderr(f"{_BY_TIME.format(order)}\n")
        parts = host.store(folder / "parts", is_kept=is_kept)
        print_compiling(quiet=run.quiet)
        answers = output(prepared, parts)
        times = TableTimes(
            run.input.unit, run.input.timezone or "UTC",
            {plan.name: time_columns(plan) for plan in request.plans}, prepared.log.arrival_given,
        )  # fmt: skip
        sent = None if sending is None else folder / _SENT
        goes_on = run.work is not None and host.master is not None
        saying = if_interrupted("the same command goes on") if goes_on else nullcontext()
        verb = "processing" if request.plans else "ordering"
        with saying, watched(verb, quiet=run.quiet) as advanced:
            counters = run_pass(prepared, settings, host, parts, advanced)
        line_count = write_output(run.out or sent, answers, folder / _TERMINAL_ROWS, times)
        retracted = 0
        if isinstance(answers, Answers) and answers.final and not run.quiet:
            retracted = (answers.changes - line_count) // 2
        if run.late is not None:
            write(StoredEvents(parts, run.input.unit, SIDE_OUTPUT), run.late)
        excluded = excluded_lines(counters, prepared.log)
        if run.page.report is not None:
            from slackwater.engine.apps.report.write import write_own_report  # noqa: PLC0415 - needs an extra

            arrives = prepared.log.arrival_given
            request = replace(request, excluded=tuple(excluded))
            write_own_report(request, parts, run.page.report, arrival_given=arrives)
        if sending is not None:
            sending(answers, folder)
    _print_bad(prepared, letters, kept=run.bad.dead_letter is not None)
    see = " ".join(["slackwater compare", *(f"--input {shlex.quote(file)}" for file in files)])
    _warn(warnings_after(prepared, counters, excluded, see))
    if not run.quiet:
        print_summary(counters, host)
        if retracted:
            print_stderr(_RETRACTED.format(line_count, retracted))
        print_unused(request.plans, counters, prepared.nulls)
    report = run.page.report
    if report is not None:
        print_against(run.page.against, report)
        if not run.quiet:
            print_stderr(f"{report / 'report.html'}\n")


def _sending(target: str, *, quiet: bool) -> Callable[[Answers | StoredEvents, Path], None]:
    """Return a function that sends results to ``target``, which is checked at once."""
    from slackwater.engine.sinks.program import read_target, send  # noqa: PLC0415 - not for all

    sink = read_target(target)

    def sending(answers: Answers | StoredEvents, folder: Path) -> None:
        results = folder / _SENT
        if not results.exists():
            write(answers, results)
        count = send(results, sink, folder / "sink", lambda line: print_stderr(f"{line}\n"))
        results.unlink()
        if not quiet:
            print_stderr(f"{count:,} results delivered to {sink.name}\n")

    return sending


def _warn(doubts: Iterable[str]) -> None:
    for line in doubts:
        print_stderr(f"warning: {line}\n")


def _explain(plans: tuple[Plan, ...], how: QueryOptions, unit: str, out: Path | None) -> None:
    if out is not None:
        raise UserError(f"{out}: EXPLAIN writes to standard output; leave out --out")
    barrier = None if how.barrier is None else parse_barrier(how.barrier, unit)
    purge = parse_purge(how.purge, unit)
    index, joins = check_index(how.intervals), check_joins(how.joins)
    texts = [explain(plan, barrier, purge, index, joins) for plan in plans]
    sys.stdout.write("\n".join([*texts, *cascade_lines(plans)]))


def _plans(
    texts: list[str], time_unit: str, constraints: Path | None, tables: Tables
) -> tuple[tuple[Plan, ...], bool]:
    """The statements' plans, and whether EXPLAIN was requested."""
    known = read_definitions(constraints)
    whole = [expanded(_text(text), known) for text in texts]
    return read_statements(whole, time_unit, tables=tables)


def _text(argument: str) -> str:
    """The query itself, or the content of ``@FILE``."""
    if not argument.startswith("@"):
        return argument
    return statement_text(Path(argument[1:]), "query", argument[1:] or "@")


def _check_out(out: Path | None, source: str) -> None:
    if out is None:
        return
    check_name(out)
    if out.is_dir():
        raise UserError(f"{out}: is a folder; give --out a file")
    if not out.parent.is_dir():
        raise UserError(f"{out}: there is no folder {out.parent}; make it, or choose another --out")
    if source != STDIN and out.exists() and Path(source).exists() and out.samefile(source):
        raise UserError(f"{out}: is the input itself; choose another --out")


def _print_bad(prepared: Prepared, letters: Path | None, *, kept: bool) -> None:
    """Name the file of skipped lines; remove an empty one that the user did not name."""
    if letters is None:
        return
    if prepared.bad_count:
        print_stderr(f"{prepared.bad_count:,} bad lines skipped, kept in {letters}\n")
    elif not kept:
        letters.unlink(missing_ok=True)
