"""``slackwater query`` and ``slackwater order``: answers, or the ordered stream, from any input."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from engine.barrier.registry import BARRIER_FORMS, BarrierSettings, parse_barrier
from engine.chain import ChainSettings
from engine.cli.options import (
    Against,
    ConstraintsFile,
    DeadLetter,
    InProcess,
    Master,
    MonitorText,
    OnBad,
    OnSpark,
    ReportFolder,
    Spill,
    WindowText,
    bad_file,
    check_folders,
    choose_host,
    print_against,
    reads_input,
    typed,
)
from engine.cli.terminal import (
    if_interrupted,
    output_to,
    print_compiling,
    print_summary,
    print_unseen_types,
    print_unused_streams,
    watched,
)
from engine.cli.visible import print_stderr
from engine.cli.work_folder import work_folder
from engine.errors import UserError
from engine.log.input.input_log import input_kind
from engine.log.input.input_read import PLAIN_FORM, InputForm, InputKind
from engine.log.input.lines import STDIN
from engine.order.registry import ORDERS
from engine.passes.clock_faults import excluded_lines
from engine.passes.options import (
    PassRequest,
    asked_of_order,
    asked_of_queries,
    guarded,
    read_definitions,
)
from engine.passes.output import TABLES, Answers, StoredEvents, check_name, mixed_kinds, write
from engine.passes.pipeline import Host, Prepared, check_plans, prepare
from engine.passes.upcoming_clocks import with_upcoming_clocks
from engine.passes.warnings import (
    before_pass,
    of_clocks,
    of_counted,
    of_numbers,
    of_refuted_clocks,
    with_counted,
)
from engine.query import explain
from engine.query.analysis.cascade import read_statements
from engine.query.endpoints.joins import COST, IBP, check_index, check_joins
from engine.query.explain import cascade_lines
from engine.query.language.statements import expanded
from engine.query.plan import Plan
from engine.query.purge_settings import MATCHES_MAX, PurgeSettings, parse_purge
from engine.results.ordered import SIDE_OUTPUT
from engine.results.part_store import PartStore

Input = Annotated[
    str,
    typer.Option("--input", metavar="PATH", help="Trace, CSV, Parquet or arrival log; - = stdin."),
]
OrderText = Annotated[
    str,
    typer.Option("--order", metavar="ORDER", help=f"{', '.join(ORDERS)}; docs: Reference, Order."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="File .jsonl, .parquet or .csv; default: standard output."
    ),
]
TimeUnit = Annotated[
    str, typer.Option(metavar="UNIT", help="Of input's and output's times: ns us ms s min h d.")
]
Guard = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="Quarantine events stamped this far beyond their arrival; off = never.",
    ),
]
Clock = Annotated[
    list[str] | None,
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="Of clocks without a sync: exact, or NAME=OFFSET±BOUND as in badge=-3.2s±0.1s "
        "(repeatable), or a TOML file of these.",
    ),
]
Work = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep log and checkpoint there; on Spark, the same call goes on."
    ),
]
Late = Annotated[
    Path | None,
    typer.Option(
        "--late",
        metavar="FILE",
        help="File .jsonl, .parquet or .csv for late and quarantined events, with the reason.",
    ),
]
BarrierText = Annotated[
    str | None,
    typer.Option(
        "--barrier",
        metavar="BARRIER",
        help=f"When matches are let go, windows close: {', '.join(BARRIER_FORMS)}; with ,ordered.",
    ),
]
PurgeText = Annotated[
    str,
    typer.Option(
        "--purge",
        metavar="PURGE",
        help="When a pattern's events are dropped: late:10s, slack:1s, promises.",
    ),
]
IntervalsText = Annotated[
    str,
    typer.Option(
        "--intervals",
        metavar="INDEX",
        help="How an ISEQ is searched: naive, indexed (by ends), ibp (by starts too).",
    ),
]
JoinsText = Annotated[
    str,
    typer.Option(
        "--joins",
        metavar="JOINS",
        help="In which order steps of a SEQ/PAL tree are found: cost, left, right. Same results.",
    ),
]
MatchesMax = Annotated[
    int,
    typer.Option(
        "--matches-max",
        metavar="N",
        help="So many matches may one event complete or change; beyond that the run ends.",
    ),
]
_SHOWN: Final = "shown.jsonl"
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]

Queries = Annotated[
    list[str],
    typer.Argument(
        metavar="QUERY",
        help="The query, or @FILE; several, also in one text with ; between them, are named q1, q2 "
        "... CREATE STREAM n AS: others read its results. EXPLAIN before it: its plan.",
    ),
]
InputOrNone = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Trace, CSV, Parquet or arrival log; - = stdin. Not for EXPLAIN.",
    ),
]
Rule = Annotated[str, typer.Option(metavar="RULE", help="pairwise, max-delay or max-delay-r19.")]


@reads_input
def query(
    texts: Queries,
    source: InputOrNone = None,
    order_text: OrderText = "sequence",
    barrier_text: BarrierText = None,
    certainty: Rule = "pairwise",
    purge_text: PurgeText = "late",
    intervals: IntervalsText = IBP,
    window: WindowText = None,
    monitor: MonitorText = None,
    constraints: ConstraintsFile = None,
    out: Out = None,
    on_spark: OnSpark = False,
    master: Master = None,
    in_process: InProcess = False,
    time_unit: TimeUnit = "ns",
    guard: Guard = "1s",
    clock: Clock = None,
    on_bad: OnBad = "stop",
    dead_letter: DeadLetter = None,
    form: InputForm = PLAIN_FORM,
    work: Work = None,
    late: Late = None,
    spill: Spill = None,
    joins: JoinsText = COST,
    matches_max: MatchesMax = MATCHES_MAX,
    report: ReportFolder = None,
    against: Against = None,
    quiet: Quiet = False,
) -> None:
    """Answers queries over a trace or log in one pass, one JSON line per result."""
    plans, explained = _plans(texts, time_unit, constraints)
    if explained:
        barrier = None if barrier_text is None else parse_barrier(barrier_text, time_unit)
        _explain(plans, barrier, parse_purge(purge_text, time_unit), intervals, out, joins)
        return
    host = choose_host(on_spark=on_spark, master=master, in_process=in_process)
    if source is None:
        raise UserError("--input is missing: name a trace, CSV, Parquet or arrival log; - = stdin")
    _check_files(out, late, source, plans)
    check_folders(report, against)
    asked = asked_of_queries(
        plans, time_unit, order=order_text, barrier=barrier_text, certainty=certainty,
        purge=purge_text, intervals=intervals, window=window, monitor=monitor, guard=guard,
        late=late is not None, spill=spill, on_spark=host.master is not None, joins=joins,
        matches_max=matches_max, clock=clock or (),
    )  # fmt: skip
    asked = asked if report is None else replace(asked, ordered="bare")
    letters = _letters(on_bad, dead_letter, out, source)
    with work_folder(work) as folder:
        given = prepare(source, folder, form, on_bad, letters, hold=not (work or host.master))
        check_plans(given.log, plans)
        arrives = given.log.arrival_given
        _warn(before_pass(given.log, plans, asked, time_unit, arrival_given=arrives))
        print_unseen_types(given.log, plans, quiet=quiet)
        made = host.store(folder / "parts", is_kept=(work or report) is not None)
        print_compiling(quiet=quiet)
        with output_to(out, Answers(made, plans, time_unit), folder / _SHOWN, host) as export:
            counters = _run(host, given, asked, made, "processing", keeps=bool(work), quiet=quiet)
            export()
        _export_late(made, late, time_unit)
        own = PassRequest(source, plans, order_text, barrier_text, typed())
        excluded = _report(own, given, made, counters, report)
    _print_bad(given, letters, kept=dead_letter is not None)
    _print_after(given, counters, excluded, source)
    if not quiet:
        print_summary(counters, host)
        print_unused_streams(plans, counters)
    _print_report(report, against, quiet=quiet)


@reads_input
def order(
    source: Input,
    order_text: OrderText = "sequence",
    out: Out = None,
    on_spark: OnSpark = False,
    master: Master = None,
    in_process: InProcess = False,
    time_unit: TimeUnit = "ns",
    guard: Guard = "1s",
    clock: Clock = None,
    on_bad: OnBad = "stop",
    dead_letter: DeadLetter = None,
    form: InputForm = PLAIN_FORM,
    work: Work = None,
    late: Late = None,
    report: ReportFolder = None,
    against: Against = None,
    quiet: Quiet = False,
) -> None:
    """Writes the events in release order, with ref, release and late."""
    host = choose_host(on_spark=on_spark, master=master, in_process=in_process)
    _check_files(out, late, source)
    check_folders(report, against)
    asked = asked_of_order(
        time_unit, order=order_text, guard=guard, late=late is not None, clock=clock or ()
    )
    letters = _letters(on_bad, dead_letter, out, source)
    with work_folder(work) as folder:
        given = prepare(source, folder, form, on_bad, letters, hold=not (work or host.master))
        made = host.store(folder / "parts", is_kept=(work or report) is not None)
        print_compiling(quiet=quiet)
        keeps = work is not None
        with output_to(out, StoredEvents(made, time_unit), folder / _SHOWN, host) as export:
            counters = _run(host, given, asked, made, "ordering", keeps=keeps, quiet=quiet)
            export()
        _export_late(made, late, time_unit)
        of = PassRequest(source, (), order_text, None, typed())
        excluded = _report(of, given, made, counters, report)
    _print_bad(given, letters, kept=dead_letter is not None)
    _print_after(given, counters, excluded, source)
    if not quiet:
        print_summary(counters, host)
    _print_report(report, against, quiet=quiet)


def _report(
    asked: PassRequest,
    given: Prepared,
    made: PartStore,
    counters: dict[str, Any],
    into: Path | None,
) -> list[str]:
    """Writes the report, if any is wanted; gives a line per source that was excluded."""
    excluded = excluded_lines(counters, given.log)
    if into is not None:
        from engine.passes.own_report import write_own_report  # noqa: PLC0415 - needs an extra

        asked = replace(asked, excluded=tuple(excluded))
        write_own_report(asked, made, into, arrival_given=given.log.arrival_given)
    return excluded


def _print_report(report: Path | None, against: Path | None, *, quiet: bool) -> None:
    if report is not None:
        print_against(against, report)
        if not quiet:
            print_stderr(f"{report / 'report.html'}\n")


def _run(
    host: Host, given: Prepared, settings: ChainSettings, made: PartStore, verb: str,
    *, keeps: bool, quiet: bool,
) -> Any:  # fmt: skip
    """The counters of one pass; an interrupted one says whether the same command goes on."""
    goes_on = keeps and host.master is not None
    saying = if_interrupted("the same command goes on") if goes_on else nullcontext()
    settings = guarded(settings, arrival_given=given.log.arrival_given)
    settings = with_upcoming_clocks(given.log, settings)
    with saying, watched(verb, quiet=quiet) as advanced:
        return with_counted(host.run(given.log, settings, made, advanced), given.counted)


def _print_after(
    given: Prepared, counters: dict[str, Any], of_sources: list[str], source: str
) -> None:
    """What a pass has shown, first of all events that are in no result; also with --quiet."""
    _warn([*of_sources, *of_clocks(counters), *of_counted(given.counted)])
    see = f"slackwater compare --input {source}"
    _warn(of_numbers(counters, see, given.log, numbered=given.numbered))
    _warn(of_refuted_clocks(counters))


def _warn(doubts: Iterable[str]) -> None:
    for line in doubts:
        print_stderr(f"warning: {line}\n")


def _explain(
    plans: tuple[Plan, ...], barrier: BarrierSettings | None, purge: PurgeSettings, intervals: str,
    out: Path | None, joins: str,
) -> None:  # fmt: skip
    if out is not None:
        raise UserError(f"{out}: EXPLAIN writes to standard output; leave out --out")
    index, how = check_index(intervals), check_joins(joins)
    texts = [explain(plan, barrier, purge, index, how) for plan in plans]
    sys.stdout.write("\n".join([*texts, *cascade_lines(plans)]))


def _plans(
    texts: list[str], time_unit: str, constraints: Path | None
) -> tuple[tuple[Plan, ...], bool]:
    """The statements' plans, and whether the plans are what is asked for."""
    known = read_definitions(constraints)
    return read_statements([expanded(_text(text), known) for text in texts], time_unit)


def _text(argument: str) -> str:
    """The query itself, or the content of ``@FILE``."""
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8-sig")
    except OSError as error:
        name = argument[1:] or "@"
        raise UserError(f"{name}: cannot read the query: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{argument[1:]}: the query is not UTF-8; save it as UTF-8") from error


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


def _check_files(
    out: Path | None, late: Path | None, source: str, plans: tuple[Plan, ...] = ()
) -> None:
    """Refuses before the work what would fail with the files at the end."""
    _check_out(out, source)
    _check_late(late, out, source)
    kinds = mixed_kinds(plans)
    if out is not None and out.suffix in TABLES and kinds:
        raise UserError(f"{out}: {kinds} have different columns; write .jsonl")


def _check_late(late: Path | None, out: Path | None, source: str) -> None:
    if late is None:
        return
    _check_out(late, source)
    if out is not None and out.absolute() == late.absolute():
        raise UserError(f"{out}: is --out and --late; choose two files")


def _export_late(made: PartStore, late: Path | None, time_unit: str) -> None:
    if late is not None:
        write(StoredEvents(made, time_unit, SIDE_OUTPUT), late)


def _letters(on_bad: str, dead_letter: Path | None, out: Path | None, source: str) -> Path | None:
    """Where skipped lines are kept: the user's file, or one beside the output."""
    if on_bad != "skip" or (Path(source).is_dir() and input_kind(source) == InputKind.LOG):
        return None
    if dead_letter is None:
        name = "stdin" if source == STDIN else Path(source).name
        return bad_file(Path(name) if out is None else out)
    if out is not None and out.absolute() == dead_letter.absolute():
        raise UserError(f"{out}: is --out and --dead-letter; choose two files")
    return dead_letter


def _print_bad(given: Prepared, letters: Path | None, *, kept: bool) -> None:
    """Says where the skipped lines are; a file that nobody asked for and that is empty goes."""
    if letters is None:
        return
    if given.bad_count:
        print_stderr(f"{given.bad_count:,} bad lines skipped, kept in {letters}\n")
    elif not kept:
        letters.unlink(missing_ok=True)
