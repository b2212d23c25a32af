"""One TCP connection, as those who drive a session or a gateway's core write to it."""

from __future__ import annotations

import asyncio


class StreamSocket(asyncio.Protocol):
    """What both ends do alike; before there is a connection, and after it, nothing happens."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        """Writes ``data`` after all before it."""
        if self._transport is not None:
            self._transport.write(data)

    @property
    def waiting_bytes(self) -> int:
        """Of what was sent, so much is not written yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Closes it when everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes it now."""
        if self._transport is not None:
            self._transport.abort()
