"""The connections of a session: their states, the next one to use, and retries.

Several connections carry more at once, and cause disorder (R19 3.2.1): messages are sent round
robin, and each connection delivers at its own speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from slackwater.edge_agent.clock import earliest
from slackwater.edge_agent.wire import Decoder


class LinkState(Enum):
    """State of one connection of the pool."""

    ABSENT = "absent"
    """Not open; the next attempt is at ``due``."""
    CONNECTING = "asked"
    """Requested from the driver, which answers with (dis)connected before ``due``."""
    GREETING = "greeting"
    """Open, HELLO sent, WELCOME awaited until ``due``."""
    READY = "ready"


@dataclass(slots=True)
class PooledConnection:
    """One connection of the pool. ``due``: monotonic instant [ns]; None: no deadline."""

    number: int
    backoff_ns: int
    state: LinkState = LinkState.ABSENT
    due: int | None = None
    decoder: Decoder = field(default_factory=Decoder)
    knows_clocks: bool = False
    """Whether the gateway accepts events that name their clocks."""

    def is_open(self) -> bool:
        """Whether it may deliver bytes."""
        return self.state in (LinkState.GREETING, LinkState.READY)


class Pool:
    """``size`` connections; a lost one is retried after a wait that doubles up to a bound.

    ``jitter`` randomises a wait, so that devices that a gateway's restart disconnected together do
    not reconnect together.
    """

    def __init__(
        self, size: int, backoff_ns: int, backoff_ns_max: int, jitter: Callable[[int], int] = int
    ) -> None:
        self.links = [PooledConnection(number, backoff_ns) for number in range(size)]
        self._jitter = jitter
        self._backoff_ns = backoff_ns
        self._backoff_ns_max = backoff_ns_max
        self.next_due: int | None = None
        """The earliest ``due`` of all connections."""
        self.ready = False
        """Whether some connection can take messages."""
        self._ready: list[PooledConnection] = []
        self._turn = 0

    def next_ready(self) -> PooledConnection:
        """The next ready connection, round robin."""
        self._turn += 1
        return self._ready[self._turn % len(self._ready)]

    def connecting(self, link: PooledConnection, due: int) -> None:
        link.state, link.due = LinkState.CONNECTING, due
        self._changed()

    def greeting(self, link: PooledConnection, due: int) -> None:
        link.state, link.due, link.decoder = LinkState.GREETING, due, Decoder()
        self._changed()

    def welcomed(self, link: PooledConnection) -> bool:
        """Use the connection from now on, as the gateway accepted it. True: it is the only one."""
        first = not self._ready
        link.state, link.due, link.backoff_ns = LinkState.READY, None, self._backoff_ns
        self._ready.append(link)
        self._ready.sort(key=lambda each: each.number)
        self._changed()
        return first

    def lost(self, link: PooledConnection, mono_ns: int) -> None:
        """Mark the connection as lost; ``due`` is set to the next attempt."""
        link.state, link.due = LinkState.ABSENT, mono_ns + self._jitter(link.backoff_ns)
        link.backoff_ns = min(2 * link.backoff_ns, self._backoff_ns_max)
        self._ready = [each for each in self._ready if each is not link]
        self._changed()

    def close(self) -> list[PooledConnection]:
        """Close for good; return the connections that were open or requested."""
        opened = [link for link in self.links if link.state is not LinkState.ABSENT]
        for link in self.links:
            link.state, link.due = LinkState.ABSENT, None
        self._ready = []
        self._changed()
        return opened

    def _changed(self) -> None:
        self.ready = bool(self._ready)
        self.next_due = earliest(*[link.due for link in self.links])
