"""A gateway without sockets, and its page on a port of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings
from slackwater.engine.server.overview import Overview, ResultFeed
from slackwater.engine.server.page.web_server import PageServer
from slackwater.engine.server.site_file import PageSettings
from slackwater.engine.server.source_figures import SourceFigures
from tests.gateway.conftest import SYNC, a_data, a_hello
from tests.inputs.conftest import pytest_pyfunc_call  # noqa: F401

S = 10**9
EPOCH = 1_700_000_000 * S


class Site:
    """A gateway whose log is nowhere, with figures, feed and page."""

    def __init__(self, **settings: Any) -> None:
        self.frames: list[Frame] = []
        self.fails = False
        self.now = EPOCH
        options = {"tick_every_ns": 0, "frame_every_ns": 1, **settings}
        made = GatewaySettings(**options)
        self.figures = SourceFigures(self, made.sources_max)
        self.core = GatewayCore(made, self.figures)
        self.overview = Overview(self.core, self.figures)
        self.feed = ResultFeed()

    def append(self, frame: Frame) -> None:
        if self.fails:
            raise OSError("disk full")
        self.frames.append(frame)

    def flush(self) -> None:
        pass

    def say(self, connection: str, *messages: m.Message) -> None:
        """Messages of a connection that may be new, and half a second later their frames."""
        if isinstance(messages[0], m.Hello):
            self.core.connected(connection, self.now, "127.0.0.1")
        self.core.received(connection, b"".join(map(wire.encode, messages)), self.now)
        self.later(S // 2)

    def later(self, ns: int) -> None:
        self.now += ns
        self.core.wake(self.now)
        self.core.outputs()

    def source(
        self, name: str, site: str = "main", events: int = 3, offset: int = 1000, **hello: Any
    ) -> None:
        """A source joins, synchronises and sends events that happen now."""
        sync = replace(SYNC, offset=offset, measured_at=self.now)
        messages: list[m.Message] = [replace(a_hello(name, **hello), site=site), sync]
        if events:
            messages.append(a_data(0, events, self.now - offset))
        self.say(f"{site}/{name}", *messages)

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[TestClient[Any, Any]]:
        """Asks the page; ``self.page`` is the server."""
        self.page = PageServer(PageSettings(**settings), self.overview, self.feed)
        async with TestClient(TestServer(self.page.application())) as client:
            yield client
            await self.page.streams.close()


def a_result(number: int, op: str = "+", **changes: Any) -> bytes:
    """A line of a match of two events."""
    events = [
        {
            "site": "main", "stream": "events", "source": "d", "seq": number + more, "type": kind,
            "ts": EPOCH, "te": EPOCH, "ref": EPOCH, "attrs": {"tag": "A1"},
        }
        for more, kind in enumerate(("SHELF", "EXIT"))
    ]  # fmt: skip
    result = {
        "op": op, "query": "q1", "site": "main", "at": EPOCH, "known_at": EPOCH,
        "certainty": "confirmed", "probability": 1.0, "events": events, **changes,
    }  # fmt: skip
    return json.dumps(result).encode() + b"\n"


async def events_of(answer: ClientResponse, count: int, kind: str) -> list[dict[str, Any]]:
    """The next ``count`` events of a stream that are of that kind; ``id`` among their data."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            lines = (await answer.content.readuntil(b"\n\n")).decode().splitlines()
            fields = dict(line.split(": ", 1) for line in lines if line)
            if fields["event"] == kind:
                found.append({"id": fields.get("id"), **json.loads(fields["data"])})
    return found


@pytest.fixture(name="site")
def _site() -> Site:
    return Site()
