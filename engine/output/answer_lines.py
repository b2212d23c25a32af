"""Answers as JSON lines while they come: a file for each query and site, ``QUERY/SITE.jsonl``."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import quote

from engine.log.whole_file import whole_file

# How long a file is that only grows, and the checksum of all of it, so that no damage is missed.
#
# One checksum over everything tells whether the file is as it was written, but not where it is not.
# So those of some of its beginnings are kept, too, evenly spaced: at most ``MARKS``, however long
# the file grows (when there are too many, every other one goes, and the next come twice as far
# apart). Damage lies before the first that does not agree, and after the one before that.


MARKS: Final = 16
_STEP: Final = 4096
_PIECE: Final = 1 << 20


class CheckedLength:
    """``length``: bytes that were added."""

    def __init__(self) -> None:
        self.length = 0
        self._sum = 0
        self._step = _STEP
        self._marks: list[tuple[int, int]] = []

    @classmethod
    def of(cls, state: Sequence[int]) -> CheckedLength:
        """Inverse of ``state``."""
        made = cls()
        made.length, made._sum, made._step, *marks = state
        made._marks = list(zip(marks[::2], marks[1::2], strict=True))
        return made

    def state(self) -> tuple[int, ...]:
        """Plain data."""
        return (self.length, self._sum, self._step, *(n for mark in self._marks for n in mark))

    def add(self, content: bytes) -> None:
        """So much more."""
        self._sum = zlib.crc32(content, self._sum)
        self.length += len(content)
        if self.length - (self._marks[-1][0] if self._marks else 0) >= self._step:
            self._marks.append((self.length, self._sum))
        if len(self._marks) > MARKS:
            self._marks = self._marks[1::2]
            self._step *= 2

    def damage(self, path: Path) -> str:
        """In words, how the beginning of a file is not what was added; "": it is.

        Raises:
            OSError: it cannot be read.
        """
        if not path.exists():
            return "is gone" if self.length else ""
        size = path.stat().st_size
        if size < self.length:
            return f"ends at byte {size}, and had {self.length}"
        at = found = 0
        with path.open("rb") as stream:
            for end, wanted in (*self._marks, (self.length, self._sum)):
                start = at
                while at < end and (piece := stream.read(min(_PIECE, end - at))):
                    found = zlib.crc32(piece, found)
                    at += len(piece)
                if found != wanted:
                    return f"bytes {start} to {end} are not as they were written"
        return ""


# Answers as JSON lines while they come: a file for each query and site, ``QUERY/SITE.jsonl``.
#
# The content is a function of the arrival log: a prefix of what a pass over the whole log gives for
# that query and site. An engine that computes results again (after a crash, or after a takeover)
# compares them with the file and writes only the new ones: no line is lost, duplicated or removed.
# Checksums find damage at the start; the comparison repairs it.


Key = tuple[str, str]
"""Query, site."""
SUFFIX: Final = ".jsonl"
_NAME: Final = 150
_CUT: Final = ".cut"
END: Final = ".end"
"""Of the name of a file with what only the end of the log would give."""


def site_file(site: str) -> str:
    """The site's name as that of a file.

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
    """``made``: what was made of it, in this life or before; ``size``: bytes that it has."""

    path: Path
    size: int
    made: CheckedLength = field(default_factory=CheckedLength)
    unsynced: bool = False
    reported: bool = False

    @property
    def at(self) -> int:
        """Bytes that were made."""
        return self.made.length


class AnswerLines:
    """The files in ``folder``.

    Args:
        folder: a folder for each query in it.
        queries: names of those that are answered; what others have left stays as it is.
        known: what ``state`` gave when the results were made so far; of what follows, some may
            be in the files, too.
        tell: takes a line for people.

    Raises:
        AnswersDamaged: a file is not as ``known`` says, so that all must be made again; has the
            place.
    """

    def __init__(
        self,
        folder: Path,
        queries: Collection[str],
        known: Mapping[Key, tuple[int, ...]],
        tell: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._queries = queries
        self._tell = tell
        self._files: dict[Key, _File] = {}
        for key, made in known.items():
            file = self._file(key)
            file.made = CheckedLength.of(made)
            if damage := file.made.damage(file.path):
                raise AnswersDamaged(f"{file.path}: {damage}")
        self.end({})

    def append(self, key: Key, lines: bytes) -> bytes:
        """Makes ``lines`` (whole ones) the next of a file; gives those that were not there before.

        Raises:
            OSError: they could not be written; the same call may be made again.
            AnswersDamaged: the file is gone.
        """
        file = self._file(key)
        there = _read(file.path, file.at, min(len(lines), file.size - file.at))
        same = len(there) if lines.startswith(there) else _common(there, lines)
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
        file.size = max(file.size, file.at)
        return lines[lines.rfind(b"\n", 0, same) + 1 :] if same < len(lines) else b""

    def end(self, lines: Mapping[Key, bytes]) -> None:
        """What the end of the log would give, as it is now; replaces what was said of it before.

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
        """All that the log gives has been made: what files hold beyond it is not of this log.

        Raises:
            OSError: a file cannot be cut.
        """
        known = {file.path: file for file in self._files.values()}
        for path in self._paths(SUFFIX):
            file = known.get(path) or _File(path, path.stat().st_size)
            if file.size > file.at:
                self._keep(file, file.at, file.size - file.at, "had more than the log gives")
                os.truncate(path, file.at)
                file.size, file.unsynced = file.at, True

    def state(self) -> dict[Key, tuple[int, ...]]:
        """For the next life: what was made of each file, all on disk now.

        Raises:
            OSError: they cannot be brought to the disk.
            AnswersDamaged: a file is gone.
        """
        for file in self._files.values():
            if file.unsynced:
                if not file.path.exists():
                    raise AnswersDamaged(f"{file.path}: is gone")
                with file.path.open("rb") as stream:
                    os.fsync(stream.fileno())
                file.unsynced = False
        return {key: file.made.state() for key, file in self._files.items()}

    def _paths(self, ending: str) -> list[Path]:
        return [p for query in self._queries for p in (self._folder / query).glob(f"*{ending}")]

    def _file(self, key: Key) -> _File:
        file = self._files.get(key)
        if file is None:
            query, site = key
            path = self._folder / query / f"{site_file(site)}{SUFFIX}"
            path.parent.mkdir(parents=True, exist_ok=True)
            size = path.stat().st_size if path.exists() else 0
            file = self._files[key] = _File(path, size)
        return file

    def _keep(self, file: _File, at: int, size: int, why: str) -> None:
        """Saves the bytes from ``at`` on beside the file before they are cut; reports it once."""
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


class AnswersDamaged(Exception):  # noqa: N818 - no error: they are made again
    """Answers are not as they were written."""


def _read(path: Path, at: int, size: int) -> bytes:
    if size <= 0:
        return b""
    with path.open("rb") as stream:
        stream.seek(at)
        return stream.read(size)


def _common(left: bytes, right: bytes) -> int:
    """How many bytes two texts have in common at their beginnings."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
