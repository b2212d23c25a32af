"""Real processes on real sockets of this machine: a gateway, agents, and what the log says."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from slackwater.engine.log.arrival_log import LogReader

ROOT = Path(__file__).resolve().parents[2]
SLACKWATER = [sys.executable, "-c", "from slackwater.engine.cli import main; main()"]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
PATIENCE_SECONDS = 60.0


def until(true: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Waits for something to become true; gives it."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return found


class Program:
    """A process whose standard error is read as it comes."""

    def __init__(self, words: list[str], folder: Path, **options: Any) -> None:
        self.process = subprocess.Popen(
            [*SLACKWATER, *words],
            cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            **{"stdin": subprocess.DEVNULL, "env": ENV, **options},
        )  # fmt: skip
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.said)

    def says(self, words: str) -> str:
        """Waits for a line with ``words`` in it."""

        def found() -> str | None:
            return next((line for line in list(self.said) if words in line), None)

        def looked() -> str | bool | None:
            line = found()
            if line is None and self.process.poll() is not None:
                self._reader.join()
                line = found()
                assert line is not None, f"ended without {words!r}:\n{self.text}"
            return line

        return str(until(looked, f"{words!r} of\n{self.text}"))

    def feed(self, *lines: str) -> None:
        """Into its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.writelines(f"{line}\n" for line in lines)
        self.process.stdin.flush()

    def finish(self) -> None:
        """Its input ends, and with it the program, in good order."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.end(None) == 0, self.text

    def end(self, number: int | None = signal.SIGTERM) -> int:
        """Sends a signal (None: none), waits for the end, gives the exit code."""
        if number is not None and self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            if stream is not None:
                stream.close()
        assert "Traceback" not in self.text, self.text
        return code


_PORTS: Final = set[int]()
"""Those that this process has: a system may give one again that nobody has bound yet."""


def free_port() -> int:
    """A port that neither TCP nor UDP has in use, another one each time."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = int(tcp.getsockname()[1])
            udp.bind(("127.0.0.1", port))
        if port not in _PORTS:
            _PORTS.add(port)
            return port


class Field:
    """A folder with settings, a gateway's port, and the programs that were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.programs: list[Program] = []

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def site(self, more: str = "") -> None:
        self.write("site.toml", f'[gateway]\nlog = "site.log"\nport = {self.port}\n{more}')

    def agent_file(self, source: str, inputs: str, more: str = "", token: str = "") -> str:
        """Writes the settings of an agent whose events have an attribute ``v``; gives its name."""
        name = f"{source}.toml"
        self.write(
            name,
            f'[agent]\nsource = "{source}"\ntoken = "{token}"\nstop_timeout = "1 s"\n'
            f"[gateway]\nport = {self.port}\n"
            '[delivery]\nreconnect = "20 ms"\nreconnect_max = "200 ms"\n'
            '[sync]\nattempts = 3\nspacing = "5 ms"\ntimeout = "300 ms"\n'
            '[[stream]]\nname = "events"\nattrs = { v = "int" }\n'
            f"{inputs}\n{more}",
        )
        return name

    def start(self, *words: str, **options: Any) -> Program:
        program = Program(list(words), self.folder, **options)
        self.programs.append(program)
        return program

    def serve(self, first: Callable[[], None] | None = None) -> Program:
        """A gateway that listens; ``first``: what its process does before it starts."""
        program = self.start("serve", "--config", "site.toml", preexec_fn=first)
        program.says("listening")
        return program

    def replay(self, name: str, values: range, pace: float = 0, step_ms: int = 1) -> str:
        """A recording with one event per value; gives the input that plays it."""
        lines = [json.dumps({"type": "A", "ts": v * step_ms, "v": v}) for v in values]
        self.write(name, "\n".join(lines) + "\n")
        return (
            f'[[input]]\nkind = "replay"\nfile = "{name}"\npace = {pace}\ntime_unit = "ms"\n'
            "restamp = true\n"
        )

    def change(self, name: str, old: str, new: str) -> None:
        """In a file of settings."""
        text = (self.folder / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def agent(self, name: str, **options: Any) -> Program:
        """An agent with a file of settings."""
        return self.start("agent", "--config", name, **options)

    def fed(self, name: str) -> Program:
        """An agent that waits for what is fed to it."""
        return self.agent(name, stdin=subprocess.PIPE)

    def run_through(self, source: str, values: range, **settings: str) -> Program:
        """An agent that sends these values and ends."""
        name = self.agent_file(source, self.replay(f"{source}.jsonl", values, pace=1), **settings)
        agent = self.agent(name)
        assert agent.end(None) == 0, agent.text
        return agent

    def rows(self, kind: int = 0) -> list[dict[str, Any]]:
        """Records of the log as it is now, in its order."""
        if not list((self.folder / "site.log").glob("*.parquet")):
            return []
        rows = (
            row for frame in LogReader(self.folder / "site.log") for row in frame.batch.to_pylist()
        )
        return [row for row in rows if row.get("kind", 0) == kind]

    def values(self, source: str) -> list[int]:
        """``v`` of every event of ``source`` in the log, in its order."""
        return [row["attrs.v"] for row in self.rows() if row["source"] == source]

    def numbered(self) -> list[tuple[int, int, int]]:
        """(incarnation, seq, v) of every event in the log, in its order."""
        return [(row.get("incarnation", 0), row["seq"], row["attrs.v"]) for row in self.rows()]

    def close(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait(PATIENCE_SECONDS)
            for stream in (program.process.stdout, program.process.stderr, program.process.stdin):
                if stream is not None and not stream.closed:
                    stream.close()


@pytest.fixture(name="field")
def _field(tmp_path: Path) -> Iterator[Field]:
    made = Field(tmp_path)
    yield made
    made.close()
