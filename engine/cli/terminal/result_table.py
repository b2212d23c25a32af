"""Results as a table, for a person at a terminal; a pipe or a file gets all of them as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.cli.terminal.plain_console import PlainConsole
from engine.cli.terminal.visible import visible

ROWS_SHOWN: Final = 50
_CELL_MAX: Final = 60
_SPREAD: Final = ("low", "middle", "high")


def show_results(lines: Path, console: Console | None = None) -> None:
    """Prints the first results of a JSONL file as a table, and how many more there are."""
    with lines.open(encoding="utf-8") as file:
        shown = [_flat(json.loads(line)) for line in islice(file, ROWS_SHOWN)]
        more = sum(1 for _ in file)
    console = console or PlainConsole()
    table = Table()
    columns = list(dict.fromkeys(name for row in shown for name in row))
    told = [name for name in columns if name not in ("query", "site") or _differ(shown, name)]
    for name in told:
        numbers = all(isinstance(row.get(name, 0), int | float) for row in shown)
        table.add_column(escape(name), justify="right" if numbers else "left", overflow="fold")
    for row in shown:
        table.add_row(*(escape(_cell(row.get(name))) for name in told))
    console.print(table if shown else "no results")
    if more:
        console.print(f"... and {more:,} more; --out FILE keeps all of them", highlight=False)


def _differ(rows: Iterable[Mapping[str, Any]], name: str) -> bool:
    return len({row.get(name) for row in rows}) > 1


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """One row: objects by their names with dots, a match's events in one cell."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name == "events":
            row[name] = ", ".join(_event(event) for event in value)
        elif name in _SPREAD and value == record.get("value"):
            continue  # without DRIFT, or where it changed nothing
        elif name == "bounds":
            continue  # of every aggregate, two numbers: too wide for a terminal
        elif isinstance(value, Mapping):
            prefix = "" if name in ("window", "value", "key", "attrs") else f"{name}."
            row |= {f"{prefix}{inner}": each for inner, each in value.items()}
        else:
            row[name] = value
    return row


def _event(event: Mapping[str, Any]) -> str:
    number = "" if event.get("seq") is None else f"#{event['seq']}"
    return f"{event.get('type') or 'event'} {event.get('source', '')}{number} @{event.get('ts')}"


def _cell(value: Any) -> str:
    if value is None:
        return "\N{EN DASH}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(text)
    return text if len(text) <= _CELL_MAX else text[: _CELL_MAX - 3] + "..."
