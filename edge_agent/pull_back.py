"""What an agent knows of intervals whose begins it has told, for a gateway that asks (Z10 5.3.2).

The begin of an interval is told when it begins, its end comes with the interval itself, later and
on another way: it may be lost where nothing is resent, or wait behind others after an outage. A
gateway that misses it asks (``Wanted``). What has been sent is kept for that, up to a bound, and
sent again as it was: its numbers say that it is the same. Such copies are not acked for themselves.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from edge_agent import wire
from edge_agent.excerpt import Events
from edge_agent.messages import WANTED_MAX, Intervals, Lacking

OPEN_MAX: Final = 1 << 16
"""So many intervals that have begun and not ended are known of; then the oldest are not."""

Interval = tuple[int, int]
"""A stream's index, and an id."""


class Known(NamedTuple):
    """Of intervals that were asked for: ``messages`` that have some of them, those that have not
    ended, and the others, of which nothing is known here.
    """

    messages: list[bytes]
    unended: list[Interval]
    others: list[Interval]


class KeptMessage(NamedTuple):
    """A message that is kept, and what it is kept for."""

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
        """The begin of an interval was told."""
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

    def answer(self, asked: Intervals) -> list[bytes]:
        """Messages for a gateway that asks, where this is all that is kept."""
        known = self.known(asked)
        return [*known.messages, *lacking(known.unended, known.others)]

    def known(self, asked: Intervals) -> Known:
        """What there is to say of the intervals ``asked`` for."""
        self.requests += len(asked)
        messages = {id(d): d for each in asked if (d := self._sent.get(each)) is not None}
        unended = [each for each in asked if each in self.open]
        others = [each for each in asked if each not in self.open and each not in self._sent]
        return Known(list(messages.values()), unended, others)


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
