"""An emulator as a process, with namespaces of its own; only where root and the kernel allow it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import ENV, SLACKWATER, until


def why_not() -> str | None:
    """What this machine lacks to emulate links; None: nothing."""
    if os.geteuid() != 0:
        return "emulated links need root"
    if shutil.which("ip") is None or shutil.which("ping") is None:
        return "emulated links need ip and ping (Debian: iproute2, iputils-ping)"
    if not Path("/dev/net/tun").exists():
        return "emulated links need /dev/net/tun (modprobe tun)"
    name = f"swtry{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"this kernel or container refuses network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@cache
def first() -> tuple[str, ...]:
    """Words before a command that let it run before the machine's other work, where they may."""
    words = ("chrt", "--rr", "1")
    if shutil.which("chrt") is None:
        return ()
    refused = subprocess.run([*words, "true"], capture_output=True, check=False).returncode
    return () if refused else words


class Emulator:
    """``slackwater emulate`` with the namespaces a (10.203.0.1) and b (10.203.0.2)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"swtest{os.getpid()}-"
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []
        self.programs: list[subprocess.Popen[str]] = []
        self._reader: threading.Thread | None = None

    def write(self, links: str, more: str = "") -> Path:
        path = self.folder / "links.toml"
        path.write_text(
            f'prefix = "{self.prefix}"\nstatus = "status.json"\nstatus_every = "100 ms"\n{more}\n'
            f'[[links]]\nbetween = ["a", "b"]\n{links}\n'
        )
        return path

    def words(self, *more: str) -> list[str]:
        return [*SLACKWATER, "emulate", "links.toml", *more]

    def start(self, links: str, more: str = "") -> None:
        """Runs until ``stop``; returns when the links are there."""
        self.write(links, more)
        self.close()
        self.process = subprocess.Popen(
            self.words(), cwd=self.folder, env=ENV, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, args=[self.process], daemon=True)
        self._reader.start()
        status = self.folder / "status.json"
        until(lambda: status.exists() or self.process.poll() is not None, "the status file")
        assert self.process.poll() is None, "\n".join(self.said)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.said += [line.rstrip("\n") for line in process.stderr]

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """The exit code, when it has ended and all that it said is read."""
        assert self.process is not None
        assert self._reader is not None
        code = self.process.wait(30)
        self._reader.join()
        return code

    def close(self) -> None:
        """Ends all programs."""
        for program in [*self.programs, *([self.process] if self.process else [])]:
            if program.poll() is None:
                program.kill()
            program.wait()
            for stream in (program.stdout, program.stderr):
                if stream is not None:
                    stream.close()

    def inside(self, name: str, words: list[str], **options: Any) -> subprocess.Popen[str]:
        """A program in a namespace."""
        program = subprocess.Popen(
            ["ip", "netns", "exec", self.prefix + name, *first(), *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
        )  # fmt: skip
        self.programs.append(program)
        return program

    def python(self, name: str, code: str) -> subprocess.Popen[str]:
        return self.inside(name, [sys.executable, "-c", code])

    def counters(self) -> dict[str, Any]:
        """Of the last status file: of the way up, of the way down."""
        found = json.loads((self.folder / "status.json").read_text())["links"]
        return {"up": found[0], "down": found[1]}

    def namespaces(self) -> list[str]:
        said = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        return [name for name in said.stdout.split() if name.startswith(self.prefix)]


@pytest.fixture(name="emulator")
def _emulator(tmp_path: Path) -> Iterator[Emulator]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    made = Emulator(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.stop()
    made.close()
    for name in made.namespaces():
        subprocess.run(["ip", "netns", "del", name], check=True)
