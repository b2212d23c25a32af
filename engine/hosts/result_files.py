"""What a pass left behind, as files: answers of queries, events in order, events set aside."""

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
"""Endings of the files that hold tables."""
_LINES: Final = (".jsonl", ".json")


class Answers(Struct, frozen=True):
    """The results of ``plans`` (at least one) in the store ``parts``.

    ``final``: those that remain, each once, in order of time; else all insertions and retractions.
    ``dates``: how times are written; None: as numbers of the unit. ``table_dates``: the same, in
    tables and files alone (iteration in Python gives numbers).
    """

    parts: PartStore
    plans: Sequence[Plan]
    time_unit: str
    final: bool = False
    dates: Dates | None = None
    table_dates: Dates | None = None

    @property
    def changes(self) -> int:
        """How many insertions and retractions there were."""
        return sum(sum(self.parts.open(kind).rows().values()) for kind in KINDS)

    def in_ns(self) -> Answers:
        """The same, with times as numbers of ns."""
        return structs.replace(self, time_unit="ns", dates=None)

    @property
    def events_max(self) -> int:
        """The most events that a match may have."""
        return max(most_events(statement_plan(plan)) for plan in self.plans)

    def lines(self, out: Path | TextIO) -> int:
        """Writes them as JSON lines; gives their number."""
        names = [plan.name for plan in self.plans]
        parts = final_results(self.parts) if self.final else self.parts
        return export_jsonl(parts, out, self.time_unit, names, time_labels(self.plans), self.dates)

    def table(self, out: Path) -> int:
        """Writes them, of one kind, as one table, by the ending of ``out``; gives their number.

        Raises:
            UserError: a field has two types.
        """
        (kind,) = {plan.result_kind for plan in self.plans}
        times = time_labels(self.plans)
        parts = final_results(self.parts) if self.final else self.parts
        dates, values = self.dates or self.table_dates, time_values(self.plans)
        return export_table(parts, out, kind, self.time_unit, times, self.events_max, dates, values)


class StoredEvents(Struct, frozen=True):
    """Events in the store ``parts``: those in order, or with ``SIDE_OUTPUT`` those set aside."""

    parts: PartStore
    time_unit: str
    files: EventFiles = ORDERED_STREAM

    def in_ns(self) -> StoredEvents:
        """The same, with times in ns."""
        return structs.replace(self, time_unit="ns")

    def lines(self, out: Path | TextIO) -> int:
        """Writes them as JSON lines; gives their number."""
        return export_ordered_jsonl(self.parts, out, self.time_unit, self.files)

    def table(self, out: Path) -> int:
        """Writes them as one table, by the ending of ``out``; gives their number.

        Raises:
            UserError: an attribute has two types.
        """
        return export_ordered_table(self.parts, out, self.time_unit, self.files)


def mixed_kinds(plans: Sequence[Plan]) -> str:
    """The kinds of the results of ``plans`` in words, if one table cannot hold them; else empty."""
    kinds = sorted({plan.result_kind for plan in plans}, reverse=True)
    return " and ".join(kinds) if len(kinds) > 1 else ""


def check_name(out: Path) -> None:
    """The name of a file for results says what it holds.

    Raises:
        UserError: it does not.
    """
    if out.suffix not in (*_LINES, *TABLES):
        raise UserError(f"{out}: name it .jsonl, .parquet or .csv")


def write(output: Answers | StoredEvents, out: Path) -> int:
    """Writes a table where the name ``out`` ends in that of one, else JSON lines. In files all
    times are written alike.
    """
    if isinstance(output, Answers) and output.table_dates is not None:
        output = structs.replace(output, dates=output.table_dates)
    return output.table(out) if out.suffix in TABLES else output.lines(out)
