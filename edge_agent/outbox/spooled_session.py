"""A session whose events come from an outbox, and how fast it is emptied."""

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

# How fast an outbox is emptied: after an outage, all devices of a site have much to send at once.
#
# A leaky bucket (ITU-T I.371, as a meter): what was sent is owed, and the debt melts at the rate.
# More is sent when there is none, so a message may be of any size, and the mean is kept.


_NS: Final = 10**9


class DrainLimit:
    """At most ``events_per_s``, in the mean; 0: no limit. Times are of the monotonic clock."""

    def __init__(self, events_per_s: int) -> None:
        self._rate = events_per_s
        self._free_ns = 0
        """Monotonic instant at which nothing is owed any more."""

    def wait_ns(self, now_ns: int) -> int:
        """How long until more may be sent; 0: now.

        >>> limit = DrainLimit(1000)
        >>> limit.sent(500, 0), limit.wait_ns(0), limit.wait_ns(500_000_000)
        (None, 500000000, 0)
        """
        return max(self._free_ns - now_ns, 0)

    def sent(self, rows: int, now_ns: int) -> None:
        """So many events are on their way."""
        if self._rate:
            self._free_ns = max(self._free_ns, now_ns) + rows * _NS // self._rate


# A session whose events come from an outbox, which has numbered them and keeps them.
#
# The session's own buffer is a window: what is in flight. Numbers that the outbox has lost (a
# damaged place, or dropped as there was no room) are reported to the gateway by a new HELLO, whose
# ``acked`` says from where on events will come.


NUMBERS_LOST: Final = "numbers_lost"
"""Reason of a failure after which the outbox goes on as a new start."""


class SpooledIntervals(TracedIntervals):
    """Ended intervals are in the outbox, and nowhere else."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self.pending_requests: dict[Interval, None] = {}
        """Intervals that the gateway wants, ``OPEN_MAX`` at most: it will ask again for the others.
        Who takes them out looks for them in the outbox.
        """

    def answer(self, request: m.Intervals) -> list[bytes]:
        known = self.lookup(request)
        for each in known.others[: max(OPEN_MAX - len(self.pending_requests), 0)]:
            self.pending_requests[each] = None
        return missing_messages(known.unended, ())


class SpooledSession(AgentSession):
    """``emit`` is the outbox's business: it numbers by ``numbered`` and sends by ``offer``."""

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
        self.heard = False
        """Whether a gateway has welcomed this process."""
        self.received_beyond: tuple[int, ...] | None = None
        """Per stream what the gateway has, when that is more than was sent as far as is known, or
        it has control numbers of a later process: the disk has lost some, or was restored from a
        copy. The session has failed then.
        """
        self.intervals: SpooledIntervals = SpooledIntervals(settings.pull_back_bytes)
        self._unsent = list(resumed.unsent)
        self._offered = list(resumed.unsent)

    def acked_seqs(self) -> list[int]:
        """Per stream the number up to which everything is acked, or gone."""
        return list(self._acked.values())[1:]

    def numbered(self, stream: int, rows: int, types: Texts | None, now: Now) -> None:
        """The outbox has taken ``rows`` more events of a stream; they will be offered later."""
        self._numbers.take(stream, rows)
        self.counts["emitted"] += rows
        self._heartbeat.put_event(stream, now.mono_ns)
        promised = now.wall_ns - self.settings.heartbeat_lag_ns
        for name in self._promising[stream].due(rows, types):
            self.promise(now, promised, stream=self.streams[stream].name, type=name)

    def has_room(self, size: int) -> bool:
        """Whether a message of ``size`` bytes may be offered; one always may."""
        return self._unacked.fits(size) or len(self._unacked) == 0

    def offer(self, stream: int, record: Record, now: Now) -> None:
        """Committed events, in the order of their numbers, to be sent until they are acked."""
        self._unacked.add(stream, record.first, record.rows, record.data)
        self._offered[stream] = max(self._offered[stream], record.end)
        self._pump(now)

    def found(self, records: Sequence[tuple[int, Record]], gone: Sequence[Interval]) -> None:
        """Committed events of streams, before their turn, as the gateway has asked for some of
        them; and what it has asked for and the outbox does not have.
        """
        if not self._pool.ready:
            return  # it will ask again
        link = self._pool.next_ready()
        for stream, record in records:
            self._offered[stream] = max(self._offered[stream], record.end)
            self._send(link, record.data, spare=True)
        for data in missing_messages((), gone):
            self._send(link, data, spare=True)

    def gone(self, stream: int, first: int, now: Now) -> None:
        """No number of ``stream`` below ``first`` will come that was not acked.

        All offered events of the stream are acked. Connections say HELLO again.
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
            self.heard = True

    def _is_resumed(self) -> bool:
        """Of any new start ``Numbers.foreign`` says whether the gateway knows too much."""
        return self._numbers.welcomed or self._numbers.again

    def _is_of_later(self, control_next: int) -> bool:
        """Whether a gateway has control numbers of this process before it has sent any."""
        return not self.heard and self._is_resumed() and control_next > self._control_first

    def _beyond(self, received: tuple[int, ...]) -> bool:
        """Whether the gateway has numbers that no process has sent, as far as is known."""
        if not self._is_resumed():
            return False
        sent = self._offered if self.heard else self._unsent
        known = map(max, sent, self.acked_seqs())
        return any(have > local for have, local in zip(received, known, strict=False))
