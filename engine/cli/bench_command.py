"""``slackwater bench``: how fast this machine is, beside plain programs of the same run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from engine.cli.terminal import PlainConsole, tell_compiling
from engine.cli.visible import json_out
from engine.errors import SlackwaterError, UserError
from engine.report.numbers import as_json
from engine.speed.measures import NAMES, SLACK, Pace, measured

_WIDTH = 140
"""Of a table that is printed into a file or a pipe."""


def bench(
    events: Annotated[
        int, typer.Option(min=1_000, max=20_000_000, metavar="N", help="Of the stream, in memory.")
    ] = 1_000_000,
    rounds: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="The fastest of so many counts.")
    ] = 3,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Repeatable: {', '.join(NAMES)}."),
    ] = None,
    as_lines: Annotated[bool, typer.Option("--json", help="The same as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No word while kernels compile.")] = False,
) -> None:
    """Says how many events a second orders, windows and patterns take on this machine.

    Events of 20 sources, an eighth of them up to 1 s late, in one process, from memory to tables
    of answers. Beside each stands a plain program that gets the events all at once and in order.
    """
    names = tuple(only or NAMES)
    for name in names:
        if name not in NAMES:
            raise UserError(f"--only {name}: there are {', '.join(NAMES)}")
    tell_compiling(quiet=quiet)
    found = []
    for each in measured(events, rounds, names):
        found.append(each)
        if as_lines:
            out = json_out()
            out.write(as_json(_facts(each)) + "\n")
            out.flush()
    if not as_lines:
        _show(found)
    for each in found:
        if each.answers != each.beside_answers:
            raise SlackwaterError(
                f"{each.name}: {each.answers:,} answers of ours, {each.beside_answers:,} of "
                f"{each.beside}: please report this, with the output of slackwater doctor"
            )


def _facts(each: Pace) -> dict[str, object]:
    return {
        "name": each.name, "question": each.question, "events": each.events,
        "seconds": round(each.seconds, 4), "events_per_second": round(each.per_second),
        "answers": each.answers, "beside": each.beside,
        "beside_seconds": round(each.beside_seconds, 4), "ratio": round(each.ratio, 2),
    }  # fmt: skip


def _show(found: list[Pace]) -> None:
    table = Table(
        title=f"{found[0].events:,} events, the fastest round, one core",
        caption=f"M/s: million events a second of processor time. Windows and pattern read the "
        f"stream behind {SLACK}; the plain program has all events at once, in order.",
    )
    table.add_column("name")
    table.add_column("asked", overflow="fold")
    for heading in ("M/s", "answers"):
        table.add_column(heading, justify="right")
    table.add_column("beside it")
    table.add_column("times its time", justify="right")
    for each in found:
        table.add_row(
            each.name, escape(each.question), f"{each.per_second / 1e6:.2f}", f"{each.answers:,}",
            each.beside, f"{each.ratio:.1f}",
        )  # fmt: skip
    PlainConsole(width=None if sys.stdout.isatty() else _WIDTH).print(table)
