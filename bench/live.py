"""From an event's creation to its answer in a file: a server, its engine, 20 sources on sockets.

    .venv/bin/python -m bench.live [embedded|spark]

Each hundredth event asks for an answer of its own (a pattern of one step), and the file of answers
is looked at each millisecond. The parts: until it arrives (when the gateway has its bytes), until
its file of the log is there (frames wait for ``frame_every``, then for the disk), and from there to
the answer's line. Order ``none``: nothing waits for disorder. A busy machine lengthens the waits;
the processor time of each program, which it hardly changes, says what they do in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.soak.watched import family
from slackwater.edge_agent import clock
from slackwater.edge_agent.drivers.session_driver import Address, GatewayAddress, SessionDriver
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import Codes
from slackwater.edge_agent.session import AgentSession
from slackwater.edge_agent.settings import SessionSettings
from slackwater.engine.log.arrival_log import frames_in
from slackwater.engine.log.log_folder import file_name

SOURCES = 20
RATE = 15_000
EVERY_S = 0.01
PROBES = 100
"""One event in so many is answered."""
SECONDS = {"embedded": 10.0, "spark": 30.0}
"""So long is measured."""
LEFT_OUT_S = 5
"""After the first answer: kernels are loaded, Spark plans its first batches."""
START_S = 120.0
"""So long an engine may take to its first answer."""
SEEN = "seen"
"""Folder with the log's files as they came."""
SITE = """[gateway]
log = "site.log"
port = {port}
[limits]
frame_every = "10 ms"
[engine]
kind = "{engine}"
order = "none"
[[query]]
text = "EVENT SEQ(PROBE p) WITHIN 1 s"
"""


Times = npt.NDArray[np.int64]


class TimedAnswer(NamedTuple):
    """When its event was created and arrived, and when its line was seen [ns since 1970]."""

    created: int
    arrived: int
    written: int


async def load(port: int) -> None:
    """So many events a second from all sources together, each stamped when it is made; without
    end.
    """
    streams = [StreamSchema("events", {"v": "float"})]
    address = Address(gateways=(GatewayAddress("127.0.0.1", port, port),))
    drivers = []
    for number in range(SOURCES):
        settings = SessionSettings(source=f"s{number}")
        cookie = lambda: secrets.randbits(64)  # noqa: E731
        session = AgentSession(settings, streams, clock.read().wall_ns, cookie)
        drivers.append(SessionDriver(session, address))
        drivers[-1].start()
    begun = time.monotonic()
    made = 0
    while True:
        due = int((time.monotonic() - begun) * RATE)
        for number, driver in enumerate(drivers):
            first = made + (due - made) * number // SOURCES
            end = made + (due - made) * (number + 1) // SOURCES
            if end > first:
                emit(driver, first, end)
        made = due
        await asyncio.sleep(EVERY_S)


def emit(driver: SessionDriver, first: int, end: int) -> None:
    """Events ``first`` to ``end`` of all, from this source."""
    now = clock.read()
    rows = range(first, end)
    driver.session.emit(
        "events",
        now,
        ts=array("q", [now.wall_ns] * len(rows)),
        types=Codes(["EVENT", "PROBE"], array("i", [row % PROBES == 0 for row in rows])),
        attrs={"v": array("d", map(float, rows))},
    )
    driver.carry_out()


def watch(
    folder: Path, loader: subprocess.Popen[bytes], seconds: float
) -> tuple[list[TimedAnswer], list[int]]:
    """Each answer, and when each file of the log was there; ends the load in time."""
    path = folder / "site.log.answers" / "q1" / "main.jsonl"
    seen = 0
    found: list[TimedAnswer] = []
    files: list[int] = []
    rest = b""
    idle_since = time.monotonic()
    end = idle_since + START_S
    while time.monotonic() < end or time.monotonic() - idle_since < 2:
        time.sleep(0.001)
        if time.monotonic() > end:
            loader.terminate()
        while took(folder, len(files) + 1):
            files.append(time.time_ns())
        if not path.exists() or path.stat().st_size == seen:
            continue
        with path.open("rb") as file:
            file.seek(seen)
            new = file.read()
        written = time.time_ns()
        idle_since = time.monotonic()
        if not found:
            end = idle_since + LEFT_OUT_S + seconds
        seen += len(new)
        *lines, rest = (rest + new).split(b"\n")
        for line in lines:
            result = json.loads(line)
            found.append(TimedAnswer(result["events"][0]["ts"], result["at"], written))
    return found, files


def took(folder: Path, number: int) -> bool:
    """Whether the log has its file of that number; keeps it, as small files may be merged."""
    try:
        (folder / SEEN / str(number)).hardlink_to(folder / "site.log" / file_name(number))
    except FileNotFoundError:
        return False
    return True


def durable(seen: Path, files: list[int], arrived: Times) -> Times:
    """When the file was there that has what arrived then; 0 if none was seen: this machine was so
    busy that it was merged before.
    """
    last = [
        max(frame.last_arrival for frame in frames_in(seen / str(number)))
        for number in range(1, len(files) + 1)
    ]
    return np.array([*files, 0], np.int64)[np.searchsorted(last, arrived)]


def processor_seconds(pid: int) -> float:
    """Of a process, its threads and the children that it has waited for; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # its parent counts it then
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run(engine: str, folder: Path, port: int) -> None:
    (folder / SEEN).mkdir()
    (folder / "site.toml").write_text(SITE.format(port=port, engine=engine))
    server = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from slackwater.engine.cli import main; main()",
            "serve",
            "-c",
            "site.toml",
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    try:
        time.sleep(3)
        words = [sys.executable, "-m", "bench.live", "load", str(port)]
        loader = subprocess.Popen(words)
        try:
            found, files = watch(folder, loader, SECONDS[engine])
        finally:
            loader.terminate()  # it would go on for ever
            loader.wait(60)
        spent = {
            "gateway": processor_seconds(server.pid),
            "engine": sum(map(processor_seconds, family(server.pid))),
        }
    finally:
        server.terminate()
        server.wait(60)
    report(engine, found, partial(durable, folder / SEEN, files))
    times_text = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items())
    print(f"  processor time        {times_text} (start and warming up included)")


def report(engine: str, found: list[TimedAnswer], durable_at: Callable[[Times], Times]) -> None:
    times = np.array(found, np.int64).reshape(-1, 3)
    times = times[times[:, 0] >= times[:1, 2] + LEFT_OUT_S * 10**9]
    in_log = durable_at(times[:, 1])
    created, arrived, written = times[in_log > 0].T
    in_log = in_log[in_log > 0]
    if not len(in_log):
        print(f"{engine}: no answer within {START_S:.0f} s; is the machine busy?")
        return
    parts = {
        "created to arrived": arrived - created,
        "arrived to in the log": in_log - arrived,
        "in the log to written": written - in_log,
        "created to written": written - created,
    }
    print(f"{engine}: {RATE:,} events/s from {SOURCES} sources, {len(in_log):,} answers")
    for name, spent in parts.items():
        quantiles = np.quantile(spent / 1e6, [0.5, 0.95, 0.99, 1.0])
        names = ("p50", "p95", "p99", "max")
        quantiles_text = ", ".join(f"{n} {ms:.1f}" for n, ms in zip(names, quantiles, strict=True))
        print(f"  {name:21} {quantiles_text} ms")


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        asyncio.run(load(int(sys.argv[2])))
        return
    for engine in sys.argv[1:] or ["embedded"]:
        with tempfile.TemporaryDirectory() as name:
            run(engine, Path(name), 19_751)


if __name__ == "__main__":
    main()
