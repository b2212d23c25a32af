"""From an event's creation to its answer in a file: a server, its engine, 20 sources on sockets.

    .venv/bin/python -m bench.live [embedded|spark]

Each hundredth event asks for an answer of its own (a pattern of one step), and the file of answers
is looked at each millisecond. The parts: until durable in the log (arrival is when bytes came), and
from there to the file. Order ``none``: nothing waits for disorder.
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
from pathlib import Path

import numpy as np

from edge_agent import clock
from edge_agent.columns import Codes
from edge_agent.drivers.session_driver import Address, SessionDriver
from edge_agent.messages import StreamSchema
from edge_agent.session import AgentSession
from edge_agent.settings import SessionSettings

SOURCES = 20
RATE = 15_000
EVERY_S = 0.01
PROBES = 100
"""One event in so many is answered."""
SECONDS = {"embedded": 15.0, "spark": 25.0}
LEFT_OUT = {"embedded": 5.0, "spark": 12.0}
"""Kernels are loaded, Spark plans its first batches."""
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


async def load(port: int, seconds: float) -> None:
    """So many events a second from all sources together, each stamped when it is made."""
    streams = [StreamSchema("events", {"v": "float"})]
    address = Address(host="127.0.0.1", port=port, ntp_port=port)
    drivers = []
    for number in range(SOURCES):
        settings = SessionSettings(source=f"s{number}")
        cookie = lambda: secrets.randbits(64)  # noqa: E731
        session = AgentSession(settings, streams, clock.read().wall_ns, cookie)
        drivers.append(SessionDriver(session, address))
        drivers[-1].start()
    begun = time.monotonic()
    made = 0
    while time.monotonic() - begun < seconds:
        due = int((time.monotonic() - begun) * RATE)
        for number, driver in enumerate(drivers):
            first = made + (due - made) * number // SOURCES
            end = made + (due - made) * (number + 1) // SOURCES
            if end > first:
                emit(driver, first, end)
        made = due
        await asyncio.sleep(EVERY_S)
    for driver in drivers:
        driver.session.finish(clock.read())
        driver.carry_out()
    await asyncio.gather(*(driver.until_settled() for driver in drivers))


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


def watch(path: Path, loader: subprocess.Popen[bytes]) -> list[tuple[int, int, int]]:
    """(created, arrived, written) of each answer, while the load lasts and a little longer."""
    seen = 0
    found = []
    rest = b""
    idle_since = time.monotonic()
    while loader.poll() is None or time.monotonic() - idle_since < 2:
        time.sleep(0.001)
        if not path.exists() or path.stat().st_size == seen:
            continue
        with path.open("rb") as file:
            file.seek(seen)
            new = file.read()
        written = time.time_ns()
        idle_since = time.monotonic()
        seen += len(new)
        *lines, rest = (rest + new).split(b"\n")
        for line in lines:
            result = json.loads(line)
            found.append((result["events"][0]["ts"], result["at"], written))
    return found


def run(engine: str, folder: Path, port: int) -> list[tuple[int, int, int]]:
    (folder / "site.toml").write_text(SITE.format(port=port, engine=engine))
    server = subprocess.Popen(
        [sys.executable, "-c", "from engine.cli import main; main()", "serve", "-c", "site.toml"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    try:
        time.sleep(3)
        loader = subprocess.Popen(
            [sys.executable, "-m", "bench.live", "load", str(port), str(SECONDS[engine])]
        )
        return watch(folder / "site.log.answers" / "q1" / "main.jsonl", loader)
    finally:
        server.terminate()
        server.wait(60)


def report(engine: str, found: list[tuple[int, int, int]]) -> None:
    times = np.array(found, np.int64)
    late = times[:, 0] >= times[0, 0] + int(LEFT_OUT[engine] * 1e9)
    times = times[late]
    parts = {
        "created to arrived": times[:, 1] - times[:, 0],
        "arrived to written": times[:, 2] - times[:, 1],
        "created to written": times[:, 2] - times[:, 0],
    }
    print(f"{engine}: {RATE:,} events/s from {SOURCES} sources, {len(times):,} answers")
    for name, spent in parts.items():
        quantiles = np.quantile(spent / 1e6, [0.5, 0.95, 0.99, 1.0])
        names = ("p50", "p95", "p99", "max")
        told = ", ".join(f"{n} {ms:.1f}" for n, ms in zip(names, quantiles, strict=True))
        print(f"  {name:20} {told} ms")


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        asyncio.run(load(int(sys.argv[2]), float(sys.argv[3])))
        return
    for engine in sys.argv[1:] or ["embedded"]:
        with tempfile.TemporaryDirectory() as name:
            report(engine, run(engine, Path(name), 19_751))


if __name__ == "__main__":
    main()
