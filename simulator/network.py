"""The network between one device and the gateway: connections and datagrams over links.

Each connection number of the agent's pool has its own link in each direction; all numbers of a
direction share the bottleneck. A connection that is closed and opened again keeps its links but is
a new ``Connection``: messages still under way on the old one are not delivered, and are counted.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from slackwater.edge_agent.pull_back import BatchSlice
from slackwater.simulator.alarm import VirtualTime
from slackwater.simulator.links import Bottleneck, Link, LinkSettings, Place, Tally
from slackwater.simulator.seeds import Seeds

HANDSHAKE_BYTES: Final = 60
"""Size of a bare TCP segment, sent in each direction to open a connection."""
_PREFIX_BYTES: Final = 4
_DATA_HEADS: Final = (b"\x99\x02", b"\x9a\x02")
"""Messages with nine fields, ten if they name clocks; the first is DATA
(``edge_agent.wire``)."""


class AgentSide(Protocol):
    """Interface of the device's end, for the network."""

    def opened(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection) -> None: ...
    def received(self, connection: Connection, data: bytes) -> None: ...
    def datagram(self, data: bytes) -> None: ...


class GatewaySide(Protocol):
    """Interface of the gateway's end, for the network."""

    def opened(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection) -> None: ...
    def received(self, connection: Connection, data: bytes | BatchSlice, events: int) -> None: ...
    def datagram(self, network: Network, data: bytes) -> None: ...


@dataclass(slots=True)
class Fates:
    """Fates of the messages of one device.

    Attributes:
        closed: arrived at the gateway after its connection was closed.
        delivered: reached the gateway's core.
        under_way: given to a link and not arrived yet.
    """

    closed: Tally = field(default_factory=Tally)
    delivered: Tally = field(default_factory=Tally)
    under_way: Tally = field(default_factory=Tally)


class Network:
    """All links of one device.

    Args:
        env: virtual time.
        settings: up (from the device) and down (to it).
        seeds: of the run.
        name: of the device, unique.
        connections: size of the pool.
        place: start of time and directory of recordings.
        gateway: the other end.
        patience_ns: time after which the device gives up opening a connection.
    """

    def __init__(
        self,
        env: VirtualTime,
        settings: tuple[LinkSettings, LinkSettings],
        seeds: Seeds,
        name: str,
        connections: int,
        place: Place,
        gateway: GatewaySide,
        patience_ns: int,
    ) -> None:
        up, down = settings
        up_queue, down_queue = Bottleneck(up), Bottleneck(down)
        numbers = range(connections)
        self.name = name
        self.env = env
        self.up = [Link(up, seeds, f"link/{name}/up/{n}", place, up_queue) for n in numbers]
        self.down = [Link(down, seeds, f"link/{name}/down/{n}", place, down_queue) for n in numbers]
        self.fates = Fates()
        self.gateway = gateway
        self.patience_ns = patience_ns
        self.agent: AgentSide | None = None
        self._opened = 0
        self._ask = Link(up.datagrams(), seeds, f"link/{name}/up/ntp", place, up_queue)
        self._answer = Link(down.datagrams(), seeds, f"link/{name}/down/ntp", place, down_queue)

    @property
    def busy(self) -> bool:
        """Whether messages with events are still under way to the gateway."""
        return self.fates.under_way.events > 0

    def connect(self, number: int, agent: AgentSide) -> Connection:
        """Open connection ``number``; ``agent.opened`` or ``agent.closed`` follows."""
        self._opened += 1
        return Connection(self, number, (self.name, self._opened), agent)

    def ask(self, data: bytes, agent: AgentSide) -> None:
        """Send a datagram of the device."""
        self.agent = agent
        for at_ns in self._ask.transmit(self.env.now, len(data), 0):
            self.env.call_at(at_ns, self._deliver_request, data)

    def answer(self, data: bytes) -> None:
        """Send a datagram of the gateway to the device."""
        for at_ns in self._answer.transmit(self.env.now, len(data), 0):
            self.env.call_at(at_ns, self._deliver_answer, data)

    def _deliver_request(self, data: bytes) -> None:
        self.gateway.datagram(self, data)

    def _deliver_answer(self, data: bytes) -> None:
        assert self.agent is not None
        self.agent.datagram(data)


class Connection:
    """One opening of one connection of a pool; ``key``: its name in the gateway's core."""

    def __init__(self, network: Network, number: int, key: Hashable, agent: AgentSide) -> None:
        self.network = network
        self.number = number
        self.key = key
        self._agent = agent
        self._env = network.env
        self._up = network.up[number]
        self._down = network.down[number]
        self._under_way, self._delivered = network.fates.under_way, network.fates.delivered
        self._open_at_agent = False
        self._open_at_gateway = False
        self._given_up = False
        for at_ns in self._up.transmit(self._env.now, HANDSHAKE_BYTES, 0, may_fail=False):
            self._env.call_at(at_ns, self._reached_gateway)
        self._env.call_at(self._env.now + network.patience_ns, self._waited)

    def send_up(self, data: bytes | BatchSlice, size_bytes: int) -> None:
        """Send one message of the agent of size ``size_bytes``."""
        events = data.rows if isinstance(data, BatchSlice) else rows_in(data)
        env, waiting = self._env, self._under_way
        for at_ns in self._up.transmit(env.now, size_bytes, events, events > 0):
            waiting.messages += 1
            waiting.events += events
            env.call_at(at_ns, self._came_up, (data, events))

    def send_down(self, data: bytes) -> None:
        """Send bytes of the gateway."""
        for at_ns in self._down.transmit(self._env.now, len(data), 0, may_fail=False):
            self._env.call_at(at_ns, self._came_down, data)

    def close_from_agent(self) -> None:
        """Close from the device; the gateway learns of it after everything that was sent."""
        self._open_at_agent = False
        self._given_up = True
        self._env.call_at(self._up.close(self._env.now), self._close_came_up)

    def close_from_gateway(self) -> None:
        """Close from the gateway; the device learns of it after everything that was sent."""
        self._open_at_gateway = False
        self._env.call_at(self._down.close(self._env.now), self._close_came_down)

    def _reached_gateway(self, _: Any) -> None:
        if self._given_up:
            return
        self._open_at_gateway = True
        self.network.gateway.opened(self)
        for at_ns in self._down.transmit(self._env.now, HANDSHAKE_BYTES, 0, may_fail=False):
            self._env.call_at(at_ns, self._reached_agent)

    def _reached_agent(self, _: Any) -> None:
        if not self._given_up:
            self._open_at_agent = True
            self._agent.opened(self)

    def _waited(self, _: Any) -> None:
        if not self._open_at_agent and not self._given_up:
            self.close_from_agent()
            self._agent.closed(self)

    def _came_up(self, message: tuple[bytes | BatchSlice, int]) -> None:
        data, events = message
        waiting = self._under_way
        waiting.messages -= 1
        waiting.events -= events
        if self._open_at_gateway:
            delivered = self._delivered
            delivered.messages += 1
            delivered.events += events
            self.network.gateway.received(self, data, events)
        else:
            self.network.fates.closed.add(events)

    def _came_down(self, data: bytes) -> None:
        if self._open_at_agent:
            self._agent.received(self, data)

    def _close_came_up(self, _: Any) -> None:
        if self._open_at_gateway:
            self._open_at_gateway = False
            self.network.gateway.closed(self)

    def _close_came_down(self, _: Any) -> None:
        if self._open_at_agent:
            self._open_at_agent = False
            self._given_up = True
            self._agent.closed(self)


def rows_in(message: bytes) -> int:
    """Number of events in a wire message: the fourth field of a DATA message, else 0.

    Parsed here, because every message passes and only this number is needed.
    """
    if message[_PREFIX_BYTES : _PREFIX_BYTES + 2] not in _DATA_HEADS:
        return 0
    at = _PREFIX_BYTES + 2
    value = 0
    for _ in range(3):  # stream, first_seq, rows
        value, at = _unsigned(message, at)
    return value


def _unsigned(message: bytes, at: int) -> tuple[int, int]:
    """The msgpack unsigned integer at ``at``, and where the next value begins."""
    first = message[at]
    if first < 0x80:
        return first, at + 1
    assert 0xCC <= first <= 0xCF, "a DATA message begins with unsigned integers"
    end = at + 1 + (1 << (first - 0xCC))
    return int.from_bytes(message[at + 1 : end], "big"), end
