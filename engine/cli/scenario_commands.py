"""``slackwater run`` with ``--sweep``, ``simulate``, ``new`` and ``check``: scenarios, from files
or built in, from log to report.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from slackwater.edge_agent.errors import print_stderr
from slackwater.edge_agent.standard_streams import taking_name
from slackwater.engine.apps.report.page.document import check_page_folder, check_parents
from slackwater.engine.apps.report.verdict import check_summaries, write_summaries
from slackwater.engine.apps.scenario_run import (
    FILE,
    REPORT,
    check_questions,
    load,
    load_file,
    read_options,
    run_scenario,
    run_time_hints,
    scenario_names,
    simulated,
)
from slackwater.engine.apps.sweep.cells import (
    CELLS,
    Axis,
    Cell,
    answered,
    cells,
    jobs_of,
    nearest,
    read_axes,
)
from slackwater.engine.apps.sweep.page import (
    HTML,
    JSON,
    SweepFindings,
    assess,
    checks_at,
    write_sweep,
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
from slackwater.engine.core.errors import UserError, need
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.hosts.java import need_spark, spark_lacks
from slackwater.engine.hosts.pipeline import Advanced, Host
from slackwater.engine.log.whole_file import whole_folder
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
"""Width of tables in a file or a pipe."""


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
        single_run_options = {"--order": order, "--against": against, "--overwrite": overwrite}
        refuse_options(single_run_options, "goes with a single run, not with --sweep")
        run_sweep(name, sweep, settings or [], seeds, out, summary or (), quiet=quiet)
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
    headline = behind_excluded(ran.score.facts["excluded"], "")
    write_summaries(summary or (), scenario.title, headline, ran.score.claims)
    if not quiet:
        _print(ran.score, folder, ran.manifest)
    if ran.score.decisive and not all(claim.holds for claim in ran.score.claims):
        raise typer.Exit(1)


def _host(master: str | None, *, in_process: bool, quiet: bool) -> Host:
    """Spark, unless it is excluded, or missing and not requested by a master.

    Raises:
        UserError: it is requested and missing, or requested and excluded.
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
    # The log's folder is renamed to ``out``; the other files are moved into it.
    with whole_folder(out) as unfinished, taking_name(log := unfinished / "log", out):
        manifest = simulated(scenario, options, unfinished, lambda what: watched(what, quiet=quiet))
        for path in sorted(unfinished.iterdir()):
            if path != log:
                path.rename(log / path.name)
        if out.exists():
            out.rmdir()
        log.rename(out)
    if not quiet:
        typer.echo(f"{out}: hash {manifest['log_sha256']}")


def _print(score: Score, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Print verdicts, then the scenario's tables, then the place of the report."""
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


# ``slackwater new`` and ``slackwater check``: scenario files (``docs/scenarios.md``).


_SCHEMA_LINE = "#:schema {}\n\n"


def new(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The new file.")],
) -> None:
    """Writes a scenario file with comments, to be changed; it runs as it is."""
    need("sim")
    import slackwater.scenarios.from_file as ours  # noqa: PLC0415 - takes the simulator along

    if path.suffix != FILE:
        raise UserError(f"{path}: call it NAME{FILE}, by which slackwater run knows it")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_SCHEMA_LINE.format(ours.SCHEMA.as_uri()) + ours.TEMPLATE.read_text("utf-8"))
    except FileExistsError as error:
        raise UserError(f"{path}: exists already; choose another name") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    typer.echo(f"{path}: change it, then: slackwater check {path}; slackwater run {path}")


def check(
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE.toml", help="A scenario file.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="A setting otherwise; repeatable."),
    ] = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="What thresholds can be about.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="The JSON schema of scenario files, for editors.")
    ] = False,
) -> None:
    """Reads a scenario file and says what is wrong in it, with the line, and what a long run of it
    takes; runs nothing.
    """
    need("sim")
    import slackwater.scenarios.from_file as ours  # noqa: PLC0415 - takes the simulator along

    if metrics:
        for name, what in ours.METRICS.items():
            typer.echo(f"{name:<20} {what}")
    if schema:
        typer.echo(json.dumps(ours.schema(), indent=1))
    if path is None:
        if not (metrics or schema):
            raise UserError("name a file: slackwater check FILE.toml")
        return
    scenario = load_file(path)
    options = read_options(scenario, settings or [])
    check_questions(scenario, options)
    typer.echo(scenario.what)
    for line in run_time_hints(scenario, options):
        typer.echo(line)


# ``slackwater run FILE.toml --sweep PATH=VALUES``: one scenario with many settings.


SEED: Final = "seed"
_AGAIN = "the same command goes on with the cells that are missing"


def run_sweep(
    name: str, texts: Sequence[str], settings: Sequence[str], seeds: int | None, out: Path | None,
    summaries: Sequence[Path], *, quiet: bool,
) -> None:  # fmt: skip
    """Run the scenario file ``name`` with every combination of the swept settings.

    Raises:
        UserError: not a file, or an option is wrong.
        typer.Exit: with 1, if the file's own settings do not meet its thresholds.
    """
    if not name.endswith(FILE):
        raise UserError(f"--sweep needs a scenario file, such as my-shop{FILE}, not {name!r}")
    seeds = 1 if seeds is None else seeds
    out = out or Path("out") / f"{Path(name).stem}-sweep"
    if not 1 <= seeds <= 1_000:
        raise UserError(f"--seeds {seeds}: from 1 to 1,000")
    axes = read_axes(texts)
    if seeds > 1 and SEED in {axis.path for axis in axes}:
        raise UserError("--seeds: --sweep seed says the seeds already; give one of them")
    path = Path(name)
    scenario: Any = load_file(path)
    options = read_options(scenario, list(settings))
    file_cell = tuple(nearest(axis, scenario.setting(axis.path, options)) for axis in axes)
    grid = cells(axes)
    for cell in _checked(axes, grid[0]):  # a wrong path or value stops before the work
        pairs = [f"{axis.path}={value}" for axis, value in zip(axes, cell, strict=True)]
        try:
            read_options(scenario, [*settings, *pairs])
        except UserError as error:
            raise _of_sweep(error, axes) from error
    check_page_folder(out, (HTML, JSON, CELLS))
    seed = scenario.setting(SEED, options)
    first = 1 if seed is None else int(seed)
    jobs = jobs_of(axes, grid, first, seeds, settings)
    with (
        if_interrupted(_AGAIN),
        watched("sweep:", quiet=quiet, unit="runs", total=len(jobs)) as advanced,
    ):
        answers = answered(path, jobs, out, advanced)
    findings = SweepFindings.of(axes, answers)
    write_sweep(findings, scenario.title, file_cell, typed(), out, seeds)
    holds, headline = assess(findings, file_cell)
    write_summaries(summaries, scenario.title, headline, checks_at(findings, file_cell))
    if not quiet:
        typer.echo(headline)
        for cell, why in findings.errors.items():
            typer.echo(f"could not be run: {', '.join(cell)}: {why}", err=True)
        typer.echo(out / HTML)
    if not holds:
        raise typer.Exit(1)


def _checked(axes: Sequence[Axis], first: Cell) -> list[Cell]:
    """Cells that contain each value of each axis once."""
    return [
        (*first[:number], value, *first[number + 1 :])
        for number, axis in enumerate(axes)
        for value in axis.values
    ]


def _of_sweep(error: UserError, axes: Sequence[Axis]) -> UserError:
    """The error, attributed to ``--sweep`` if a swept value caused it."""
    message = str(error)
    about = re.match(r"--set ([^=:\s]+)", message)
    swept = about is not None and about[1] in {axis.path for axis in axes}
    return UserError(message.replace("--set", "--sweep", 1)) if swept else error
