"""Soak: ``python -m bench.soak [--seconds N] [--rate N] [--agents N] [--engine KIND] [--out DIR]``.

Agents with outboxes send to a gateway on this machine, whose engine answers queries, all of them
real processes, while their memory and open files are looked at each second. It prints the medians
of the third quarter and the fourth, the slope of memory over both, and a verdict. Exit code 0:
every event is in the log once and counted once in the answers, and neither memory nor files grow in
the second half; 1: not so. ``--out`` keeps the looks (soak.csv) and a plot of them (soak.svg).
``--seconds 1200`` is the twenty minutes that a release takes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from bench.soak.plot import plot
from bench.soak.watched import ProcessWatch, command, family
from slackwater.edge_agent.records import Kind
from slackwater.engine.log.arrival_log import LogReader

ROOT = Path(__file__).resolve().parents[2]
SLACKWATER = [sys.executable, "-c", "from slackwater.engine.cli import main; main()"]
PATIENCE_SECONDS = 120.0
SITE = """[gateway]
log = "site.log"
port = {port}
[engine]
kind = "{engine}"
master = "local[1]"
[[query]]
name = "counts"
text = "SELECT count(*) FROM events WINDOW TUMBLING 1 s"
[[query]]
name = "pairs"
text = "EVENT SEQ(B a, B b) WHERE b.v = a.v + 1000 WITHIN 1 s"
"""


class Soak:
    """One run in ``folder``."""

    def __init__(
        self, folder: Path, agents: int, rate: int, seconds: int, engine: str = "embedded"
    ) -> None:
        self.folder = folder
        self.names = [f"s{number}" for number in range(agents)]
        self.each = rate // agents
        self.seconds = seconds
        self.engine = engine
        self.watched: list[ProcessWatch] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Raises RuntimeError: a program failed; says what it said."""
        try:
            self._run()
        finally:
            for process in self._running.values():
                if process.poll() is None:
                    process.terminate()
                process.wait(PATIENCE_SECONDS)

    def events(self) -> dict[str, int]:
        """Per source, how many different events the log has; -1: some of them twice."""
        seen: dict[str, list[np.ndarray]] = {name: [] for name in self.names}
        for frame in LogReader(self.folder / "site.log"):
            if "attrs.v" not in frame.batch.schema.names:
                continue  # syncs and ticks alone
            for name in self.names:
                of = pc.field("source") == name
                if "kind" in frame.batch.schema.names:
                    of &= pc.field("kind") == int(Kind.EVENT)
                seen[name].append(frame.batch.filter(of).column("attrs.v").to_numpy())
        found = {}
        for name, columns in seen.items():
            values = np.concatenate(columns)
            found[name] = len(values) if len(np.unique(values)) == len(values) else -1
        return found

    def events_in_windows(self) -> int:
        """How many events the windows of the answers have, what was taken back left out."""
        total = 0
        for path in (self.folder / "site.log.answers" / "counts").glob("main.jsonl*"):
            with path.open() as lines:
                for line in map(json.loads, lines):
                    count = line["value"]["count(*)"]
                    total += count if line["op"] == "+" else -count
        return total

    def pairs(self) -> int:
        """Answers to the query of a pattern."""
        found = (self.folder / "site.log.answers" / "pairs").glob("main.jsonl*")
        return sum(path.read_bytes().count(b"\n") for path in found)

    def _run(self) -> None:
        port = free_port()
        (self.folder / "site.toml").write_text(SITE.format(port=port, engine=self.engine))
        self._start("gateway", [*SLACKWATER, "serve", "--config", "site.toml"])
        while "listening" not in (self.folder / "gateway.txt").read_text():
            self._alive("gateway")
            time.sleep(0.05)
        for name in self.names:
            program = [sys.executable, "-m", "bench.soak.feeder", str(self.each), str(self.seconds)]
            command = ", ".join(f'"{word}"' for word in program)
            (self.folder / f"{name}.toml").write_text(
                f'[agent]\nsource = "{name}"\n[gateway]\nport = {port}\n'
                f'[outbox]\nfolder = "{name}.outbox"\n'
                '[[stream]]\nname = "events"\nattrs = { v = "int" }\n'
                f'[[input]]\nkind = "exec"\ncommand = [{command}]\n'
            )
            self._start(
                name, [sys.executable, "-m", "slackwater.edge_agent", "--config", f"{name}.toml"]
            )
        self.watched = [ProcessWatch(name, each.pid) for name, each in self._running.items()]
        self.watched += self._engine()
        began = time.monotonic()
        while (at := time.monotonic() - began) < self.seconds:
            for each in self.watched:
                if each.name in self._running:
                    self._alive(each.name)
                each.look(at)
            time.sleep(1)
        for name in self.names:
            self._ended(name)
        self._running["gateway"].terminate()
        self._ended("gateway")

    def _engine(self) -> list[ProcessWatch]:
        """The engine, and the JVM that it may have."""
        gateway, kinds = self._running["gateway"].pid, {"python", "java"}
        process_count = {"embedded": 1, "spark": 2}[self.engine]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            pids = {each: command(each) for each in family(gateway)}
            first = {kind: pid for pid, kind in reversed(pids.items()) if kind in kinds}
            if len(first) >= process_count:
                return [
                    ProcessWatch({"python": "engine"}.get(k, k), pid) for k, pid in first.items()
                ]
            time.sleep(0.1)
        raise RuntimeError("the engine has not started")

    def _start(self, name: str, words: list[str]) -> None:
        with (self.folder / f"{name}.txt").open("wb") as said:
            self._running[name] = subprocess.Popen(
                words, cwd=self.folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip

    def _alive(self, name: str) -> None:
        if self._running[name].poll() is not None:
            raise RuntimeError(f"{name} ended:\n{(self.folder / f'{name}.txt').read_text()}")

    def _ended(self, name: str) -> None:
        code = self._running[name].wait(PATIENCE_SECONDS)
        if code:
            said = (self.folder / f"{name}.txt").read_text()
            raise RuntimeError(f"{name} ended with {code}:\n{said}")


def free_port() -> int:
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", 0))
        return int(tcp.getsockname()[1])


def keep(watched: list[ProcessWatch], folder: Path, title: str) -> None:
    """Writes the looks, and a plot of them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{each.name},{at:.1f},{kb},{files}"
        for each in watched
        for at, kb, files in zip(each.at, each.kb, each.files, strict=True)
    ]
    (folder / "soak.csv").write_text("\n".join(["process,seconds,kib,files", *rows]) + "\n")
    (folder / "soak.svg").write_text(plot(watched, title))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=20_000, help="events per second in total")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--engine", choices=("embedded", "spark"), default="embedded")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.agents, options.rate, options.seconds, options.engine)
        soak.run()
        events, in_windows, pairs = soak.events(), soak.events_in_windows(), soak.pairs()
    expected = soak.each * options.seconds
    problems = [f"{name}: {n} of {expected} events" for name, n in events.items() if n != expected]
    if in_windows != expected * len(events):
        problems.append(f"the answers count {in_windows} of {expected * len(events)} events")
    for each in soak.watched:
        print(each.verdict())
        problems += each.grows()
    if options.out is not None:
        load = f"{options.rate:,} events/s from {options.agents} agents"
        keep(soak.watched, options.out, f"{load}, engine {options.engine}")
    summary = (
        f"{sum(events.values())} events, each once in the log and in the answers; {pairs} pairs"
    )
    print("\n".join(problems) or summary)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
