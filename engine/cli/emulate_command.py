"""``slackwater emulate``: the simulator's links on real packets, between network namespaces."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.terminal.visible import tell

if TYPE_CHECKING:
    from simulator.emulator.settings import Emulation


def emulate_links(
    context: typer.Context,
    links: Annotated[Path, typer.Argument(metavar="LINKS.toml", help="Settings of the links.")],
    within: Annotated[
        str | None,
        typer.Option("--in", metavar="NAME", help="The namespace in which COMMAND runs."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say whether the settings are right; needs no root."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Network namespaces with links like a scenario's between them, for real sockets.

    Runs until it is interrupted; with -- COMMAND ... until that ends, with its exit code.
    """
    # ruff: noqa: PLC0415 - links draw with compiled code, which help does without
    from simulator.emulator.running import emulate
    from simulator.emulator.settings import read_links_file
    from simulator.recorded import data_directory

    emulation = read_links_file(links)
    if check:
        typer.echo(_shown(emulation), nl=False)
        return
    data = data_directory(os.environ)
    code = emulate(
        emulation, data, context.args, within, lambda line: None if quiet else tell(f"{line}\n")
    )
    raise typer.Exit(code)


def _shown(emulation: Emulation) -> str:
    """Namespaces with their addresses, and the settings of links that are not as they would be."""
    lines = [
        f"{emulation.prefix}{name}  {address}" for name, address in emulation.addresses.items()
    ]
    from simulator.links import LinkSettings

    usual = LinkSettings()
    for link in emulation.links:
        for source, target, _, settings in link.ways:
            told = [
                f"{each.name} = {getattr(settings, each.name)}"
                for each in fields(settings)
                if getattr(settings, each.name) != getattr(usual, each.name)
            ]
            lines.append(f"{source} -> {target}: {'; '.join(told) or 'nothing happens to packets'}")
    return "\n".join(lines) + "\n"
