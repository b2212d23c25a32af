"""Live answers: JSON lines and Parquet tables, in a folder for each query."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.retention import Limits
from slackwater.engine.log.row_export import PARQUET, write_table
from slackwater.engine.log.whole_file import sync_folder, whole_file
from slackwater.engine.output.answer_retention import (
    SUFFIX,
    ClosedFile,
    TableRun,
    closed_files,
    table_runs,
    whole_lines,
)
from slackwater.engine.output.durability import AnswersDamaged, DurableBytes
from slackwater.engine.output.result_kinds import KINDS, ResultKind
from slackwater.engine.output.table_files import is_whole, table_bytes, table_of_bytes
from slackwater.engine.output.typed_columns import TypedColumns

# Live answers as JSON lines, a file for each query and site: ``QUERY/SITE.jsonl``.
#
# The content is a function of the arrival log: a prefix of the results of a pass over the whole log
# for that query and site. An engine that computes results again (after a crash or a takeover)
# compares them with the file and writes only new ones: no line is lost, duplicated or removed.
# Checksums detect damage at the start; the comparison repairs it. Closed files stay unchanged:
# their lines are neither compared nor written again, and each start reports damage in them.


Key = tuple[str, str]
"""Query, site."""
_Sums = dict[int, tuple[int, ...]]
"""Checksum (beginning of ``DurableBytes.state``) by the end of a closed file."""
_SUM: Final = 3
_NAME: Final = 150
_CUT: Final = ".cut"
_ALL: Final = Limits()
_PARTS: Final = 16
"""A file is closed when it reaches this part of the limit of age or size."""
_PART_LEAST: Final = 1 << 16
"""Least size of a file that is closed for its size [bytes]."""
END: Final = ".end"
"""Suffix of files with the output for the end of the log."""


def site_file(site: str) -> str:
    """Return the site's name in a form that is valid as a file name.

    >>> site_file("ward 3/bed"), site_file("..")
    ('ward%203%2Fbed', '%2E.')
    """
    name = quote(site, safe="")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _NAME:
        name = f"{name[: _NAME // 2]}={blake2b(site.encode(), digest_size=16).hexdigest()}"
    return name


@dataclass(slots=True)
class _File:
    """``made``: bytes computed in this or an earlier process; ``size``: of the file on disk.

    ``closed``, ``begin``: lines and bytes in closed files. ``number``: all lines computed; the
    first ``closed`` of them are not written. ``saved``: bytes in a saved state. ``sums``: checksums
    of closed files, by their end.
    """

    path: Path
    size: int
    closed: int = 0
    begin: int = 0
    opened_ns: int = 0
    made: DurableBytes = field(default_factory=DurableBytes)
    number: int = 0
    saved: int = 0
    unsynced: bool = False
    reported: bool = False
    sums: _Sums = field(default_factory=dict)

    @property
    def at(self) -> int:
        """Number of bytes computed."""
        return self.made.length


class AnswerLines:
    """The files in ``folder``.

    Args:
        folder: has a folder for each query.
        queries: names of the current queries; files of others are left alone.
        known: an earlier result of ``state``; the files may have more than that.
        tell: takes a line for the user.
        numbers: the result of ``numbers`` at that time.
        limits: parts of the limits at which files are closed, so that old ones can be removed.
        now_ns: the clock of file times.

    Raises:
        AnswersDamaged: a file differs from ``known``, so all answers must be computed again; the
            message has its path.
    """

    def __init__(
        self, folder: Path, queries: Collection[str], known: Mapping[Key, tuple[int, ...]],
        tell: Callable[[str], None],
        numbers: Mapping[Key, tuple[Any, ...]] = MappingProxyType({}),
        limits: Limits = _ALL, now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._queries = queries
        self._tell = tell
        self._limits = limits
        self._now_ns = now_ns
        self._closed: dict[Path, dict[str, list[ClosedFile]]] = {}
        """Closed files by folder of a query, as first listed."""
        self._files: dict[Key, _File] = {}
        for key, made in known.items():
            sums: _Sums = dict(*numbers.get(key, ())[2:])
            if made[0]:  # if it was closed since
                sums[max(sums, default=0) + made[0]] = made[:_SUM]
            self._file(key, sums)
        for key, made in known.items():
            file = self._file(key)
            file.made = DurableBytes.of(made)
            closed, number = numbers.get(key, (0, None))[:2]
            if closed < file.closed and number is not None and number <= file.closed:
                file.made = DurableBytes()  # it was closed since
            elif closed != file.closed:
                raise AnswersDamaged(f"{file.path}: the closed files before it are not all there")
            elif damage := file.made.damage(file.path, grows=True):
                raise AnswersDamaged(f"{file.path}: {damage}")
            if number is None:  # from a version without it
                number = whole_lines(file.path, file.at)[0] if file.at else 0
            file.number, file.saved = number, file.at
        self.end({})

    def append(self, key: Key, lines: bytes) -> bytes:
        """Append whole ``lines`` to a file; return those that it did not have yet.

        Raises:
            OSError: they could not be written; the call may be repeated.
            AnswersDamaged: the file is missing.
        """
        file = self._file(key)
        number = file.number + lines.count(b"\n")
        if file.number < file.closed:
            lines = lines.split(b"\n", min(file.closed, number) - file.number)[-1]
        there = _read(file.path, file.at, min(len(lines), file.size - file.at))
        same = len(there)
        if not lines.startswith(there):  # damage: only then byte by byte
            same = len(os.path.commonprefix((there, lines)))  # noqa: RUF071 - bytes, no paths
        if same < len(there):
            self._keep(file, file.at + same, len(there) - same, "was damaged and is repaired")
        if same < len(lines):
            is_there = file.path.exists()
            if not is_there and file.at + same:
                raise AnswersDamaged(f"{file.path}: is gone")
            with file.path.open("r+b" if is_there else "xb") as stream:
                stream.seek(file.at + same)
                stream.write(lines[same:])
            file.unsynced = True
        file.made.add(lines)
        file.number = number
        file.size = max(file.size, file.at)
        return lines[lines.rfind(b"\n", 0, same) + 1 :] if same < len(lines) else b""

    def end(self, lines: Mapping[Key, bytes]) -> None:
        """Replace the output for the end of the log.

        Raises:
            OSError: it cannot be written.
        """
        for path in self._paths(f"{SUFFIX}{END}"):
            path.unlink()
        for key, content in lines.items():
            path = self._file(key).path
            with whole_file(path.with_name(path.name + END)) as sink:
                sink.write(content)

    def trim(self) -> None:
        """Remove what files have beyond the answers to the log, when all have been computed.

        Raises:
            OSError: a file cannot be truncated.
        """
        known = {file.path: file for file in self._files.values()}
        closed = [
            self._folder / query / name
            for query in self._queries for name in closed_files(self._folder / query)
        ]  # fmt: skip
        for path in dict.fromkeys((*self._paths(SUFFIX), *closed)):
            file = known.get(path) or self._at(path, {})
            if file.number < file.closed:
                self._reopen(file)
            if file.size > file.at:
                self._keep(file, file.at, file.size - file.at, "had more than the log gives")
                os.truncate(path, file.at)
                file.size, file.unsynced = file.at, True

    def state(self) -> dict[Key, tuple[int, ...]]:
        """Sync the files, and return the computed bytes of each for the saved state.

        Raises:
            OSError: they cannot be synced.
            AnswersDamaged: a file is missing.
        """
        for file in self._files.values():
            if file.unsynced:
                if not file.path.exists():
                    raise AnswersDamaged(f"{file.path}: is gone")
                with file.path.open("rb") as stream:
                    os.fsync(stream.fileno())
                file.unsynced = False
        return {key: file.made.state() for key, file in self._files.items()}

    def numbers(self) -> dict[Key, tuple[int, int, _Sums]]:
        """Return, for the saved state, lines in closed files, all lines, and checksums."""
        return {key: (file.closed, file.number, file.sums) for key, file in self._files.items()}

    def saved(self) -> None:
        """Note that the last ``state`` is saved; raises as ``close_due``."""
        for file in self._files.values():
            file.saved = file.at
        self.close_due()

    def close_due(self) -> None:
        """Close the files that are large or old enough, and entirely in the saved state.

        Raises:
            OSError: a file cannot be renamed.
        """
        age_ns, size = self._limits.age_ns // _PARTS, self._limits.bytes
        folders: set[Path] = set()
        size //= _PARTS * max(len(self._files), 1)
        for file in self._files.values() if self._limits.age_ns or self._limits.bytes else ():
            is_large = self._limits.bytes and file.size >= max(size, _PART_LEAST)
            is_old = self._limits.age_ns and self._now_ns() - file.opened_ns >= age_ns
            if file.size and file.size == file.at == file.saved and (is_large or is_old):
                end = file.begin + file.size
                file.path.rename(_closed_path(file.path, file.number, end))
                file.sums[end] = file.made.state()[:_SUM]
                file.closed, file.begin, file.opened_ns = file.number, end, self._now_ns()
                file.made, file.size, file.saved = DurableBytes(), 0, 0
                folders.add(file.path.parent)
        for folder in folders:
            sync_folder(folder)
            self._closed[folder] = closed_files(folder)
        for file in self._files.values() if folders else ():
            if closed := self._closed[file.path.parent].get(file.path.name):
                file.sums = _not_given_up(file.sums, closed)

    def _paths(self, ending: str) -> list[Path]:
        return [p for query in self._queries for p in (self._folder / query).glob(f"*{ending}")]

    def _file(self, key: Key, sums: _Sums | None = None) -> _File:
        file = self._files.get(key)
        if file is None:
            query, site = key
            path = self._folder / query / f"{site_file(site)}{SUFFIX}"
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._files[key] = self._at(path, sums or {})
        return file

    def _at(self, path: Path, sums: _Sums) -> _File:
        """Return a file as it is on disk; ``sums``: known checksums of closed files."""
        if path.parent not in self._closed:
            self._closed[path.parent] = closed_files(path.parent)
        closed = self._closed[path.parent].get(path.name)
        size = path.stat().st_size if path.exists() else 0
        if closed:
            last = closed[-1]
            sums = self._checked(path, closed, sums)
            return _File(path, size, last.lines, last.end, last.written_ns, sums=sums)
        return _File(path, size, opened_ns=0 if size else self._now_ns())

    def _checked(self, path: Path, closed: list[ClosedFile], known: _Sums) -> _Sums:
        """Return checksums of the closed files; report those that differ from ``known``."""
        sums = _not_given_up(known, closed)
        damaged = {
            f"{path}.*-{end:015d}": "is gone" for end in sums.keys() - {file.end for file in closed}
        }
        for file in closed:
            if file.end not in sums:
                made = DurableBytes()
                with suppress(FileNotFoundError):  # it was removed in between
                    made.add_file(file.path)
                sums[file.end] = made.state()[:_SUM]
                continue
            damage = DurableBytes.of(sums[file.end]).damage(file.path)
            if damage and file.path.exists() and file.path.stat().st_size == file.size:
                damaged[str(file.path)] = damage
        for place, damage in damaged.items():
            self._tell(
                f"{place}: {damage}; closed files of answers are not made again: put a copy of it "
                f"there, or stop the server and move {path.parent} away: then what the log still "
                "has is answered again"
            )
        return sums

    def _reopen(self, file: _File) -> None:
        """Reopen closed files that have more than the log gives."""
        closed = closed_files(file.path.parent).get(file.path.name, [])
        while file.closed > file.number and closed and closed[-1].size:
            last = closed.pop()
            if file.size:
                self._keep(file, 0, file.size, "had more than the log gives")
            file.closed, file.begin, file.size = last.first_line(), last.begin, last.size
            file.sums.pop(last.end, None)
            last.path.rename(file.path)
        if file.closed > file.number:  # the rest was removed
            file.closed = file.number
            if closed:
                file.sums.pop(closed[-1].end, None)
                closed[-1].path.rename(_closed_path(file.path, file.closed, file.begin))
        content = _read(file.path, 0, file.size)
        rest = content.split(b"\n", file.number - file.closed)[-1]
        file.made = DurableBytes()
        file.made.add(content[: len(content) - len(rest)])

    def _keep(self, file: _File, at: int, size: int, why: str) -> None:
        """Save the bytes from ``at`` on to another file before they are cut; report it once."""
        kept = file.path.with_name(file.path.name + _CUT)
        with file.path.open("rb") as source, kept.open("ab") as sink:
            source.seek(at)
            if at + size < file.size:
                sink.write(source.read(size))
            else:
                shutil.copyfileobj(source, sink)
        if not file.reported:
            self._tell(f"{file.path}: {why}: from byte {at} on; what was there is in {kept.name}")
            file.reported = True


def _not_given_up(sums: _Sums, closed: list[ClosedFile]) -> _Sums:
    """Return the sums from the oldest closed file on; an empty one was removed with all before."""
    first = closed[0].end + (not closed[0].size)
    return {end: each for end, each in sums.items() if first <= end <= closed[-1].end}


def _closed_path(path: Path, lines: int, end: int) -> Path:
    """Return the name of the open file after it is closed."""
    return path.with_name(f"{path.name}.{lines:012d}-{end:015d}")


def _read(path: Path, at: int, size: int) -> bytes:
    if size <= 0:
        return b""
    with path.open("rb") as stream:
        stream.seek(at)
        return stream.read(size)


# The table files of a site and query: ``SITE.rows-FIRST-END.parquet``, consecutive runs of rows.
#
# They are found by name. One checksum covers the content of all files in order, so that a new
# process detects damaged, exchanged or missing files.


_ASIDE: Final = ".damaged"


FiledState = tuple[int, tuple[int, ...]]
"""Number of rows in files, and ``DurableBytes.state`` of these files."""


class FiledTables:
    """The table files of the site and query at ``place`` (folder of query / name of site).

    Args:
        place: as above.
        tell: takes a line for the user.
        known: result of ``state``; None: all rows are computed again, and whole files are kept.

    Raises:
        AnswersDamaged: the files differ from ``known``; a damaged one was moved aside.
        OSError: a file cannot be read or moved.
    """

    def __init__(
        self, place: Path, tell: Callable[[str], None], known: FiledState | None = None
    ) -> None:
        self._place = place
        self._tell = tell
        self.end = 0
        """Number of rows in files."""
        self._durable = DurableBytes()
        place.parent.mkdir(parents=True, exist_ok=True)
        runs = table_runs(place)
        if f"{place.name}{SUFFIX}" in closed_files(place.parent):
            # Earlier files were removed with the lines.
            self.end = runs[0].first if runs else 0 if known is None else known[0]
        is_behind = known is None or (known[0] <= self.end and self.end > 0)
        self._follow(runs if known is None or is_behind else self._behind(runs, *known))

    def file_of(self, rows: int) -> Path:
        """Return the file for the next ``rows``."""
        name = f"{self._place.name}.rows-{self.end:012d}-{self.end + rows:012d}{PARQUET}"
        return self._place.with_name(name)

    def filed(self, path: Path, rows: int) -> None:
        """Note that the next rows are in that file.

        Raises:
            OSError: it cannot be read.
        """
        self._durable.add_file(path)
        self.end += rows

    def state(self) -> FiledState:
        """Return the state to save."""
        return self.end, self._durable.state()

    def _behind(
        self, runs: list[TableRun], end: int, durable_state: tuple[int, ...]
    ) -> list[TableRun]:
        """Return the ``runs`` after the durable rows, which end at ``end`` and must be unchanged.

        If they are changed, no file is removed: the log may no longer have their events.
        """
        mine: list[TableRun] = []
        first = self.end
        for run in runs:
            if run.first == self.end < end:
                mine.append(run)
                self.filed(run.path, run.end - run.first)
        if self.end != end:
            raise AnswersDamaged(f"{self._place}: the file of its rows from {self.end} on is gone")
        if self._durable.state() == durable_state:
            return [run for run in runs if run not in mine]
        hurt = [run for run in mine if not is_whole(run.path, run.end - run.first)]
        if first and not hurt:  # the checksum includes removed files
            self._durable = DurableBytes.of(durable_state)
        else:
            # A readable file is not necessarily correct.
            hurt = hurt or mine
            names = ", ".join(_put_aside(run.path).name for run in hurt)
            raise AnswersDamaged(f"{hurt[0].path}: is not as it was written; kept: {names}")
        return [run for run in runs if run not in mine]

    def _follow(self, runs: list[TableRun]) -> None:
        """Adopt the following files, written by another process, up to a gap."""
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


# Live answers as Parquet: ``QUERY/SITE.rows-FIRST-END.parquet``, typed columns.
#
# Each file has consecutive results of a query at a site, numbered from 0. They are a function of
# the log, so an engine that computes them again skips those in files.


ROWS_MAX: Final = 1 << 16
"""A file is written when this many rows wait for it, or after some time."""

_LOOK_S: Final = 1.0
"""Interval of checks for due files, as there may be thousands of sites [s]."""


@dataclass(slots=True)
class _Rows:
    """Rows of a site and query: ``made`` is their number; those not in ``files`` wait."""

    kind: ResultKind
    files: FiledTables
    made: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    since: float = 0.0


class AnswerTables:
    """The table files in ``folder``.

    Args:
        folder: has a folder for each query.
        known: result of ``state``.
        every_s: longest time that rows wait for a file [s].
        unit_ns: unit of all times [ns].
        times: by query, the labels of aggregates that are times.
        tell: takes a line for the user.
        clock: clock [s].

    Raises:
        AnswersDamaged: a file is missing or has changed.
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
        """Add the next rows of a site and query."""
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
        """Write the files that are due.

        Raises:
            OSError: they cannot be written; the call may be repeated.
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
        """Write all waiting rows.

        Raises:
            OSError: they cannot be written.
        """
        for rows in self._rows.values():
            if rows.waiting:
                self._close(rows)

    def state(self) -> dict[Key, Any]:
        """Return the state to save: kind, number of rows, waiting rows and files, by site and
        query.

        Raises:
            AnswersDamaged: a file is missing.
            OSError: a file cannot be read.
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
        columns = TypedColumns(
            rows.kind.schema, rows.kind.name, self._unit, self._times, open_ended=True
        )
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
