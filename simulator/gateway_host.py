"""The gateway on virtual time: the same core that runs on a real machine.

The engine's clock is true time unless the scenario gives it an error; arrival times and the
gateway's NTP answers come from that clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from slackwater.edge_agent.pull_back import BatchSlice
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import CloseConnection, GatewayCore
from slackwater.engine.gateway.frames import FrameBuilder
from slackwater.simulator.alarm import LocalAlarm, VirtualTime
from slackwater.simulator.clocks import Clock
from slackwater.simulator.network import Connection, Network


class GatewayHost:
    """Drives a gateway core.

    Args:
        env: virtual time.
        start: makes a gateway that knows the content of the log.
        clock: the engine's clock.
        restarts_ns: true instants at which the gateway stops in order and starts again.
    """

    def __init__(
        self,
        env: VirtualTime,
        start: Callable[[], GatewayCore],
        clock: Clock,
        restarts_ns: Iterable[int] = (),
    ) -> None:
        self.core = start()
        self.clock = clock
        self._begin = start
        self._former: Counter[tuple[str, str, str]] = Counter()
        for at_ns in restarts_ns:
            env.call_at(at_ns, self._restart)
        self.unheard: Counter[str] = Counter()
        """Events of messages for which the core closed the connection, by network."""
        self._env = env
        self._connections: dict[Hashable, Connection] = {}
        self._alarm = LocalAlarm(env, clock.when_reads, self._wake)

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """``GatewayCore.counts`` over all starts and sites, by (source, reason)."""
        found: Counter[tuple[str, str]] = Counter()
        for (_, source, reason), count in (self._former + self.core.counts).items():
            found[source, reason] += count
        return found

    def start(self) -> None:
        """Start the core's timers."""
        self._wake()

    def finish(self) -> None:
        """Write everything that the core still has."""
        self.core.finish(self._now())
        self.core.outputs()  # acks that no device receives any more

    def silence(self, site: str) -> Frame:
        """A frame that records silence until now."""
        builder = FrameBuilder(site)
        builder.tick(self._now())
        return builder.build()

    # --- calls of the network

    def opened(self, connection: Connection) -> None:
        self._connections[connection.key] = connection
        self.core.connected(connection.key, self._now(), connection.network.name)
        self._carry_out()

    def closed(self, connection: Connection) -> None:
        del self._connections[connection.key]
        self.core.disconnected(connection.key, self._now())
        self._carry_out()

    def received(self, connection: Connection, data: bytes | BatchSlice, events: int) -> None:
        key = connection.key
        core = self.core
        core.received(key, data, self.clock.read(self._env.now))
        self._answer()
        if core.timers.sooner:
            self._alarm.set(core.next_wake())
        if key not in self._connections:
            self.unheard[connection.network.name] += events

    def datagram(self, network: Network, data: bytes) -> None:
        now_ns = self._now()
        answer = self.core.datagram_received(data, now_ns, now_ns)
        if answer is not None:
            network.answer(answer)
        self._carry_out()

    # --- inside

    def _restart(self, _: Any) -> None:
        self.finish()
        self._former += self.core.counts
        for connection in self._connections.values():
            connection.close_from_gateway()
        self._connections.clear()
        self.core = self._begin()
        self._wake()

    def _now(self) -> int:
        return self.clock.read(self._env.now)

    def _wake(self) -> None:
        self.core.wake(self._now())
        self._carry_out()

    def _carry_out(self) -> None:
        """Execute the core's outputs, and set an alarm for its next deadline."""
        self._answer()
        self._alarm.set(self.core.next_wake())

    def _answer(self) -> None:
        for output in self.core.outputs():
            connection = self._connections[output.connection]
            if isinstance(output, CloseConnection):
                del self._connections[output.connection]
                connection.close_from_gateway()
            else:
                connection.send_down(output.data)
