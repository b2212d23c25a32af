"""The cost of an agent for its device: processor time per event, memory, and the time to start.

    .venv/bin/python -m bench.agent [replay-jsonl|replay-csv|replay-parquet|stdin]...

Each input is read by an agent with an outbox of its own, as fast as it can be, and sent to a
gateway on this machine until all is acked: input, number, fsynced outbox, socket, acks. What counts
is the agent's processor time, all of its threads and what the kernel does for it: a busy machine
changes the time on the clock, and this hardly. ``start`` is from the process's start to its first
packet at the gateway, in the median of nine; memory is the most that was ever resident.
"""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EVENTS = 1_000_000
STARTS = 9
GOAL_PER_S = 100_000
GOAL_MB = 40.0
GOAL_START_S = 0.3
ROOT = Path(__file__).resolve().parents[1]
ENV = os.environ | {"PYTHONPATH": str(ROOT)}
AGENT = [sys.executable, "-m", "slackwater.edge_agent", "--config"]
SLACKWATER = [sys.executable, "-c", "from slackwater.engine.cli import main; main()"]
KINDS = {
    "replay-jsonl": 'kind = "replay"\nfile = "../events.jsonl"\npace = 0',
    "replay-csv": 'kind = "replay"\nfile = "../events.csv"\npace = 0',
    "replay-parquet": 'kind = "replay"\nfile = "../events.parquet"\npace = 0',
    "stdin": 'kind = "stdin"',
}


def records() -> list[tuple[int, str, int, float]]:
    """Of a sensor: time, type, who and what."""
    types = ("EVENT", "PROBE")
    return [
        (1_700_000_000_000_000_000 + 50_000 * i, types[i % 100 == 0], i % 16, i % 1000 / 8)
        for i in range(EVENTS)
    ]


def write_events(folder: Path) -> None:
    """The same events as lines of JSON, of CSV and as Parquet."""
    import pyarrow as pa  # noqa: PLC0415 - not in the agents
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = records()
    with (folder / "events.jsonl").open("w") as text:
        text.writelines(
            json.dumps({"ts": ts, "type": kind, "attrs": {"sid": sid, "v": v}}) + "\n"
            for ts, kind, sid, v in found
        )
    with (folder / "events.csv").open("w", newline="") as text:
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("ts", "type", "sid", "v"))
        lines.writerows(found)
    columns = zip(("ts", "type", "sid", "v"), zip(*found, strict=True), strict=True)
    pq.write_table(pa.table({name: list(of) for name, of in columns}), folder / "events.parquet")


def settings(folder: Path, port: int, ntp_port: int, lines: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(
        f'[agent]\nsource = "{folder.name}"\n[gateway]\nport = {port}\nntp_port = {ntp_port}\n'
        '[outbox]\nfolder = "outbox"\n[sync]\nattempts = 1\nspacing = "1 ms"\ntimeout = "1 s"\n'
        '[[stream]]\nname = "events"\nattrs = { sid = "int", v = "float" }\n[[input]]\n' + lines
    )
    return path


def sent(name: str, folder: Path, port: int) -> None:
    """Runs an agent to its end, and prints its cost."""
    run_folder = folder / name
    run_folder.mkdir()
    path = settings(run_folder, port, port, KINDS[name])
    began = time.monotonic()
    # A pipe, as from a program; a file at stdin would be read by another way.
    words = ["cat", str(folder / "events.jsonl" if name == "stdin" else os.devnull)]
    resident = 0
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as cat,
        (run_folder / "said.txt").open("wb") as said,
    ):
        agent = subprocess.Popen([*AGENT, str(path)], env=ENV, stderr=said, stdin=cat.stdout)
        while True:
            resident = max(resident, most_resident(agent.pid))
            pid, status, used = os.wait4(agent.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.02)
    took = time.monotonic() - began
    agent.returncode = os.waitstatus_to_exitcode(status)
    output = (run_folder / "said.txt").read_text()
    if agent.returncode or f"done: {EVENTS} events acked" not in output:
        raise RuntimeError(f"{name}: the agent ended with {agent.returncode}:\n{output}")
    spent = used.ru_utime + used.ru_stime
    print(
        f"{name:15} {EVENTS / spent:9,.0f} events/s of processor time "
        f"({spent:.1f} s, {used.ru_stime:.1f} of them in the kernel; {took:.1f} s on the clock), "
        f"{resident / 1024:.1f} MB at most"
    )


def most_resident(pid: int) -> int:
    """The most memory [KiB] that a process ever had resident, since it became what it is."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0  # it has ended


def started(folder: Path) -> None:
    """From the start of the process to its first connection, warm."""
    run_folder = folder / "start"
    run_folder.mkdir()
    (run_folder / "none.jsonl").touch()
    times, spent = [], []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = 'kind = "replay"\nfile = "none.jsonl"\n'
        path = settings(run_folder, port, port, lines)
        for _ in range(STARTS):
            began = time.monotonic()
            agent = subprocess.Popen([*AGENT, str(path), "--quiet"], env=ENV)
            connection, _address = server.accept()
            with connection:
                connection.recv(1)
                times.append(time.monotonic() - began)
                agent.kill()
                _pid, status, used = os.wait4(agent.pid, 0)
                agent.returncode = os.waitstatus_to_exitcode(status)
                spent.append(used.ru_utime + used.ru_stime)
    times_text = ", ".join(
        f"{median(of):.3f} s {what} ({min(of):.3f} to {max(of):.3f})"
        for what, of in (("on the clock", times), ("of processor time", spent))
    )
    print(f"start {times_text}")


def main() -> None:
    names = sys.argv[1:] or list(KINDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"goals: {GOAL_PER_S:,} events/s, {GOAL_MB:.0f} MB, start {GOAL_START_S} s")
        started(folder)
        write_events(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "site.toml").write_text(f'[gateway]\nlog = "site.log"\nport = {port}\n')
        gateway = subprocess.Popen(
            [*SLACKWATER, "serve", "--config", "site.toml"], cwd=folder, env=ENV,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert gateway.stderr is not None
            while "listening" not in gateway.stderr.readline():
                assert gateway.poll() is None, "the gateway has ended"
            for each in names:
                sent(each, folder, port)
        finally:
            gateway.terminate()
            gateway.communicate(timeout=60)


if __name__ == "__main__":
    main()
