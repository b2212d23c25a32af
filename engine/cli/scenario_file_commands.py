"""``slackwater new``, ``check`` and ``run FILE.toml --sweep``: scenario files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from slackwater.engine.apps.report.page.document import check_page_folder
from slackwater.engine.apps.report.verdict import write_summaries
from slackwater.engine.apps.scenario_run import (
    FILE,
    check_questions,
    load_file,
    read_options,
    run_time_hints,
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
from slackwater.engine.cli.options import typed
from slackwater.engine.cli.terminal import if_interrupted, watched
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.extras import need

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


# ``slackwater run FILE.toml --sweep PATH=VALUES``: one scenario at many settings.


SEED: Final = "seed"
_AGAIN = "the same command goes on with the cells that are missing"


def sweep(
    name: str, texts: Sequence[str], settings: Sequence[str], seeds: int | None, out: Path | None,
    summaries: Sequence[Path], *, quiet: bool,
) -> None:  # fmt: skip
    """Runs the scenario file ``name`` at every combination of the swept settings.

    Raises:
        UserError: not a file, or an option is wrong.
        typer.Exit: with 1, if the file's own setting does not keep its thresholds.
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
    own = tuple(nearest(axis, scenario.setting(axis.path, options)) for axis in axes)
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
    with if_interrupted(_AGAIN), _progress(len(jobs), quiet) as advanced:
        answers = answered(path, jobs, out, advanced)
    findings = SweepFindings.of(axes, answers)
    write_sweep(findings, scenario.title, own, typed(), out, seeds)
    holds, headline = assess(findings, own)
    write_summaries(summaries, scenario.title, headline, checks_at(findings, own))
    if not quiet:
        typer.echo(headline)
        for cell, why in findings.errors.items():
            typer.echo(f"could not be run: {', '.join(cell)}: {why}", err=True)
        typer.echo(out / HTML)
    if not holds:
        raise typer.Exit(1)


def _progress(jobs: int, quiet: bool) -> AbstractContextManager[Callable[[int], None]]:
    return watched("sweep:", quiet=quiet, unit="runs", total=jobs)


def _checked(axes: Sequence[Axis], first: Cell) -> list[Cell]:
    """Cells in which each value of each axis is once."""
    return [
        (*first[:number], value, *first[number + 1 :])
        for number, axis in enumerate(axes)
        for value in axis.values
    ]


def _of_sweep(error: UserError, axes: Sequence[Axis]) -> UserError:
    """The mistake of a value that ``--sweep``, not ``--set``, gave."""
    message = str(error)
    about = re.match(r"--set ([^=:\s]+)", message)
    swept = about is not None and about[1] in {axis.path for axis in axes}
    return UserError(message.replace("--set", "--sweep", 1)) if swept else error
