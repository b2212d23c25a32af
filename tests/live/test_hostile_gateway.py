"""A gateway that asks an agent for intervals without end, and does not read the answers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from tests.live.conftest import Field, Program, until
from tests.live.test_abstracting_agent import ABSTRACT, readings_of

pytestmark = pytest.mark.slow

ASKS = 60_000
ROOM_MB = 40
"""For what may be in flight (8 MiB), twice, and what reading a million wishes takes."""


class Gateway:
    """One connection at a time, read as long as ``read`` is called."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._accepted: list[socket.socket] = []
        self.said: list[m.Message] = []
        self.acks = [0, 0, 0]
        """Of controls, readings, intervals."""

    def accept(self) -> None:
        """The next connection, which begins with a whole message whatever the last broke off in."""
        self.connection, _ = self._server.accept()
        self.connection.settimeout(0.1)
        self._accepted.append(self.connection)
        self._decoder = wire.Decoder()

    def read(self) -> None:
        """Takes in what is there, and acks it."""
        try:
            data = self.connection.recv(1 << 20)
        except TimeoutError:
            return
        if not data:  # a slow machine: it was given up for want of acks, once more
            self.accept()
            return
        for message in self._decoder.feed(data):
            self.said.append(message)
            if isinstance(message, m.Hello):
                self.send(m.Welcome(0, (0, 0)))
            elif isinstance(message, m.Data):
                lane = 1 + message.stream
                self.acks[lane] = max(self.acks[lane], message.first_seq + message.rows)
            elif not isinstance(message, m.MissingIntervals):
                self.acks[0] += 1
        self.send(m.Ack(self.acks[0], tuple(self.acks[1:])))

    def send(self, *messages: m.Message) -> None:
        self.connection.settimeout(60)
        self.connection.sendall(b"".join(map(wire.encode, messages)))
        self.connection.settimeout(0.1)

    def close(self) -> None:
        for each in (*self._accepted, self._server):
            each.close()


@pytest.fixture
def gateway(field: Field) -> Iterator[Gateway]:
    with contextlib.closing(Gateway(field.port)) as made:
        yield made


def memory_mb(agent: Program) -> float:
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def agent_file(field: Field, outbox: str, ack_timeout: str, hello_timeout: str) -> str:
    name = field.agent_file("fridge", ABSTRACT, outbox)
    patience = "".join(
        f'{setting} = "{seconds}"\n'
        for setting, seconds in (
            ("ack_timeout", ack_timeout), ("ack_timeout_min", ack_timeout),
            ("hello_timeout", hello_timeout),
        )
    )  # fmt: skip
    field.change(name, "[delivery]\n", f"[delivery]\n{patience}")
    return name


def sockets(agent: Program) -> int:
    """So many the agent has open."""
    there = Path(f"/proc/{agent.process.pid}/fd").iterdir()
    return sum(str(each.readlink()).startswith("socket:") for each in there)


def kept_of(gateway: Gateway) -> list[tuple[int, int]]:
    """Intervals that came."""
    found = [each for each in gateway.said if isinstance(each, m.Data)]
    ids = [int.from_bytes(d.ids[:8], "little") for d in found if d.ids]
    return [(1, each) for each in ids]


def test_a_million_wishes_do_not_fill_an_agent(field: Field, gateway: Gateway) -> None:
    outbox = '[outbox]\nfolder = "box"\nsync_every = "1 ms"\n'
    agent = field.fed(agent_file(field, outbox, "10 min", "1 min"))
    gateway.accept()
    agent.feed(*readings_of([(n, 10 + 60 * (n % 2)) for n in range(2000)]))
    until(lambda: gateway.read() or gateway.acks[2] >= 1000, "intervals")
    (one, *_), before = kept_of(gateway), memory_mb(agent)
    wishes = [(1, n) for n in range(m.INTERVALS_MAX)]
    for low in range(0, ASKS, 1000):
        gateway.send(
            *[m.IntervalsRequest((one,))] * 1000, *[m.IntervalsRequest(tuple(wishes))] * 40
        )
        wishes = [(1, id_ + m.INTERVALS_MAX) for _, id_ in wishes]
        assert agent.process.poll() is None, low
    time.sleep(0.5)
    assert memory_mb(agent) < before + ROOM_MB
    # It goes on: what it says can be read, and new readings come.
    acked = gateway.acks[2]
    agent.feed(*readings_of([(3000 + n, 10 + 60 * (n % 2)) for n in range(100)]))
    until(lambda: gateway.read() or gateway.acks[2] > acked, "what is new")
    assert all(
        len(each.unknown) <= m.INTERVALS_MAX
        for each in gateway.said
        if isinstance(each, m.MissingIntervals)
    )
    agent.end()


def test_a_connection_that_nobody_reads_is_given_up_with_what_waits_on_it(
    field: Field, gateway: Gateway
) -> None:
    agent = field.fed(agent_file(field, "", "500 ms", "3 s"))
    gateway.accept()
    agent.feed(*readings_of([(n, 10 + 60 * (n % 2)) for n in range(2000)]))
    until(lambda: gateway.read() or gateway.acks[2] >= 1000, "intervals")
    (one, *_), before = kept_of(gateway), sockets(agent)
    for _ in range(10):
        gateway.send(*[m.IntervalsRequest((one,))] * 500)
    agent.feed(*readings_of([(3000, 10), (3001, 70)]))  # what is not acked
    gateway.accept()
    until(lambda: gateway.read() or sockets(agent) <= before, "one connection")
    agent.end()
