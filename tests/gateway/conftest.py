"""A gateway on a bench, and worlds of a device, a gateway and the network between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edge_agent import messages as m
from edge_agent import wire
from engine.gateway.core import GatewayCore, GatewaySettings, Send
from engine.stream.frame import Frame
from tests.gateway.world import Network, World


class Log:
    """A sink in memory."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.fails = False

    def append(self, frame: Frame) -> None:
        if self.fails:
            raise OSError("disk full")
        self.frames.append(frame)

    def flush(self) -> None:
        pass

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        found = []
        for frame in self.frames:
            found += [tuple(row.get(name) for name in names) for row in frame.batch.to_pylist()]
        return found


class Bench:
    def __init__(self, **options: Any) -> None:
        self.log = Log()
        recalled = options.pop("recalled", None)
        settings_ = GatewaySettings(**{"tick_every_ns": 0, **options})
        self.core = GatewayCore(settings_, self.log, recalled=recalled)

    def say(self, connection: str, *messages: m.Message, now: int = 0) -> list[m.Message]:
        """The gateway's answers to ``messages`` on ``connection``; closing is told as None."""
        self.core.received(connection, b"".join(map(wire.encode, messages)), now)
        return self.answers()

    def answers(self) -> list[Any]:
        said: list[Any] = []
        for output in self.core.outputs():
            if isinstance(output, Send):
                said += wire.Decoder().feed(output.data)
            else:
                said.append(f"close {output.connection}: {output.reason}")
        return said

    def join(self, connection: str, hello: m.Hello, now: int = 0) -> list[Any]:
        self.core.connected(connection, now, "127.0.0.1")
        return self.say(connection, hello, now=now)


@pytest.fixture(scope="session")
def bench_of() -> type[Bench]:
    """Makes a gateway with given settings and a log in memory."""
    return Bench


@pytest.fixture(scope="session")
def world_of() -> Callable[..., World]:
    """``world_of(seed, network, **session settings)``; ``network``: fields of Network."""

    def make(seed: int, network: dict[str, Any], **options: Any) -> World:
        return World(seed, Network(**network), **options)

    return make
