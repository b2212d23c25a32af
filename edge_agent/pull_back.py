"""Intervals whose begins an agent has sent, for a gateway that asks for them (Z10 5.3.2).

An agent sends the begin of an interval at once; the end comes later, in a message with the whole
interval. That message may be lost where nothing is resent, or wait behind others after an outage. A
gateway that misses it asks (``IntervalsRequest``). The agent keeps what it has sent, up to a bound,
and sends it again unchanged: equal sequence numbers identify the copy. Copies get no ack of their
own.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.messages import INTERVALS_MAX, Intervals, MissingIntervals
from slackwater.edge_agent.packing import cut, encoded_data

# Messages by reference: rows of a batch that are not packed into bytes.
#
# A simulated device and its gateway share memory. Packing and unpacking would only reproduce the
# existing columns, so the message refers to its batch. Its length is that of the bytes, and
# ``bytes(slice)`` makes them, so agent and gateway behave as with packed messages.


_NUMBER_BYTES: Final = (1,) * 8 + (2,) + (3,) * 8 + (5,) * 16 + (9,) * 32
"""Bytes of a non-negative integer on the wire (msgpack), by its number of bits."""


class EventBatch:
    """Events of one stream; messages are cut from them as they become due.

    Attributes:
        data: the columns (``packing.data_message``), with any number of rows.
        stream: index of the stream.
        attr_count: number of attributes with values.
        name: name of the stream.
        sound: the schema against which a gateway has checked all rows; None: not yet checked.
        text_bytes: memory that a gateway charges for the dictionaries; None: not yet known.
    """

    __slots__ = ("attr_count", "data", "name", "sizes", "sound", "stream", "text_bytes")

    def __init__(self, data: m.Data, name: str, sizes: dict[int, int] | None = None) -> None:
        """``sizes``: shared by batches of one stream with the same numeric attributes."""
        self.data = data
        self.name = name
        self.stream = data.stream
        self.attr_count = len(data.attrs) - data.attrs.count(None)
        self.sound: m.StreamSchema | None = None
        self.text_bytes: int | None = None
        self.sizes: dict[int, int] = {} if sizes is None else sizes

    def size(self, rows: int) -> int:
        """Bytes of a message of ``rows`` rows that is numbered from 0.

        All rows have the same size, and every message has all names of the dictionaries.

        Raises:
            ValueError: as ``packing.encoded_data``.
        """
        size = len(encoded_data(cut(self.data, 0, rows, 0), 0, self.name))
        self.sizes[rows] = size
        return size


class BatchSlice:
    """Rows [start, end) of ``batch``: a message of events, and its bytes. Columns are cut on
    access.

    >>> batch = EventBatch(m.Data(0, 0, 3, bytes(24), None, None, None, ()), "events")
    >>> part = BatchSlice(batch, 1, 3, first_seq=7)
    >>> len(part) == len(bytes(part)), part.rows, len(part.ts)
    (True, 2, 16)
    """

    __slots__ = ("_size", "batch", "end", "first_seq", "rows", "start", "stream")

    def __init__(self, batch: EventBatch, start: int, end: int, first_seq: int) -> None:
        self.batch = batch
        self.start = start
        self.end = end
        self.first_seq = first_seq
        self.rows = end - start
        self.stream = batch.stream
        self._size = 0

    def __len__(self) -> int:
        """Bytes on the wire.

        Raises:
            ValueError: as ``packing.encoded_data``.
        """
        if not self._size:
            size = self.batch.sizes.get(self.rows) or self.batch.size(self.rows)
            size += _NUMBER_BYTES[self.first_seq.bit_length()] - 1
            self._size = size if size <= m.MESSAGE_MAX else len(bytes(self))
        return self._size

    def __bytes__(self) -> bytes:
        return encoded_data(self.to_data(), self.first_seq, self.batch.name)

    def to_data(self) -> m.Data:
        """The same message with its own columns."""
        return cut(self.batch.data, self.start, self.end, self.first_seq)

    @property
    def ts(self) -> m.Packed:
        return self.batch.data.ts[8 * self.start : 8 * self.end]

    @property
    def ids(self) -> m.Packed | None:
        ids = self.batch.data.ids
        return None if ids is None else ids[8 * self.start : 8 * self.end]

    @property
    def types(self) -> m.Texts | None:
        types = self.batch.data.types
        if types is None or types.codes is None:
            return types
        return m.Texts(types.names, types.codes[4 * self.start : 4 * self.end])


Events = m.Data | BatchSlice
"""A message of events, packed or by reference."""


def columns_of(events: Events) -> tuple[m.Data, int, int]:
    """The columns that contain a message, its first row there, and the row after its last."""
    if isinstance(events, BatchSlice):
        return events.batch.data, events.start, events.end
    return events, 0, events.rows


def part_of(events: Events, start: int, end: int) -> Events:
    """Rows [start, end) of a message, with their numbers."""
    first = events.first_seq + start
    if isinstance(events, BatchSlice):
        return BatchSlice(events.batch, events.start + start, events.start + end, first)
    return cut(events, start, end, first)


def data_of(events: Events) -> m.Data:
    """The same message with its own columns."""
    return events.to_data() if isinstance(events, BatchSlice) else events


def bytes_of(events: Events, first_seq: int, name: str) -> bytes:
    """The bytes to send for ``events`` of stream ``name``, numbered from ``first_seq``. A slice is
    returned unchanged: it has the same length, and only its gateway reads the content.

    Raises:
        ValueError: as ``packing.encoded_data``.
    """
    if isinstance(events, BatchSlice):
        return events  # type: ignore[return-value]
    return encoded_data(events, first_seq, name)


# Intervals whose begins an agent has sent, for a gateway that asks for them (Z10 5.3.2).


OPEN_MAX: Final = 1 << 16
"""Open intervals that are remembered; beyond, the oldest are forgotten."""

Interval = tuple[int, int]
"""A stream's index, and an id."""


class IntervalAnswer(NamedTuple):
    """Answer about requested intervals: ``messages`` that contain some of them, ``unended`` ones,
    and ``others``, which are unknown here.
    """

    messages: list[bytes]
    unended: list[Interval]
    others: list[Interval]


class KeptMessage(NamedTuple):
    """A message, and the intervals that it contains."""

    data: bytes
    intervals: list[Interval]


class TracedIntervals:
    """Intervals of one session since their begins."""

    def __init__(self, bytes_max: int) -> None:
        """``bytes_max``: bytes of messages that are kept for resending."""
        self.requests = 0
        """Intervals requested so far; repeated requests count again."""
        self._bytes_max = bytes_max
        self.open: dict[Interval, None] = {}
        """Intervals that have begun and not ended."""
        self._sent: dict[Interval, bytes] = {}
        self._kept: deque[KeptMessage] = deque()
        self._bytes = 0

    def put_begin(self, stream: int, id: int) -> None:  # noqa: A002
        """Remember an interval whose begin was sent."""
        self.open[stream, id] = None
        if len(self.open) > OPEN_MAX:
            del self.open[next(iter(self.open))]

    def put_end(self, message: Events, data: bytes) -> None:
        """Keep a message of ended intervals for resending; ``data``: its bytes."""
        mine = self.remove_open(message.stream, ids_of(message))
        if not mine or len(data) > self._bytes_max:
            return
        self._kept.append(KeptMessage(data, mine))
        self._sent.update(dict.fromkeys(mine, data))
        self._bytes += len(data)
        while self._bytes > self._bytes_max:
            old = self._kept.popleft()
            self._bytes -= len(old.data)
            for interval in old.intervals:
                if self._sent.get(interval) is old.data:
                    del self._sent[interval]

    def remove_open(self, stream: int, ids: Iterable[int]) -> list[Interval]:
        """Remove intervals from the open ones; return those that were open."""
        mine = [(stream, id_) for id_ in ids if (stream, id_) in self.open] if self.open else []
        for each in mine:
            self.open.pop(each, None)
        return mine

    def answer(self, request: Intervals) -> list[bytes]:
        """Messages that answer a gateway's request, from memory only."""
        known = self.lookup(request)
        return [*known.messages, *missing_messages(known.unended, known.others)]

    def lookup(self, request: Intervals) -> IntervalAnswer:
        """Look up the requested intervals."""
        self.requests += len(request)
        messages = {id(d): d for each in request if (d := self._sent.get(each)) is not None}
        unended = [each for each in request if each in self.open]
        others = [each for each in request if each not in self.open and each not in self._sent]
        return IntervalAnswer(list(messages.values()), unended, others)


def missing_messages(unended: Sequence[Interval], unknown: Sequence[Interval]) -> list[bytes]:
    """Messages about intervals that cannot be sent: not ended, or unknown. Empty for none."""
    return [
        wire.encode(
            MissingIntervals(
                tuple(unended[low : low + INTERVALS_MAX]), tuple(unknown[low:][:INTERVALS_MAX])
            )
        )
        for low in range(0, max(len(unended), len(unknown)), INTERVALS_MAX)
    ]


def ids_of(message: Events) -> Sequence[int]:
    """Ids of the intervals in a message; empty for a message without ids."""
    ids = message.ids
    return () if ids is None else struct.unpack(f"<{message.rows}q", ids)
