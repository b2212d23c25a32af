"""What a session asks its driver to do, and what it answers to the application."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class SessionState(Enum):
    """How far the session is."""

    IDLE = "idle"
    CONNECTING = "connecting"
    """No WELCOME yet."""
    SYNCING = "syncing"
    """The first time-sync report is being made, or is not acked yet."""
    RUNNING = "running"
    """Data flow, whenever a connection is there."""
    FINISHING = "finishing"
    """``finish`` was called; the rest is sent and acked."""
    DONE = "done"
    """Everything is acked and every connection closed."""
    FAILED = "failed"
    """The gateway refused for good; ``failure`` says why."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self is SessionState.DONE or self is SessionState.FAILED


class Connect(NamedTuple):
    """Open this connection of the pool, then call ``connected`` or ``disconnected``."""

    connection: int


class SendBytes(NamedTuple):
    """Write these bytes, exactly one message, to this connection.

    ``spare``: leave them out where much waits to be written: the gateway will ask again.
    """

    connection: int
    data: bytes
    spare: bool = False


class SendDatagram(NamedTuple):
    """Send this NTP question, now: its time stamp is that of the call.

    ``place``: 0: to the gateway, above 0: to the standard server of this number; below: this host's
    chrony is asked (``edge_agent.ntp``).
    """

    data: bytes
    place: int = 0


class Close(NamedTuple):
    """Close this connection; nothing more is to be reported of it."""

    connection: int
    reason: str


Output = Connect | SendBytes | SendDatagram | Close


class Emitted(NamedTuple):
    """Answer to ``emit``, ``promise`` and ``begin``.

    ``reason`` of a refusal: ``full`` (try again after acks), ``finished`` or ``failed``. Refused
    rows got no numbers and are counted. ``first_seq``: number of the first row; the stream's next
    number where no row was numbered.
    """

    accepted: bool
    first_seq: int
    reason: str | None = None
