"""What an input is, what it is made with, and where it hands its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_agent import clock
from edge_agent.device_clock import ClockBound
from edge_agent.messages import StreamSchema
from edge_agent.rows import Row
from edge_agent.settings_file import Table


class Outlet(Protocol):
    """Takes what inputs read. ``take`` returns when there is room for more (backpressure)."""

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Events of one stream, in the order in which they happened to be read.

        ``keys``, of 16 bytes each, name the messages that they came in: ``knows`` them from now on.
        With an outbox they are as durable as the events, and in one piece with them as long as all
        of the rows are one message of the wire (``edge_agent.messages``: 1 MiB).

        Returns False when some had no room and were dropped, as the stream's ``when_full`` says.
        """

    def knows(self, key: bytes) -> bool:
        """Whether a message was taken before: by this process, or by one before it on the same
        outbox. The newest ``edge_agent.outbox.keys.KEYS_MAX`` are known.
        """

    async def session(self, sender: str, *, kept: bool) -> int:
        """The number of the session with ``sender``, for the keys of its messages: a sender that
        has forgotten its session (``kept`` False) counts its messages anew, so what looks like one
        of before is another one. A new number is as durable as an outbox is when this returns.
        """

    async def durable(self) -> None:
        """Returns when everything that was taken before this call is safe: fsynced in the outbox;
        without one, when the gateway has acked it. Until then no sender may be told that it is.
        """

    async def clocks(self, bounds: Sequence[ClockBound]) -> None:
        """What the clocks of devices are bounded by: said before the events that they stamped."""

    def bad(self, what: str, place: str) -> None:
        """A record that was left out: why, and where it stood."""

    def trouble(self, what: str, place: str) -> None:
        """A fault that is told but costs no record by itself, as a connection that was lost."""


class Input(Protocol):
    """Reads events until there are no more. Cancelled when the agent stops."""

    @property
    def counts(self) -> Counter[str]:
        """What has happened, for the status file."""

    async def run(self, outlet: Outlet) -> None:
        """Returns at the end of the input; raises AgentError when it cannot be read at all."""


def _mono_ns() -> int:
    return clock.read().mono_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an input may use of its device, beside its settings."""

    schemas: Mapping[str, StreamSchema]
    """The streams by name."""
    name: str = ""
    """What messages call the input: the setting ``name``, else its kind."""
    source: str = ""
    """Who the agent is: its site and name, as ``main/door``."""
    wall_ns: Callable[[], int]
    """This device's wall clock [ns since 1970]."""
    mono_ns: Callable[[], int] = _mono_ns
    """This device's monotonic clock [ns]."""
    jitter: Callable[[int], int]
    """A random whole number from 0 to its argument."""


Maker = Callable[[Table, Surroundings], Input]
"""From an ``[[input]]`` to the input. Asks the table for every setting that it knows, and has no
effect outside: ``slackwater agent check`` calls it, too. Raises SettingsError."""
