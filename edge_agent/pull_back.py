"""Intervals whose begins an agent has sent, for a gateway that asks for them (Z10 5.3.2).

The begin of an interval is sent when it begins, its end comes with the interval itself, later and
on another way: it may be lost where nothing is resent, or wait behind others after an outage. A
gateway that misses it asks (``IntervalsRequest``). What has been sent is kept for that, up to a
bound, and sent again as it was: its numbers say that it is the same. Such copies are not acked for
themselves.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.messages import WANTED_MAX, Intervals, Lacking
from slackwater.edge_agent.packing import cut, encoded_data

# Rows of a batch as a message that is not written out: a reader in this process reads the batch.
#
# A simulated device and its gateway share one memory. What one of them packs into bytes the other
# would unpack at once, to the very columns that are there already; so the message carries a
# reference. It is as long as its bytes would be, and ``bytes(excerpt)`` makes them: what agent and
# gateway decide is the same either way.


_NUMBER_BYTES: Final = (1,) * 8 + (2,) + (3,) * 8 + (5,) * 16 + (9,) * 32
"""By its bits, what a whole number takes on the wire (msgpack), as it is not negative."""


class Whole:
    """A batch of events; messages are made of it as they become due.

    Attributes:
        data: its columns (``packing.data_message``), however many rows.
        stream: index of its stream.
        attr_count: how many attributes have values.
        name: of its stream.
        sound: the schema by which a gateway found the content of all rows right; None: not yet.
        text_bytes: what a gateway charges for its dictionaries; None: not yet known.
    """

    __slots__ = ("attr_count", "data", "name", "sizes", "sound", "stream", "text_bytes")

    def __init__(self, data: m.Data, name: str, sizes: dict[int, int] | None = None) -> None:
        """``sizes``: shared by batches of one stream that give the same attributes as numbers."""
        self.data = data
        self.name = name
        self.stream = data.stream
        self.attr_count = len(data.attrs) - data.attrs.count(None)
        self.sound: m.StreamSchema | None = None
        self.text_bytes: int | None = None
        self.sizes: dict[int, int] = {} if sizes is None else sizes

    def size(self, rows: int) -> int:
        """Bytes of a message of so many rows that is numbered from 0.

        Every row takes the same room, and every message has all names of the dictionaries.

        Raises:
            ValueError: as ``packing.encoded_data``.
        """
        size = len(encoded_data(cut(self.data, 0, rows, 0), 0, self.name))
        self.sizes[rows] = size
        return size


class Excerpt:
    """Rows [start, end) of ``whole``: a message of events, and its bytes. Columns are cut when
    they are asked for.

    >>> whole = Whole(m.Data(0, 0, 3, bytes(24), None, None, None, ()), "events")
    >>> part = Excerpt(whole, 1, 3, first_seq=7)
    >>> len(part) == len(bytes(part)), part.rows, len(part.ts)
    (True, 2, 16)
    """

    __slots__ = ("_size", "end", "first_seq", "rows", "start", "stream", "whole")

    def __init__(self, whole: Whole, start: int, end: int, first_seq: int) -> None:
        self.whole = whole
        self.start = start
        self.end = end
        self.first_seq = first_seq
        self.rows = end - start
        self.stream = whole.stream
        self._size = 0

    def __len__(self) -> int:
        """Bytes that it has on the wire.

        Raises:
            ValueError: as ``packing.encoded_data``.
        """
        if not self._size:
            size = self.whole.sizes.get(self.rows) or self.whole.size(self.rows)
            size += _NUMBER_BYTES[self.first_seq.bit_length()] - 1
            self._size = size if size <= m.MESSAGE_MAX else len(bytes(self))
        return self._size

    def __bytes__(self) -> bytes:
        return encoded_data(self.written(), self.first_seq, self.whole.name)

    def written(self) -> m.Data:
        """The same with columns of its own."""
        return cut(self.whole.data, self.start, self.end, self.first_seq)

    @property
    def ts(self) -> m.Packed:
        return self.whole.data.ts[8 * self.start : 8 * self.end]

    @property
    def ids(self) -> m.Packed | None:
        ids = self.whole.data.ids
        return None if ids is None else ids[8 * self.start : 8 * self.end]

    @property
    def types(self) -> m.Texts | None:
        types = self.whole.data.types
        if types is None or types.codes is None:
            return types
        return m.Texts(types.names, types.codes[4 * self.start : 4 * self.end])


Events = m.Data | Excerpt
"""A message of events, written out or not."""


def columns_of(events: Events) -> tuple[m.Data, int, int]:
    """Where its columns are, and from which row to which they are its own."""
    if isinstance(events, Excerpt):
        return events.whole.data, events.start, events.end
    return events, 0, events.rows


def part_of(events: Events, start: int, end: int) -> Events:
    """Rows [start, end) of them, numbered as they are."""
    first = events.first_seq + start
    if isinstance(events, Excerpt):
        return Excerpt(events.whole, events.start + start, events.start + end, first)
    return cut(events, start, end, first)


def written(events: Events) -> m.Data:
    """The same, with columns of its own."""
    return events.written() if isinstance(events, Excerpt) else events


def bytes_of(events: Events, first_seq: int, name: str) -> bytes:
    """What is to be sent: the bytes of ``events``, numbered from ``first_seq``, of stream ``name``;
    or an excerpt itself, which is as long and nobody between its agent and its gateway looks into.

    Raises:
        ValueError: as ``packing.encoded_data``.
    """
    if isinstance(events, Excerpt):
        return events  # type: ignore[return-value]
    return encoded_data(events, first_seq, name)


# Intervals whose begins an agent has sent, for a gateway that asks for them (Z10 5.3.2).


OPEN_MAX: Final = 1 << 16
"""Number of open intervals that are known; beyond, the oldest are forgotten."""

Interval = tuple[int, int]
"""A stream's index, and an id."""


class IntervalAnswer(NamedTuple):
    """Of intervals that were asked for: ``messages`` that have some of them, those that have not
    ended, and the others, which are unknown here.
    """

    messages: list[bytes]
    unended: list[Interval]
    others: list[Interval]


class KeptMessage(NamedTuple):
    """A message that is kept, and its intervals."""

    data: bytes
    intervals: list[Interval]


class TracedIntervals:
    """Intervals of one session, from their begins on."""

    def __init__(self, bytes_max: int) -> None:
        """``bytes_max``: of the messages that are kept to be sent again."""
        self.requests = 0
        """Intervals that were asked for, each time."""
        self._bytes_max = bytes_max
        self.open: dict[Interval, None] = {}
        """Those that have begun and not ended."""
        self._sent: dict[Interval, bytes] = {}
        self._kept: deque[KeptMessage] = deque()
        self._bytes = 0

    def begun(self, stream: int, id: int) -> None:  # noqa: A002
        """The begin of an interval was sent."""
        self.open[stream, id] = None
        if len(self.open) > OPEN_MAX:
            del self.open[next(iter(self.open))]

    def ended(self, message: Events, data: bytes) -> None:
        """``message``, whose bytes are ``data``, is sent, or was taken to be."""
        mine = self.over(message.stream, ids_of(message))
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

    def over(self, stream: int, ids: Iterable[int]) -> list[Interval]:
        """Which of these intervals were open; they are no more."""
        mine = [(stream, id_) for id_ in ids if (stream, id_) in self.open] if self.open else []
        for each in mine:
            self.open.pop(each, None)
        return mine

    def answer(self, request: Intervals) -> list[bytes]:
        """Messages for a gateway that asks, where this is all that is kept."""
        known = self.known(request)
        return [*known.messages, *lacking(known.unended, known.others)]

    def known(self, request: Intervals) -> IntervalAnswer:
        """The answer about the intervals ``request`` for."""
        self.requests += len(request)
        messages = {id(d): d for each in request if (d := self._sent.get(each)) is not None}
        unended = [each for each in request if each in self.open]
        others = [each for each in request if each not in self.open and each not in self._sent]
        return IntervalAnswer(list(messages.values()), unended, others)


def lacking(unended: Sequence[Interval], gone: Sequence[Interval]) -> list[bytes]:
    """The messages that say so; none where there is nothing to say."""
    return [
        wire.encode(Lacking(tuple(unended[low : low + WANTED_MAX]), tuple(gone[low:][:WANTED_MAX])))
        for low in range(0, max(len(unended), len(gone)), WANTED_MAX)
    ]


def ids_of(message: Events) -> Sequence[int]:
    """The ids of its intervals; none where it has none."""
    ids = message.ids
    return () if ids is None else struct.unpack(f"<{message.rows}q", ids)
