"""A disk in memory that forgets what was not synced, tears writes, and fails on request."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from random import Random


@dataclass
class FakeFile:
    """``synced``: what a power cut leaves for sure; ``written``: what a reader sees."""

    synced: bytes = b""
    written: bytes = b""
    lost: bool = False
    """A sync has failed: what was written since may be gone, whatever later syncs say."""


@dataclass
class FakeDisk:
    """``Files`` with a ``failing`` chance per call, and ``power_cut``."""

    random: Random
    failing: float = 0.0
    full: bool = False
    unreadable: set[str] = field(default_factory=set)
    """Files on bad sectors."""
    files: dict[str, FakeFile] = field(default_factory=dict)
    durable_names: dict[str, FakeFile] = field(default_factory=dict)

    def fail(self, *, writes: bool = True) -> None:
        if (self.full and writes) or self.random.random() < self.failing:
            code = errno.ENOSPC if self.full else errno.EIO
            raise OSError(code, "No space left on device" if self.full else "Input/output error")

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str, offset: int, size: int) -> bytes:
        if name in self.unreadable:
            raise OSError(errno.EIO, "Input/output error")
        return self.files[name].written[offset : offset + size]

    def holds(self, content: bytes) -> bool:
        """Whether some file has these bytes."""
        return any(content in file.written for file in self.files.values())

    def size(self, name: str) -> int:
        return len(self.files[name].written)

    def create(self, name: str) -> FakeAppend:
        self.fail()
        self.unreadable.discard(name)  # another file
        self.files[name] = FakeFile()
        return FakeAppend(self, self.files[name])

    def append(self, name: str) -> FakeAppend:
        self.fail(writes=False)
        return FakeAppend(self, self.files[name])

    def replace(self, name: str, data: bytes) -> None:
        self.fail()
        self.files[name] = FakeFile(data, data)
        self.fail()  # whether it is durable is in doubt
        self.durable_names[name] = self.files[name]

    def rename(self, name: str, new: str) -> None:
        self.fail(writes=False)
        self.files[new] = self.files.pop(name)

    def unlink(self, name: str) -> None:
        self.fail(writes=False)
        self.files.pop(name, None)
        if self.random.random() < 0.5:
            self.durable_names.pop(name, None)

    def sync_names(self) -> None:
        self.fail()
        self.durable_names = dict(self.files)

    def power_cut(self) -> None:
        """What was not synced is gone, or in part, or torn, or garbage."""
        kept = dict(self.durable_names)
        for name, file in self.files.items():
            if name not in kept and self.random.random() < 0.5:
                kept[name] = file
        for file in kept.values():
            unsynced = file.written[len(file.synced) :]
            torn = unsynced[: self.random.randrange(len(unsynced) + 1)]
            garbage = self.random.randbytes(self.random.choice((0, 0, 3, 50)))
            file.written = file.synced = file.synced + torn + (garbage if unsynced else b"")
            file.lost = False
        self.files = kept
        self.durable_names = dict(kept)


class FakeAppend:
    def __init__(self, disk: FakeDisk, file: FakeFile) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: bytes) -> None:
        try:
            self._disk.fail()
        except OSError:
            self._file.written += data[: self._disk.random.randrange(len(data) + 1)]
            raise
        self._file.written += data

    def sync(self) -> None:
        try:
            self._disk.fail()
        except OSError:
            self._file.lost = True
            raise
        if not self._file.lost:
            self._file.synced = self._file.written

    def close(self) -> None:
        self._disk.fail(writes=False)
