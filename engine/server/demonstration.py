"""Demonstration: a gateway, three agents with wrong clocks, queries and the page, until Ctrl-C.

The agents are real ones, in separate processes; ``[clock]`` in their settings makes their clocks
wrong. One keeps its events for a while, so that some answers are premature and are retracted. Their
input is ``python -m slackwater.engine.server.demonstration PLACE START``. All files are removed.
"""

from __future__ import annotations

import ctypes
import heapq
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from slackwater.engine.core.errors import UserError, need

_SITE: Final = "shop"
_END_S: Final = 5.0
_TRIES: Final = 100
_PR_SET_PDEATHSIG: Final = 1
THEFTS: Final = (
    "EVENT SEQ(SHELF s, !CHECKOUT c, EXIT e) WHERE s.tag = e.tag AND c.tag = s.tag WITHIN 1 min"
)
READS: Final = "SELECT count(*) FROM events GROUP BY type WINDOW TUMBLING 20 s"


class DemoReader(NamedTuple):
    """A device: its place, and the errors of its clock and its link."""

    place: str
    ahead_ms: int
    fast_ppm: int
    keeps: str


# Within the 50 ppm that agents declare for their clocks: beyond that, bounds do not hold, and no
# count is certain.
READERS: Final = (
    DemoReader("shelf", 2_500, 40, "20 ms"),
    DemoReader("checkout", -1_200, -25, "1500 ms"),
    DemoReader("exit", 340, 45, "20 ms"),
)


def demonstrate(tell: Callable[[str], None]) -> None:
    """Run until a signal stops it.

    Raises:
        SlackwaterError: a package of the page or of the engine is missing.
        UserError: no port is free.
    """
    need("page")
    # Readers need neither of these imports, and each is a separate process.
    from slackwater.engine.server.serving import serve  # noqa: PLC0415
    from slackwater.engine.server.site_file import PAGE_PORT, read_site  # noqa: PLC0415

    with TemporaryDirectory(prefix="slackwater-demo-") as name, ExitStack() as stack:
        folder = Path(name)
        port, page_port = _free_ports(PAGE_PORT)
        site = folder / "site.toml"
        site.write_text(_site(port, page_port), encoding="utf-8")
        settings = read_site(site)
        start = time.time() + 3.0
        for reader in READERS:
            stack.callback(_end, _agent(folder, reader, port, start))
        serve(settings, lambda line: _tell(line, tell))
    tell("the demonstration has ended; nothing of it is left")


def _tell(line: str, tell: Callable[[str], None]) -> None:
    """Print the lines that a spectator needs."""
    if line.startswith("page at "):
        tell("three readers of a shop, whose clocks are wrong; Ctrl-C ends all")
        tell(line)  # ends with the address, which terminals turn into a link
    elif "answers" in line:
        tell(line)


def _site(port: int, page_port: int) -> str:
    return f"""
[gateway]
log = "site.log"
port = {port}
[page]
port = {page_port}
[engine]
kind = "embedded"
order = "none"
[[query]]
name = "thefts"
text = {json.dumps(THEFTS)}
[[query]]
name = "reads"
text = {json.dumps(READS)}
"""


def _agent_file(reader: DemoReader, port: int, start: float) -> str:
    command = [
        sys.executable,
        "-m",
        "slackwater.engine.server.demonstration",
        reader.place,
        f"{start:.3f}",
    ]
    return f"""
[agent]
site = "{_SITE}"
source = "{reader.place}"
stop_timeout = "1 s"
[gateway]
port = {port}
[clock]
ahead_ms = {reader.ahead_ms}
fast_ppm = {reader.fast_ppm}
[sync]
resync = "5 s"
[outbox]
folder = "{reader.place}"
sync_every = "{reader.keeps}"
[[stream]]
name = "events"
attrs = {{ tag = "str" }}
[[input]]
kind = "exec"
command = {json.dumps(command)}
"""


def _agent(folder: Path, reader: DemoReader, port: int, start: float) -> subprocess.Popen[bytes]:
    """Start the agent of ``reader``; its output goes to a file in ``folder``."""
    settings = folder / f"{reader.place}.toml"
    settings.write_text(_agent_file(reader, port, start), encoding="utf-8")
    with (folder / f"{reader.place}.txt").open("wb") as said:
        return subprocess.Popen(  # noqa: S603 - this program, with a file of ours
            [sys.executable, "-m", "slackwater.edge_agent", "--config", str(settings)],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            preexec_fn=_ends_with_us(),  # noqa: PLW1509 - no thread of ours runs yet
        )  # fmt: skip


def _ends_with_us() -> Callable[[], None] | None:
    """``preexec_fn`` of a child: it ends when this process is killed (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent was killed before prctl
            os._exit(1)

    return ask


def _end(agent: subprocess.Popen[bytes]) -> None:
    agent.terminate()
    try:
        agent.wait(_END_S)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()


def _free_ports(page_port: int) -> tuple[int, int]:
    """A free port for the gateway (TCP and UDP), and the page's port, or any if it is taken."""
    with socket.socket() as page:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            page.bind(("127.0.0.1", page_port))
        except OSError:
            page.bind(("127.0.0.1", 0))
        for _ in range(_TRIES):
            with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
                tcp.bind(("127.0.0.1", 0))
                port = int(tcp.getsockname()[1])
                try:
                    udp.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port, int(page.getsockname()[1])
    raise UserError("no port of 127.0.0.1 is free for TCP and UDP")


# Output of a reader: things at the shelf, at the checkout, at the exit; a few are not paid for.
#
# All readers draw the same walks from the same seed, so that they agree without communication.


_SEED: Final = 20_261_123
_BETWEEN_S: Final = 0.8
"""Mean time between two things."""
_STOLEN: Final = 0.1


class Walk(NamedTuple):
    """Times of a thing's readings, in seconds after the start; ``checkout`` None: not paid."""

    tag: str
    shelf: float
    checkout: float | None
    exit: float


def walks() -> Iterator[Walk]:
    """All walks, in order of their first reading; always the same."""
    random = Random(_SEED)  # noqa: S311 - no secret
    number, at = 0, 0.0
    while True:
        number += 1
        at += random.expovariate(1 / _BETWEEN_S)
        paid = at + random.uniform(2, 6)
        gone = paid + random.uniform(0.5, 4)
        stolen = random.random() < _STOLEN
        yield Walk(f"T{number:05}", at, None if stolen else paid, gone)


def readings(place: str) -> Iterator[tuple[float, str]]:
    """(seconds after the start, tag) of one reader's readings, in order."""
    waiting: list[tuple[float, str]] = []
    for walk in walks():
        # No later walk has a reading before that.
        while waiting and waiting[0][0] <= walk.shelf:
            yield heapq.heappop(waiting)
        at = {"shelf": walk.shelf, "checkout": walk.checkout, "exit": walk.exit}[place]
        if at is not None:
            heapq.heappush(waiting, (at, walk.tag))


def print_readings(place: str, start: float) -> None:
    """Print each reading when it is due; ``start``: seconds since the Unix epoch."""
    for at, tag in readings(place):
        wait = start + at - time.time()
        if wait > 0:
            time.sleep(wait)
            line = json.dumps({"type": place.upper(), "tag": tag})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    print_readings(sys.argv[1], float(sys.argv[2]))
