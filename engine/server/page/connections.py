"""Connections of the page: whoever sends no whole request holds no place of others.

When all places are taken, a new connection gets that of one which waits for a request, or for the
rest of one, for longest. So containers that ask for ``/healthz`` come in whatever others hold.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from engine.gateway.addresses import place_of

HEADER_S: Final = 10.0
"""So long a first request may take to come; later ones, and answers, have longer."""
_IDLE_S: Final = 60.0


class PageConnections:
    """At most ``most`` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        """The oldest first."""
        self._answered: set[asyncio.BaseTransport] = set()

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """A connection more; it, or another one, is closed when there are too many."""
        self._forget_closed()
        if len(self._waiting) + len(self._answered) >= self._most:
            if not self._waiting:
                _abort(transport)
                return
            self._close(self._least_wanted())
        self._wait(transport, HEADER_S)

    def begins(self, transport: asyncio.BaseTransport | None) -> None:
        """A whole request has come, which is being answered."""
        if transport in self._waiting:
            self._waiting.pop(transport).cancel()
            self._answered.add(transport)

    def ends(self, transport: asyncio.BaseTransport | None) -> None:
        """It is answered, and another one may come."""
        if transport in self._answered:
            self._answered.discard(transport)
            self._wait(transport, _IDLE_S)

    def _least_wanted(self) -> asyncio.BaseTransport:
        """The oldest of the address that has most of those that wait."""
        places = {transport: _place(transport) for transport in self._waiting}
        most, _ = Counter(places.values()).most_common(1)[0]
        return next(transport for transport, place in places.items() if place == most)

    def _wait(self, transport: asyncio.BaseTransport, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[transport] = loop.call_later(seconds, self._close, transport)

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self._waiting.pop(transport).cancel()
        _abort(transport)

    def _forget_closed(self) -> None:
        for transport in [each for each in self._waiting if each.is_closing()]:
            self._close(transport)
        self._answered = {each for each in self._answered if not each.is_closing()}


def _abort(transport: asyncio.BaseTransport) -> None:
    assert isinstance(transport, asyncio.WriteTransport)
    transport.abort()


def _place(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return place_of(str(name[0]) if name else "")
