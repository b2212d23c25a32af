"""Who handed events over: keys by which a message that comes again is known.

A sender whose acknowledgement was lost sends its message again, to another process perhaps. Its key
is on the disk before its events are, with the numbers that they have: so a key counts, after a
restart, if the spool has these numbers. The newest ``KEYS_MAX`` are kept; the file is bounded.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from edge_agent.outbox.files import AppendFile, Files
from edge_agent.outbox.segment import HEADER, Record, encoded, records
from edge_agent.outbox.spool import UNREADABLE

KEYS: Final = "keys"
KEYS_MAX: Final = 10_000
"""So many messages are known when they come again."""
KEY_BYTES: Final = 16
_FILE_MAX: Final = 64 * KEYS_MAX
"""A longer file is written anew with the keys that count [bytes]."""


class KnownKeys:
    """The keys alone: of an agent without an outbox."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def all(self) -> list[bytes]:
        """Those that are known, the newest last."""
        return list(self._known)

    def remember(self, keys: Sequence[bytes]) -> None:
        """The oldest ones go."""
        for key in keys:
            self._known.pop(key, None)
            self._known[key] = None
        while len(self._known) > KEYS_MAX:
            del self._known[next(iter(self._known))]


class StoredKeys(KnownKeys):
    """Keys in a file. As in ``Spool``, *disk* is another thread's, one call at a time."""

    def __init__(self, files: Files, nexts: Sequence[int]) -> None:
        """*Disk.* ``nexts``: per stream the number after its last event that was found.

        Raises:
            OSError: the file cannot be read, now.
        """
        super().__init__()
        self._files = files
        self._file: AppendFile | None = None
        self._fresh: deque[Record] = deque()
        self._entries = self._found(nexts)
        self._doubtful = KEYS in files.names()
        """What the process before has left may not be synced, or has entries that do not count."""
        self._size = 0
        for entry in self._entries:
            self.remember(_keys_of(entry))

    def add(self, stream: int, first: int, rows: int, keys: Sequence[bytes]) -> None:
        """The events [first, first + rows) are of ``keys``: called before they are appended."""
        if keys:
            self.remember(keys)
            self._fresh.append(Record(first, rows, bytes([stream]) + b"".join(keys)))

    def commit(self) -> None:
        """*Disk.* Returns when everything added before the call is on the disk.

        Raises:
            OSError: some of it is not; it is kept in memory, for another call.
        """
        fresh = [self._fresh.popleft() for _ in range(len(self._fresh))]
        self._entries += fresh
        if not (fresh or self._doubtful):
            return
        try:
            if self._doubtful or self._size > _FILE_MAX:
                self._write_anew()
            else:
                self._append(fresh)
        except OSError:
            self.close()
            self._doubtful = True
            raise

    def close(self) -> None:
        """*Disk.* Not to be written any more."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # everything that counts was synced
                file.close()

    # --- inside

    def _found(self, nexts: Sequence[int]) -> deque[Record]:
        if KEYS not in self._files.names():
            return deque()
        try:
            content = self._files.read(KEYS, 0, self._files.size(KEYS))
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return deque()  # a bad sector: what comes again is taken anew, nothing is lost
        found = (each.record for each in records(content, len(HEADER)))
        return deque(
            entry for entry in found
            if len(entry.data) % KEY_BYTES == 1
            and entry.data[0] < len(nexts) and entry.end <= nexts[entry.data[0]]
        )  # fmt: skip

    def _write_anew(self) -> None:
        self.close()
        count = sum(len(entry.data) // KEY_BYTES for entry in self._entries)
        while count > KEYS_MAX:
            count -= len(self._entries.popleft().data) // KEY_BYTES
        content = HEADER + b"".join(map(encoded, self._entries))
        self._files.replace(KEYS, content)
        self._size = len(content)
        self._doubtful = False

    def _append(self, fresh: Sequence[Record]) -> None:
        if self._file is None:
            new = KEYS not in self._files.names()
            self._file = self._files.create(KEYS) if new else self._files.append(KEYS)
            if new:
                self._file.write(HEADER)
                self._files.sync_names()
        content = b"".join(map(encoded, fresh))
        self._file.write(content)
        self._file.sync()
        self._size += len(content)


def _keys_of(entry: Record) -> list[bytes]:
    return [
        entry.data[a:b]
        for a, b in itertools.pairwise(range(1, len(entry.data) + 1, KEY_BYTES))
    ]  # fmt: skip
