"""A recording, played again (CSV, JSONL, Parquet): as fast as it was, faster, or all at once."""

from __future__ import annotations

import asyncio
import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from edge_agent.errors import AgentError
from edge_agent.inputs.base import Outlet, Surroundings
from edge_agent.inputs.parquet import PARQUET, is_installed, records
from edge_agent.inputs.record_fields import RecordFields, read_fields
from edge_agent.rows import BadRecord, Row, fits
from edge_agent.settings_file import Table
from edge_agent.units import NS_PER

ROWS_AT_ONCE: Final = 1000
FORMATS: Final = ("csv", "jsonl", PARQUET)
_SLICE_NS: Final = 10 * 10**6
"""Events that are due within so long go together."""


class ReplayInput:
    """Plays a file once.

    ``pace`` 0: at once; 1: event after event as their ``ts`` are apart; 10: ten times as fast.
    ``restamp``: the first event happens now by this device's clock, the others as far after it as
    they are played; else events keep their ``ts``.
    """

    def __init__(
        self, file: Path, form: str, pace: float, *, restamp: bool, fields: RecordFields,
        wall_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        """``records`` that were played."""
        self._file = file
        self._form = form
        self._pace = pace
        self._restamp = restamp
        self._fields = fields
        self._wall_ns = wall_ns

    async def run(self, outlet: Outlet) -> None:
        if self._form == PARQUET:
            await self._play(records(self._file, ROWS_AT_ONCE), outlet)
            return
        try:
            with self._file.open(encoding="utf-8-sig", newline="") as text:
                await self._play(_records(text, self._form), outlet)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise AgentError(f"{self._file}: {reason}") from error

    async def _play(
        self, records: Iterator[tuple[int, dict[str, Any] | None]], outlet: Outlet
    ) -> None:
        loop = asyncio.get_running_loop()
        first: int | None = None
        began, began_wall_ns = loop.time(), self._wall_ns()
        rows: list[Row] = []
        stream, first_due_ns, due_ns = "", 0, 0
        for line, record in records:
            try:
                named, row = self._fields.event(_there(record), self._wall_ns())
            except BadRecord as error:
                outlet.bad(str(error), f"{self._file}: line {line}")
                continue
            first = row.ts if first is None else first
            at_ns = int((row.ts - first) / self._pace) if self._pace else 0
            if self._restamp:
                row = row._replace(
                    ts=began_wall_ns + at_ns, te=began_wall_ns + at_ns + row.te - row.ts
                )
            late = at_ns - first_due_ns > _SLICE_NS
            if rows and (late or named != stream or len(rows) >= ROWS_AT_ONCE):
                await self._hand(stream, rows, began, due_ns, outlet)
                rows = []
            if rows and not fits(rows, row):
                await self._hand(stream, rows, began, due_ns, outlet)
                rows = []
            if not rows:
                first_due_ns = due_ns = at_ns
            stream, due_ns = named, max(due_ns, at_ns)
            rows.append(row)
        if rows:
            await self._hand(stream, rows, began, due_ns, outlet)

    async def _hand(
        self, stream: str, rows: list[Row], began: float, due_ns: int, outlet: Outlet
    ) -> None:
        """Hands on ``rows`` when the last of them is due."""
        wait = began + due_ns / NS_PER["s"] - asyncio.get_running_loop().time()
        await asyncio.sleep(max(wait, 0.0))
        self.counts["records"] += len(rows)
        await outlet.take(stream, rows)


def _records(text: Any, form: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Line number and record of each line; None: it is none."""
    if form == "csv":
        reader = csv.DictReader(text)
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(text, 1):
        if line.strip():
            yield number, _object(line)


def _there(record: dict[str, Any] | None) -> dict[str, Any]:
    if record is None:
        raise BadRecord("not an object of JSON")
    return record


def _object(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if type(record) is dict else None


def replay_input(table: Table, around: Surroundings) -> ReplayInput:
    """``kind = "replay"``: ``file format pace restamp``."""
    folder = Path(table.file).parent
    name = table.text("file")
    suffix = Path(name).suffix.lower().removeprefix(".")
    form = table.text("format", suffix if suffix in FORMATS else "jsonl", among=FORMATS)
    if form == PARQUET and not is_installed():
        raise table.wrong("format", "Parquet needs pyarrow: pip install 'slackwater[parquet]'")
    pace = table.number("pace", 1.0)
    restamp = table.flag("restamp", False)
    fields = read_fields(table, around.schemas, texts=form == "csv")
    return ReplayInput(
        folder / name, form, pace, restamp=restamp, fields=fields, wall_ns=around.wall_ns
    )
