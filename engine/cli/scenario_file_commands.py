"""``slackwater new`` and ``slackwater check``: scenario files (``docs/scenarios.md``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import UserError
from engine.extras import need
from engine.passes.scenario_run import FILE, check_questions, foretold, load_file, read_options

_SCHEMA_LINE = "#:schema {}\n\n"


def new(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The new file.")],
) -> None:
    """Writes a scenario file with comments, to be changed; it runs as it is."""
    need("sim")
    import scenarios.from_file as ours  # noqa: PLC0415 - takes the simulator along

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
    import scenarios.from_file as ours  # noqa: PLC0415 - takes the simulator along

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
    for line in foretold(scenario, options):
        typer.echo(line)
