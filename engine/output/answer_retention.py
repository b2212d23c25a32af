"""The files of answers, and the removal of the oldest."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from slackwater.engine.log.retention import Limits, unrepeated
from slackwater.engine.log.row_export import PARQUET

# With retention, a file of answers that is large or old enough is closed: it is renamed to
# ``SITE.jsonl.LINES-BYTES``, the numbers of lines and bytes from the first answer to its end, and
# never written again; ``SITE.jsonl`` continues after it. So offsets from the first answer stay
# valid. The oldest closed files are removed; the newest one is truncated instead, as its name says
# where the open file begins (``AnswerKeeper``).


SUFFIX: Final = ".jsonl"
_CLOSED: Final = re.compile(rf"(.+{re.escape(SUFFIX)})\.([0-9]{{12,}})-([0-9]{{15,}})")
_INNER: Final = f"{SUFFIX}."
_PIECE: Final = 1 << 20


class ClosedFile(NamedTuple):
    """``lines``, ``end``: numbers of answers and bytes from the first answer to its end."""

    path: Path
    lines: int
    end: int
    size: int
    written_ns: int
    inode: int

    @property
    def begin(self) -> int:
        """Number of bytes before it."""
        return self.end - self.size

    def first_line(self) -> int:
        """Return the number of answers before it; raises OSError."""
        return self.lines - whole_lines(self.path)[0]


def whole_lines(path: Path, size: float = inf) -> tuple[int, int]:
    """Return the number of whole lines in the first ``size`` bytes of a file, and their end.

    Raises OSError.
    """
    count = at = end = 0
    with path.open("rb") as stream:
        while at < size and (piece := stream.read(int(min(_PIECE, size - at)))):
            count += piece.count(b"\n")
            end = at + piece.rfind(b"\n") + 1 if b"\n" in piece else end
            at += len(piece)
    return count, end


def closed_files(folder: Path) -> dict[str, list[ClosedFile]]:
    """Return the closed files in a query's folder, oldest first, by name of the open file."""
    found: dict[str, list[ClosedFile]] = {}
    if not folder.is_dir():
        return found
    with os.scandir(folder) as entries:
        names = [name for name in (entry.name for entry in entries) if _INNER in name]
    for each in names:
        if name := _CLOSED.fullmatch(each):
            path = folder / each
            with suppress(FileNotFoundError):  # it was removed in between
                seen = path.stat()
                found.setdefault(name[1], []).append(
                    ClosedFile(
                        path, int(name[2]), int(name[3]), seen.st_size, seen.st_mtime_ns,
                        seen.st_ino,
                    )
                )  # fmt: skip
    for files in found.values():
        files.sort(key=lambda file: file.end)
    return found


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """The files of a query and site, at the time of listing; ``name``: of the open file."""

    folder: Path
    name: str
    closed: Sequence[ClosedFile] = ()
    size: int = 0
    inode: int = 0

    @property
    def path(self) -> Path:
        """The open file."""
        return self.folder / self.name

    @property
    def begin(self) -> int:
        """Number of bytes before the open file."""
        return self.closed[-1].end if self.closed else 0

    @property
    def end(self) -> int:
        """Number of bytes from the first answer on."""
        return self.begin + self.size

    def open_at(self, offset: int) -> tuple[BinaryIO, int] | None:
        """Open the file with that byte, or the next one; return it and the bytes before it.

        None: the file was closed or moved since the listing. Raises OSError.
        """
        path, begin, inode = self.path, self.begin, self.inode
        for file in self.closed:
            if file.size and file.end > offset:
                path, begin, inode = file.path, file.begin, file.inode
                break
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return None
        if os.fstat(stream.fileno()).st_ino == inode:
            return stream, begin
        stream.close()
        return None

    def lines_before(self, begin: int) -> int:
        """Return the number of answers before the file that begins at that byte; raises OSError."""
        for file in self.closed:
            if file.size and file.begin == begin:
                return file.first_line()
        return self.closed[-1].lines if self.closed else 0


def site_files(folder: Path) -> dict[str, SiteFiles]:
    """Return the files in a query's folder, by name of the open file."""
    opened: dict[str, os.stat_result] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # it was closed or moved
                    opened[entry.name] = entry.stat()
    closed = closed_files(folder)  # listed last, as a file is closed before the next is opened
    found = {}
    for name in {**opened, **closed}:
        files, seen = closed.get(name, []), opened.get(name)
        if seen is None or (files and files[-1].inode == seen.st_ino):  # closed in between
            found[name] = SiteFiles(folder, name, files)
        else:
            found[name] = SiteFiles(folder, name, files, seen.st_size, seen.st_ino)
    return found


# Tables of answers, found by file name.


_RUN: Final = re.compile(r"(.+)\.rows-([0-9]{12,})-([0-9]{12,})\.parquet")


class TableRun(NamedTuple):
    """A file with the rows from ``first`` to ``end`` (exclusive)."""

    path: Path
    first: int
    end: int


def table_runs(place: Path) -> list[TableRun]:
    """Return the files of the site and query at ``place`` (folder of query / name of site)."""
    found = []
    for path in sorted(place.parent.glob(f"*{PARQUET}")):
        name = _RUN.fullmatch(path.name)
        if name is not None and name[1] == place.name:
            found.append(TableRun(path, int(name[2]), int(name[3])))
    return found


# Removal of the oldest closed files, by age and size, and of the tables with their rows.


Delivered = Callable[[str, str], float]
"""(query, open file) -> number of bytes that all sinks of the query have delivered."""


class AnswerKeeper:
    """Keeps the answers in ``folder`` within ``limits``.

    Args:
        folder: has a folder for each query.
        queries: names of the current queries; files of others are left alone.
        limits: the limits; ``unread``: files that sinks have not delivered may be removed.
        delivered: returns the progress of sinks.
        tell: takes a line for the user.
        now_ns: the clock of file times.
    """

    def __init__(
        self, folder: Path, queries: Collection[str], limits: Limits,
        delivered: Callable[[], Delivered], tell: Callable[[str], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._queries = queries
        self._limits = limits
        self._delivered = delivered
        self._say = unrepeated(tell)
        self._now_ns = now_ns

    def step(self) -> None:
        """Remove files beyond the limits; raises OSError."""
        limits, kept = self._limits, list[Path]()
        if not (limits.age_ns or limits.bytes):
            return
        size, found = self._closed()
        delivered = None if limits.unread else self._delivered()
        for written_ns, file, open_name in sorted(found, key=lambda each: each[0]):
            if not (
                (limits.bytes and size > limits.bytes)
                or (limits.age_ns and written_ns < self._now_ns() - limits.age_ns)
            ):
                break
            query = file.path.parent.name
            if delivered is None or file.end <= delivered(query, open_name):
                size -= self._give_up(file, open_name)
                if limits.bytes and file.size > max(limits.bytes, _PIECE):
                    self._say(
                        f"answers: {file.path} was removed as a whole, with its newest answers: "
                        f"its {file.size:,} bytes were more than [answers] keep_size"
                    )
            else:
                size -= file.size
                kept.append(file.path)
        if kept:
            self._say(
                f"answers: {len(kept)} files from {kept[0]} on are beyond what [answers] keeps, "
                'and stay until the sinks have delivered them (unread = "delete": not)'
            )

    def _closed(self) -> tuple[int, list[tuple[int, ClosedFile, str]]]:
        """Return the total size, and the closed files with times that never decrease."""
        size, found = 0, list[tuple[int, ClosedFile, str]]()
        for query in self._queries:
            folder = self._folder / query
            for name, files in site_files(folder).items() if folder.is_dir() else ():
                size += files.size + sum(file.size for file in files.closed)
                newest = 0
                for file in files.closed:
                    newest = max(newest, file.written_ns)
                    if file.size:
                        found.append((newest, file, name))
            if self._limits.bytes:
                size += sum(path.stat().st_size for path in folder.glob(f"*{PARQUET}"))
        return size, found

    def _give_up(self, file: ClosedFile, open_name: str) -> int:
        """Remove a closed file and those before it; return the number of bytes freed."""
        freed = file.size
        *before, newest = closed_files(file.path.parent).get(open_name) or [file]
        for each in before:
            if each.end <= file.end:
                each.path.unlink()
        if file.path == newest.path:
            os.truncate(file.path, 0)
        for run in table_runs(file.path.with_name(open_name.removesuffix(SUFFIX))):
            if run.end <= file.lines:
                freed += run.path.stat().st_size
                run.path.unlink()
        return freed
