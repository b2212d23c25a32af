"""What a gateway asks its driver to do, where its frames go, and dead letters."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final, NamedTuple, Protocol

from slackwater.edge_agent.records import TIME_MAX_NS
from slackwater.engine.core.frame import Frame

# Dead letters: what peers sent and the gateway refused, kept for people to look at.
#
# One JSON object per line: ``at`` (arrival clock, ns), ``site``, ``source``, ``connection``,
# ``reason`` (a fixed word), ``detail``, ``rows`` (events in it), ``sample`` (first bytes, base64).


class DeadLetters:
    """Writes refused messages until ``bytes_max`` is reached, and counts what comes after."""

    def __init__(
        self, write: Callable[[str], object] | None = None, bytes_max: int = 16 << 20
    ) -> None:
        """``write`` takes one line with its newline; None: lines are kept in ``lines``."""
        self.lines: list[str] = []
        self.kept = 0
        self.dropped = 0
        """Refused messages for which no room was left: counted by reason, but not kept."""
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
        """One refused message; ``peer`` is (site, source, connection), empty when not known."""
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


# What a gateway asks its driver to do, and where its frames go.


LATER: Final = object()
"""What ``Sink.flush`` gives when ``GatewayCore.flushed`` will say that it is done."""


class Sink(Protocol):
    """Where frames go: the arrival log."""

    def append(self, frame: Frame) -> None:
        """Takes ``frame``; an exception means that it was not taken."""

    def flush(self) -> object:
        """Returns when all that was taken is durable; an exception: a later call must do it.

        Or gives LATER at once. Then ``append`` never fails either, and the sink tries for itself.
        """


class Send(NamedTuple):
    """Write these bytes, one message, to this connection."""

    connection: Hashable
    data: bytes


class CloseConnection(NamedTuple):
    """Close this connection; nothing more is to be reported of it.

    ``name``: SITE/SOURCE that it had, or claimed to be; empty: it did not say.
    """

    connection: Hashable
    reason: str
    detail: str = ""
    name: str = ""


Output = Send | CloseConnection


# The arrival clock, and what is due when.


# The arrival clock: the engine's clock, but it never goes back.
#
# A clock that was set back a little is waited for. One that was set back by more must not make the
# gateway hold frames, acks and time-outs until it has caught up, which may take hours; so arrival
# runs on from where it was, ahead of the engine's clock from then on, and NTP questions are
# answered by it too: for the sources nothing has happened, and reference times do not go back
# either.


WAITED_FOR_NS: Final = 1_000_000_000


class ArrivalClock:
    """Readings of the engine's clock [ns] become arrivals.

    Attributes:
        ahead_ns: by how much arrivals are ahead of the engine's clock; a new log begins at 0.
        set_back: how often the engine's clock was set back by more than is waited for.
    """

    def __init__(self, last_arrival: int | None) -> None:
        """``last_arrival``: of the log that is continued; None: of a new one."""
        self.ahead_ns = 0
        self.set_back = 0
        self.now = -TIME_MAX_NS if last_arrival is None else last_arrival

    def advance(self, now_ns: int) -> int:
        """The arrival of what comes at ``now_ns`` of the engine's clock."""
        arrival = now_ns + self.ahead_ns
        if arrival < self.now - WAITED_FOR_NS:
            self.set_back += 1
            self.ahead_ns += self.now - arrival
        self.now = max(self.now, now_ns + self.ahead_ns)
        return self.now

    def engine_ns(self, arrival: int) -> int:
        """The engine's clock at a later ``arrival``."""
        return arrival - self.ahead_ns


# What is due when: one heap for all sites and connections, so that waking costs what is due.
#
# Most deadlines move on with every message and are seldom reached. So an entry of the heap stays
# where it is when its deadline moves on, and is put right when it comes up.


class Timers:
    """Deadlines by key; of equal ones the first to be set comes first."""

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}
        """Of each key the earliest entry in the heap."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()
        self.sooner = False
        """Whether ``next_due`` may be earlier than when it was last asked."""

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, due: int | None) -> None:
        """``key`` is due at ``due``; None: no more."""
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
        """Whether ``key`` will be due."""
        return key in self._due

    def next_due(self) -> int | None:
        """The earliest deadline."""
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
        """The key that is due first, and no longer set then; None: nothing is due by ``now``."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key], self._queued[key]
        return key
