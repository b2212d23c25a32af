"""Datagrams as they come, kept in bounded memory until somebody takes them."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from typing import Final

WAITING_MAX: Final = 4 << 20
"""Bytes of datagrams that wait; beyond, new ones are dropped and counted."""
RECEIVE_BUFFER: Final = 1 << 20
"""What the kernel is asked to keep while the agent is busy [bytes]; it may grant less."""


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
