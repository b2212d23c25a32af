"""Open intervals and message keys, in files next to the outbox."""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgpack

from slackwater.edge_agent.outbox.disk import AppendFile, Files
from slackwater.edge_agent.outbox.spool import HEADER, UNREADABLE, Record, Spool, encoded, records

# A file of records next to the spool: appended to and synced, or rewritten as a whole.
#
# Whether a record is valid depends on its numbers, which its reader checks. As in ``Spool``,
# methods marked *disk* run on another thread, one call at a time.


class RecordFile:
    """The file ``name``; the constructor neither reads nor writes it."""

    def __init__(self, files: Files, name: str) -> None:
        self.doubtful = name in files.names()
        """Whether the file may be unsynced or have invalid records, left by an earlier process or a
        failed write: the next write then rewrites the whole file."""
        self.size = self.whole_size = 0
        """Bytes written since the process began, and size at the last rewrite."""
        self._files = files
        self._name = name
        self._file: AppendFile | None = None

    def found(self) -> list[Record]:
        """*Disk.* The records up to the first damaged one; none if a sector is bad.

        Raises:
            OSError: the file cannot be read at present.
        """
        if self._name not in self._files.names():
            return []
        try:
            content = self._files.read(self._name, 0, self._files.size(self._name))
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return []
        return [each.record for each in records(content, len(HEADER))]

    def write(
        self, fresh: Sequence[Record], whole: Callable[[], Iterable[Record]], size_max: int
    ) -> None:
        """*Disk.* Append ``fresh``; return when it is on the disk.

        A doubtful file, or one longer than ``size_max`` bytes, is rewritten from ``whole()``, which
        includes ``fresh``.

        Raises:
            OSError: ``fresh`` may not be on the disk; the file is doubtful.
        """
        try:
            if self.doubtful or self.size > size_max:
                self._write_anew(whole())
            else:
                self._append(fresh)
        except OSError:
            self.close()
            self.doubtful = True
            raise

    def close(self) -> None:
        """*Disk.* Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # everything that counts was synced
                file.close()

    def _write_anew(self, whole: Iterable[Record]) -> None:
        self.close()
        content = HEADER + b"".join(map(encoded, whole))
        self._files.replace(self._name, content)
        self.size = self.whole_size = len(content)
        self.doubtful = False

    def _append(self, fresh: Sequence[Record]) -> None:
        if self._file is None:
            new = self._name not in self._files.names()
            self._file = self._files.create(self._name) if new else self._files.append(self._name)
            if new:
                self._file.write(HEADER)
                self._files.sync_names()
        content = b"".join(map(encoded, fresh))
        self._file.write(content)
        self._file.sync()
        self.size += len(content)


# Open intervals and keys of messages, in files next to the outbox.


# Keys of received messages: they identify a message that is delivered again.
#
# A sender whose acknowledgement was lost sends its message again, possibly to another process. The
# key is written before the message's events, together with their numbers and checksum. After a
# restart, a key is valid if the spool has exactly these events. The newest ``KEYS_MAX`` are kept.


KEYS: Final = "keys"
KEYS_MAX: Final = 10_000
"""Number of keys that are remembered."""
KEY_BYTES: Final = 16
_HEAD_BYTES: Final = 5
"""Bytes before the keys of an entry: its stream (1), and the checksum of its events (4)."""
_FILE_MAX: Final = 64 * KEYS_MAX
"""A longer file is rewritten with the valid keys only [bytes]."""


class KnownKeys:
    """The keys in memory, as an agent without an outbox uses them."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def all(self) -> list[bytes]:
        """The known keys, from oldest to newest."""
        return list(self._known)

    def remember(self, keys: Sequence[bytes]) -> None:
        """Add keys; the oldest beyond ``KEYS_MAX`` are forgotten."""
        for key in keys:
            self._known.pop(key, None)
            self._known[key] = None
        while len(self._known) > KEYS_MAX:
            del self._known[next(iter(self._known))]


class StoredKeys(KnownKeys):
    """Keys in a file. As in ``Spool``, *disk* methods run on another thread, one at a time."""

    def __init__(self, files: Files, spools: Sequence[Spool]) -> None:
        """*Disk.* Read the file. ``spools``: per stream, as recovered from the disk.

        Raises:
            OSError: the file cannot be read at present.
        """
        super().__init__()
        self._file = RecordFile(files, KEYS)
        self._fresh: deque[Record] = deque()
        self._entries = self._found(spools)
        for entry in self._entries:
            self.remember(_keys_of(entry))

    def add(self, stream: int, record: Record, keys: Sequence[bytes]) -> None:
        """Record that the messages ``keys`` brought ``record``; call before appending it."""
        if keys:
            self.remember(keys)
            head = bytes([stream]) + zlib.crc32(record.data).to_bytes(4, "big")
            self._fresh.append(Record(record.first, record.rows, head + b"".join(keys)))

    def commit(self) -> None:
        """*Disk.* Return when everything added before the call is on the disk.

        Raises:
            OSError: some of it is not; it stays in memory for another call.
        """
        fresh = [self._fresh.popleft() for _ in range(len(self._fresh))]
        self._entries += fresh
        if fresh or self._file.doubtful:
            self._file.write(fresh, self._newest, _FILE_MAX)

    def close(self) -> None:
        """*Disk.* Close the file."""
        self._file.close()

    # --- inside

    def _found(self, spools: Sequence[Spool]) -> deque[Record]:
        """The valid entries. If a sector is bad, repeated messages are accepted twice."""
        return deque(
            entry for entry in self._file.found()
            if len(entry.data) % KEY_BYTES == _HEAD_BYTES and entry.data[0] < len(spools)
            and spools[entry.data[0]].has(
                entry.first, entry.rows, int.from_bytes(entry.data[1:_HEAD_BYTES], "big")
            )
        )  # fmt: skip

    def _newest(self) -> deque[Record]:
        """Drop entries beyond the newest ``KEYS_MAX`` keys and return the rest."""
        count = sum(len(entry.data) // KEY_BYTES for entry in self._entries)
        while count > KEYS_MAX:
            count -= len(self._entries.popleft().data) // KEY_BYTES
        return self._entries


def _keys_of(entry: Record) -> list[bytes]:
    return [
        entry.data[a:b]
        for a, b in itertools.pairwise(range(_HEAD_BYTES, len(entry.data) + 1, KEY_BYTES))
    ]  # fmt: skip


# Open intervals on the disk; ended intervals are events in the outbox.
#
# A change of the open intervals is written and synced before the interval events that it produced,
# together with the number that follows these events in their stream. After a restart, a change is
# valid if the stream has reached that number. A crash therefore leaves either both the event and
# the change, or neither (the interval is still open): no interval is sent twice or lost.
#
# Changes are pairs of a name and a value (None: removed); their meaning belongs to the writer.
# Message keys are kept with them, because a reading may leave no other trace in the outbox.


JOURNAL: Final = "intervals"
_FILE_MIN: Final = 1 << 16
"""A shorter file is not rewritten [bytes]."""
_CHANGES_MAX: Final = 1000
"""Most changes in one record."""

Change = tuple[bytes, bytes | None]


class Journal:
    """File of open intervals; as in ``Spool``, *disk* methods run on another thread."""

    def __init__(self, files: Files, nexts: Sequence[int], committed: Sequence[int]) -> None:
        """*Disk.* Read the file. ``nexts``: per stream, the number after its last recovered event;
        ``committed``: the number after its last event that is certainly on the disk.

        Raises:
            OSError: the file cannot be read at present.
        """
        self.found: dict[bytes, bytes] = {}
        """Open intervals of earlier processes, to be continued."""
        self.messages = KnownKeys()
        self.added = self.written = 0
        """Number of changes added, and number of changes on the disk."""
        self._file = RecordFile(files, JOURNAL)
        self._fresh: deque[Record] = deque()
        self._pending: deque[Record] = deque()
        """Changes on the disk whose streams have not reached their numbers yet."""
        self._settled: dict[bytes, bytes] = {}
        self._settled_messages = KnownKeys()
        for entry in self._entries(nexts):
            self._pending.append(entry)
            _apply(entry, self.found, self.messages)
        self._settle(committed)

    @property
    def unwritten(self) -> bool:
        """Whether ``commit`` has something to write."""
        return self.written < self.added

    def add(
        self, stream: int, end: int, changes: Sequence[Change], messages: Sequence[bytes] = ()
    ) -> None:
        """Add changes that become valid when ``stream`` has all events below the number ``end``;
        call before appending these events.
        """
        self.messages.remember(messages)
        for low in range(0, max(len(changes), 1), _CHANGES_MAX):
            last = low + _CHANGES_MAX >= len(changes)
            some = list(changes[low : low + _CHANGES_MAX])
            self._fresh.append(_record(stream, end, some, list(messages) if last else []))
        self.added += 1

    def commit(self, committed: Sequence[int]) -> None:
        """*Disk.* Return when everything added before the call is on the disk.

        ``committed``: per stream, the number after its last event on the disk.

        Raises:
            OSError: some of it is not; it stays in memory for another call.
        """
        added = self.added
        fresh = [self._fresh.popleft() for _ in range(len(self._fresh))]
        self._pending += fresh
        self._settle(committed)
        if fresh or self._file.doubtful:
            self._file.write(fresh, self._whole, 4 * self._file.whole_size + _FILE_MIN)
        self.written = added

    def close(self) -> None:
        """*Disk.* Close the file."""
        self._file.close()

    # --- inside

    def _entries(self, nexts: Sequence[int]) -> Iterator[Record]:
        """The valid entries. If a sector is bad, intervals start from nothing."""
        for entry in self._file.found():
            stream = entry.data[0]
            if stream < len(nexts) and entry.first <= nexts[stream]:
                yield entry

    def _settle(self, committed: Sequence[int]) -> None:
        """Apply pending changes whose events are certainly on the disk."""
        waiting: deque[Record] = deque()
        behind: set[int] = set()
        for entry in self._pending:
            stream = entry.data[0]
            if entry.first <= committed[stream] and stream not in behind:
                _apply(entry, self._settled, self._settled_messages)
            else:
                behind.add(stream)
                waiting.append(entry)
        self._pending = waiting

    def _whole(self) -> list[Record]:
        """All that the file must contain: the settled state and the pending changes."""
        pairs = list(self._settled.items())
        settled = [
            _record(0, 0, pairs[low : low + _CHANGES_MAX], [])
            for low in range(0, len(pairs), _CHANGES_MAX)
        ]
        return [*settled, _record(0, 0, [], self._settled_messages.all()), *self._pending]


def _apply(entry: Record, to: dict[bytes, bytes], messages: KnownKeys) -> None:
    changes, keys = msgpack.unpackb(entry.data[1:])
    for name, value in changes:
        if value is None:
            to.pop(name, None)
        else:
            to[name] = value
    messages.remember(keys)


def _record(stream: int, end: int, changes: Sequence[Change], messages: Sequence[bytes]) -> Record:
    return Record(end, 1, bytes([stream]) + msgpack.packb([changes, messages]))
