"""Received numbers, and what a restarted gateway must know of its log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.frame import (
    ATTR_PREFIX,
    Frame,
    attribute_type,
    column_ints,
    kinds_of,
)
from slackwater.engine.log.describe import column_codes, group_rows, string_codes

# Received numbers of a stream: one border, and a bounded list of islands beyond it.


class ReceivedSet:
    """All numbers below ``next``, and those in ``islands`` half-open runs above it.

    Memory grows with the islands only: a stream in order needs none.
    """

    __slots__ = ("_ends", "_starts", "next")

    def __init__(self, first: int = 0) -> None:
        """Numbers below ``first`` count as received."""
        self.next = first
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def islands(self) -> int:
        return len(self._starts)

    @property
    def newest(self) -> int:
        """The largest number received; -1: none."""
        return (self._ends[-1] if self._ends else self.next) - 1

    @property
    def missing(self) -> int:
        """Number of missing numbers before and between the islands."""
        if not self._starts:
            return 0
        return sum(self._starts) - self.next - sum(self._ends[:-1])

    def take_next(self, first: int, end: int) -> bool:
        """Add [first, end) if it is next and there are no islands; False: it is not."""
        if first != self.next or self._starts:
            return False
        self.next = end
        return True

    def new_parts(self, first: int, end: int) -> list[tuple[int, int]]:
        """The parts of [first, end) that were not received yet, in order."""
        if first == self.next and not self._starts:
            return [(first, end)]
        parts = []
        at = max(first, self.next)
        index = bisect_right(self._ends, at)
        while at < end:
            start = self._starts[index] if index < len(self._starts) else end
            if at < start:
                parts.append((at, min(start, end)))
            at = self._ends[index] if index < len(self._ends) else end
            index += 1
        return parts

    def makes_island(self, first: int, end: int) -> bool:
        """Whether adding [first, end) creates one more island."""
        if first <= self.next:
            return False
        index = bisect_left(self._ends, first)
        return index == len(self._starts) or self._starts[index] > end

    def add(self, first: int, end: int) -> None:
        """Mark [first, end) as received; parts of it may have been before."""
        if first <= self.next:
            self.next = max(self.next, end)
        else:
            low = bisect_left(self._ends, first)
            high = bisect_right(self._starts, end)
            if low < high:
                first = min(first, self._starts[low])
                end = max(end, self._ends[high - 1])
            self._starts[low:high] = [first]
            self._ends[low:high] = [end]
        while self._starts and self._starts[0] <= self.next:
            self.next = max(self.next, self._ends[0])
            del self._starts[0], self._ends[0]

    def saved(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The state as plain numbers."""
        return self.next, tuple(self._starts), tuple(self._ends)

    @classmethod
    def restored(cls, saved: tuple[int, Sequence[int], Sequence[int]]) -> ReceivedSet:
        """Inverse of ``saved``."""
        made = cls(saved[0])
        made._starts, made._ends = list(saved[1]), list(saved[2])
        return made

    def give_up_first_gap(self) -> int:
        """Mark the numbers before the first island as received; return their count."""
        assert self._starts
        gap = self._starts[0] - self.next
        self.add(self.next, self._starts[0])
        return gap


# What a restarted gateway must know of the log that it continues.
#
# Otherwise an agent's resent events would be recorded twice, a restarted source could be admitted
# with a smaller incarnation, an attribute could return with another type (which no query could
# read), and arrivals could go back. All of this is in the log and is read from there:
#
# * for every source, its newest incarnation and the received numbers of each stream;
# * for every site, the types of its attributes;
# * the last arrival;
# * the last frames, to which numbers of peers with their own counters are compared.
#
# For retired files their part is kept instead (``saved``).
#
# Control numbers are not in the log. They continue from the agent's acks: a promise, sync or end
# that was recorded and not acked may be in the log twice, which is harmless.


_ISLANDS_MAX: Final = 4096
RECENT_ROWS: Final = 1 << 16


@dataclass(slots=True)
class PastSource:
    """A source as the log knows it: ``streams`` of its newest incarnation, by name.

    ``over``: a newer start was seen, so this one may not continue.
    """

    incarnation: int
    streams: dict[str, ReceivedSet] = field(default_factory=dict)
    over: bool = False


class Recalled:
    """What a gateway must know of its log; call ``take`` with its frames in order."""

    def __init__(
        self, frames: Iterable[Frame] = (), saved: Mapping[str, Any] | None = None
    ) -> None:
        """``saved``: for the frames before these; None or empty: there are none."""
        saved = saved or {}
        self.last_arrival: int | None = saved.get("last_arrival")
        self.attr_types: dict[str, dict[str, str]] = {
            site: dict(types) for site, types in saved.get("attr_types", {}).items()
        }
        self.sources: dict[tuple[str, str], PastSource] = {
            (site, name): PastSource(
                incarnation,
                {stream: ReceivedSet.restored(numbers) for stream, numbers in streams.items()},
            )
            for site, name, incarnation, streams in saved.get("sources", ())
        }
        self.recent: deque[Frame] = deque()
        """The last frames, with at least ``RECENT_ROWS`` rows."""
        self._recent_rows = 0
        for frame in frames:
            self.take(frame)

    def saved(self) -> dict[str, Any]:
        """The state as types of msgpack."""
        return {
            "last_arrival": self.last_arrival,
            "attr_types": self.attr_types,
            "sources": [
                (*key, past.incarnation, {name: s.saved() for name, s in past.streams.items()})
                for key, past in self.sources.items()
            ],
        }

    def take(self, frame: Frame) -> None:
        """Take the next frame of the log."""
        if not frame.rows:
            return
        last = frame.last_arrival
        self.last_arrival = last if self.last_arrival is None else max(self.last_arrival, last)
        types = self.attr_types.setdefault(frame.site, {})
        for column in frame.batch.schema:
            if column.name.startswith(ATTR_PREFIX):
                types.setdefault(column.name.removeprefix(ATTR_PREFIX), attribute_type(column.type))
        self._take_numbers(frame)
        self.recent.append(frame)
        self._recent_rows += frame.rows
        while self._recent_rows - self.recent[0].rows >= RECENT_ROWS:
            self._recent_rows -= self.recent.popleft().rows

    def _take_numbers(self, frame: Frame) -> None:
        batch = frame.batch
        sources, names = string_codes(batch.column(r.SOURCE))
        streams, stream_names = column_codes(batch, r.STREAM, r.DEFAULT_STREAM)
        incarnation = column_ints(batch, r.INCARNATION, 0)
        kind = kinds_of(batch)
        first_seq = column_ints(batch, r.FIRST_SEQ, -1)
        seq = column_ints(batch, r.SEQ, -1)
        numbered = np.flatnonzero(
            (sources >= 0)
            & (((kind == Kind.EVENT) & (seq >= 0)) | ((kind == Kind.SYNC) & (first_seq >= 0)))
        )
        if not len(numbered):
            return
        groups = group_rows([key[numbered] for key in (sources, incarnation, streams)])
        for of in np.split(numbered[groups.order], groups.starts[1:]):
            row = int(of[0])
            received = self._stream(
                frame.site, names[sources[row]], stream_names[streams[row]], int(incarnation[row])
            )
            if received is not None:
                announced = of[kind[of] == Kind.SYNC]
                _add(received, first_seq[announced], np.sort(seq[of[kind[of] == Kind.EVENT]]))

    def _stream(self, site: str, source: str, stream: str, incarnation: int) -> ReceivedSet | None:
        """The numbers of a stream; None: its incarnation is over."""
        past = self.sources.get((site, source))
        if past is None or incarnation > past.incarnation:
            past = self.sources[site, source] = PastSource(incarnation)
        if incarnation < past.incarnation:
            return None
        return past.streams.setdefault(stream, ReceivedSet(0))


def _add(received: ReceivedSet, announced: np.ndarray, seq: np.ndarray) -> None:
    """Add numbers ``seq`` (ascending); ``announced``: first numbers of streams."""
    for first in announced.tolist():
        received.add(0, first)
    if len(seq):
        breaks = np.flatnonzero(np.diff(seq) > 1)
        lows = seq[np.concatenate([[0], breaks + 1])].tolist()
        highs = seq[np.concatenate([breaks, [len(seq) - 1]])].tolist()
        for low, high in zip(lows, highs, strict=True):
            received.add(low, high + 1)
    while received.islands > _ISLANDS_MAX:
        received.give_up_first_gap()
