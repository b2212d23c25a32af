"""Watches whether messages are acked in time, by how long acks have taken so far."""

from __future__ import annotations

from edge_agent.resend_timeout import ResendTimeout
from edge_agent.settings import SessionSettings
from edge_agent.unacked import Unacked


class AckWatch:
    """``due``: the monotonic instant [ns] at which a message may be late; None: none is sent."""

    def __init__(self, unacked: Unacked, settings: SessionSettings) -> None:
        high = settings.ack_timeout_ns
        self.due: int | None = None
        self._unacked = unacked
        self._timeout = ResendTimeout(settings.ack_timeout_min_ns or high, high)

    def sent(self, mono_ns: int) -> None:
        """A message was given to a connection; there were none that wait for acks."""
        self.due = mono_ns + self._timeout.ns

    def acked(self, lane: int, next_number: int, mono_ns: int | None) -> int:
        """As ``Unacked.acked``; ``mono_ns``: when the ack came, if the connection is the one that
        the messages were sent on.
        """
        sent_ns = self._unacked.sent_once(lane, next_number)
        freed = self._unacked.acked(lane, next_number)
        if mono_ns is not None and sent_ns is not None and self._timeout.adaptive:
            self._timeout.sample(max(mono_ns - sent_ns, 0))
            self._restart()
        return freed

    def late(self, mono_ns: int) -> list[int]:
        """The connections that hold messages which are late."""
        found = self._unacked.overdue(mono_ns - self._timeout.ns)
        if found:
            self._timeout.timed_out()
        return found

    def checked(self) -> None:
        """The connections that were late are gone."""
        self._restart()

    def stop(self) -> None:
        """Nothing is waited for any more."""
        self.due = None

    def _restart(self) -> None:
        oldest = self._unacked.oldest_sent()
        self.due = None if oldest is None else oldest + self._timeout.ns
