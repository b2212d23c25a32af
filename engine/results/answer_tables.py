"""Answers as Parquet while they come: ``QUERY/SITE.rows-FIRST-END.parquet``, typed columns.

Each file holds a run of a site's results of a query, by their numbers from 0. As what they are is
a function of the log, whoever makes results again leaves out those that files have already.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from engine.errors import UserError
from engine.results.answer_lines import AnswersDamaged, Key, site_file
from engine.results.kinds import KINDS, ResultKind
from engine.results.tables.table_file import PARQUET, write_table
from engine.results.tables.typed_columns import TypedColumns

_NAME: Final = re.compile(r"(.+)\.rows-([0-9]{12,})-([0-9]{12,})\.parquet")
ROWS_MAX: Final = 1 << 16
"""A file is closed when so many rows wait for it, or after some time."""


@dataclass(slots=True)
class _Rows:
    """Of one site and query: ``made`` in all, of which ``filed`` are in files."""

    kind: ResultKind
    filed: int
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
        clock: in seconds.

    Raises:
        AnswersDamaged: a file is gone.
    """

    def __init__(
        self, folder: Path, known: Mapping[Key, Any], every_s: float, unit_ns: int,
        times: Mapping[str, Collection[str]], clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._every_s = every_s
        self._unit = unit_ns
        self._times = times
        self._clock = clock
        self._rows: dict[Key, _Rows] = {}
        for key, (kind, made, waiting) in known.items():
            rows = self._of(key, KINDS[kind])
            tables = [pa.ipc.open_stream(one).read_all() for one in waiting]
            rows.made = made - sum(table.num_rows for table in tables)
            if rows.made > rows.filed:
                raise AnswersDamaged(f"{self._place(key)}: a file of its rows is gone")
            for table in tables:
                self.add(key, rows.kind, table)

    def add(self, key: Key, kind: ResultKind, table: pa.Table) -> None:
        """The next rows of a site and query."""
        rows = self._of(key, kind)
        there = min(max(rows.filed - rows.made, 0), table.num_rows)
        rows.made += table.num_rows
        if there < table.num_rows:
            if not rows.waiting:
                rows.since = self._clock()
            rows.waiting.append(table.slice(there))

    def close_if_full(self) -> None:
        """Writes the files that are due.

        Raises:
            OSError: they could not be; the same call may be made again.
        """
        for key, rows in self._rows.items():
            if rows.waiting and (
                rows.made - rows.filed >= ROWS_MAX or self._clock() - rows.since >= self._every_s
            ):
                self._close(key, rows)

    def close_all(self) -> None:
        """Writes all that waits.

        Raises:
            OSError: it could not be.
        """
        for key, rows in self._rows.items():
            if rows.waiting:
                self._close(key, rows)

    def state(self) -> dict[Key, Any]:
        """For the next life: of each site and query its kind, its rows, those that wait."""
        return {
            key: (rows.kind.name, rows.made, [_packed(table) for table in rows.waiting])
            for key, rows in self._rows.items()
        }

    def _of(self, key: Key, kind: ResultKind) -> _Rows:
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = _Rows(kind, self._filed(key))
        return rows

    def _place(self, key: Key) -> Path:
        return self._folder / key[0] / site_file(key[1])

    def _filed(self, key: Key) -> int:
        """Rows in files, which follow one another; those behind a missing one are made anew."""
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        end = 0
        for path in sorted(place.parent.glob("*.parquet")):
            found = _NAME.fullmatch(path.name)
            if found is None or found[1] != place.name:
                continue
            if int(found[2]) == end:
                end = int(found[3])
            else:
                path.unlink()
        return end

    def _close(self, key: Key, rows: _Rows) -> None:
        name = f"{site_file(key[1])}.rows-{rows.filed:012d}-{rows.made:012d}{PARQUET}"
        columns = TypedColumns(rows.kind.schema, rows.kind.name, self._unit, self._times)
        for table in rows.waiting:
            columns.learn(table)
        try:
            write_table(
                self._folder / key[0] / name, columns.schema, map(columns.typed, rows.waiting)
            )
        except UserError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            raise
        rows.filed, rows.waiting = rows.made, []


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
