"""``slackwater serve``: a gateway on this machine, its arrival log, and answers from it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.options.window_option import HistoryPath
from engine.cli.terminal.visible import tell
from engine.errors import UserError
from engine.live.claim import check_claim
from engine.log.files.log_files import log_files
from engine.passes.pipeline import attribute_types, check_order, check_plans
from engine.query.fields import named_attributes
from engine.server.demo.demonstration import demonstrate
from engine.server.engine_section import EngineSettings
from engine.server.serving import serve
from engine.server.site_file import read_site


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
    history: HistoryPath = None,
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
            tell(f"{line}\n")

    if demo:
        if config is not None or engine is not None or history is not None or check:
            raise UserError("--demo has settings of its own: give no others")
        demonstrate(say)
        return
    if config is None:
        raise UserError("--config FILE must be given; --demo shows what it is like")
    settings = read_site(config, None if engine is None else engine.value, history)
    if check:
        if settings.tls is not None:
            settings.tls.context()
        if settings.engine is not None:
            _check(settings.engine, settings.log)
        typer.echo(settings.printed, nl=False)
        return
    serve(settings, say)


def _check(engine: EngineSettings, log: Path) -> None:
    """What is asked against what the log and the answers already have."""
    check_claim(engine.answers, log, engine.questions.of_each())
    if not log.is_dir() or not log_files(log):
        return
    settings = engine.questions.chain_settings()
    wanted = set().union(*map(named_attributes, settings.plans))
    if attribute_types(log, wanted):  # else there were no events yet
        check_plans(log, settings.plans)
        check_order(log, settings)
