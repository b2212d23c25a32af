"""Files of an outbox on a disk: files that are appended to, and files that are replaced whole."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from slackwater.edge_agent.standard_streams import taking_name

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The identity of the machine's boot, which is Linux's; "": the system has none."""
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""


# The disk operations that an outbox needs, as a protocol, so that tests can inject disk failures.
#
# Names are relative to one folder. Every method may raise OSError.


class AppendFile(Protocol):
    """An open file that is written at its end only."""

    def write(self, data: bytes) -> None:
        """Write all of ``data``; if this raises, a part of it may be in the file."""

    def sync(self) -> None:
        """Return when everything written is on the disk. If this raises, none of the unsynced data
        is certain to be on the disk, and a second call that succeeds does not prove otherwise.
        """

    def close(self) -> None:
        """Close the file; no write may follow."""


class Files(Protocol):
    """One folder of a disk."""

    def names(self) -> list[str]:
        """Names of the files in the folder."""

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes from ``offset``; fewer only at the end of the file."""

    def size(self, name: str) -> int:
        """Size of the file [bytes]."""

    def create(self, name: str) -> AppendFile:
        """Create an empty file; its name is durable after ``sync_names``."""

    def append(self, name: str) -> AppendFile:
        """Open an existing file for appending."""

    def replace(self, name: str, data: bytes) -> None:
        """Replace the content of ``name`` by ``data``, atomically and durably."""

    def rename(self, name: str, new: str) -> None:
        """Rename the file, replacing any file ``new``; durable after ``sync_names``."""

    def unlink(self, name: str) -> None:
        """Remove the file; it may reappear after a power cut until ``sync_names``."""

    def sync_names(self) -> None:
        """Return when all names created and removed so far are on the disk."""


class DiskFiles:
    """A folder of this machine's disk; created if it does not exist."""

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
    """A file of ``DiskFiles``, written without a buffer in this process."""

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


# Small values that an outbox must not lose: one JSON object, stored twice with a checksum.
#
# Each copy is replaced whole. If one copy fails its checksum, the other copy is used.


READ_MAX: Final = 1 << 20
_COPIES: Final = ("", ".copy")


def store(files: Files, name: str, value: Mapping[str, Any]) -> None:
    """Store ``value`` under ``name``; return when it is on the disk.

    Raises:
        OSError: the new value may or may not be stored; at least one copy has the old or new one.
    """
    text = json.dumps(value, sort_keys=True)
    line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
    for copy in _COPIES:
        files.replace(name + copy, line)


def load(files: Files, name: str) -> dict[str, Any] | None:
    """The stored value; None: there is none, or both copies are damaged."""
    names = files.names()
    for copy in _COPIES:
        if name + copy in names:
            try:
                found = _read(files.read(name + copy, 0, READ_MAX))
            except OSError:
                continue  # a copy on a bad sector; the other copy may be readable
            if found is not None:
                return found
    return None


def _read(line: bytes) -> dict[str, Any] | None:
    crc, _, text = line.rstrip(b"\n").partition(b" ")
    if crc != f"{zlib.crc32(text):08x}".encode():
        return None
    value = json.loads(text)
    return value if type(value) is dict else None
