"""Unacked messages: bounded, resent in order; and the ack timeout (RFC 6298)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slackwater.edge_agent.settings import SessionSettings

# The ack timeout, from the round trips so far.


class AckWatch:
    """``due``: monotonic instant [ns] at which an ack may be late; None: nothing is unacked."""

    def __init__(self, unacked: UnackedMessages, settings: SessionSettings) -> None:
        high = settings.ack_timeout_ns
        self.due: int | None = None
        self._unacked = unacked
        self._timeout = ResendTimeout(settings.ack_timeout_min_ns or high, high)

    def sent(self, mono_ns: int) -> None:
        """The first unacked message was handed to a connection."""
        self.due = mono_ns + self._timeout.ns

    def acked(self, lane: int, next_number: int, mono_ns: int | None) -> int:
        """As ``UnackedMessages.acked``; ``mono_ns``: arrival of the ack; None: on another
        connection than the messages.
        """
        sent_ns = self._unacked.sent_once(lane, next_number)
        freed = self._unacked.acked(lane, next_number)
        if mono_ns is not None and sent_ns is not None and self._timeout.adaptive:
            self._timeout.sample(max(mono_ns - sent_ns, 0))
            self._restart()
        return freed

    def late(self, mono_ns: int) -> list[int]:
        """Connections with overdue messages."""
        found = self._unacked.overdue(mono_ns - self._timeout.ns)
        if found:
            self._timeout.timed_out()
        return found

    def checked(self) -> None:
        """Restart the timer after the overdue connections were dropped."""
        self._restart()

    def stop(self) -> None:
        """Stop the timer."""
        self.due = None

    def _restart(self) -> None:
        oldest = self._unacked.oldest_sent()
        self.due = None if oldest is None else oldest + self._timeout.ns


# How long to wait for an ack before the connection is dropped: RFC 6298, in integers.
#
# Round trips give a smoothed mean (gain 1/8) and mean deviation (gain 1/4); the timeout is mean + 4
# deviations, within bounds. A message sent twice gives no sample, as its ack may belong to either
# copy (Karn's rule). A timeout doubles the wait until the next sample.


class ResendTimeout:
    """``ns``: the timeout now [ns of the monotonic clock]."""

    def __init__(self, low_ns: int, high_ns: int) -> None:
        """Between ``low_ns`` and ``high_ns``, the first timeout. Equal bounds: a fixed timeout."""
        assert 0 < low_ns <= high_ns
        self.ns = high_ns
        self._low_ns = low_ns
        self._high_ns = high_ns
        self._mean_ns: int | None = None
        self._deviation_ns = 0

    @property
    def adaptive(self) -> bool:
        """Whether samples change the timeout."""
        return self._low_ns < self._high_ns

    def sample(self, round_trip_ns: int) -> None:
        """Take the round trip [ns, >= 0] of a message that was sent once."""
        assert round_trip_ns >= 0
        if self._mean_ns is None:
            self._mean_ns, self._deviation_ns = round_trip_ns, round_trip_ns // 2
        else:
            off = abs(self._mean_ns - round_trip_ns)
            self._deviation_ns = (3 * self._deviation_ns + off) // 4
            self._mean_ns = (7 * self._mean_ns + round_trip_ns) // 8
        timeout_ns = self._mean_ns + 4 * self._deviation_ns
        self.ns = min(max(timeout_ns, self._low_ns), self._high_ns)

    def timed_out(self) -> None:
        """Double the timeout: an ack did not arrive in time."""
        self.ns = min(2 * self.ns, self._high_ns)


# Messages that the gateway has not acked yet: bounded, resent in order, forgotten when acked.
#
# Each message belongs to a *lane*: a stream's index, or CONTROL. Within a lane messages are
# kept in the order of their numbers, so a cumulative ack takes them from the front. A message is
# *waiting* until it is given to a connection, and again when that connection is lost.


NOT_SENT: Final = -1
OVERHEAD_BYTES: Final = 200
"""Charged per message in addition to its bytes, so that many tiny ones stay bounded."""


@dataclass(slots=True, eq=False)
class Outgoing:
    """One encoded message and where it is."""

    lane: int
    first: int
    count: int
    data: bytes
    urgent: bool
    index: int
    """Order of creation over all lanes."""
    cost: int
    """Bytes charged for it."""
    connection: int = NOT_SENT
    sent_mono_ns: int = 0
    tries: int = 0
    done: bool = False


class UnackedMessages:
    """The buffer of a session, with at most ``bytes_max`` bytes from the application."""

    def __init__(self, lanes: list[int], bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self._lanes: dict[int, deque[Outgoing]] = {lane: deque() for lane in lanes}
        self.fresh: deque[Outgoing] = deque()
        """Waiting messages in order of creation that are not urgent and were never sent."""
        self.others: list[tuple[bool, int, Outgoing]] = []
        """Other waiting messages, as a heap."""
        self._made = 0

    def __len__(self) -> int:
        return sum(len(lane) for lane in self._lanes.values())

    def fits(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be added."""
        return self.bytes + size + OVERHEAD_BYTES <= self.bytes_max

    def add(
        self, lane: int, first: int, count: int, data: bytes, urgent: bool = False,
        size: int | None = None,
    ) -> Outgoing:  # fmt: skip
        """Add numbers [first, first + count) of ``lane``; ``size``: bytes of ``data`` if known.

        An ``urgent`` message is sent before all others. Its numbers may be the lowest of the lane;
        otherwise added numbers are the highest.
        """
        cost = (len(data) if size is None else size) + OVERHEAD_BYTES
        message = Outgoing(lane, first, count, data, urgent, self._made, cost)
        self._made += 1
        self.bytes += cost
        queue = self._lanes[lane]
        if queue and queue[0].first > first:
            queue.appendleft(message)
        else:
            queue.append(message)
        if urgent:
            self._wait(message)
        else:
            self.fresh.append(message)
        return message

    def replace(self, message: Outgoing, data: bytes) -> None:
        """Replace the content of a waiting message that was never sent, or not to the current
        gateway.
        """
        assert message.connection == NOT_SENT
        more = len(data) - len(message.data)
        self.bytes += more
        message.cost += more
        message.data = data

    def acked(self, lane: int, next_number: int) -> int:
        """Forget everything of ``lane`` below ``next_number``; return how many numbers that
        were.
        """
        queue = self._lanes[lane]
        freed = 0
        while queue and queue[0].first + queue[0].count <= next_number:
            message = queue.popleft()
            self._forget(message)
            freed += message.count
        return freed

    def sent_once(self, lane: int, next_number: int) -> int | None:
        """When the lane's oldest message was sent [monotonic ns], if an ack up to ``next_number``
        covers it and it was sent once; else None.
        """
        head = next(iter(self._lanes[lane]), None)
        if head is None or head.tries != 1 or head.first + head.count > next_number:
            return None
        return head.sent_mono_ns

    def of_lane(self, lane: int) -> list[Outgoing]:
        """All messages of ``lane``, in the order of their numbers."""
        return list(self._lanes[lane])

    def forget(self, message: Outgoing) -> None:
        """Remove the message, acked or not; it will not be resent."""
        self._lanes[message.lane].remove(message)
        self._forget(message)

    def next_waiting(self, urgent_only: bool) -> Outgoing | None:
        """The next message to give to a connection, urgent ones first, then in order of making."""
        fresh, others = self.fresh, self.others
        if not others and fresh and not fresh[0].done:  # the usual case
            return None if urgent_only else fresh.popleft()
        while others and others[0][2].done:
            heapq.heappop(others)
        while fresh and fresh[0].done:
            fresh.popleft()
        if others:
            first = others[0][2]
            older = not fresh or first.index < fresh[0].index
            if first.urgent or (older and not urgent_only):
                return heapq.heappop(others)[2]
        return fresh.popleft() if fresh and not urgent_only else None

    def lost(self, connection: int) -> int:
        """Make messages of a lost connection wait again; return their number."""
        back = [each for each in self._all() if each.connection == connection]
        for message in back:
            message.connection = NOT_SENT
            self._wait(message)
        return len(back)

    def overdue(self, sent_until: int) -> list[int]:
        """Connections on which a lane's oldest message has waited since ``sent_until`` or
        longer.
        """
        late = (head for head in self._heads() if head.sent_mono_ns <= sent_until)
        return sorted({head.connection for head in late})

    def oldest_sent(self) -> int | None:
        """When the earliest sent of the lanes' oldest messages was sent [monotonic ns]."""
        return min((head.sent_mono_ns for head in self._heads()), default=None)

    def _heads(self) -> list[Outgoing]:
        """The oldest message of each lane, if it was sent."""
        heads = (lane[0] for lane in self._lanes.values() if lane)
        return [head for head in heads if head.connection != NOT_SENT]

    def _all(self) -> Iterator[Outgoing]:
        for lane in self._lanes.values():
            yield from lane

    def _wait(self, message: Outgoing) -> None:
        heapq.heappush(self.others, (not message.urgent, message.index, message))

    def _forget(self, message: Outgoing) -> None:
        self.bytes -= message.cost
        message.done = True
