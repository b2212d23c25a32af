"""Which files of answers there are, and how the oldest of them are given up."""

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

# Where retention is on, a file of answers that is large or old enough is closed: it is renamed to
# ``SITE.jsonl.LINES-BYTES``, how many there are from the first answer on up to its end, and never
# written again; ``SITE.jsonl`` goes on behind it. So an offset from the first answer on stays what
# it was. The oldest closed files are removed; the newest is emptied instead, as its name says where
# the open one begins (``AnswerKeeper``).


SUFFIX: Final = ".jsonl"
_CLOSED: Final = re.compile(rf"(.+{re.escape(SUFFIX)})\.([0-9]{{12,}})-([0-9]{{15,}})")
_INNER: Final = f"{SUFFIX}."
_PIECE: Final = 1 << 20


class ClosedFile(NamedTuple):
    """``lines``, ``end``: answers and bytes up to its end, from the first answer on."""

    path: Path
    lines: int
    end: int
    size: int
    written_ns: int
    inode: int

    @property
    def begin(self) -> int:
        """Bytes before it."""
        return self.end - self.size

    def first_line(self) -> int:
        """Answers before it; raises OSError."""
        return self.lines - whole_lines(self.path)[0]


def whole_lines(path: Path, size: float = inf) -> tuple[int, int]:
    """Of the first ``size`` bytes of a file: how many lines are whole, and where the last ends.

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
    """In the folder of a query, oldest first, by the name of the open file that follows them."""
    found: dict[str, list[ClosedFile]] = {}
    if not folder.is_dir():
        return found
    with os.scandir(folder) as entries:
        names = [name for name in (entry.name for entry in entries) if _INNER in name]
    for each in names:
        if name := _CLOSED.fullmatch(each):
            path = folder / each
            with suppress(FileNotFoundError):  # it was removed meanwhile
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
    """Of a query and site, as they were at one look: ``name`` is the open file's."""

    folder: Path
    name: str
    closed: Sequence[ClosedFile] = ()
    size: int = 0
    inode: int = 0

    @property
    def path(self) -> Path:
        """Of the open file."""
        return self.folder / self.name

    @property
    def begin(self) -> int:
        """Bytes before the open file."""
        return self.closed[-1].end if self.closed else 0

    @property
    def end(self) -> int:
        """Bytes in all, from the first answer on."""
        return self.begin + self.size

    def open_at(self, offset: int) -> tuple[BinaryIO, int] | None:
        """The file with that byte, or the first behind it, and the bytes before that file.

        None: it was closed, or moved away, since the look. Raises OSError.
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
        """Answers before the file that begins at that byte; raises OSError."""
        for file in self.closed:
            if file.size and file.begin == begin:
                return file.first_line()
        return self.closed[-1].lines if self.closed else 0


def site_files(folder: Path) -> dict[str, SiteFiles]:
    """In the folder of a query, by the name of the open file."""
    opened: dict[str, os.stat_result] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                with suppress(FileNotFoundError):  # it was closed, or moved away
                    opened[entry.name] = entry.stat()
    closed = closed_files(folder)  # listed last: before a file is opened, the former is closed
    found = {}
    for name in {**opened, **closed}:
        files, seen = closed.get(name, []), opened.get(name)
        if seen is None or (files and files[-1].inode == seen.st_ino):  # closed since it was seen
            found[name] = SiteFiles(folder, name, files)
        else:
            found[name] = SiteFiles(folder, name, files, seen.st_size, seen.st_ino)
    return found


# Tables of answers: the files of their rows, found by their names.


_RUN: Final = re.compile(r"(.+)\.rows-([0-9]{12,})-([0-9]{12,})\.parquet")


class TableRun(NamedTuple):
    """A file with the rows from ``first`` up to ``end``."""

    path: Path
    first: int
    end: int


def table_runs(place: Path) -> list[TableRun]:
    """Those of the site and query at ``place`` (folder of the query, name of the site)."""
    found = []
    for path in sorted(place.parent.glob(f"*{PARQUET}")):
        name = _RUN.fullmatch(path.name)
        if name is not None and name[1] == place.name:
            found.append(TableRun(path, int(name[2]), int(name[3])))
    return found


# The oldest closed files are given up, by age and by size, with the tables that have their rows.


Delivered = Callable[[str, str], float]
"""From the names of a query and an open file to the bytes that every sink of them has delivered."""


class AnswerKeeper:
    """Keeps the answers in ``folder`` within ``limits``.

    Args:
        folder: a folder for each query in it.
        queries: names of those that are answered; what others have left stays as it is.
        limits: what may be kept; ``unread``: also what sinks have not delivered goes.
        delivered: looks how far sinks are.
        tell: takes a line for people.
        now_ns: the clock of files' times.
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
        """Gives up what is beyond the limits; raises OSError: a file cannot be removed."""
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
        """Bytes of all files, and the closed ones; each is as new as those before it, or newer."""
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
        """Removes a closed file and what is before it; gives how many bytes that frees."""
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
