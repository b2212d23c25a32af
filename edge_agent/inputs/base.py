"""Interfaces of inputs and outlets, waits between attempts, and datagrams."""

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

# Waits between attempts that fail: doubled up to a longest one, each of them random.
#
# Full jitter: devices that lost the same peer at once do not come back all at once.


class Backoff:
    """``wait`` after each failure, ``reset`` after a success."""

    def __init__(self, first_ns: int, most_ns: int, jitter: Callable[[int], int]) -> None:
        """``jitter``: a random whole number from 0 to its argument."""
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
    """The settings ``reconnect`` (1 s) and ``reconnect_max`` (30 s) of an input."""
    first_ns = table.duration_ns("reconnect", NS_PER["s"], low=NS_PER["ms"])
    most_ns = table.duration_ns("reconnect_max", max(30 * NS_PER["s"], first_ns), low=first_ns)
    return Backoff(first_ns, most_ns, jitter)


# Datagrams as they come, kept in bounded memory until somebody takes them.


WAITING_MAX: Final = 4 << 20
"""Bytes of datagrams that wait; beyond, new ones are dropped and counted."""
RECEIVE_BUFFER: Final = 1 << 20
"""Buffer that the kernel is asked for [bytes]; it may grant less."""


class Datagrams(asyncio.DatagramProtocol):
    """The receiving end of a UDP socket."""

    def __init__(self, counts: Counter[str]) -> None:
        """``counts``: ``datagrams`` and, of them, ``dropped_datagrams``."""
        self._counts = counts
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._came = asyncio.Event()

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Keeps it, if there is room."""
        del addr
        self._counts["datagrams"] += 1
        if self._size + len(data) > WAITING_MAX:
            self._counts["dropped_datagrams"] += 1
            return
        self._waiting.append(data)
        self._size += len(data)
        self._came.set()

    async def take(self) -> list[bytes]:
        """All that wait; returns when there is one."""
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
    """A socket that receives; raises OSError: it cannot be had."""
    loop = asyncio.get_running_loop()
    transport, datagrams = await loop.create_datagram_endpoint(
        lambda: Datagrams(counts), local_addr=(host, port)
    )
    found = transport.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return transport, datagrams


# Inputs, their surroundings, and the outlets to which they hand events.


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
        outbox. The newest ``edge_agent.outbox.journal.KEYS_MAX`` are known.
        """

    async def session(self, sender: str, *, kept: bool) -> int:
        """The number of the session with ``sender``, for the keys of its messages: a sender that
        has forgotten its session (``kept`` False) counts its messages from the start, so what looks
        like one of before is another one. A new number is as durable as an outbox is when this
        returns.
        """

    async def durable(self) -> None:
        """Returns when everything that was taken before this call is safe: fsynced in the outbox;
        without one, when the gateway has acked it. Until then no sender may get an acknowledgement.
        """

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """Bounds of the clocks of devices: called before the events that they stamped."""

    def bad(self, what: str, place: str) -> None:
        """Report a record that was left out; ``place``: where it was read."""

    def trouble(self, what: str, place: str) -> None:
        """Report a fault that loses no record by itself, as a lost connection."""


class StatelessOutlet:
    """Answers of an ``Outlet`` that keeps neither keys, sessions nor bounds of clocks."""

    def knows(self, key: bytes) -> bool:
        """No message was taken before."""
        del key
        return False

    async def session(self, sender: str, *, kept: bool) -> int:
        """All sessions have one number."""
        del sender, kept
        return 0

    async def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """Ignore the bounds."""
        del bounds


class InputReader(Protocol):
    """Reads events until there are no more. Cancelled when the agent stops."""

    @property
    def counts(self) -> Counter[str]:
        """Counters for the status file."""

    async def run(self, outlet: Outlet) -> None:
        """Returns at the end of the input; raises AgentError when it cannot be read at all."""


def _mono_ns() -> int:
    return clock.read().mono_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an input may use of its device, apart from its settings."""

    schemas: Mapping[str, StreamSchema]
    """The streams by name."""
    name: str = ""
    """Name of the input in messages: the setting ``name``, else its kind."""
    source: str = ""
    """Site and name of the agent, as ``main/door``."""
    wall_ns: Callable[[], int]
    """This device's wall clock [ns since 1970]."""
    mono_ns: Callable[[], int] = _mono_ns
    """This device's monotonic clock [ns]."""
    jitter: Callable[[int], int]
    """A random whole number from 0 to its argument."""
    counters: list[DeviceCounters] = field(default_factory=list)
    """Counters of devices that survive a restart of the agent."""


Maker = Callable[[Table, Surroundings], InputReader]
"""From an ``[[input]]`` to the input. Asks the table for every setting that it knows, and has no
effect outside: ``slackwater agent check`` calls it, too. Raises SettingsError."""
