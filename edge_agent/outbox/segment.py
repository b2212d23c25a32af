r"""The bytes of a segment: a header, then records, each with a mark and a checksum of its own.

    header   8 bytes   ``SLKOUT1\\n``
    record   mark 4    ``D6 53 4C 4B``
             crc 4     CRC-32 of the rest of the record
             size 4    bytes of ``data``
             first 8   number of its first event
             rows 4    how many events it has
             data      the message as it goes to the gateway (``edge_agent.wire``)

Numbers are big-endian. A record that was torn or has rotted fails its checksum; what follows is
found by its mark. So one bad record costs itself alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from edge_agent.messages import MESSAGE_MAX, ROWS_MAX
from edge_agent.sequence import SEQ_MAX
from edge_agent.wire import PREFIX_BYTES

HEADER: Final = b"SLKOUT1\n"
MARK: Final = b"\xd6SLK"
DATA_MAX: Final = MESSAGE_MAX + PREFIX_BYTES
_FIXED: Final = struct.Struct(">4sIIQI")
_CHECKED: Final = struct.Struct(">IQI")
_CRC_END: Final = 8
RECORD_BYTES: Final = _FIXED.size
"""Of a record beside its data."""


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


class Found(NamedTuple):
    """A record, where it stands in its segment, and how many bytes before it were none."""

    record: Record
    start: int
    end: int
    skipped: int


def encoded(record: Record) -> bytes:
    """The bytes of ``record``."""
    checked = _CHECKED.pack(len(record.data), record.first, record.rows)
    crc = zlib.crc32(record.data, zlib.crc32(checked))
    return b"".join((MARK, crc.to_bytes(4, "big"), checked, record.data))


def records(content: bytes, offset: int = 0) -> Iterator[Found]:
    """The good records of ``content`` from ``offset`` on; offsets are within ``content``.

    What is no record is passed over to the next good one; at the end it is passed over silently
    (it may be one that is being written).
    """
    at, skipped = offset, 0
    while at < len(content):
        record = _record_at(content, at)
        if record is not None:
            end = at + record.size
            yield Found(record, at, end, skipped)
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
