"""``slackwater run`` and ``slackwater simulate``: scenarios from log to report."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from slackwater.edge_agent.standard_streams import taking_name
from slackwater.engine.apps.report.verdict import VerdictCase, check_summaries, write_summaries
from slackwater.engine.apps.scenario_run import (
    REPORT,
    check_parents,
    load,
    read_options,
    run_scenario,
    scenario_names,
    simulated,
)
from slackwater.engine.cli.options import (
    LOCAL,
    Against,
    Summary,
    check_against,
    print_against,
    refuse_options,
    typed,
)
from slackwater.engine.cli.terminal import (
    if_interrupted,
    plain_console,
    print_compiling,
    table_of,
    watched,
)
from slackwater.engine.cli.visible import print_stderr
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.extras import need
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.hosts.java import need_spark, spark_lacks
from slackwater.engine.hosts.pipeline import Advanced, Host
from slackwater.engine.scenario import Score

Name = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help=f"{', '.join(scenario_names())}; or a file, such as my-shop.toml.",
        autocompletion=scenario_names,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the scenario; repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no table.")]
_RESUME: Final = "the same command with --resume goes on"
_WIDTH: Final = 160
"""Of tables that are printed into a file or a pipe."""


def run(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run; default: out/SCENARIO.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: local[*].")
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Without Spark; the default where it is not.")
    ] = False,
    order: Annotated[
        str | None, typer.Option(metavar="ORDER", help="Another main order than the scenario's.")
    ] = None,
    settings: Set = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUES",
            help="Of a file: a run for each value, as 1,2,3 or 1ms..200ms/5; repeatable.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Of a sweep: seeds per cell; default: 1.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that --out holds.")
    ] = False,
    against: Against = None,
    summary: Summary = None,
    quiet: Quiet = False,
) -> None:
    """Makes a scenario's log, runs it through the engine, scores it, writes report.html."""
    need("sim")
    check_summaries(summary or ())
    if sweep:
        from slackwater.engine.cli.scenario_file_commands import sweep as swept  # noqa: PLC0415 - rarely asked for

        given = {"--order": order, "--against": against, "--overwrite": overwrite}
        refuse_options(given, "goes with a single run, not with --sweep")
        swept(name, sweep, settings or [], seeds, out, summary or (), quiet=quiet)
        return
    if seeds is not None:
        raise UserError("--seeds goes with --sweep; one run has one seed: --set seed=2")
    scenario = load(name)
    options = read_options(scenario, settings or [])
    folder = out or Path("out") / Path(name).stem
    check_against(against, folder)

    @contextmanager
    def passing(what: str) -> Iterator[Advanced]:
        with if_interrupted(_RESUME), watched(what, quiet=quiet) as advanced:
            yield advanced

    host = _host(master, in_process=in_process, quiet=quiet)
    print_compiling(quiet=quiet)
    ran = run_scenario(
        scenario, options, folder, host, order, resume=resume,
        overwrite=overwrite, making=lambda what: watched(what, quiet=quiet), passing=passing,
        warn=lambda line: print_stderr(f"warning: {line}\n"), command=typed(),
    )  # fmt: skip
    print_against(against, folder)
    _summarise(summary or (), scenario.title, ran.score)
    if not quiet:
        _print(ran.score, folder, ran.manifest)
    if ran.score.decisive and not all(claim.holds for claim in ran.score.claims):
        raise typer.Exit(1)


def _summarise(files: Sequence[Path], title: str, score: Score) -> None:
    cases = [VerdictCase(each.text, each.holds, each.detail) for each in score.claims]
    write_summaries(files, title, behind_excluded(score.facts["excluded"], ""), cases)


def _host(master: str | None, *, in_process: bool, quiet: bool) -> Host:
    """Spark, unless it is not wanted, or not here and not asked for by a master.

    Raises:
        UserError: it is asked for and not here, or not wanted either.
    """
    if in_process:
        if master is not None:
            raise UserError("--in-process and --master: give one of them")
        return Host()
    if master is not None:
        need_spark("leave --master out: the answers are the same")
        return Host(master)
    lacks = spark_lacks()
    if lacks and not quiet:
        print_stderr(f"In this process, with the answers that Spark gives. {lacks}\n")
    return Host(None if lacks else LOCAL)


def simulate(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new arrival log.")],
    settings: Set = None,
    quiet: Quiet = False,
) -> None:
    """Writes only a scenario's arrival log, with truth/ and manifest.json in the same folder."""
    scenario = load(name)
    options = read_options(scenario, settings or [])
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: exists already; choose a new folder")
    check_parents(out)
    unfinished = out.absolute().with_name(f".{out.absolute().name}.simulating")
    log = unfinished / "log"
    try:
        # The log's folder is the one that takes the name; the rest moves into it.
        with taking_name(unfinished, out), taking_name(log, out):
            if unfinished.exists():
                shutil.rmtree(unfinished)  # of a simulation that was cut off
            manifest = simulated(
                scenario, options, unfinished, lambda what: watched(what, quiet=quiet)
            )
            for path in sorted(unfinished.iterdir()):
                if path != log:
                    path.rename(log / path.name)
            if out.exists():
                out.rmdir()
            log.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if not quiet:
        typer.echo(f"{out}: hash {manifest['log_sha256']}")


def _print(score: Score, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Verdict first, then the scenario's tables, then where the report is."""
    console = plain_console(_WIDTH)
    for claim in score.claims:
        mark = "[green]holds[/]" if claim.holds else "[red]fails[/]"
        console.print(
            f"{mark}  {escape(claim.text)}  [dim]{escape(claim.detail)}[/]", highlight=False
        )
    for table in score.tables:
        cells = [["" if cell is None else cell for cell in row] for row in table.rows]
        title, note = escape(table.title), escape(table.note) or None
        console.print(table_of(table.headings, cells, title=title, caption=note))
    console.print(f"hash {manifest['log_sha256']}", highlight=False)
    sys.stdout.write(f"{folder / REPORT}\n")
