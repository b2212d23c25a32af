"""Answers as Parquet while they come: ``QUERY/SITE.rows-FIRST-END.parquet``, typed columns."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from engine.core.errors import UserError
from engine.log.row_export import PARQUET, write_table
from engine.output.answer_lines import AnswersDamaged, Key, site_file
from engine.output.kinds import KINDS, ResultKind
from engine.output.table_files import is_whole, table_bytes, table_of_bytes
from engine.output.typed_columns import TypedColumns

# The files of one site's table of answers: ``SITE.rows-FIRST-END.parquet``, run after run of rows.
#
# They are found by their names. One checksum goes over the content of all of them, in their order:
# so a life that begins sees whether any was damaged, exchanged or taken away since.


_NAME: Final = re.compile(r"(.+)\.rows-([0-9]{12,})-([0-9]{12,})\.parquet")
_ASIDE: Final = ".damaged"
_PIECE: Final = 1 << 20


class _Run(NamedTuple):
    path: Path
    first: int
    end: int


class FiledTables:
    """Of the site and query at ``place`` (folder of the query, name of the site).

    Args:
        place: as above.
        tell: takes a line for people.
        known: what ``state`` gave; None: all is made again, and files that are whole are kept.

    Raises:
        AnswersDamaged: the files are not as ``known`` says; a damaged one was moved aside.
        OSError: one cannot be read, or not be moved.
    """

    def __init__(
        self, place: Path, tell: Callable[[str], None], known: tuple[int, int] | None = None
    ) -> None:
        self._place = place
        self._tell = tell
        self.end = 0
        """Rows in files."""
        self._sum = 0
        self._unsummed: list[Path] = []
        place.parent.mkdir(parents=True, exist_ok=True)
        runs = self._runs()
        self._follow(runs if known is None else self._behind(runs, *known))

    def file_of(self, rows: int) -> Path:
        """The file for the next ``rows``."""
        name = f"{self._place.name}.rows-{self.end:012d}-{self.end + rows:012d}{PARQUET}"
        return self._place.with_name(name)

    def filed(self, path: Path, rows: int) -> None:
        """The next rows are in that file."""
        self.end += rows
        self._unsummed.append(path)

    def state(self) -> tuple[int, int]:
        """For the next life.

        Raises:
            AnswersDamaged: a file is gone.
            OSError: one cannot be read.
        """
        while self._unsummed:
            if not self._unsummed[0].exists():
                raise AnswersDamaged(f"{self._unsummed[0]}: is gone")
            self._sum = _sum(self._unsummed[0], self._sum)
            del self._unsummed[0]
        return self.end, self._sum

    def _runs(self) -> list[_Run]:
        found = []
        for path in sorted(self._place.parent.glob(f"*{PARQUET}")):
            name = _NAME.fullmatch(path.name)
            if name is not None and name[1] == self._place.name:
                found.append(_Run(path, int(name[2]), int(name[3])))
        return found

    def _behind(self, runs: list[_Run], end: int, wanted: int) -> list[_Run]:
        """Those of ``runs`` that do not belong to the rows up to ``end``; these are as they were.

        Nothing is removed if they are not: the log may not have any more what they are made of.
        """
        mine: list[_Run] = []
        for run in runs:
            if run.first == self.end < end:
                mine.append(run)
                self.end, self._sum = run.end, _sum(run.path, self._sum)
        if self.end != end:
            raise AnswersDamaged(f"{self._place}: the file of its rows from {self.end} on is gone")
        if self._sum != wanted:
            # Of files that can be read none is known to be right.
            hurt = [run for run in mine if not is_whole(run.path, run.end - run.first)] or mine
            names = ", ".join(_put_aside(run.path).name for run in hurt)
            raise AnswersDamaged(f"{hurt[0].path}: is not as it was written; kept: {names}")
        return [run for run in runs if run not in mine]

    def _follow(self, runs: list[_Run]) -> None:
        """Takes what follows, as another life or engine has written it, up to a gap."""
        for run in runs:
            if run.first != self.end:
                run.path.unlink()
            elif is_whole(run.path, run.end - run.first):
                self.filed(run.path, run.end - run.first)
            else:
                kept = _put_aside(run.path)
                self._tell(
                    f"{run.path}: was damaged and is written again; the damaged file is {kept.name}"
                )


def _put_aside(path: Path) -> Path:
    return path.rename(path.with_name(path.name + _ASIDE))


def _sum(path: Path, before: int) -> int:
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            before = zlib.crc32(piece, before)
    return before


# Answers as Parquet while they come: ``QUERY/SITE.rows-FIRST-END.parquet``, typed columns.
#
# Each file holds consecutive results of a query at a site, numbered from 0. They are a function of
# the log, so an engine that computes them again skips those that files already have.


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
            tables = [table_of_bytes(one) for one in waiting]
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
                [table_bytes(table) for table in rows.waiting],
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
