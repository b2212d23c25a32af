"""Files of an outbox on a disk: records that are appended, and whole ones."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from slackwater.edge_agent.standard_streams import taking_name

# The few things that an outbox asks of a disk, so that tests can hand it one that fails.
#
# Names are relative to one folder. Everything may raise OSError.


class AppendFile(Protocol):
    """An open file that grows at its end."""

    def write(self, data: bytes) -> None:
        """Adds all of ``data``, or raises: then some of it may be there."""

    def sync(self) -> None:
        """Returns when everything written is on the disk. If it raises, all of that is in doubt,
        and calling it again proves nothing.
        """

    def close(self) -> None:
        """Not to be written any more."""


class Files(Protocol):
    """One folder of a disk."""

    def names(self) -> list[str]:
        """The files that are there."""

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``; fewer only at the end."""

    def size(self, name: str) -> int:
        """Bytes of the file."""

    def create(self, name: str) -> AppendFile:
        """A new empty file; its name is durable after ``sync_names``."""

    def append(self, name: str) -> AppendFile:
        """A file that is there, to be written on."""

    def replace(self, name: str, data: bytes) -> None:
        """``name`` has ``data``, durably, or is as it was."""

    def rename(self, name: str, new: str) -> None:
        """The file is called ``new`` from now on, in place of one that was; durable later."""

    def unlink(self, name: str) -> None:
        """Removes the file; it may come back after a power cut."""

    def sync_names(self) -> None:
        """Returns when names made and removed until now are on the disk."""


class DiskFiles:
    """A folder of this machine's disk; made when it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        return [entry.name for entry in os.scandir(self.folder) if entry.is_file()]

    def read(self, name: str, offset: int, size: int) -> bytes:
        with (self.folder / name).open("rb", buffering=0) as file:
            file.seek(offset)
            return file.read(size) or b""

    def size(self, name: str) -> int:
        return (self.folder / name).stat().st_size

    def create(self, name: str) -> AppendFile:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        return _DiskFile(os.open(self.folder / name, flags, 0o600))

    def append(self, name: str) -> AppendFile:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return _DiskFile(os.open(self.folder / name, flags))

    def replace(self, name: str, data: bytes) -> None:
        unfinished = f".{name}.writing"
        with taking_name(self.folder / unfinished, self.folder / name):
            file = self.create(unfinished)
            try:
                file.write(data)
                file.sync()
            finally:
                file.close()
            (self.folder / unfinished).replace(self.folder / name)
        self.sync_names()

    def rename(self, name: str, new: str) -> None:
        (self.folder / name).replace(self.folder / new)

    def unlink(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def sync_names(self) -> None:
        number = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


class _DiskFile:
    """A file of ``DiskFiles``; not buffered here."""

    def __init__(self, number: int) -> None:
        self._number = number

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._number, left) :]

    def sync(self) -> None:
        os.fsync(self._number)

    def close(self) -> None:
        os.close(self._number)


# Small values that an outbox must not forget: one JSON object, kept twice with a checksum.
#
# Each copy is replaced whole. A copy that has rotted fails its checksum, and the other one counts.


READ_MAX: Final = 1 << 20
_COPIES: Final = ("", ".copy")


def store(files: Files, name: str, value: Mapping[str, Any]) -> None:
    """Returns when ``value`` is on the disk under ``name``.

    Raises:
        OSError: it may or may not be; what was there before is still, at least in one copy.
    """
    text = json.dumps(value, sort_keys=True)
    line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
    for copy in _COPIES:
        files.replace(name + copy, line)


def load(files: Files, name: str) -> dict[str, Any] | None:
    """The stored value; None: there is none, or no copy is whole."""
    names = files.names()
    for copy in _COPIES:
        if name + copy in names:
            try:
                found = _read(files.read(name + copy, 0, READ_MAX))
            except OSError:
                continue  # a copy on a bad sector; the other one may be readable
            if found is not None:
                return found
    return None


def _read(line: bytes) -> dict[str, Any] | None:
    crc, _, text = line.rstrip(b"\n").partition(b" ")
    if crc != f"{zlib.crc32(text):08x}".encode():
        return None
    value = json.loads(text)
    return value if type(value) is dict else None
