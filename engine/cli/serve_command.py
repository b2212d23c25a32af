"""``slackwater serve`` and ``slackwater emulate``: servers and links of this machine."""

from __future__ import annotations

import os
import signal
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.edge_agent.errors import print_stderr
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.hosts.live.questions import check_claim
from slackwater.engine.hosts.pipeline import attribute_types, check_order, check_plans
from slackwater.engine.log.log_files import log_files
from slackwater.engine.query.fields import named_attributes
from slackwater.engine.server.demonstration import demonstrate
from slackwater.engine.server.serving import serve
from slackwater.engine.server.site_file import SiteSettings, read_site

if TYPE_CHECKING:
    from slackwater.simulator.emulator.settings import Emulation


# ``slackwater emulate``: the simulator's links with real packets, between network namespaces.


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
    from slackwater.simulator.emulator.running import emulate
    from slackwater.simulator.emulator.settings import read_links_file
    from slackwater.simulator.recorded import data_directory

    emulation = read_links_file(links)
    if check:
        typer.echo(_emulation_text(emulation), nl=False)
        return
    data = data_directory(os.environ)
    code = emulate(
        emulation, data, context.args, within,
        lambda line: None if quiet else print_stderr(f"{line}\n"),
    )  # fmt: skip
    raise typer.Exit(code)


def _emulation_text(emulation: Emulation) -> str:
    """Namespaces with their addresses, and settings of links that differ from the defaults."""
    lines = [
        f"{emulation.prefix}{name}  {address}" for name, address in emulation.addresses.items()
    ]
    from slackwater.simulator.links import LinkSettings

    usual = LinkSettings()
    for link in emulation.links:
        for source, target, _, settings in link.ways:
            changes = [
                f"{each.name} = {getattr(settings, each.name)}"
                for each in fields(settings)
                if getattr(settings, each.name) != getattr(usual, each.name)
            ]
            lines.append(
                f"{source} -> {target}: {'; '.join(changes) or 'nothing happens to packets'}"
            )
    return "\n".join(lines) + "\n"


# ``slackwater serve``: a gateway on this machine, its arrival log, and answers from it.


class Engine(StrEnum):
    """Kinds of engines."""

    SPARK = "spark"
    EMBEDDED = "embedded"
    NONE = "none"


def serve_site(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Settings of the site (TOML)."),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(help="Who answers the queries, instead of what the settings say."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only say whether the settings are right, and print them."),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="A shop with three readers whose clocks are wrong, and the live page."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Receives the events of agents, writes the arrival log, answers queries as events come."""

    def say(line: str) -> None:
        if not quiet:
            print_stderr(f"{line}\n")

    if demo:
        if config is not None or engine is not None or check:
            raise UserError("--demo has settings of its own: give no others")
        demonstrate(say)
        return
    if config is None:
        raise UserError("--config FILE must be given; --demo shows what it is like")

    def read() -> SiteSettings:
        return read_site(config, None if engine is None else engine.value)

    if not check:  # one that comes early waits until the gateway can read the settings again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    settings = read()
    if check:
        if settings.tls is not None:
            settings.tls.context()
        if settings.engine is not None:
            _check(settings.engine, settings.log)
        typer.echo(settings.printed, nl=False)
        return
    serve(settings, say, read)


def _check(engine: Task, log: Path) -> None:
    """Check the queries against the existing log and answers."""
    check_claim(Path(engine.answers), log, engine.questions.of_each())
    if not log.is_dir() or not log_files(log):
        return
    settings = engine.questions.chain_settings()
    names = set().union(*map(named_attributes, settings.plans))
    if attribute_types(log, names):  # otherwise there are no events yet
        check_plans(log, settings.plans)
        check_order(log, settings)
