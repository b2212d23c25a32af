"""Outputs of a gateway to its driver, its sink, dead letters, arrival clock and timers."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final, NamedTuple, Protocol

from slackwater.edge_agent.records import TIME_MAX_NS
from slackwater.engine.core.frame import Frame

# Dead letters: messages that the gateway refused, kept for inspection.
#
# One JSON object per line: ``at`` (arrival clock, ns), ``site``, ``source``, ``connection``,
# ``reason`` (a fixed word), ``detail``, ``rows`` (events in it), ``sample`` (first bytes, base64).


class DeadLetters:
    """Writes refused messages until ``bytes_max`` is reached; counts later ones."""

    def __init__(
        self, write: Callable[[str], object] | None = None, bytes_max: int = 16 << 20
    ) -> None:
        """``write`` takes one line with its newline; None: lines are collected in ``lines``."""
        self.lines: list[str] = []
        self.kept = 0
        self.dropped = 0
        """Refused messages for which there was no room: counted by reason, not kept."""
        self._write = write or self.lines.append
        self._bytes_left = bytes_max

    def add(
        self,
        at_ns: int,
        peer: tuple[str, str, str],
        reason: str,
        detail: str,
        sample: bytes,
        rows: int = 0,
    ) -> None:
        """Keep one refused message; ``peer``: (site, source, connection), empty where unknown."""
        site, source, connection = peer
        letter = {
            "at": at_ns, "site": site, "source": source, "connection": connection,
            "reason": reason, "detail": detail, "rows": rows,
            "sample": base64.b64encode(sample).decode("ascii"),
        }  # fmt: skip
        line = json.dumps(letter) + "\n"
        if len(line) > self._bytes_left:
            self.dropped += 1
            return
        self._bytes_left -= len(line)
        self.kept += 1
        self._write(line)


# What a gateway asks its driver to do, and the sink of its frames.


LATER: Final = object()
"""Result of ``Sink.flush`` if ``GatewayCore.flushed`` will report completion."""


class Sink(Protocol):
    """The arrival log, to which frames are written."""

    def append(self, frame: Frame) -> None:
        """Take ``frame``; an exception means that it was not taken."""

    def flush(self) -> object:
        """Return when everything taken is durable; after an exception a later call must do it.

        Or return LATER at once. Then ``append`` must not fail, and the sink retries by itself.
        """


class Send(NamedTuple):
    """Write these bytes, one message, to this connection."""

    connection: Hashable
    data: bytes


class CloseConnection(NamedTuple):
    """Close this connection; the driver reports nothing more about it.

    ``name``: SITE/SOURCE that it had or claimed; empty: unknown.
    """

    connection: Hashable
    reason: str
    detail: str = ""
    name: str = ""


Output = Send | CloseConnection


# The arrival clock, and deadlines.


# The arrival clock: the engine's clock, made monotone.
#
# After a small step back, arrival stands still until the clock has caught up. After a larger one
# this could stop frames, acks and time-outs for hours; so arrival continues from its last value,
# from then on ahead of the engine's clock. NTP questions are answered by it as well: for the
# sources nothing has happened, and reference times do not go back either.


WAITED_FOR_NS: Final = 1_000_000_000


class ArrivalClock:
    """Converts readings of the engine's clock [ns] to arrivals.

    Attributes:
        ahead_ns: by how much arrivals are ahead of the engine's clock; 0 for a new log.
        set_back: number of steps back of the engine's clock that were too large to wait for.
    """

    def __init__(self, last_arrival: int | None) -> None:
        """``last_arrival``: of the log that is continued; None: a new log."""
        self.ahead_ns = 0
        self.set_back = 0
        self.now = -TIME_MAX_NS if last_arrival is None else last_arrival

    def advance(self, now_ns: int) -> int:
        """The arrival of something that comes at ``now_ns`` of the engine's clock."""
        arrival = now_ns + self.ahead_ns
        if arrival < self.now - WAITED_FOR_NS:
            self.set_back += 1
            self.ahead_ns += self.now - arrival
        self.now = max(self.now, now_ns + self.ahead_ns)
        return self.now

    def engine_ns(self, arrival: int) -> int:
        """The engine's clock at a later ``arrival``."""
        return arrival - self.ahead_ns


# Deadlines: one heap for all sites and connections, so that the cost of waking depends on what is
# due.
#
# Most deadlines move with every message and are seldom reached. So a heap entry stays when its
# deadline moves, and is corrected when it reaches the top.


class Timers:
    """Deadlines by key; equal ones are in the order of their setting."""

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}
        """The earliest heap entry of each key."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()
        self.sooner = False
        """Whether ``next_due`` may be earlier than at the last call."""

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, due: int | None) -> None:
        """Set the deadline of ``key``; None: remove it."""
        if due == self._due.get(key):
            return
        if due is None:
            del self._due[key]
            return
        self._due[key] = due
        self._queue(key, due)

    def _queue(self, key: Hashable, due: int) -> None:
        queued = self._queued.get(key)
        if queued is None or due < queued:
            self._queued[key] = due
            self.sooner = True
            heapq.heappush(self._heap, (due, next(self._order), key))

    def is_set(self, key: Hashable) -> bool:
        """Whether ``key`` has a deadline."""
        return key in self._due

    def next_due(self) -> int | None:
        """The earliest deadline; None: there is none."""
        found = None
        while self._heap:
            entry, _, key = self._heap[0]
            due = self._due.get(key)
            if due == entry:
                found = entry
                break
            heapq.heappop(self._heap)
            if self._queued.get(key) == entry:
                del self._queued[key]
                if due is not None:
                    self._queue(key, due)
        self.sooner = False
        return found

    def pop_due(self, now: int) -> Hashable | None:
        """Remove and return the key with the earliest deadline; None: nothing is due by ``now``."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key], self._queued[key]
        return key
