"""Floods of connections on real sockets: descriptors (attack-05), and hellos that come slowly."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.server import tcp_host as descriptors
from slackwater.engine.server.tcp_host import HANDSHAKES_MAX, Acceptor, TcpHost
from tests.gateway.conftest import a_hello
from tests.live.conftest import Field
from tests.live.test_peers_apart import Peer, with_gateway

FLOOD = """
import socket, sys, time
held = []
for _ in range(int(sys.argv[2])):
    try:
        held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1))
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
"""


class Hello(asyncio.Protocol):
    """Says one byte to all who come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"!")


@contextlib.contextmanager
def files_at_most(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def greeted(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await asyncio.wait_for(reader.read(1), 5) == b"!"
    finally:
        writer.close()


def test_attack_05_a_process_without_descriptors_rests_and_says_so_once_a_minute() -> None:
    """It was a traceback for each of the backlog, a thousand each second."""
    said: list[str] = []
    caught: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))
        taking = Acceptor(Hello, None, said.append)
        port = await taking.listen("127.0.0.1", 0)
        assert await greeted(port)
        words = [sys.executable, "-c", FLOOD, str(port), "60"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        flood = await asyncio.create_subprocess_exec(*words, **pipes)
        assert flood.stdin is not None
        assert flood.stdout is not None
        with files_at_most(len([*Path("/proc/self/fd").iterdir()]) + 10):
            await flood.stdout.readline()
            begun = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - begun < 0.2
        flood.stdin.close()
        await flood.wait()
        assert await greeted(port)
        taking.close()

    asyncio.run(run())
    assert caught == []
    assert len(said) == 1
    assert "no connection can be taken for now: Too many open files" in said[0]


def test_attack_05_an_address_that_begins_tls_and_goes_no_further_is_bounded() -> None:
    """It had no connection yet that anybody would count, and held descriptors for ten seconds."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        other = own_address()
        taking = Acceptor(Hello, ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), str)
        port = await taking.listen("0.0.0.0", 0)
        idle = [await asyncio.open_connection(other, port) for _ in range(HANDSHAKES_MAX)]
        await asyncio.sleep(0.1)
        assert not any(reader.at_eof() for reader, _ in idle)
        begun = loop.time()
        more = await asyncio.open_connection(other, port)
        assert await asyncio.wait_for(more[0].read(), 5) == b""
        local = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.1)
        assert not local[0].at_eof()
        assert loop.time() - begun < 5
        for _, writer in (*idle, more, local):
            writer.close()
        taking.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "files", "most"),
    [
        (1024, 20_000, 4096, 4416, 4096),
        (1024, 1024, 4096, 1024, 704),
        (48, 48, 4096, 48, 24),
        (9000, 20_000, 4096, 9000, 8680),
        (1024, -1, 4096, 4416, 4096),
        (-1, -1, 4096, 4416, 4096),
    ],
)
def test_attack_05_the_soft_limit_is_raised_and_connections_fit_it(
    soft: int, hard: int, wanted: int, files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``-1``: no limit."""
    limits = (soft, hard)

    def set_limit(_which: int, to: tuple[int, int]) -> None:
        nonlocal limits
        assert to[1] == hard
        limits = to

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert descriptors.open_files(wanted) == files
    assert descriptors.connections_within(files) == most
    assert limits[0] in (files, -1)


@pytest.mark.slow
def test_attack_05_one_address_cannot_lock_others_out_of_a_small_process(field: Field) -> None:
    """Of 1,024 descriptors; the flood is of another address of this machine's network."""
    tokens = '[tokens]\n"main/door" = "right"\n'
    field.site(f'listen = "0.0.0.0"\n{tokens}[limits]\nframe_every = "10 ms"\n')
    gateway = field.serve(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    gateway.says("warning: [gateway] takes tokens without TLS at 0.0.0.0: give [tls] a")
    gateway.says("connections_max is 128 instead of 4096")
    other = own_address()
    flood = subprocess.Popen(
        [sys.executable, "-c", FLOOD.replace("127.0.0.1", other), str(field.port), "300"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert flood.stdout is not None
    flood.stdout.readline()
    begun = time.monotonic()
    field.run_through("door", range(50), token="right")
    assert time.monotonic() - begun < 8
    flood.communicate()
    assert gateway.end() == 0
    assert len(gateway.text) < 5_000
    assert field.values("door") == list(range(50))


def own_address() -> str:
    """An address of this machine that is no loopback one."""
    with socket.socket(type=socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
        asked.connect(("198.51.100.1", 9))
        return str(asked.getsockname()[0])
    pytest.skip("no network but the loopback")


@pytest.mark.slow
def test_hellos_that_come_slowly_hold_no_place_and_delay_nobody(tmp_path: Path) -> None:
    """A byte each 50 ms, half a message, or nothing: each is cut off when its time is over."""
    hello = wire.encode(a_hello("slow"))

    async def drip(port: int, pause_s: float, size: int) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begun = time.monotonic()
        answer = b""
        with contextlib.suppress(ConnectionError):  # who writes on when it is closed
            for at in range(size):
                writer.write(hello[at : at + 1])
                await writer.drain()
                await asyncio.sleep(pause_s)
            answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        if size < len(hello) and not pause_s:
            (reported,) = wire.Decoder().feed(answer)
            assert isinstance(reported, m.ErrorMessage)
            assert reported.reason == "hello_timeout"
        return time.monotonic() - begun

    async def act(host: TcpHost, port: int) -> list[float]:
        slow = [
            asyncio.create_task(drip(port, pause_s, size))
            for pause_s, size in ((0.05, 30), (0.0, len(hello) - 1), (0.0, 0)) for _ in range(40)
        ]  # fmt: skip
        await asyncio.sleep(0.2)
        quiet = await Peer.join(port, "quiet")
        waits = [await quiet.acked(5 * n) for n in range(4)]
        assert max(waits) < 1
        took = await asyncio.gather(*slow)
        assert max(took) < 5
        assert host.core.counts["", "", "hello_timeout"] == len(slow)
        quiet.writer.close()
        return waits

    (waits, said) = with_gateway(tmp_path, act, hello_timeout_ns=10**9)
    assert len(waits) == 4
    assert len(said) == 1


@pytest.mark.slow
def test_half_a_message_after_the_hello_is_cut_off_too(tmp_path: Path) -> None:
    async def act(host: TcpHost, port: int) -> None:
        slow = await Peer.join(port, "slow")
        slow.writer.write(b"\0\0\1\0")
        reported = await slow.answer()
        assert isinstance(reported, m.ErrorMessage)
        assert reported.reason == "message_timeout"
        slow.writer.close()
        assert not host.core.counts["", "", "hello_timeout"]

    with_gateway(tmp_path, act, message_timeout_ns=5 * 10**8)
