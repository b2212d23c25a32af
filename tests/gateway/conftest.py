"""A gateway on a bench, and messages of a device with one stream of one attribute."""

from __future__ import annotations

import struct
from typing import Any

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings, Recalled, Send

SCHEMA = m.StreamSchema("events", {"v": "int"})


def a_hello(source: str = "d", incarnation: int = 1, acked: int = 0, **changes: Any) -> m.Hello:
    streams = (m.HelloStream(SCHEMA, 0, acked),)
    made = {"token": "", "resend": True, "control_acked": 0, "streams": streams}
    made |= {"capabilities": (m.NUMBERS,), **changes}
    return m.Hello("main", source, incarnation=incarnation, **made)


def a_data(first: int, rows: int, ts: int = 100) -> m.Data:
    stamps = struct.pack(f"<{rows}q", *range(ts + first, ts + first + rows))
    return m.Data(0, first, rows, stamps, None, None, None, (m.Values(stamps, None),))


SYNC = m.Sync(0, 1000, 10, 50, 3, 50_000)


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
    """A gateway with given settings and a log, in memory if none is given."""

    def __init__(self, log: Any = None, recalled: Recalled | None = None, **options: Any) -> None:
        self.log = Log() if log is None else log
        settings_ = GatewaySettings(**{"tick_every_ns": 0, **options})
        self.core = GatewayCore(settings_, self.log, recalled=recalled)

    def say(self, connection: str, *messages: m.Message, now: int = 0) -> list[m.Message]:
        """The gateway's answers to ``messages`` on ``connection``; closing is reported as None."""
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
