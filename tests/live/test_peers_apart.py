"""One peer does not stop the others: floods, slow loris, strangers; and what the gateway says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings, Recalled
from slackwater.engine.gateway.outputs import CloseConnection
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.server.log_keeper import LogThread
from slackwater.engine.server.tcp_host import (
    LINES_MAX,
    WAIT_MAX_S,
    RateLimit,
    RefusalLines,
    TcpHost,
)
from tests.gateway.conftest import Log, a_data, a_hello

MS = 10**6


def with_gateway(
    folder: Path, act: Callable[[TcpHost, int], Awaitable[Any]], **options: Any
) -> tuple[Any, list[str]]:
    """What ``act`` gives, of a gateway on a real socket, and what the gateway said."""
    said: list[str] = []

    async def run() -> Any:
        log = LogThread(LogWriter(folder), retry_ns=10**8, tell=print)
        core = GatewayCore(GatewaySettings(frame_every_ns=20 * MS, **options), log)
        host = TcpHost(core, refusals=RefusalLines(said.append))
        over = log.start(lambda flushes, _: host.flushed(flushes), host.flush_failed)
        port = await host.listen("127.0.0.1", 0)
        try:
            return await act(host, port)
        finally:

            async def written() -> None:
                log.close()
                await over

            await host.stop(written)

    return asyncio.run(run()), said


class Peer:
    """An agent's socket; reads answers as they come."""

    @classmethod
    async def join(cls, port: int, name: str, **hello: Any) -> Peer:
        made = cls()
        made.reader, made.writer = await asyncio.open_connection("127.0.0.1", port)
        made.decoder = wire.Decoder()
        made.writer.write(wire.encode(a_hello(name, **hello)))
        made.first = await made.answer()
        return made

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    decoder: wire.Decoder
    first: m.Message

    async def answer(self) -> m.Message:
        """The next; the last of those that came together."""
        while True:
            data = await asyncio.wait_for(self.reader.read(1 << 16), 20)
            assert data
            if said := list(self.decoder.feed(data)):
                return said[-1]

    async def acked(self, first: int) -> float:
        """Sends five events; gives the seconds until they are acked."""
        begun = time.monotonic()
        self.writer.write(wire.encode(a_data(first, 5)))
        while True:
            said = await self.answer()
            if isinstance(said, m.Ack) and said.next_seqs[0] >= first + 5:
                return time.monotonic() - begun


async def flood(port: int, seconds: float) -> int:
    """Sends what is valid as fast as it is taken; gives how many events were."""
    peer = await Peer.join(port, "flood")
    messages = b"".join(wire.encode(a_data(1000 * n, 1000)) for n in range(50))
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        peer.writer.write(messages)  # what came before is a duplicate, which costs as much
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(peer.writer.drain(), 0.2)
            rounds += 1
    peer.writer.transport.abort()
    return rounds * 50_000


@pytest.mark.slow
@pytest.mark.parametrize("most", [20_000, 10**9])
def test_a_flood_does_not_stop_the_acks_of_others(tmp_path: Path, most: int) -> None:
    async def act(host: TcpHost, port: int) -> tuple[list[float], int]:
        quiet = await Peer.join(port, "quiet")
        flooding = asyncio.create_task(flood(port, 1.5))
        waits = [await quiet.acked(5 * n) for n in range(8)]
        await flooding
        quiet.writer.close()
        return waits, host.core.counts["main", "flood", "received"]

    (waits, came), said = with_gateway(tmp_path, act, connection_events_per_s=most)
    assert max(waits) < 3.0
    if most < 10**6:
        # A second's worth at once, one read more (of 256 KB, 16 bytes an event), and the rest.
        assert came < 3 * most + 2 * 16_384 + 1000
    assert said == []


def test_refused_tokens_and_strangers_are_reported_once(tmp_path: Path) -> None:
    async def act(_: TcpHost, port: int) -> None:
        for name, token in (("d", "wrong"), ("d", "wrong"), ("who", "right")):
            peer = await Peer.join(port, name, token=token)
            assert isinstance(peer.first, m.ErrorMessage)
            peer.writer.close()
        again = await Peer.join(port, "d", token="right")
        assert isinstance(again.first, m.Welcome)
        again.writer.write(b"\0\0\0\1\xc0")
        assert isinstance(await again.answer(), m.ErrorMessage)
        again.writer.close()

    _, said = with_gateway(tmp_path, act, tokens={("main", "d"): "right"})
    assert said == [
        "refused main/d from 127.0.0.1: token: no such source, or not its token",
        "refused main/d from 127.0.0.1: kind: not an array that begins with the kind of message",
    ]


@pytest.mark.parametrize(
    "name",
    ["main\n\x1b[31mEVIL\x1b]0;pwn\x07", "a\r\nlistening at 0.0.0.0: TCP 1", "\u202e", "d\x9b2J"],
)
def test_what_a_peer_says_of_itself_is_one_line_and_nothing_that_a_terminal_does(
    name: str, tmp_path: Path
) -> None:
    """Names and details of what is refused."""

    async def act(_: TcpHost, port: int) -> None:
        peer = await Peer.join(port, name, token="wrong")
        peer.writer.close()

    _, said = with_gateway(tmp_path, act, tokens={("main", "d"): "right"})
    lines = RefusalLines(said.append)
    lines.closed(
        "10.0.0.1", CloseConnection(1, "attr_type", f"attribute {name} is of another type", "m/d")
    )
    lines.closed("10.0.0.1", CloseConnection(2, "type", 10_000 * name, 300 * name))
    assert len(said) == 3
    for line in said:
        assert line.isprintable()
        assert len(line) < 4000


def test_lines_about_refusals_are_few_and_the_rest_is_counted() -> None:
    said: list[str] = []
    now = [0.0]
    lines = RefusalLines(said.append, lambda: now[0])
    for number in range(50):
        lines.closed(f"10.0.0.{number}", CloseConnection(number, "token", "no such source"))
        lines.closed(
            f"10.0.0.{number}", CloseConnection(number, "replaced", "too many connections")
        )
    assert len(said) == LINES_MAX
    now[0] = 61.0
    lines.closed("10.0.0.1", CloseConnection(99, "token", "no such source", "main/d"))
    assert said[LINES_MAX:] == [
        "refused: 40 more, since the lines above",
        "refused main/d from 10.0.0.1: token: no such source",
    ]


def test_a_second_s_worth_may_come_at_once_and_debts_are_paid() -> None:
    limit = RateLimit(1000, 100)
    assert limit.wait_s(0.0, 1000, 10) == 0.0
    assert limit.wait_s(0.0, 500, 0) == 0.5
    assert limit.wait_s(0.5, 0, 0) == 0.0
    assert limit.wait_s(2.0, 10, 150) == 0.5
    assert limit.wait_s(2.0, 0, 10_000) == WAIT_MAX_S
    assert limit.wait_s(1000.0, 1, 1) == 0.0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_set_back_is_reported_once_in_a_life(restarted: bool) -> None:
    hour, begun = 3600 * 10**9, 1_767_225_600 * 10**9
    now, said, recalled = [begun], list[str](), Recalled()
    if restarted:
        recalled.last_arrival = begun + hour

    async def run() -> None:
        core = GatewayCore(GatewaySettings(listen="127.0.0.1"), Log(), recalled=recalled)
        host = TcpHost(core, lambda: now[0], RefusalLines(said.append))
        await host.listen("127.0.0.1", 0)
        assert len(said) == restarted
        for step in (100 * MS, -900 * MS, 1000 * MS):  # these are waited for
            now[0] += step
            host._wake()
        assert len(said) == restarted
        now[0] -= 0 if restarted else hour
        for _ in range(3):
            host._wake()
        await host.stop()

    asyncio.run(run())
    (line,) = said
    assert "was set back: arrivals, and with them the times of answers, run 3,600.0 s ahead" in line


def test_a_clock_that_leaps_forward_is_reported_and_one_that_is_slewed_is_not() -> None:
    now, said = [1_767_225_600 * 10**9], list[str]()

    async def run() -> None:
        core = GatewayCore(GatewaySettings(listen="127.0.0.1"), Log())
        host = TcpHost(core, lambda: now[0], RefusalLines(said.append))
        await host.listen("127.0.0.1", 0)
        for step in (900 * MS, 900 * MS, 0, 3600 * 1000 * MS, 0, -500 * MS, 900 * MS):
            now[0] += step
            host._wake()
        await host.stop()

    asyncio.run(run())
    (line,) = said
    assert "leapt forward by 3,600.0 s, and arrivals with it" in line
