"""A session that sends the events of an outbox, and its rate limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from slackwater.edge_agent import messages as m
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.messages import Texts
from slackwater.edge_agent.outbox.spool import Record
from slackwater.edge_agent.pool import LinkState, PooledConnection
from slackwater.edge_agent.pull_back import OPEN_MAX, Interval, TracedIntervals, missing_messages
from slackwater.edge_agent.sequence import ResumedStart
from slackwater.edge_agent.session import AgentSession
from slackwater.edge_agent.settings import SessionSettings

# The rate limit of an outbox: after an outage, all devices of a site send their backlog at once.
#
# A leaky bucket (ITU-T I.371, as a meter): each sent event raises the level, which falls at the
# rate. A message may be sent when the level is zero: any size is allowed, and the mean rate holds.


_NS: Final = 10**9


class DrainLimit:
    """At most ``events_per_s`` on average; 0: no limit. Times are of the monotonic clock."""

    def __init__(self, events_per_s: int) -> None:
        self._rate = events_per_s
        self._free_ns = 0
        """Monotonic instant [ns] at which the level is zero."""

    def wait_ns(self, now_ns: int) -> int:
        """Time [ns] until more may be sent; 0: now.

        >>> limit = DrainLimit(1000)
        >>> limit.sent(500, 0), limit.wait_ns(0), limit.wait_ns(500_000_000)
        (None, 500000000, 0)
        """
        return max(self._free_ns - now_ns, 0)

    def sent(self, rows: int, now_ns: int) -> None:
        """Count ``rows`` sent events."""
        if self._rate:
            self._free_ns = max(self._free_ns, now_ns) + rows * _NS // self._rate


# A session that sends the events of an outbox, which numbers and stores them.
#
# The session's own buffer is a window of messages in flight. Numbers that the outbox has lost (a
# damaged segment, or events dropped for lack of room) are reported to the gateway by a new HELLO,
# whose ``acked`` is the number of the next event to be sent.


NUMBERS_LOST: Final = "numbers_lost"
"""Reason of a failure after which the outbox continues as a new start."""


class SpooledIntervals(TracedIntervals):
    """Intervals of a session; ended intervals are stored in the outbox only."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self.pending_requests: dict[Interval, None] = {}
        """Requested intervals to look up in the outbox, at most ``OPEN_MAX``: the gateway repeats
        its requests for others. ``SpoolPump`` removes them.
        """

    def answer(self, request: m.Intervals) -> list[bytes]:
        known = self.lookup(request)
        for each in known.others[: max(OPEN_MAX - len(self.pending_requests), 0)]:
            self.pending_requests[each] = None
        return missing_messages(known.unended, ())


class SpooledSession(AgentSession):
    """Sends the events of an outbox: ``count_numbered`` counts them, ``offer`` sends them."""

    def __init__(
        self,
        settings: SessionSettings,
        streams: Sequence[m.StreamSchema],
        incarnation: int,
        cookie: Callable[[], int],
        jitter: Callable[[int], int],
        resumed: ResumedStart,
    ) -> None:
        super().__init__(settings, streams, incarnation, cookie, jitter, resumed)
        self.has_welcome = False
        """Whether a gateway has welcomed this process."""
        self.received_beyond: tuple[int, ...] | None = None
        """Per stream, the gateway's next number. Set when the gateway has events or control numbers
        that this disk does not know to be sent: the disk has lost data or was restored from a copy.
        The session has then failed.
        """
        self.intervals: SpooledIntervals = SpooledIntervals(settings.pull_back_bytes)
        self._unsent = list(resumed.unsent)
        self._offered = list(resumed.unsent)

    def acked_seqs(self) -> list[int]:
        """Per stream the number below which every event is acked or lost."""
        return list(self._acked.values())[1:]

    def count_numbered(self, stream: int, rows: int, types: Texts | None, now: Now) -> None:
        """Count ``rows`` more events that the outbox has numbered; ``offer`` follows later."""
        self._numbers.take(stream, rows)
        self.counts["emitted"] += rows
        self._heartbeat.put_event(stream, now.mono_ns)
        promised = now.wall_ns - self.settings.heartbeat_lag_ns
        for name in self._promising[stream].due(rows, types):
            self.promise(now, promised, stream=self.streams[stream].name, type=name)

    def has_room(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be offered; always true if none is in flight."""
        return self._unacked.fits(size) or len(self._unacked) == 0

    def offer(self, stream: int, record: Record, now: Now) -> None:
        """Send committed events until they are acked; call in the order of their numbers."""
        self._unacked.add(stream, record.first, record.rows, record.data)
        self._offered[stream] = max(self._offered[stream], record.end)
        self._pump(now)

    def send_found(
        self, records: Sequence[tuple[int, Record]], unknown: Sequence[Interval]
    ) -> None:
        """Answer a request for intervals: send ``records`` ahead of their turn, and report the
        intervals that are ``unknown`` to the outbox.
        """
        if not self._pool.ready:
            return  # the gateway repeats its request
        link = self._pool.next_ready()
        for stream, record in records:
            self._offered[stream] = max(self._offered[stream], record.end)
            self._send(link, record.data, spare=True)
        for data in missing_messages((), unknown):
            self._send(link, data, spare=True)

    def skip_to(self, stream: int, first: int, now: Now) -> None:
        """Skip lost numbers: the next event of ``stream`` has number ``first``.

        All offered events of the stream must be acked. Open connections reconnect with a new HELLO.
        """
        self._acked[stream] = max(self._acked[stream], first)
        for link in self._pool.links:
            if link.is_open():
                self._drop(link, "numbers are gone", now)

    # --- inside

    def _take(self, link: PooledConnection, message: m.Message, now: Now) -> None:
        if isinstance(message, m.Welcome | m.Ack) and (
            self._beyond(message.next_seqs) or self._is_of_later(message.control_next)
        ):
            self.received_beyond = message.next_seqs
            detail = "the gateway has events that this disk has lost"
            self._fail(m.ErrorMessage(NUMBERS_LOST, detail, retry=False))
            return
        super()._take(link, message, now)
        if isinstance(message, m.Welcome) and link.state is LinkState.READY:
            self.has_welcome = True

    def _is_resumed(self) -> bool:
        """Whether another process used this start; for a new one ``Numbers.foreign`` decides."""
        return self._numbers.welcomed or self._numbers.again

    def _is_of_later(self, control_next: int) -> bool:
        """Whether a gateway has control numbers that this process has not sent yet."""
        return not self.has_welcome and self._is_resumed() and control_next > self._control_first

    def _beyond(self, received: tuple[int, ...]) -> bool:
        """Whether the gateway has numbers that no known process has sent."""
        if not self._is_resumed():
            return False
        sent = self._offered if self.has_welcome else self._unsent
        known = map(max, sent, self.acked_seqs())
        return any(have > local for have, local in zip(received, known, strict=False))
