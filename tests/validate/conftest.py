"""A gateway on loopback whose clock and way are known."""

from __future__ import annotations

import heapq
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.edge_agent.ntp import ServerClock

MS = 10**6


class Answerer(threading.Thread):
    """Answers NTP questions: ``offset_ns`` ahead, ``up_ns`` and ``down_ns`` on the way.

    Every ``drop``-th question is lost; 0: none.
    """

    def __init__(
        self, offset_ns: int = 0, up_ns: int = 0, down_ns: int = 0, drop: int = 0,
        clock: ServerClock | None = None, skew_ppb: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.offset_ns, self.up_ns, self.down_ns, self.drop = offset_ns, up_ns, down_ns, drop
        self.skew_ppb = skew_ppb
        self.clock = clock or ServerClock(root_dispersion_ns=0)
        self.asked = 0
        self._begun = time.monotonic_ns()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.tcp_port = self._listener.getsockname()[1]
        self._over = threading.Event()

    def _reads(self) -> int:
        gained = (time.monotonic_ns() - self._begun) * self.skew_ppb // 10**9
        return time.time_ns() + self.offset_ns + gained

    def run(self) -> None:
        waiting: list[tuple[int, int, Callable[[], None]]] = []
        number = 0
        while not self._over.is_set():
            now = time.monotonic_ns()
            while waiting and waiting[0][0] <= now:
                heapq.heappop(waiting)[2]()
            wait = (waiting[0][0] - now) / 1e9 if waiting else 0.02
            self._socket.settimeout(max(wait, 1e-5))
            try:
                data, peer = self._socket.recvfrom(256)
            except TimeoutError:
                continue
            except OSError:
                return
            self.asked += 1
            if self.drop and self.asked % self.drop == 0:
                continue
            number += 1
            came = time.monotonic_ns()

            def arrive(data: bytes = data, peer: object = peer, number: int = number) -> None:
                received = self._reads()
                answer = self.clock.answer(data, received, self._reads())
                due = time.monotonic_ns() + self.down_ns
                send = lambda: self._socket.sendto(answer, peer)  # noqa: E731
                heapq.heappush(waiting, (due, -number, send))

            heapq.heappush(waiting, (came + self.up_ns, number, arrive))

    def stop(self) -> None:
        self._over.set()
        self.join(5)
        self._socket.close()
        self._listener.close()


@contextmanager
def answering(**settings: object) -> Iterator[Answerer]:
    made = Answerer(**settings)  # type: ignore[arg-type]
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def agent_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes an agent's settings for a gateway."""

    def write(gateway: Answerer, more: str = "") -> Path:
        file = tmp_path / "agent.toml"
        file.write_text(
            f"""
[agent]
source = "door"
status = "status.json"
[gateway]
port = {gateway.tcp_port}
ntp_port = {gateway.port}
[[stream]]
name = "events"
[stream.attrs]
tag = "int"
{more}
[[input]]
kind = "stdin"
"""
        )
        return file

    return write
