"""Sockets to standard NTP servers, which are asked where the gateway does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple


class TimeServer(NamedTuple):
    """Where an NTP server is."""

    host: str
    port: int


class TimeServers:
    """``ask`` opens what it needs, so a name is looked up anew when it is needed again."""

    def __init__(
        self, servers: Sequence[TimeServer], answered: Callable[[bytes], None],
        failed: Callable[[str, OSError], None],
    ) -> None:  # fmt: skip
        """``failed``: told the server's name and why it cannot be asked."""
        self._servers = servers
        self._answered = answered
        self._failed = failed
        self._number = -1
        self._transport: asyncio.DatagramTransport | None = None
        self._opening: asyncio.Task[None] | None = None

    def ask(self, number: int, question: bytes) -> None:
        """Sends a question to a server; while its name is looked up, later than it should be."""
        if number != self._number:
            self.close()
            self._number = number
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(question)
        elif self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._open(number, question))

    def close(self) -> None:
        """No server is asked; harmless when none was."""
        self._number = -1
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def _open(self, number: int, question: bytes) -> None:
        server = self._servers[number]
        try:
            made, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Answers(self._answered), remote_addr=server
            )
        except OSError as error:
            self._failed(server.host, error)
            return
        self._transport = made
        made.sendto(question)


class _Answers(asyncio.DatagramProtocol):
    def __init__(self, answered: Callable[[bytes], None]) -> None:
        self._answered = answered

    def datagram_received(self, data: bytes, addr: object) -> None:
        del addr  # the socket is connected
        self._answered(data)
