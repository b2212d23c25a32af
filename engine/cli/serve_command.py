"""``slackwater serve``: a gateway on this machine, writing its arrival log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.terminal.visible import tell
from engine.server.serving import serve
from engine.server.site_file import read_site


def serve_site(
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="Settings of the site (TOML).")
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say whether the settings are right, and print them."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Receives the events of agents, answers their time sync, writes the arrival log."""
    settings = read_site(config)
    if check:
        if settings.tls is not None:
            settings.tls.context()
        typer.echo(settings.printed, nl=False)
        return
    serve(settings, lambda line: None if quiet else tell(f"{line}\n"))
