"""A standalone cluster of Spark as its users start one: a master and workers, each a process with
its own folder and an environment that knows nothing of us.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest

from slackwater.engine.hosts.java import java_home

_CLASS: Final = "org.apache.spark.deploy"
_URL: Final = re.compile(r"spark://127\.0\.0\.1:\d+")
_KEPT: Final = ("HOME", "LANG", "PATH", "TMPDIR", "XDG_CACHE_HOME")


def environment(**more: str) -> dict[str, str]:
    """Of a user's shell: no variable of ours, of Spark's or of Python's."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | more


def slackwater(*arguments: str | Path, **more: str) -> subprocess.Popen[str]:
    """The command, as a process that leads its own group; ``more``: environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "slackwater", *map(str, arguments)],
        env=environment(**more), cwd="/", start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], seconds: float = 150) -> str:
    """Waits for a command that must succeed; gives what it printed."""
    printed, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, printed
    return printed


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def processes_below(parent: int) -> list[tuple[int, str]]:
    """Number and command line of each process that ``parent`` or one of its children started."""
    found: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            above = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            line = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has just ended
            continue
        found.setdefault(above, []).append((int(folder.name), line))
    below, waiting = [], [parent]
    while waiting:
        children = found.get(waiting.pop(), [])
        below += children
        waiting += [number for number, _ in children]
    return below


class Cluster:
    """One master, and workers of one core and 1 GB each; all on 127.0.0.1, ports as they are free.

    Args:
        folder: for the logs, and for a work folder of each worker.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.workers: list[subprocess.Popen[bytes]] = []
        self._master = self._start("master", "master.Master")
        wait_until(lambda: bool(_URL.search(self._log("master"))), "the master's address")
        self.url = _URL.search(self._log("master"))[0]  # type: ignore[index]  # as waited for

    def add_worker(self) -> None:
        """Starts one and waits until the master knows it."""
        self._count += 1
        name = f"worker-{self._count}"
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
        self.workers.append(self._start(name, "worker.Worker", *options, self.url))
        known = "Successfully registered with master"
        wait_until(lambda: known in self._log(name), f"{name} at the master")

    def executors(self) -> list[int]:
        """Process numbers of the executors that run."""
        return [
            number
            for worker in self.workers
            for number, line in processes_below(worker.pid)
            if "CoarseGrainedExecutorBackend" in line
        ]

    def kill_worker(self, place: int) -> None:
        """With -9, and without its executor, which ends when it notices."""
        worker = self.workers.pop(place)
        worker.kill()
        worker.wait()

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        (self._folder / name).mkdir()
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        port = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [program, f"{_CLASS}.{main}", *port, *arguments],
                env=environment(JAVA_HOME=str(java_home()), SPARK_DAEMON_MEMORY="256m"),
                cwd=self._folder / name, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Two workers; all of it is gone afterwards."""
    made = Cluster(folder)
    try:
        for _ in range(2):
            made.add_worker()
        yield made
    finally:
        made.stop()
