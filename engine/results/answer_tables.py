"""Answers as Parquet while they come: ``QUERY/SITE.rows-FIRST-END.parquet``, typed columns.

Each file holds a run of a site's results of a query, by their numbers from 0. As what they are is
a function of the log, whoever makes results again leaves out those that files have already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.errors import UserError
from engine.results.answer_lines import Key, site_file
from engine.results.filed_tables import FiledTables
from engine.results.kinds import KINDS, ResultKind
from engine.results.tables.table_file import write_table
from engine.results.tables.typed_columns import TypedColumns

ROWS_MAX: Final = 1 << 16
"""A file is closed when so many rows wait for it, or after some time."""

_LOOK_S: Final = 1.0
"""So often it is looked which are due: there may be thousands of sites."""


@dataclass(slots=True)
class _Rows:
    """Of one site and query: ``made`` in all; what ``files`` have not, waits."""

    kind: ResultKind
    files: FiledTables
    made: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    since: float = 0.0


class AnswerTables:
    """The files in ``folder``.

    Args:
        folder: a folder for each query in it.
        known: what ``state`` gave.
        every_s: so long may rows wait for a file.
        unit_ns: of every time, rounded down.
        times: of queries, by name, the aggregates that are times.
        tell: takes a line for people.
        clock: in seconds.

    Raises:
        AnswersDamaged: a file is gone, or not as it was written.
    """

    def __init__(
        self, folder: Path, known: Mapping[Key, Any], every_s: float, unit_ns: int,
        times: Mapping[str, Collection[str]], tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._tell = tell
        self._every_s = every_s
        self._unit = unit_ns
        self._times = times
        self._clock = clock
        self._look_at = -inf
        self._rows: dict[Key, _Rows] = {}
        for key, (kind, made, waiting, filed) in known.items():
            rows = self._rows[key] = _Rows(KINDS[kind], FiledTables(self._place(key), tell, filed))
            tables = [pa.ipc.open_stream(one).read_all() for one in waiting]
            rows.made = made - sum(table.num_rows for table in tables)
            for table in tables:
                self.add(key, rows.kind, table)

    def add(self, key: Key, kind: ResultKind, table: pa.Table) -> None:
        """The next rows of a site and query."""
        rows = self._of(key, kind)
        there = min(max(rows.files.end - rows.made, 0), table.num_rows)
        rows.made += table.num_rows
        if there < table.num_rows:
            if not rows.waiting:
                rows.since = self._clock()
            rows.waiting.append(table.slice(there))
            if rows.made - rows.files.end >= ROWS_MAX:
                self._look_at = -inf

    def close_if_full(self) -> None:
        """Writes the files that are due.

        Raises:
            OSError: they could not be; the same call may be made again.
        """
        now = self._clock()
        if now < self._look_at:
            return
        for rows in self._rows.values():
            if rows.waiting and (
                rows.made - rows.files.end >= ROWS_MAX or now - rows.since >= self._every_s
            ):
                self._close(rows)
        self._look_at = now + min(self._every_s / 4, _LOOK_S)

    def close_all(self) -> None:
        """Writes all that waits.

        Raises:
            OSError: it could not be.
        """
        for rows in self._rows.values():
            if rows.waiting:
                self._close(rows)

    def state(self) -> dict[Key, Any]:
        """For the next life: of each site and query its kind, its rows, those that wait, its files.

        Raises:
            AnswersDamaged: a file is gone.
            OSError: one cannot be read.
        """
        return {
            key: (
                rows.kind.name,
                rows.made,
                [_packed(table) for table in rows.waiting],
                rows.files.state(),
            )
            for key, rows in self._rows.items()
        }

    def _of(self, key: Key, kind: ResultKind) -> _Rows:
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = _Rows(kind, FiledTables(self._place(key), self._tell))
        return rows

    def _place(self, key: Key) -> Path:
        return self._folder / key[0] / site_file(key[1])

    def _close(self, rows: _Rows) -> None:
        filed = rows.made - rows.files.end
        path = rows.files.file_of(filed)
        columns = TypedColumns(rows.kind.schema, rows.kind.name, self._unit, self._times)
        for table in rows.waiting:
            columns.learn(table)
        try:
            write_table(path, columns.schema, map(columns.typed, rows.waiting))
        except UserError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            raise
        rows.files.filed(path, filed)
        rows.waiting = []


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
