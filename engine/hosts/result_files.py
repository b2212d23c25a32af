"""The output of a pass as files: answers of queries, ordered events, side output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct, structs

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.row_export import CSV, PARQUET
from slackwater.engine.output.export import export_jsonl, export_table
from slackwater.engine.output.json_lines import Dates
from slackwater.engine.output.ordered_stream import (
    ORDERED_STREAM,
    EventFiles,
    export_ordered_jsonl,
    export_ordered_table,
)
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.result_kinds import KINDS, final_results
from slackwater.engine.query.plan import Plan, statement_plan
from slackwater.engine.query.results_as_events import time_labels, time_values
from slackwater.engine.query.shape import most_events

TABLES: Final = (PARQUET, CSV)
"""Suffixes of tables."""
_LINES: Final = (".jsonl", ".json")


class Answers(Struct, frozen=True):
    """The results of ``plans`` (at least one) in the store ``parts``.

    ``final``: only results that are not retracted, once each, in order of time; else all insertions
    and retractions. ``dates``: format of times; None: numbers of the unit. ``table_dates``: the
    format in tables and files only (iteration in Python gives numbers).
    """

    parts: PartStore
    plans: Sequence[Plan]
    time_unit: str
    final: bool = False
    dates: Dates | None = None
    table_dates: Dates | None = None

    @property
    def changes(self) -> int:
        """Number of insertions and retractions."""
        return sum(sum(self.parts.open(kind).rows().values()) for kind in KINDS)

    def in_ns(self) -> Answers:
        """Return the same answers, with times as numbers of ns."""
        return structs.replace(self, time_unit="ns", dates=None)

    @property
    def events_max(self) -> int:
        """Largest number of events in a match."""
        return max(most_events(statement_plan(plan)) for plan in self.plans)

    def lines(self, out: Path | TextIO) -> int:
        """Write JSON lines; return their number."""
        names = [plan.name for plan in self.plans]
        parts = final_results(self.parts) if self.final else self.parts
        return export_jsonl(parts, out, self.time_unit, names, time_labels(self.plans), self.dates)

    def table(self, out: Path) -> int:
        """Write results of one kind as one table, by the suffix of ``out``; return their number.

        Raises:
            UserError: a field has two types.
        """
        (kind,) = {plan.result_kind for plan in self.plans}
        times = time_labels(self.plans)
        parts = final_results(self.parts) if self.final else self.parts
        dates, values = self.dates or self.table_dates, time_values(self.plans)
        return export_table(parts, out, kind, self.time_unit, times, self.events_max, dates, values)


class StoredEvents(Struct, frozen=True):
    """Events in the store ``parts``: the ordered stream or, with ``SIDE_OUTPUT``, the side
    output.
    """

    parts: PartStore
    time_unit: str
    files: EventFiles = ORDERED_STREAM

    def in_ns(self) -> StoredEvents:
        """Return the same events, with times in ns."""
        return structs.replace(self, time_unit="ns")

    def lines(self, out: Path | TextIO) -> int:
        """Write JSON lines; return their number."""
        return export_ordered_jsonl(self.parts, out, self.time_unit, self.files)

    def table(self, out: Path) -> int:
        """Write one table, by the suffix of ``out``; return the number of rows.

        Raises:
            UserError: an attribute has two types.
        """
        return export_ordered_table(self.parts, out, self.time_unit, self.files)


def mixed_kinds(plans: Sequence[Plan]) -> str:
    """Return the kinds of results in ``plans`` if one table cannot have them; else empty."""
    kinds = sorted({plan.result_kind for plan in plans}, reverse=True)
    return " and ".join(kinds) if len(kinds) > 1 else ""


def check_name(out: Path) -> None:
    """Check the suffix of a file for results.

    Raises:
        UserError: the suffix is unknown.
    """
    if out.suffix not in (*_LINES, *TABLES):
        raise UserError(f"{out}: name it .jsonl, .parquet or .csv")


def write(output: Answers | StoredEvents, out: Path) -> int:
    """Write a table or JSON lines, by the suffix of ``out``; all times in files have one format."""
    if isinstance(output, Answers) and output.table_dates is not None:
        output = structs.replace(output, dates=output.table_dates)
    return output.table(out) if out.suffix in TABLES else output.lines(out)
