"""``slackwater run FILE.toml --sweep PATH=VALUES``: one scenario at many settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import typer

from engine.cli.options.report_option import typed
from engine.cli.terminal.watch import if_interrupted, watched
from engine.errors import UserError
from engine.passes.scenario_run import FILE, load_file, read_options
from engine.report.page.page_folder import check_page_folder
from engine.sweep.cells import CELLS, answered, jobs_of
from engine.sweep.findings import Findings
from engine.sweep.grid import Axis, Cell, cells, nearest, read_axes
from engine.sweep.page import HTML, JSON, told, write_sweep

SEED: Final = "seed"
_AGAIN = "the same command goes on with the cells that are missing"


def sweep(
    name: str, texts: Sequence[str], settings: Sequence[str], seeds: int, out: Path, *, quiet: bool
) -> None:
    """Runs the scenario file ``name`` at every combination of the swept settings.

    Raises:
        UserError: not a file, or an option is wrong.
        typer.Exit: with 1, if the file's own setting does not keep its thresholds.
    """
    if not name.endswith(FILE):
        raise UserError(f"--sweep needs a scenario file, such as my-shop{FILE}, not {name!r}")
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
    for cell in _checked(axes, grid[0]):  # a wrong path or value is told before the work
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
    findings = Findings.of(axes, answers)
    write_sweep(findings, scenario.title, own, typed(), out, seeds)
    holds, headline = told(findings, own)
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
