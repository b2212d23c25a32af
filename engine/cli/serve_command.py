"""``slackwater serve``: a gateway on this machine, its arrival log, and answers from it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.visible import tell
from engine.server.serving import serve
from engine.server.site_file import read_site


class Engine(StrEnum):
    """Kinds of engines."""

    SPARK = "spark"
    EMBEDDED = "embedded"
    NONE = "none"


def serve_site(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="Settings of the site (TOML).")
    ],
    engine: Annotated[
        Engine | None,
        typer.Option(help="Who answers the queries, instead of what the settings say."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say whether the settings are right, and print them."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Receives the events of agents, writes the arrival log, answers queries as events come."""
    settings = read_site(config, None if engine is None else engine.value)
    if check:
        if settings.tls is not None:
            settings.tls.context()
        typer.echo(settings.printed, nl=False)
        return
    serve(settings, lambda line: None if quiet else tell(f"{line}\n"))
