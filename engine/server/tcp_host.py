"""A gateway core on TCP sockets: asyncio hands in bytes and time, and carries out what it asks for.

The engine's clock is this machine's. Everything but the writing of the log runs in one thread; what
the core does with a chunk of bytes is done before the next one is read. While the log is behind,
nothing is read, so that peers' own buffers fill and they wait.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Final

from edge_agent.drivers.alarm import Alarm
from edge_agent.drivers.stream_socket import StreamSocket
from engine.gateway.core import Close, GatewayCore
from engine.server.acceptor import Acceptor
from engine.server.rate_limit import RateLimit
from engine.server.refusal_lines import RefusalLines

WRITE_MAX: Final = 1 << 20
"""A peer that leaves so many bytes of answers unread is cut off."""
_LINGER_SECONDS: Final = 5.0
"""So long a closed connection may take to send what was written to it."""
_SLEEP_MAX_SECONDS: Final = 1.0
"""So soon it is seen that this machine's clock was set."""


class TcpHost:
    """Drives a gateway core, whose sink may write later.

    Args:
        core: the gateway.
        now_ns: the engine's clock.
        refusals: is told of connections that the core closes; None: nobody is.
    """

    def __init__(
        self,
        core: GatewayCore,
        now_ns: Callable[[], int] = time.time_ns,
        refusals: RefusalLines | None = None,
    ) -> None:
        self.core = core
        self._now_ns = now_ns
        self._refusals = refusals
        self._reading = True
        self._acceptor: Acceptor | None = None
        self._connections: dict[Hashable, _Connection] = {}
        self._keys = count(1)
        self._alarm = Alarm(self._wake)
        self._closing: set[asyncio.TimerHandle] = set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Connections are taken from now on; gives the port.

        Raises:
            OSError: the address cannot be bound.
        """
        tell = _nobody if self._refusals is None else self._refusals.tell
        acceptor = Acceptor(lambda: _Connection(self), tls, tell)
        bound = await acceptor.listen(host, port)
        self._acceptor = acceptor
        self._wake()
        return bound

    async def stop(self, written: Callable[[], Awaitable[None]] | None = None) -> None:
        """Takes no more, makes everything durable, says so, and closes.

        Args:
            written: returns when all that the sink was given is durable; None: it is at once.

        Raises:
            OSError: the log could not be written; what was not acked is with the agents.
        """
        if self._acceptor is not None:
            self._acceptor.close()
        self._read(on=False)
        try:
            self.core.finish(self._now_ns())
            if written is not None:
                await written()
        finally:
            self._carry_out()
            self._alarm.cancel()
            ended = [connection.ended for connection in self._connections.values()]
            for key in list(self._connections):
                self._close(key)
            if ended:
                await asyncio.wait(ended, timeout=_LINGER_SECONDS)
            for handle in self._closing:
                handle.cancel()

    # --- what the sink's thread has called

    def flushed(self, count: int) -> None:
        """See ``GatewayCore.flushed``."""
        self.core.flushed(count, self._now_ns())
        self._carry_out()

    def flush_failed(self, error: OSError) -> None:
        """See ``GatewayCore.flush_failed``."""
        self.core.flush_failed(error)
        self._carry_out()

    # --- what connections call

    def opened(self, connection: _Connection, host: str) -> int:
        """A peer at ``host`` connected; gives the key of its connection."""
        key = next(self._keys)
        self._connections[key] = connection
        connection.read(on=self._reading)
        self.core.connected(key, self._now_ns(), host)
        self._carry_out()
        return key

    def received(self, key: int, data: bytes) -> None:
        """Bytes came."""
        connection = self._connections.get(key)
        if connection is not None:
            events = self.core.received(key, data, self._now_ns())
            connection.spent(len(data), events)
            self._carry_out()

    def closed(self, key: int) -> None:
        """The connection is gone."""
        if self._connections.pop(key, None) is not None:
            self.core.disconnected(key, self._now_ns())
            self._carry_out()

    # --- inside

    def _wake(self) -> None:
        self.core.clock.advance(self._now_ns())  # a clock that was set back is noticed in silence
        self.core.wake(self._now_ns())
        self._carry_out()

    def _carry_out(self) -> None:
        """Does what the core asks for, and waits for its next deadline."""
        for output in self.core.outputs():
            if isinstance(output, Close):
                connection = self._connections.get(output.connection)
                if connection is not None and self._refusals is not None:
                    self._refusals.closed(connection.peer, output)
                self._close(output.connection)
            else:
                connection = self._connections.get(output.connection)
                if connection is not None:
                    connection.send(output.data)
        if self._acceptor is not None and self._acceptor.is_serving:
            self._read(on=not self.core.congested)
        due, now_ns = self.core.next_wake(), self._now_ns()
        seconds = _SLEEP_MAX_SECONDS
        if due is not None:
            seconds = min(max((due - now_ns) / 1e9, 0.0), _SLEEP_MAX_SECONDS)
        self._alarm.within(seconds)

    def _read(self, *, on: bool) -> None:
        """Reads from all connections, or from none."""
        if on is not self._reading:
            self._reading = on
            for connection in self._connections.values():
                connection.read(on=on)

    def _close(self, key: Hashable) -> None:
        connection = self._connections.pop(key, None)
        if connection is None:
            return
        connection.close()
        loop = asyncio.get_running_loop()
        handle = loop.call_later(_LINGER_SECONDS, connection.abort)
        self._closing.add(handle)

        def forget(_: object) -> None:
            handle.cancel()
            self._closing.discard(handle)

        connection.ended.add_done_callback(forget)


def _nobody(_line: str) -> None:
    """Is told."""


class _Connection(StreamSocket):
    """One peer's socket."""

    def __init__(self, host: TcpHost) -> None:
        super().__init__()
        self._host = host
        self._key = 0
        self.peer = ""
        """Its address."""
        limits = host.core.settings
        self._limit = RateLimit(limits.connection_bytes_per_s, limits.connection_events_per_s)
        self._wanted = True
        self._pause: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_MAX)
        name = transport.get_extra_info("peername")
        self.peer = name[0] if name else ""
        self._key = self._host.opened(self, self.peer)

    def data_received(self, data: bytes) -> None:
        self._host.received(self._key, data)

    def read(self, *, on: bool) -> None:
        """Reads on, or leaves to the peer what it sends."""
        self._wanted = on
        self._read_or_not()

    def spent(self, size: int, events: int) -> None:
        """So many bytes came, with so many events: who is too fast is not read for a while."""
        loop = asyncio.get_running_loop()
        wait_s = self._limit.wait_s(loop.time(), size, events)
        if wait_s > 0 and self._pause is None:
            self._pause = loop.call_later(wait_s, self._paused)
            self._read_or_not()

    def _paused(self) -> None:
        self._pause = None
        self._read_or_not()

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            on = self._wanted and self._pause is None
            (transport.resume_reading if on else transport.pause_reading)()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._pause is not None:
            self._pause.cancel()
        self._host.closed(self._key)
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        # It asks (its data are acked) and does not listen.
        self.abort()
