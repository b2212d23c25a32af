"""How many events a gateway takes in, acked when they are durable: 8 agents, one core.

    .venv/bin/python -m bench.gateway_speed [MILLIONS]

``slackwater serve`` on real sockets, its log on disk, fsync and all. Agents send what agents under
load send (messages of many events with a type, a number and a text), encoded beforehand by their
own code, and no more than ``UNACKED`` bytes beyond what was acked. What counts is the
processor time of the gateway, all its threads together: a machine that is busy with other things
takes longer, not more. The log is read afterwards: each event once.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.packing import Codes, data_message
from slackwater.engine.log.arrival_log import LogReader

AGENTS = 8
EVENTS = 4_000_000
ROWS = (1000, 100)
"""Events of a message, each measured; the goal is for the last. An agent that reads 40,000 events a
second has some hundred at hand each time it looks."""
UNACKED = 8 << 20
"""The default of an agent's ``[delivery] unacked``."""
GOAL_PER_S = 300_000
SCHEMA = m.StreamSchema("events", {"v": "float", "tag": "str"})
TAGS = 200
SITE = '[gateway]\nlog = "site.log"\nport = 0\n'
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STEP_NS = 100_000


class LoadAgent:
    """One connection that sends numbered events and reads acks."""

    def __init__(self, name: str, events: int, rows: int) -> None:
        self._hello = m.Hello(
            "main", name, "", 1, resend=True, control_acked=0,
            streams=(m.HelloStream(SCHEMA, 0, 0),),
        )  # fmt: skip
        self._ends, self._messages = _encoded(events, rows)
        self._acked = 0

    async def run(self, port: int) -> None:
        """From HELLO to the last ack."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire.encode(self._hello))
        writer.write(wire.encode(m.Sync(0, 0, 1_000_000, 0, 1000, 0)))
        sent = done = waiting = 0
        decoder = wire.Decoder()
        while done < len(self._messages):
            while sent < len(self._messages) and waiting < UNACKED:
                writer.write(self._messages[sent])
                waiting += len(self._messages[sent])
                sent += 1
            await writer.drain()
            for said in decoder.feed(await reader.read(1 << 16)):
                if isinstance(said, m.Ack):
                    self._acked = said.next_seqs[0]
                elif not isinstance(said, m.Welcome):
                    raise SystemExit(f"the gateway says {said}")
            while done < sent and self._ends[done] <= self._acked:
                waiting -= len(self._messages[done])
                done += 1
        writer.close()


def _encoded(events: int, most: int) -> tuple[list[int], list[bytes]]:
    """The number after each message, and the messages, as an agent makes them."""
    random = np.random.default_rng(1)
    ends, messages = [], []
    for first in range(0, events, most):
        rows = min(most, events - first)
        numbers = np.arange(first, first + rows)
        tags, codes = np.unique(random.integers(0, TAGS, rows), return_inverse=True)
        data: m.Data = data_message(
            0, SCHEMA,
            ts=array("q", (numbers * _STEP_NS).tolist()), te=None, ids=None,
            types=Codes(["ENTER", "LEAVE"], random.integers(0, 2, rows, np.int32)),
            attrs={
                "v": random.normal(20.0, 5.0, rows),
                "tag": Codes([f"tag{tag:04}" for tag in tags], codes.astype(np.int32)),
            },
        )  # fmt: skip
        messages.append(wire.encode(data._replace(first_seq=first)))
        ends.append(first + rows)
    return ends, messages


def processor_s(pid: int) -> float:
    """Processor time of a process so far, of all its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S


def run(folder: Path, events: int, rows: int) -> tuple[float, float, int]:
    """Seconds of processor and of the clock that a gateway takes, and the log's files."""
    agents = [LoadAgent(f"s{number}", events // AGENTS, rows) for number in range(AGENTS)]
    (folder / "site.toml").write_text(SITE)
    server = subprocess.Popen(
        [sys.executable, "-c", "from slackwater.engine.cli import main; main()",
         "serve", "--config", "site.toml"],
        cwd=folder, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
    )  # fmt: skip
    try:
        assert server.stderr is not None
        port = 0
        for line in server.stderr:
            if "listening" in line:
                port = int(line.partition("TCP ")[2].partition(",")[0])
                break
        before, begun = processor_s(server.pid), time.monotonic()

        async def load() -> None:
            await asyncio.gather(*(agent.run(port) for agent in agents))

        asyncio.run(load())
        taken, lasted = processor_s(server.pid) - before, time.monotonic() - begun
    finally:
        server.terminate()
        server.communicate()
    return taken, lasted, _check(folder / "site.log", events)


def _check(log: Path, events: int) -> int:
    """Each event is in the log once; gives its files."""
    reader = LogReader(log)
    found = []
    for frame in reader:
        batch = frame.batch.filter(pc.is_valid(frame.batch.column("seq")))
        sources = batch.column("source").cast(pa.string()).to_numpy(zero_copy_only=False)
        found.append((sources, batch.column("seq").to_numpy()))
    sources, numbers = (np.concatenate(column) for column in zip(*found, strict=True))
    for number in range(AGENTS):
        mine = np.sort(numbers[sources == f"s{number}"])
        if not np.array_equal(mine, np.arange(events // AGENTS)):
            raise SystemExit(f"s{number}: the log has not each of its events once")
    return len(reader.files)


def main() -> int:
    """Prints events per second of processor; 1: less than the goal."""
    events = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else EVENTS
    rate = 0.0
    for rows in ROWS:
        with tempfile.TemporaryDirectory() as name:
            taken, lasted, files = run(Path(name), events, rows)
        rate = events / taken
        print(
            f"gateway, {AGENTS} agents, messages of {rows}, durable acks: {rate:,.0f} events/s of "
            f"processor ({taken:.2f} s), {events / lasted:,.0f} by the clock, {files} files"
        )
    if rate < GOAL_PER_S:
        print(f"the goal is {GOAL_PER_S:,}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
