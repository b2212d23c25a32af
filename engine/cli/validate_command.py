"""``slackwater validate``: whether clocks and network are good enough for given queries.

``slackwater clocks``: which clock is wrong, by how much, and the option that corrects it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from slackwater.edge_agent import clock
from slackwater.edge_agent.drivers.agent_file import AgentSettings, read_agent, read_server
from slackwater.edge_agent.drivers.measure.machine import Measuring, measure_setup
from slackwater.edge_agent.drivers.session_driver import TimeServer
from slackwater.edge_agent.errors import AgentError, SettingsError, json_out, print_stderr
from slackwater.edge_agent.listening import default_source
from slackwater.edge_agent.measure import Findings
from slackwater.engine.apps.report.numbers import as_json as json_text
from slackwater.engine.apps.report.numbers import plain, versions
from slackwater.engine.apps.report.page.document import check_new_page
from slackwater.engine.apps.report.verdict import check_summaries, write_summaries
from slackwater.engine.apps.scenario_run import FILE
from slackwater.engine.apps.validate import clock_reports as clocks_page
from slackwater.engine.apps.validate import page
from slackwater.engine.apps.validate.clock_reports import clock_reports, remarks
from slackwater.engine.apps.validate.device_quality import AgentFacts, setup_of
from slackwater.engine.apps.validate.log_quality import judged
from slackwater.engine.apps.validate.scenario_text import (
    RecordedSources,
    Rhythm,
    habits_of,
    scenario_text,
)
from slackwater.engine.apps.validate.tables import (
    Validation,
    as_plain,
    beside_table,
    checks_of,
    clock_table,
    deviation_table,
    fact_table,
    link_table,
    query_table,
    validation,
)
from slackwater.engine.apps.validate.two_logs import compare_logs, read_columns
from slackwater.engine.apps.validate.verdict import LATENCY_NS, ResultRequirements
from slackwater.engine.apps.validate.verdict import duration as duration_text
from slackwater.engine.cli.options import (
    InputOptions,
    JsonNumbers,
    Quiet,
    Summary,
    ending_with_a_command,
    read_share,
    refuse_options,
    takes_options,
    typed,
)
from slackwater.engine.cli.terminal import (
    NO_BOX,
    copying,
    plain_console,
    print_compiling,
    print_unseen_types,
    table_of,
    watched,
)
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import UserError, need
from slackwater.engine.core.units import parse_duration
from slackwater.engine.hosts.live.questions import Questions, answering_time_ns
from slackwater.engine.hosts.options import Clock
from slackwater.engine.hosts.pipeline import check_plans, prepare, work_folder
from slackwater.engine.log.input.input_log import files_of
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.order.registry import parse_order
from slackwater.engine.scenario import Table
from slackwater.engine.server.site_file import read_site

# ``slackwater validate --scenario FILE [--recording FILE]``: the measured set-up as a scenario.


def check_scenario(file: Path) -> None:
    """Check before the measurement that a new scenario file can be written.

    Raises:
        UserError: the file exists (and may have been edited), or its folder does not.
    """
    if file.exists():
        raise UserError(f"--scenario {file}: exists already; choose another name, or remove it")
    if not file.absolute().parent.is_dir():
        raise UserError(f"--scenario {file}: no folder {file.parent}; make it first")
    if file.suffix != FILE:
        raise UserError(f"--scenario {file}: call it NAME{FILE}, by which slackwater run knows it")


def read_recorded(recording: Path, scenario: Path | None) -> RecordedSources:
    """Read the recording under the name that the file ``scenario`` will use.

    Raises:
        UserError: it cannot be read.
    """
    need("sim")
    from slackwater.scenarios.from_file.recordings import read_recording  # noqa: PLC0415 - needs the extra

    folder = Path() if scenario is None else scenario.parent
    try:
        found = read_recording({"file": str(recording.resolve())}, "", folder)
    except UserError as error:
        about = str(error).removeprefix(".recording.file: ")
        raise UserError(
            f"--recording: {about}; or leave --recording out, and say in the file that --scenario "
            "writes how it is read: [sources.recording] with file, mapping, time_unit"
        ) from error
    gaps = {}
    for name, streams in found.items():
        times = [each.since_ns for each in streams]
        rows = sum(len(each) for each in times)
        if rows > 1:
            first, last = min(each.min() for each in times), max(each.max() for each in times)
            gaps[name] = float(last - first) / (rows - 1)
    return RecordedSources(os.path.relpath(recording.resolve(), folder.resolve()), gaps)


def write_scenario(
    found: Validation,
    questions: Questions,
    file: Path,
    recorded: RecordedSources | None,
    site: Path | None,
) -> None:
    """Write ``file``, completely or not at all; ``site``: settings of the gateway.

    Raises:
        UserError: a query or the site's file is invalid, or the log's folder is not writable.
    """
    rhythm = None
    if site is not None:
        settings = read_site(site, "none")
        gateway = settings.gateway
        # The log is on the gateway's machine: elsewhere nothing is known about that machine.
        here = questions.queries and settings.log.is_dir()
        after = answering_time_ns(settings.log.parent, questions) if here else None
        rhythm = Rhythm(gateway.tick_every_ns, gateway.frame_every_ns, gateway.frame_rows, after)
    plans = questions.plans()
    text = scenario_text(found, plans, questions.order, questions.barrier, recorded, rhythm)
    with whole_file(file) as sink:
        sink.write(text.encode())


_NOT_FIT: Final = 1
_COLOURS: Final = {"fit": "green", "fit with care": "yellow", "not fit": "red"}
_DURATION: Final = "30s"
_STEP_S: Final = 0.25
"""Time between trains of questions to the gateway."""


Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings of the agent (TOML)."),
]
Log = Annotated[Path | None, typer.Option(metavar="LOG", help="Judge by an arrival log instead.")]
TwoLogs = Annotated[
    tuple[Path, Path] | None,
    typer.Option(metavar="A B", help="Compare what two gateways received of one source."),
]
Site = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings of the site: its queries.")
]
Queries = Annotated[
    list[str] | None, typer.Option("--query", metavar="QUERY", help="A query; repeatable.")
]
Servers = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="HOST[:PORT]", help="An NTP server to ask; repeatable."),
]
Gap = Annotated[
    str | None, typer.Option(metavar="TIME", help="Typical time between a match's events.")
]
Duration = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help=f"How long clocks and path are measured; default: {_DURATION}."
    ),
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for a page and its JSON.")]
Scenario = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a scenario file with these clocks and links."),
]
Recording = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --scenario: what its sources see, a recording."),
]


@takes_options
def validate_setup(
    *,
    config: Config = None,
    log: Log = None,
    two_logs: TwoLogs = None,
    site: Site = None,
    queries: Queries = None,
    servers: Servers = None,
    duration: Duration = None,
    uncertain: Annotated[
        str, typer.Option(metavar="SHARE", help="Share of uncertain results that is wanted.")
    ] = "5 %",
    gap: Gap = None,
    clock: Clock = (),
    rate: Annotated[
        bool, typer.Option("--rate", help="Also 1,000 packets at once: what the path bears.")
    ] = False,
    out: Out = None,
    scenario: Scenario = None,
    recording: Recording = None,
    summary: Summary = None,
    as_json: JsonNumbers = False,
    quiet: Quiet = False,
) -> None:
    """Says whether this hardware can decide the site's queries: fit, fit with care, or not fit.

    Measures this device, its clock and its way to the gateway, and changes nothing. Exit code 0:
    fit, also with care; 1: not fit; 2: the input is at fault. Ctrl-C keeps what was measured.
    """
    if sum(way is not None for way in (config, log, two_logs)) != 1:
        raise UserError("give one of --config FILE, --log LOG, --two-logs A B")
    questions = _questions(site, queries or [], tuple(clock or ()))
    requirements = _requirements(questions, uncertain, gap)
    seconds = _seconds(duration or _DURATION)
    if config is None:
        of_device = {"--duration": duration, "--rate": rate, "--server": servers}
        refuse_options(of_device, "goes with --config: a log was measured already")
    if log is None:
        refuse_options({"--clock": clock}, "goes with --log, of clocks that nobody measured")
    if recording is not None and scenario is None:
        raise UserError("--recording FILE goes with --scenario FILE, which names it")
    recorded = None if recording is None else read_recorded(recording, scenario)
    if two_logs is not None:
        of_one = {"--site": site, "--query": queries, "--scenario": scenario, "--summary": summary}
        refuse_options(of_one, "goes with --config or --log: two logs are only compared")
        _compare_two(*two_logs, out, as_json=as_json, quiet=quiet)
        return
    check_summaries(summary or ())
    if out is not None:
        check_new_page(out, (page.HTML, page.JSON))
    if scenario is not None:
        check_scenario(scenario)
    if log is not None:
        found = _of_log(log, questions, requirements, quiet=quiet)
    else:
        found = _of_device(
            config, questions, requirements, servers or [], seconds, rate=rate, quiet=quiet
        )
    if scenario is not None:
        write_scenario(found, questions, scenario, recorded, site)
    if out is not None:
        page.write_page(found, out, typed())
    write_summaries(summary or (), found.looked_at, "", checks_of(found))
    _show(found, as_json=as_json)
    if found.fitness.value > 1:
        raise typer.Exit(_NOT_FIT)


def _questions(site: Path | None, queries: Sequence[str], clock: tuple[str, ...]) -> Questions:
    typed_queries = tuple((f"q{n}", text) for n, text in enumerate(queries, 1))
    engine = None if site is None else read_site(site, "embedded").engine
    if engine is None:
        return Questions(queries=typed_queries, clock=clock)
    taken = {name for name, _ in engine.questions.queries}
    more = tuple(
        (name if name not in taken else f"--query {name}", text) for name, text in typed_queries
    )
    stated = (*engine.questions.clock, *clock)
    return replace(
        engine.questions, queries=engine.questions.queries + more, late=False, clock=stated
    )


def _requirements(questions: Questions, uncertain: str, gap: str | None) -> ResultRequirements:
    order = parse_order(questions.order, questions.time_unit)
    return ResultRequirements(
        uncertain=read_share("--uncertain", uncertain, '0.05 or "5 %"'),
        gap_ns=None if gap is None else _duration_ns("--gap", gap),
        certainty=questions.certainty,
        latency_ns=getattr(order, "latency_ns", LATENCY_NS),
    )  # fmt: skip


def _seconds(text: str) -> float:
    seconds = _duration_ns("--duration", text) / 1e9
    if not 0 < seconds <= 86_400:
        raise UserError(f"--duration {text}: more than nothing, and a day at most")
    return seconds


def _duration_ns(option: str, text: str) -> int:
    try:
        return parse_duration(text, "s")
    except UserError as error:
        raise UserError(f"{option}: {error}") from error


def _of_device(
    config: Path | None, questions: Questions, requirements: ResultRequirements,
    servers: Sequence[str], seconds: float, *, rate: bool, quiet: bool,
) -> Validation:  # fmt: skip
    assert config is not None
    settings = _agent(config)
    plans = questions.plans()
    found = _measured(
        settings, config, _servers(settings, servers), seconds, rate=rate, quiet=quiet
    )
    sync = settings.session.sync
    facts = AgentFacts(
        sync.attempts, sync.resync_ns, sync.skew_error_ppb,
        settings.session.delivery.value == "resend", settings.outbox_bytes_max,
        tuple(stream.name for stream in settings.streams), habits_of(settings.session),
    )  # fmt: skip
    setup = setup_of(found, facts, round(_STEP_S * 1e9))
    return validation(str(config), "device", setup, plans, requirements)


def _of_log(
    log: Path, questions: Questions, requirements: ResultRequirements, *, quiet: bool
) -> Validation:
    settings = questions.chain_settings() if questions.queries else None
    if settings is not None:
        check_plans(log, settings.plans)
        print_unseen_types(log, settings.plans, quiet=quiet)
        print_compiling(quiet=quiet)
    choice = read_clock(questions.clock, questions.time_unit)
    return judged(log, str(log), settings, requirements, choice, partial(watched, quiet=quiet))


def _agent(config: Path) -> AgentSettings:
    try:
        return read_agent(config, lambda: clock.read().wall_ns, default_source)
    except SettingsError as error:
        raise UserError(str(error)) from error


def _servers(settings: AgentSettings, servers: Sequence[str]) -> list[TimeServer]:
    try:
        named = [read_server(text) for text in servers]
    except SettingsError as error:
        raise UserError(f"--server {error}") from error
    return list(dict.fromkeys([*settings.time_servers, *named]))


def _measured(
    settings: AgentSettings, config: Path, servers: list[TimeServer], seconds: float,
    *, rate: bool, quiet: bool,
) -> Findings:  # fmt: skip
    measuring = Measuring(duration_s=seconds, train_s=_STEP_S, rate=rate)
    with _progress(quiet=quiet) as advanced:
        try:
            return asyncio.run(measure_setup(settings, config.parent, servers, measuring, advanced))
        except AgentError as error:
            raise UserError(str(error)) from error


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A progress bar on standard error if it is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _what, _share: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def _show(found: Validation, *, as_json: bool) -> None:
    plain = as_plain(found, versions())
    if as_json:
        json_out().write(json_text(plain, indent=1) + "\n")
        return
    console = plain_console()
    words = found.fitness.words
    console.print(f"[bold {_COLOURS[words]}]{words.upper()}[/]", highlight=False)
    for each in found.verdicts:
        for reason in each.reasons:
            console.say(f"  {each.query.name}: {reason}")
        if each.change_first:
            console.say(f"  {each.query.name}: change first: {each.change_first}")
    for text, _ in found.setup.concerns:
        console.say(f"  {text}")
    tables = {
        "Queries": query_table(found), "Clocks": clock_table(found), "Links": link_table(found),
        "Stability of the clock": deviation_table(found), "Measured besides": fact_table(plain),
    }  # fmt: skip
    for title, table in tables.items():
        if table.rows:
            console.print(f"\n[bold]{title}[/]", highlight=False)
            console.print(_rich(table))
    if not found.verdicts:
        print_stderr(
            "no query was given, so nothing is judged but the hardware: add --site or --query\n"
        )


def _compare_two(
    first: Path, second: Path, out: Path | None, *, as_json: bool, quiet: bool
) -> None:  # fmt: skip
    if out is not None:
        check_new_page(out, (page.TWO_LOGS_HTML, page.TWO_LOGS_JSON))
    with watched("reading", quiet=quiet) as advanced:
        found = compare_logs(read_columns(first, advanced), read_columns(second, advanced))
    if out is not None:
        page.write_two_logs(found, first, second, out, typed())
    if as_json:
        json_out().write(json_text(plain(found), indent=1) + "\n")
        return
    console = plain_console()
    console.say(f"A: {first}\nB: {second}")
    console.print(_rich(beside_table(found)))
    console.say(
        "later in B: B's arrival less A's, less the median of all "
        f"({duration_text(found.median_ns)}: clocks and ways together)"
    )


def _rich(table: Table) -> object:
    return table_of(table.headings, table.rows, show_header=any(table.headings), **NO_BOX)


# ``slackwater clocks``.


@takes_options
def show_clocks(
    *,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Traces, CSV, Parquet or an arrival log; - = stdin."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for clocks.html and clocks.json.")
    ] = None,
    as_json: JsonNumbers = False,
    read: InputOptions,
    quiet: Quiet = False,
) -> None:
    """Says of each clock how far it is off, how well that is known, and the --clock to go on with.

    By its syncs, or by arrivals less stamps: an event arrives after it happened, so the least
    difference is the largest offset. That the clock is slow and not the way long, it cannot know.
    """
    if out is not None:
        check_new_page(out, (clocks_page.HTML, clocks_page.JSON))
    files = files_of(source, copying(quiet=quiet))
    with work_folder(None) as folder, watched("reading", quiet=quiet) as advanced:
        with ending_with_a_command(files, read.form()):
            prepared = prepare(files, folder, read.form(), hold=True)
        arrives = prepared.log.arrival_given
        found = clock_reports(prepared.log, arrival_given=arrives, advanced=advanced)
    name = ", ".join(files)
    if out is not None:
        clocks_page.write_clocks(found, name, out, typed())
    if as_json:
        json_out().write(json_text(clocks_page.as_plain(found, name), indent=1) + "\n")
        return
    console = plain_console()
    console.say(clocks_page.headline(found))
    table = clocks_page.clocks_table(found)
    console.print(table_of(table.headings, table.rows, bool, **NO_BOX))
    for each in remarks(found):
        console.say(each)
    if out is not None:
        sys.stdout.write(f"{out / clocks_page.HTML}\n")
