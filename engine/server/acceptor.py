"""Takes connections at an address, with no more descriptors than the process may have.

asyncio's own server reports a process that has none left with a traceback for each of its backlog,
and tries again as often. Here the listening sockets rest for a while, longer each time, and a
line a minute says so. Connections that begin TLS and go no further are bounded by address.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from engine.gateway.addresses import place_of

_BACKLOG: Final = 1024
_AT_ONCE: Final = 64
"""Taken before the loop does something else."""
_HANDSHAKE_S: Final = 10.0
HANDSHAKES_MAX: Final = 64
"""Of one address at a time; devices behind one router take turns."""
_REST_S: Final = (0.05, 1.0)
_MINUTE_S: Final = 60.0
_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

OnTransport = Callable[[asyncio.BaseTransport], None]


class Acceptor:
    """Of one port.

    Args:
        protocol: makes one for each connection.
        tls: what connections speak; None: plain TCP.
        tell: takes a line for people.
        opened: is given each connection, once it speaks.
    """

    def __init__(
        self, protocol: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None,
        tell: Callable[[str], None], opened: OnTransport | None = None,
    ) -> None:  # fmt: skip
        self._protocol = protocol
        self._tls = tls
        self._tell = tell
        self._opened = opened
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._beginning: Counter[str] = Counter()
        self._rest_s = _REST_S[0]
        self._resting: set[asyncio.TimerHandle] = set()
        self._told_at = -_MINUTE_S

    async def listen(self, host: str, port: int) -> int:
        """Connections are taken from now on; gives the port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        # asyncio's server knows how to bind; it serves nothing.
        bound = await loop.create_server(self._protocol, host, port, start_serving=False)
        self._sockets = [each.dup() for each in bound.sockets]
        bound.close()
        for each in self._sockets:
            each.listen(_BACKLOG)
            each.setblocking(False)
            loop.add_reader(each.fileno(), self._take, each)
        return int(self._sockets[0].getsockname()[1])

    @property
    def is_serving(self) -> bool:
        """Whether connections are taken."""
        return bool(self._sockets)

    def close(self) -> None:
        """Takes no more."""
        loop = asyncio.get_running_loop()
        for handle in self._resting:
            handle.cancel()
        for each in self._sockets:
            loop.remove_reader(each.fileno())
            each.close()
        self._sockets = []
        for task in self._tasks:
            task.cancel()

    def _take(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                taken, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NONE_LEFT:
                    raise
                self._rest(listening, error)
                return
            self._rest_s = _REST_S[0]
            taken.setblocking(False)
            place = place_of(str(address[0]) if address else "")
            if self._tls is not None and place and self._beginning[place] >= HANDSHAKES_MAX:
                taken.close()
                continue
            task = asyncio.create_task(self._begin(taken, place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, taken: socket.socket, place: str) -> None:
        self._beginning[place] += 1
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol, taken, ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_S,
            )  # fmt: skip
        except OSError:  # it left, or does not speak TLS: nothing of it has begun
            taken.close()
        else:
            if self._opened is not None:
                self._opened(transport)
        finally:
            self._beginning[place] -= 1
            if not self._beginning[place]:
                del self._beginning[place]

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._told_at >= _MINUTE_S:
            self._told_at = loop.time()
            self._tell(
                f"no connection can be taken for now: {error.strerror}; tried again each second. "
                "Raise the limit of open files (ulimit -n, LimitNOFILE)"
            )
        loop.remove_reader(listening.fileno())

        def again() -> None:
            self._resting.discard(handle)
            loop.add_reader(listening.fileno(), self._take, listening)

        handle = loop.call_later(self._rest_s, again)
        self._resting.add(handle)
        self._rest_s = min(2 * self._rest_s, _REST_S[1])
