"""Who handed events over: keys by which a message that comes again is known.

A sender whose acknowledgement was lost sends its message again, to another process perhaps. Its key
is on the disk before its events are, with the numbers that they have: so a key counts, after a
restart, if the spool has these numbers. The newest ``KEYS_MAX`` are kept; the file is bounded.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Final

from edge_agent.outbox.files import Files
from edge_agent.outbox.record_file import RecordFile
from edge_agent.outbox.segment import Record

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
        self._file = RecordFile(files, KEYS)
        self._fresh: deque[Record] = deque()
        self._entries = self._found(nexts)
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
        if fresh or self._file.doubtful:
            self._file.write(fresh, self._newest, _FILE_MAX)

    def close(self) -> None:
        """*Disk.* Not to be written any more."""
        self._file.close()

    # --- inside

    def _found(self, nexts: Sequence[int]) -> deque[Record]:
        """Where a sector is bad, what comes again is taken anew and nothing is lost."""
        return deque(
            entry for entry in self._file.found()
            if len(entry.data) % KEY_BYTES == 1
            and entry.data[0] < len(nexts) and entry.end <= nexts[entry.data[0]]
        )  # fmt: skip

    def _newest(self) -> deque[Record]:
        """The entries that are kept; older ones go."""
        count = sum(len(entry.data) // KEY_BYTES for entry in self._entries)
        while count > KEYS_MAX:
            count -= len(self._entries.popleft().data) // KEY_BYTES
        return self._entries


def _keys_of(entry: Record) -> list[bytes]:
    return [
        entry.data[a:b]
        for a, b in itertools.pairwise(range(1, len(entry.data) + 1, KEY_BYTES))
    ]  # fmt: skip
