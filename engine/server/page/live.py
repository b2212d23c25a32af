"""The stream of one open page (server-sent events): its state each second, results as they come.

Nothing is kept for a reader but the number of the result it has read up to (``Last-Event-ID`` when
it comes back). What it sees is made when it is sent, so a slow reader gets less, not later; one
that takes nothing for ``SLOW_S`` is dropped.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from slackwater.engine.core.errors import UserError
from slackwater.engine.server.overview import Overview, ResultFeed
from slackwater.engine.server.page import view

STREAMS_MAX: Final = 32
STATE_EVERY_S: Final = 1.0
RESULTS_EVERY_S: Final = 0.25
SLOW_S: Final = 10.0
_LAST_S: Final = 1.0
"""So long readers may take for what is new when the server stops."""
_UNSENT_MAX: Final = 1 << 16
"""Bytes that a reader may leave unread here, and so many in the kernel, before its stream waits."""


class LiveStreams:
    """All streams that are open."""

    def __init__(self, overview: Overview, feed: ResultFeed, slow_s: float = SLOW_S) -> None:
        self.dropped = 0
        """How many readers were too slow."""
        self._overview = overview
        self._feed = feed
        self._slow_s = slow_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one reader until it leaves, is too slow, or the server stops.

        Raises:
            HTTPBadRequest: the query asks for what is not there.
            HTTPServiceUnavailable: there are ``STREAMS_MAX`` readers.
        """
        try:
            wish = view.wish_of(request.query)
            again = request.headers.get("Last-Event-ID")
            if again is not None:
                wish = replace(wish, after=view.wish_of({"after": again}).after)
        except UserError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= STREAMS_MAX:
            raise web.HTTPServiceUnavailable(
                text=f"{STREAMS_MAX} pages are open\n", headers={"Retry-After": "10"}
            )
        self._tasks.add(task)
        try:
            return await self._stream(request, wish)
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """Ends all streams; readers that take them get the last results."""
        self._ending.set()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stream(self, request: web.Request, wish: view.Wish) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        transport = request.transport
        if transport is not None:
            transport.set_write_buffer_limits(high=_UNSENT_MAX)
            own = transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_MAX)
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        read, due = wish.after, loop.time()
        try:
            while True:
                ending = self._ending.is_set()
                if ending or loop.time() >= due:
                    due = loop.time() + STATE_EVERY_S
                    answer = view.state(self._overview, self._feed, wish)
                    await self._send(response, "state", answer, None)
                if self._feed.end != read:
                    new = view.results(self._feed, read)
                    read = new["end"]
                    await self._send(response, "results", new, read)
                if ending:
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), RESULTS_EVERY_S)
        except TimeoutError:
            self.dropped += 1
            if transport is not None:
                transport.abort()
        except ConnectionError:
            return response  # it left
        return response

    async def _send(
        self, response: web.StreamResponse, event: str, data: dict[str, Any], number: int | None
    ) -> None:
        """Raises TimeoutError: the reader takes nothing; ConnectionError: it has left."""
        head = f"event: {event}\n" + (f"id: {number}\n" if number is not None else "")
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        async with asyncio.timeout(self._slow_s):
            await response.write(f"{head}data: {text}\n\n".encode())
