"""One stream's events on the disk: segments are appended to, read in order, and removed."""

from __future__ import annotations

import errno
import re
import struct
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from slackwater.edge_agent.messages import MESSAGE_MAX, ROWS_MAX
from slackwater.edge_agent.outbox.disk import AppendFile, Files, load, store
from slackwater.edge_agent.sequence import SEQ_MAX
from slackwater.edge_agent.wire import PREFIX_BYTES

# Format of a segment: a header, then records, each with its own mark and checksum.
#
#     header   8 bytes   ``SLKOUT1\\n``
#     record   mark 4    ``D6 53 4C 4B``
#              crc 4     CRC-32 of the rest of the record
#              size 4    bytes of ``data``
#              first 8   number of its first event
#              rows 4    how many events it has
#              data      the message as it goes to the gateway (``edge_agent.wire``)
#
# Numbers are big-endian. A torn or damaged record fails its checksum, and the reader continues at
# the next mark. A bad record therefore loses only its own events.


HEADER: Final = b"SLKOUT1\n"
MARK: Final = b"\xd6SLK"
DATA_MAX: Final = MESSAGE_MAX + PREFIX_BYTES
_FIXED: Final = struct.Struct(">4sIIQI")
_CHECKED: Final = struct.Struct(">IQI")
_CRC_END: Final = 8
RECORD_BYTES: Final = _FIXED.size
"""Bytes of a record in addition to its data."""


class Record(NamedTuple):
    """Events [first, first + rows) of a stream, as one message."""

    first: int
    rows: int
    data: bytes

    @property
    def end(self) -> int:
        """The number after its last event."""
        return self.first + self.rows

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return RECORD_BYTES + len(self.data)


class LocatedRecord(NamedTuple):
    """A record, its offsets in the segment, and the number of invalid bytes before it."""

    record: Record
    start: int
    end: int
    skipped: int


def encoded(record: Record) -> bytes:
    """The bytes of ``record``."""
    checked = _CHECKED.pack(len(record.data), record.first, record.rows)
    crc = zlib.crc32(record.data, zlib.crc32(checked))
    return b"".join((MARK, crc.to_bytes(4, "big"), checked, record.data))


def records(content: bytes, offset: int = 0) -> Iterator[LocatedRecord]:
    """The valid records of ``content`` from ``offset`` on.

    Invalid bytes are skipped up to the next valid record. Invalid bytes at the end are not
    reported: they may be a record that is being written.
    """
    at, skipped = offset, 0
    while at < len(content):
        record = _record_at(content, at)
        if record is not None:
            end = at + record.size
            yield LocatedRecord(record, at, end, skipped)
            at, skipped = end, 0
            continue
        following = content.find(MARK, at + 1)
        if following < 0:
            return
        skipped += following - at
        at = following


def _record_at(content: bytes, at: int) -> Record | None:
    if content[at : at + len(MARK)] != MARK or at + RECORD_BYTES > len(content):
        return None
    _, crc, size, first, rows = _FIXED.unpack_from(content, at)
    end = at + RECORD_BYTES + size
    if size > DATA_MAX or end > len(content) or not 1 <= rows <= ROWS_MAX or first >= SEQ_MAX:
        return None
    if zlib.crc32(memoryview(content)[at + _CRC_END : end]) != crc:
        return None
    return Record(first, rows, content[at + RECORD_BYTES : end])


# One stream's events on the disk: segments are appended to, read in order, and removed.
#
# Two threads may use a spool: one calls ``append`` and reads sizes; the other calls the methods
# marked *disk*, one call at a time. Each number is changed by one of the two threads only.
#
# A segment is named by the number of its first event. Records with numbers at or above the first
# event of the next segment are not part of it: after a failed write a segment is left as it is, and
# the records of that write are written again into the next segment.


DAMAGED: Final = ".damaged"
DAMAGED_MAX: Final = 4
"""Number of damaged segments per outbox that are kept for inspection."""
UNREADABLE: Final = frozenset({errno.EIO, errno.ENOENT, errno.EBADMSG, errno.ENXIO})
"""Errors that repeat when the file is read again."""
MISSING: Final = "is not there, though nobody had removed it; its events are gone"
_UNFINISHED: Final = "the message that was being written is gone"
UNWRITTEN_MAX: Final = 4 << 20
"""Bytes that may wait in memory for a slow or full disk."""
SEGMENT_NAME: Final = re.compile(r"s([0-9]{2})-([0-9]{20})\.seg")


def segment_name(index: int, first: int) -> str:
    """The file of stream ``index`` whose first event has number ``first``."""
    return f"s{index:02d}-{first:020d}.seg"


@dataclass(slots=True, eq=False)
class Segment:
    """A file and the size of its valid part [bytes]."""

    first: int
    name: str
    size: int


class Spool:
    """The unacked events of one stream, and the number of the next event."""

    def __init__(
        self, files: Files, index: int, bytes_max: int, segment_bytes: int, acked: int = 0
    ) -> None:
        """Read what is on the disk; ``acked``: the number below which events are acked.

        Raises:
            OSError: the folder cannot be read.
        """
        self.index = index
        self.bytes_max = bytes_max
        self.counts: Counter[str] = Counter()
        """``cut_bytes`` of a torn end, ``damaged_bytes`` and ``damaged_segments``;
        ``unreadable_segments``; ``dropped`` events; ``write_failed``: number of failed writes."""
        self.faults: deque[str] = deque()
        """Messages about faults of segments; a caller removes them."""
        self._files = files
        self._segment_bytes = segment_bytes
        self._file: AppendFile | None = None
        self._reading: Segment | None = None
        self._tell_if_newest_is_gone()
        self._segments = self._found()
        self._doubtful: bytes | None = None
        """Content of the last segment as found: the previous process may not have synced it."""
        self._unsure: dict[int, tuple[int, int]] = {}
        """Per first number of a message in that segment: number of events and their checksum."""
        self._appended_bytes = self._written_bytes = sum(each.size for each in self._segments)
        self._header_bytes = self._removed_bytes = 0
        self.next = self._recovered_to = max(self._recovered(), acked)
        self.committed = self.next if self._doubtful is None else self._segments[-1].first
        self._fresh: deque[Record] = deque()
        self._ahead: deque[Record] = deque()
        self._read_to = acked
        self._offset = 0

    @property
    def bytes(self) -> int:
        """Bytes kept on the disk and in memory."""
        return self._appended_bytes + self._header_bytes - self._removed_bytes

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that are only in memory."""
        return self._appended_bytes - self._written_bytes

    @property
    def unwritten(self) -> bool:
        return bool(self._fresh) or self._doubtful is not None

    def has(self, first: int, rows: int, checksum: int) -> bool:
        """Whether these events were recovered as one message, or are acked. After a crash, the last
        segment may have other events under the same numbers; earlier segments cannot.
        """
        sure = self.next if self._doubtful is None else max(self.committed, self._read_to)
        return first + rows <= sure or self._unsure.get(first) == (rows, checksum)

    def fits(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be appended."""
        headers = len(HEADER) * (2 + (self.unwritten_bytes + size) // self._segment_bytes)
        room = self.bytes + size + headers <= self.bytes_max
        return room and self.unwritten_bytes + size <= UNWRITTEN_MAX

    def append(self, record: Record) -> None:
        """Add the next events; they are on the disk after ``commit``."""
        assert record.first == self.next
        self.next = record.end
        self._appended_bytes += record.size
        self._fresh.append(record)

    def commit(self, end: int) -> None:
        """*Disk.* Return when all appended events below the number ``end`` are on the disk.

        Raises:
            OSError: some of them are not; they stay in memory for another call.
        """
        try:
            self._confirm()
        except OSError:
            self.counts["write_failed"] += 1
            raise
        batch = []
        while self._fresh and self._fresh[0].end <= end:
            batch.append(self._fresh.popleft())
        done = 0
        try:
            while done < len(batch):
                done += self._write(batch[done:])
        except OSError:
            self.counts["write_failed"] += 1
            self._fresh.extendleft(reversed(batch[done:]))
            self._abandon()
            raise

    def read(self, size: int) -> list[Record]:
        """*Disk.* The next committed records: about ``size`` bytes, but at least one."""
        found: list[Record] = []
        if self._doubtful is not None:
            return found
        while size > 0 and (self._ahead or self._read_on()):
            if self._ahead:
                found.append(self._ahead.popleft())
                size -= found[-1].size
        return found

    def newest(self, size: int) -> Iterator[Record]:
        """*Disk.* Committed records, the newest segment first, until ``size`` bytes of segments are
        read.

        Raises:
            OSError: a segment cannot be read.
        """
        following = self.committed
        for segment in reversed(self._segments[:]):
            if size <= 0:
                return
            content = self._files.read(segment.name, 0, segment.size)
            size -= len(content)
            for found in records(content, _begin(content)):
                if found.record.end > following:
                    break
                yield found.record
            following = segment.first

    @property
    def looked_to(self) -> int:
        """Once ``read`` returns nothing: the number up to which it has returned everything."""
        return self._read_to

    def rewind(self, acked: int) -> None:
        """*Disk.* Read the events from number ``acked`` on again."""
        self._ahead.clear()
        self._read_to, self._reading, self._offset = acked, None, 0

    def trim(self, acked: int) -> None:
        """*Disk.* Remove the segments whose events are all below ``acked``; the position must be on
        the disk already.
        """
        while len(self._segments) > 1 and self._segments[1].first <= acked:
            self._remove(self._segments[0])

    def trims(self, acked: int) -> bool:
        """Whether ``trim`` would remove a segment."""
        return len(self._segments) > 1 and self._segments[1].first <= acked

    def drop_oldest(self) -> range:
        """*Disk.* Remove the oldest segment with no record read so far; return its numbers."""
        unread = [each for each in self._segments if each.first >= self._read_to]
        if len(unread) < 2:  # the last segment carries the next number
            return range(0)
        dropped = range(unread[0].first, unread[1].first)
        self._remove(unread[0])
        self.counts["dropped"] += len(dropped)
        return dropped

    def close(self) -> None:
        """*Disk.* Close the current segment."""
        self._abandon()

    # --- inside

    def _tell_if_newest_is_gone(self) -> None:
        """Report a missing newest segment; gaps in the numbers reveal a missing older one."""
        name = missing_newest(self._files, self.index)
        if name is not None:
            self.faults.append(f"{name}: {MISSING}")

    def _found(self) -> list[Segment]:
        found = []
        for name in self._files.names():
            named = SEGMENT_NAME.fullmatch(name)
            if named is not None and int(named[1]) == self.index:
                try:
                    found.append(Segment(int(named[2]), name, self._files.size(name)))
                except OSError as error:
                    self._unreadable(name, error)
        return sorted(found, key=lambda each: each.first)

    def _recovered(self) -> int:
        """Cut the torn end of the last segment; return the number after its last event."""
        if not self._segments:
            return 0
        last = self._segments[-1]
        try:
            content = self._files.read(last.name, 0, last.size)
        except OSError as error:
            # Its number of events is unknown; a gateway that has them reveals it (``_beyond``).
            self._unreadable(last.name, error)
            self._remember_removed(self._segments.pop())
            return max(last.first, self._recovered())
        end, number = min(len(HEADER), last.size), last.first
        for found in records(content, _begin(content)):
            end, number = found.end, max(number, found.record.end)
            self._unsure[found.record.first] = (found.record.rows, zlib.crc32(found.record.data))
        if end < last.size:
            cut = last.size - end
            self.counts["cut_bytes"] += cut
            self.faults.append(f"{last.name}: {cut} bytes at its end were cut; {_UNFINISHED}")
            last.size = end
        self._doubtful = content[:end]
        return number

    def _confirm(self) -> None:
        """Rewrite the last segment, so that the records found in it are certainly on the disk."""
        if self._doubtful is not None:
            self._files.replace(self._segments[-1].name, self._doubtful)
            self._doubtful = None
            self.committed = self._recovered_to

    def _write(self, batch: list[Record]) -> int:
        """Write and sync the first records of ``batch`` into one segment; return how many."""
        new = self._file is None
        if self._file is None:
            self._begin_segment(batch[0].first)
        assert self._file is not None
        segment = self._segments[-1]
        parts: list[bytes] = []
        size = segment.size
        for record in batch:
            parts.append(encoded(record))
            size += record.size
            if size >= self._segment_bytes:
                break
        self._file.write(b"".join(parts))
        self._file.sync()
        if new:
            self._files.sync_names()
            with suppress(OSError):  # only a note; a full disk may refuse it
                store(self._files, newest_note(self.index), {"first": segment.first})
        self._written_bytes += size - segment.size
        segment.size = size
        self.committed = batch[len(parts) - 1].end
        if size >= self._segment_bytes:
            self._abandon()
        return len(parts)

    def _begin_segment(self, first: int) -> None:
        name = segment_name(self.index, first)
        self._file = self._files.create(name)
        self._file.write(HEADER)
        if not self._segments or self._segments[-1].first < first:
            self._segments.append(Segment(first, name, 0))
        # Otherwise the segment has no valid record: its write failed, or it was torn.
        last = self._segments[-1]
        self._header_bytes += len(HEADER) - last.size
        last.size = len(HEADER)

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # everything that counts was synced
                file.close()

    def _remove(self, segment: Segment) -> None:
        self._files.unlink(segment.name)
        self._segments.remove(segment)
        self._remember_removed(segment)

    def _read_on(self) -> bool:
        """Read the rest of the current segment, or go to the next; False: there is no more."""
        segment = self._reading
        if segment is None:
            segment = self._reading = self._first_unread()
            self._offset = 0
        if segment is None:
            # No file of committed events is left: all of them are lost.
            self._read_to = max(self._read_to, self.committed)
            return False
        place = self._segments.index(segment)
        following = self._segments[place + 1] if place + 1 < len(self._segments) else None
        if self._offset < segment.size:
            self._take(segment, following)
            return True
        if following is None:
            return False
        self._reading, self._offset = following, 0
        return True

    def _first_unread(self) -> Segment | None:
        """The segment that has, or would have, the first unread number."""
        before = [each for each in self._segments if each.first <= self._read_to]
        return before[-1] if before else next(iter(self._segments), None)

    def _take(self, segment: Segment, following: Segment | None) -> None:
        """Read the rest of ``segment`` into ``_ahead``."""
        end = self.committed if following is None else following.first
        try:
            content = self._files.read(segment.name, self._offset, segment.size - self._offset)
        except OSError as error:
            self._unreadable(segment.name, error)
            self._leave(segment)
            self._read_to = max(self._read_to, end)
            return
        at = _begin(content) if self._offset == 0 else 0
        skipped = 0
        for found in records(content, at):
            record, at = found.record, found.end
            if record.end > end:
                break
            skipped += found.skipped
            if record.end > self._read_to:
                self._ahead.append(record)
                self._read_to = record.end
        if self._read_to < end:
            skipped += len(content) - at
            self._read_to = end
        self._offset = segment.size
        if skipped:
            self._set_aside(segment, skipped)

    def _leave(self, segment: Segment) -> None:
        """Forget a segment whose file is gone; new events go into another segment."""
        if segment is self._segments[-1]:
            self._abandon()
        self._segments.remove(segment)
        self._remember_removed(segment)

    def _remember_removed(self, segment: Segment) -> None:
        self._removed_bytes += segment.size
        if self._reading is segment:
            self._reading = None

    def _unreadable(self, name: str, error: OSError) -> None:
        """Set an unreadable segment aside; raise ``error`` if it may be readable later."""
        if error.errno not in UNREADABLE:
            raise error
        self.counts["unreadable_segments"] += 1
        self.faults.append(f"{name}: unreadable; set aside")
        with suppress(OSError):  # otherwise it stays, and the next start finds it
            kept = [each for each in self._files.names() if each.endswith(DAMAGED)]
            if len(kept) < DAMAGED_MAX:
                self._files.rename(name, name + DAMAGED)
            else:
                self._files.unlink(name)

    def _set_aside(self, segment: Segment, skipped: int) -> None:
        """Keep a copy of a damaged segment; its valid records are sent normally."""
        self.counts["damaged_bytes"] += skipped
        self.counts["damaged_segments"] += 1
        with suppress(OSError):  # only a copy; a full disk may refuse it
            kept = [name for name in self._files.names() if name.endswith(DAMAGED)]
            if len(kept) < DAMAGED_MAX:
                content = self._files.read(segment.name, 0, self._files.size(segment.name))
                self._files.replace(segment.name + DAMAGED, content)


def newest_note(index: int) -> str:
    """Name of the note that says which segment of a stream is the newest."""
    return f"newest-{index:02d}"


def missing_newest(files: Files, index: int) -> str | None:
    """*Disk.* The name of a stream's newest segment if its file is missing, else None."""
    note = load(files, newest_note(index))
    if note is None:
        return None
    name = segment_name(index, int(note["first"]))
    return None if {name, name + DAMAGED} & set(files.names()) else name


def _begin(content: bytes) -> int:
    """Offset of the first record: after the header, unless the header is torn."""
    return len(HEADER) if content.startswith(HEADER) else 0
