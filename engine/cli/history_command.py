"""``slackwater history FILE``: what runs with ``--history`` have found, by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from engine.cli.terminal import PlainConsole
from engine.cli.visible import json_out, visible
from engine.passes.inprocess import KeyHistory, key_histories
from engine.report.numbers import as_json
from engine.units import unit_ns


def show_history(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of query --history.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Of this key alone, as it is shown.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="Of this query alone.")] = None,
    time_unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Of the times shown: ns us ms s min h d.")
    ] = "ns",
    as_lines: Annotated[bool, typer.Option("--json", help="The same as JSON lines.")] = False,
) -> None:
    """Lists past results by key: how many, how many an hour, when the last one was known."""
    unit = unit_ns(time_unit)
    found = [
        each
        for each in key_histories(file)
        if query in (None, each.query) and key in (None, each.plain_key)
    ]
    if as_lines:
        out = json_out()
        for each in found:
            out.write(as_json(_facts(each, unit)) + "\n")
        return
    table = Table("site", "query", "key", "results", "an hour", f"last seen [{time_unit}]")
    for each in found:
        rate = "" if each.per_hour is None else f"{each.per_hour:.4g}"
        last = f"{each.last_ns // unit:,}"
        table.add_row(
            visible(each.site),
            visible(each.query),
            visible(each.key),
            f"{each.results:,}",
            rate,
            last,
        )
    PlainConsole().print(table)


def _facts(each: KeyHistory, unit: int) -> dict[str, object]:
    return {
        "site": each.site, "query": each.query, "key": json.loads(each.key),
        "results": each.results,
        "per_hour": each.per_hour, "first_seen": each.first_ns // unit,
        "last_seen": each.last_ns // unit,
    }  # fmt: skip
