"""A gateway core on TCP sockets: asyncio hands in bytes and time, and carries out what it asks for.

The engine's clock is this machine's. Everything runs in one thread; what the core does with a chunk
of bytes is done before the next one is read.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

from edge_agent.drivers.alarm import Alarm
from edge_agent.drivers.stream_socket import StreamSocket
from engine.gateway.core import Close, GatewayCore

WRITE_MAX: Final = 1 << 20
"""A peer that leaves so many bytes of answers unread is cut off."""
_LINGER_SECONDS: Final = 5.0
"""So long a closed connection may take to send what was written to it."""
_HANDSHAKE_SECONDS: Final = 10.0
_BACKLOG: Final = 1024
_SLEEP_MAX_SECONDS: Final = 1.0
"""So soon it is seen that this machine's clock was set."""


class TcpHost:
    """Drives a gateway core. ``now_ns``: the engine's clock."""

    def __init__(self, core: GatewayCore, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.core = core
        self._now_ns = now_ns
        self._server: asyncio.Server | None = None
        self._connections: dict[Hashable, _Connection] = {}
        self._keys = count(1)
        self._alarm = Alarm(self._wake)
        self._closing: set[asyncio.TimerHandle] = set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Connections are taken from now on; gives the port.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self),
            host,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=None if tls is None else _HANDSHAKE_SECONDS,
        )
        self._wake()
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Takes no more, makes everything durable, says so, and closes.

        Raises:
            OSError: the log could not be written; what was not acked is with the agents.
        """
        if self._server is not None:
            self._server.close()
        try:
            self.core.finish(self._now_ns())
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

    # --- what connections call

    def opened(self, connection: _Connection, host: str) -> int:
        """A peer at ``host`` connected; gives the key of its connection."""
        key = next(self._keys)
        self._connections[key] = connection
        self.core.connected(key, self._now_ns(), host)
        self._carry_out()
        return key

    def received(self, key: int, data: bytes) -> None:
        """Bytes came."""
        if key in self._connections:
            self.core.received(key, data, self._now_ns())
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
                self._close(output.connection)
            else:
                connection = self._connections.get(output.connection)
                if connection is not None:
                    connection.send(output.data)
        due, now_ns = self.core.next_wake(), self._now_ns()
        seconds = _SLEEP_MAX_SECONDS
        if due is not None:
            seconds = min(max((due - now_ns) / 1e9, 0.0), _SLEEP_MAX_SECONDS)
        self._alarm.within(seconds)

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


class _Connection(StreamSocket):
    """One peer's socket."""

    def __init__(self, host: TcpHost) -> None:
        super().__init__()
        self._host = host
        self._key = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=WRITE_MAX)
        name = transport.get_extra_info("peername")
        self._key = self._host.opened(self, name[0] if name else "")

    def data_received(self, data: bytes) -> None:
        self._host.received(self._key, data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._host.closed(self._key)
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        # It asks (its data are acked) and does not listen.
        self.abort()
