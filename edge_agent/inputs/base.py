"""Interfaces of inputs and outlets, waits between attempts, and UDP datagrams."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from slackwater.edge_agent import clock
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Row
from slackwater.edge_agent.sequence import DeviceCounters
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

# Waits between failed attempts: random, up to a bound that doubles until it reaches a maximum.
#
# Full jitter: devices that lost the same peer at once do not all return at the same time.


class Backoff:
    """Call ``wait`` after each failure and ``reset`` after a success."""

    def __init__(self, first_ns: int, most_ns: int, jitter: Callable[[int], int]) -> None:
        """``jitter``: returns a random whole number from 0 to its argument."""
        self._first_ns = first_ns
        self._most_ns = most_ns
        self._jitter = jitter
        self._bound_ns = first_ns

    def reset(self) -> None:
        """Start again with the shortest waits."""
        self._bound_ns = self._first_ns

    def next_ns(self) -> int:
        """The next wait [ns], random up to a bound that doubles each time."""
        waited = self._jitter(self._bound_ns)
        self._bound_ns = min(2 * self._bound_ns, self._most_ns)
        return waited

    async def wait(self) -> None:
        """Wait until the next attempt."""
        await asyncio.sleep(self.next_ns() / NS_PER["s"])


def read_backoff(table: Table, jitter: Callable[[int], int]) -> Backoff:
    """Read the settings ``reconnect`` (default 1 s) and ``reconnect_max`` (30 s) of an input."""
    first_ns = table.duration_ns("reconnect", NS_PER["s"], low=NS_PER["ms"])
    most_ns = table.duration_ns("reconnect_max", max(30 * NS_PER["s"], first_ns), low=first_ns)
    return Backoff(first_ns, most_ns, jitter)


# Received datagrams, kept in bounded memory until they are taken.


WAITING_MAX: Final = 4 << 20
"""Bytes of datagrams that may wait; beyond, new ones are dropped and counted."""
RECEIVE_BUFFER: Final = 1 << 20
"""Buffer size that the kernel is asked for [bytes]; it may grant less."""


class Datagrams(asyncio.DatagramProtocol):
    """The receiving end of a UDP socket."""

    def __init__(self, counts: Counter[str]) -> None:
        """``counts``: ``datagrams`` received, and how many of them were ``dropped_datagrams``."""
        self._counts = counts
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._came = asyncio.Event()

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Keep the datagram if there is room."""
        del addr
        self._counts["datagrams"] += 1
        if self._size + len(data) > WAITING_MAX:
            self._counts["dropped_datagrams"] += 1
            return
        self._waiting.append(data)
        self._size += len(data)
        self._came.set()

    async def take(self) -> list[bytes]:
        """Return all waiting datagrams; wait until there is one."""
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        found = list(self._waiting)
        self._waiting.clear()
        self._size = 0
        return found


async def receive(
    host: str, port: int, counts: Counter[str]
) -> tuple[asyncio.DatagramTransport, Datagrams]:
    """Open a receiving socket; raises OSError if it cannot be opened."""
    loop = asyncio.get_running_loop()
    transport, datagrams = await loop.create_datagram_endpoint(
        lambda: Datagrams(counts), local_addr=(host, port)
    )
    found = transport.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return transport, datagrams


# Inputs, their environment, and the outlets to which they pass events.


class Outlet(Protocol):
    """Receives what inputs read. ``take`` returns when there is room for more (backpressure)."""

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Take events of one stream, in the order in which they were read.

        ``keys``, 16 bytes each, identify the messages that brought the events; ``knows`` finds them
        from then on. With an outbox, keys are as durable as the events, and atomic with them if all
        rows fit into one wire message (``edge_agent.messages``: 1 MiB).

        Returns False if some events had no room and were dropped according to ``when_full``.
        """

    def knows(self, key: bytes) -> bool:
        """Whether a message was taken before, by this process or an earlier one on the same outbox.
        The newest ``edge_agent.outbox.journal.KEYS_MAX`` are known.
        """

    async def session(self, sender: str, *, kept: bool) -> int:
        """The number of the session with ``sender``, which becomes part of its messages' keys. A
        sender that has lost its session (``kept`` False) restarts its message numbers; the new
        session number keeps its messages distinct from earlier ones. With an outbox, a new number
        is durable when this returns.
        """

    async def durable(self) -> None:
        """Return when everything taken before this call is safe: fsynced in the outbox or, without
        one, acked by the gateway. Until then no sender may get an acknowledgement.
        """

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """Take bounds of devices' clocks; call before the events that these clocks stamped."""

    def bad(self, what: str, place: str) -> None:
        """Report a record that was skipped; ``place``: where it was read."""

    def trouble(self, what: str, place: str) -> None:
        """Report a fault that loses no record by itself, such as a lost connection."""


class StatelessOutlet:
    """Default answers of an ``Outlet`` that stores no keys, sessions or clock bounds."""

    def knows(self, key: bytes) -> bool:
        """Return False: no message is remembered."""
        del key
        return False

    async def session(self, sender: str, *, kept: bool) -> int:
        """Return 0: all sessions share one number."""
        del sender, kept
        return 0

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """Ignore the bounds."""
        del bounds


class InputReader(Protocol):
    """Reads events until the source ends. Cancelled when the agent stops."""

    @property
    def counts(self) -> Counter[str]:
        """Counters for the status file."""

    async def run(self, outlet: Outlet) -> None:
        """Read to the end of the input; raises AgentError if it cannot be read at all."""


def _mono_ns() -> int:
    return clock.read().mono_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an input may use of the agent and its device, apart from its own settings."""

    schemas: Mapping[str, StreamSchema]
    """The agent's streams by name."""
    name: str = ""
    """Name of the input in messages: the setting ``name``, else its kind."""
    source: str = ""
    """Site and name of the agent, for example ``main/door``."""
    wall_ns: Callable[[], int]
    """This device's wall clock [ns since 1970]."""
    mono_ns: Callable[[], int] = _mono_ns
    """This device's monotonic clock [ns]."""
    jitter: Callable[[int], int]
    """Returns a random whole number from 0 to its argument."""
    counters: list[DeviceCounters] = field(default_factory=list)
    """Counters of devices that survive a restart of the agent."""


Maker = Callable[[Table, Surroundings], InputReader]
"""Makes an input from its ``[[input]]`` table. It must read every setting that it knows and have
no side effects, because ``slackwater agent check`` calls it as well. Raises SettingsError."""
