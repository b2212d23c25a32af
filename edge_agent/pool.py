"""The connections of a session: their states, the next one to use, and retries.

Several connections at once carry more, and are one cause of disorder (R19 3.2.1): messages
go round robin, and each connection delivers at its own pace.
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
    """Not open; tried again at ``due``."""
    CONNECTING = "asked"
    """The driver was asked to connect; it answers with (dis)connected until ``due``."""
    GREETING = "greeting"
    """Open, HELLO sent, WELCOME awaited until ``due``."""
    READY = "ready"


@dataclass(slots=True)
class PooledConnection:
    """One connection of the pool. ``due``: monotonic instant, None: nothing to wait for."""

    number: int
    backoff_ns: int
    state: LinkState = LinkState.ABSENT
    due: int | None = None
    decoder: Decoder = field(default_factory=Decoder)
    knows_clocks: bool = False
    """Whether the gateway at its other end takes events that name their clocks."""

    def is_open(self) -> bool:
        """Whether bytes may come from it."""
        return self.state in (LinkState.GREETING, LinkState.READY)


class Pool:
    """``size`` connections; a lost one is tried again after a wait that doubles up to a bound.

    ``jitter`` makes a wait of one: devices that a gateway's restart cut off together shall not come
    back together.
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
        """The connection whose turn it is."""
        self._turn += 1
        return self._ready[self._turn % len(self._ready)]

    def connecting(self, link: PooledConnection, due: int) -> None:
        link.state, link.due = LinkState.CONNECTING, due
        self._changed()

    def greeting(self, link: PooledConnection, due: int) -> None:
        link.state, link.due, link.decoder = LinkState.GREETING, due, Decoder()
        self._changed()

    def welcomed(self, link: PooledConnection) -> bool:
        """The gateway took the connection: it is used from now on. True: there was no other."""
        first = not self._ready
        link.state, link.due, link.backoff_ns = LinkState.READY, None, self._backoff_ns
        self._ready.append(link)
        self._ready.sort(key=lambda each: each.number)
        self._changed()
        return first

    def lost(self, link: PooledConnection, mono_ns: int) -> None:
        """The connection is gone; ``due`` says when to try again."""
        link.state, link.due = LinkState.ABSENT, mono_ns + self._jitter(link.backoff_ns)
        link.backoff_ns = min(2 * link.backoff_ns, self._backoff_ns_max)
        self._ready = [each for each in self._ready if each is not link]
        self._changed()

    def close(self) -> list[PooledConnection]:
        """Give up for good: the connections that were open or asked for."""
        opened = [link for link in self.links if link.state is not LinkState.ABSENT]
        for link in self.links:
            link.state, link.due = LinkState.ABSENT, None
        self._ready = []
        self._changed()
        return opened

    def _changed(self) -> None:
        self.ready = bool(self._ready)
        self.next_due = earliest(*[link.due for link in self.links])
