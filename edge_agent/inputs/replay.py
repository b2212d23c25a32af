"""Replay of a recording (CSV, JSONL, Parquet): in real time, faster, or at once."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs.base import Outlet, Surroundings
from slackwater.edge_agent.inputs.record_columns import events
from slackwater.edge_agent.inputs.record_fields import (
    JsonBatch,
    ParsedRecords,
    RecordFields,
    TableBatch,
    read_fields,
)
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

# Records of a Parquet file in batches; pyarrow is imported only when there is a file to read.


PARQUET: Final = "parquet"


def is_installed() -> bool:
    """Whether this device can read Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def batches(file: Path, rows: int) -> Iterator[TableBatch]:
    """Read the rows of a file, ``rows`` at a time.

    A timestamp column with a zone gives ns since 1970; one without a zone gives values that are no
    instants. Raises AgentError if the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra, and heavy
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(file) as found:
            for batch in found.iter_batches(rows):
                columns = [
                    column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
                    if pa.types.is_timestamp(column.type) and column.type.tz
                    else column
                    for column in batch.columns
                ]
                names = batch.schema.names
                lists = dict(zip(names, (column.to_pylist() for column in columns), strict=True))
                yield TableBatch(lists, batch.num_rows, _parquet_record(lists))
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AgentError(f"{file}: {reason}") from error


def _parquet_record(lists: Mapping[str, Sequence[Any]]) -> Callable[[int], dict[str, Any]]:
    return lambda place: {name: values[place] for name, values in lists.items()}


# Replay of a recording (CSV, JSONL, Parquet): in real time, faster, or at once.


ROWS_AT_ONCE: Final = 1000
FORMATS: Final = ("csv", "jsonl", PARQUET)
_SLICE_NS: Final = 10 * 10**6
"""Events that are due within this time are sent together [ns]."""


class ReplayInput:
    """Plays a file once.

    ``pace``: 0: all at once; 1: spaced as their ``ts``; 10: ten times as fast. ``restamp``: the
    first event gets the current time of this device's clock, and the others follow at their pace;
    otherwise events keep their ``ts``.
    """

    def __init__(
        self, file: Path, form: str, pace: float, *, restamp: bool, fields: RecordFields,
        wall_ns: Callable[[], int],
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        """Number of ``records`` played."""
        self._file = file
        self._form = form
        self._pace = pace
        self._restamp = restamp
        self._fields = fields
        self._wall_ns = wall_ns

    async def run(self, outlet: Outlet) -> None:
        if self._form == PARQUET:
            await self._play(_numbered(batches(self._file, ROWS_AT_ONCE)), outlet)
            return
        try:
            with self._file.open(encoding="utf-8-sig", newline="") as text:
                read = _csv_batches if self._form == "csv" else _json_batches
                await self._play(read(text), outlet)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise AgentError(f"{self._file}: {reason}") from error

    async def _play(
        self, batches: Iterator[tuple[ParsedRecords, Sequence[int]]], outlet: Outlet
    ) -> None:
        loop = asyncio.get_running_loop()
        began, began_wall_ns = loop.time(), self._wall_ns()
        first: int | None = None
        at_once = not self._pace and not self._restamp
        for batch, numbers in batches:

            def bad(what: str, place: int, numbers: Sequence[int] = numbers) -> None:
                outlet.bad(what, f"{self._file}: line {numbers[place]}")

            found = events(self._fields, batch, self._wall_ns(), bad, apart=at_once)
            for stream, rows in found:
                first = rows[0].ts if first is None else first
                for due_ns, some in self._slices(rows, first, began_wall_ns):
                    await self._hand(stream, some, began, due_ns, outlet)

    def _slices(
        self, rows: list[Row], first: int, began_wall_ns: int
    ) -> Iterator[tuple[int, list[Row]]]:
        """Yield events that are sent together, and when the last is due [ns since the start]."""
        if not self._pace and not self._restamp:
            yield 0, rows
            return
        slice_: list[Row] = []
        first_due_ns = due_ns = 0
        for row in rows:
            at_ns = int((row.ts - first) / self._pace) if self._pace else 0
            if slice_ and at_ns - first_due_ns > _SLICE_NS:
                yield due_ns, slice_
                slice_ = []
            if not slice_:
                first_due_ns = due_ns = at_ns
            due_ns = max(due_ns, at_ns)
            if self._restamp:
                ts = began_wall_ns + at_ns
                row = row._replace(ts=ts, te=ts + row.te - row.ts)  # noqa: PLW2901
            slice_.append(row)
        yield due_ns, slice_

    async def _hand(
        self, stream: str, rows: list[Row], began: float, due_ns: int, outlet: Outlet
    ) -> None:
        """Pass on ``rows`` when the last of them is due."""
        wait = began + due_ns / NS_PER["s"] - asyncio.get_running_loop().time()
        await asyncio.sleep(max(wait, 0.0))
        self.counts["records"] += len(rows)
        await outlet.take(stream, rows)


def _json_batches(text: Iterable[str]) -> Iterator[tuple[ParsedRecords, Sequence[int]]]:
    """Batches of non-empty lines, and their line numbers."""
    numbered = ((number, line) for number, line in enumerate(text, 1) if line.strip())
    while some := list(islice(numbered, ROWS_AT_ONCE)):
        numbers, lines = zip(*some, strict=True)
        yield JsonBatch(lines), numbers


def _csv_batches(text: Iterable[str]) -> Iterator[tuple[ParsedRecords, Sequence[int]]]:
    """Batches of rows after a header line; rows of other lengths are read row by row."""
    reader = csv.reader(text)
    names = next(reader, [])
    numbered = ((reader.line_num, row) for row in reader if row)
    while some := list(islice(numbered, ROWS_AT_ONCE)):
        numbers, rows = zip(*some, strict=True)
        columns = None
        if set(map(len, rows)) == {len(names)}:
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        yield TableBatch(columns, len(rows), _record_of(names, rows)), numbers


def _record_of(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> Callable[[int], dict[str, str | None]]:
    return lambda place: dict(zip_longest(names, rows[place][: len(names)]))


def _numbered(batches: Iterable[ParsedRecords]) -> Iterator[tuple[ParsedRecords, Sequence[int]]]:
    """The batches with the numbers of their records, from 1."""
    first = 1
    for batch in batches:
        yield batch, range(first, first + len(batch))
        first += len(batch)


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
    found = ReplayInput(
        folder / name, form, pace, restamp=restamp, fields=fields, wall_ns=around.wall_ns
    )
    fields.count_in(found.counts)
    return found
