"""The report's section of the sources: who held the others back, and how far each had got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.report.elements import Cell, details, section, table
from engine.report.sources import how_it_ended
from engine.report.units import milliseconds

_OPEN: Final = 12
_NOTE: Final = (
    "Held others back: how long, in all, events of others stood ready that then went on because of "
    "this source: its event or promise came, its gap was given up, or its silence grew longer than "
    "its idle timeout. Silences: how often nothing came of it for longer than that. Behind: from "
    "its newest event time, on the engine's clock, to the last arrival of the input; a negative "
    "number means that its clock runs ahead. Timeouts, offset and uncertainty as in force at the "
    "end; a dash where the order has no such thing."
)


def source_section(report: Mapping[str, Any]) -> str:
    """A table of the main pass's sources."""
    found: Sequence[Mapping[str, Any]] = report["sources"]
    if not found:
        return ""
    several_sites = len({row["site"] for row in found}) > 1
    several_streams = len({row["stream"] for row in found}) > 1
    rows: list[tuple[Cell, ...]] = []
    for row in found:
        name = [row["source"] or "(none)"]
        name = [row["site"], *name] if several_sites else name
        name = [*name, row["stream"] or "(none)"] if several_streams else name
        rows.append(
            (
                "/".join(name),
                milliseconds(row["blocked_ns"]),
                row["silences"],
                how_it_ended(row),
                milliseconds(row["silent_ns"]),
                milliseconds(row["behind_ns"]),
                milliseconds(row["gap_timeout"]),
                milliseconds(row["idle_timeout"]),
                milliseconds(row["offset"]),
                milliseconds(row["uncertainty"]),
            )
        )
    headings = (
        "source", "held others back [ms]", "silences", "at the end", "silent since [ms]",
        "behind [ms]", "gap timeout [ms]", "idle timeout [ms]", "offset [ms]", "uncertainty [ms]",
    )  # fmt: skip
    return section(
        "sources",
        "Sources: who held us back",
        details(
            f"Each of {len(rows)} sources, the one that held others back longest first",
            table(headings, rows, _NOTE),
            shown=len(rows) <= _OPEN,
        ),
    )
