"""Programs of a set-up on real sockets: started, waited for and ended, in namespaces of emulated
links and before other work of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
SLACKWATER = [sys.executable, "-c", "from slackwater.engine.cli import main; main()"]
PATIENCE_SECONDS = 60.0
FIRST = ("chrt", "--rr", "1")
"""Other work of the machine is not part of the set-up, and must not delay it."""
CONGESTION = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control"
"""What every kernel has; defaults differ, and BBR spaces packets."""


class RunningPrograms:
    """What runs in ``folder``; at the end all of it is ended.

    Args:
        folder: where the programs work, and where NAME.txt has what each said.
        prefix: of the namespaces' names.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self._prefix = prefix
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            process.wait(PATIENCE_SECONDS)

    def start_links(self, links: str, namespaces: Sequence[str]) -> None:
        """The links of settings for ``slackwater emulate`` whose status file is links.json."""
        (self.folder / "links.toml").write_text(links)
        self.start("links", [*SLACKWATER, "emulate", "links.toml"])
        self.until("links", (self.folder / "links.json").exists)
        for namespace in namespaces:
            subprocess.run([*self.inside(namespace), "sh", "-c", CONGESTION], check=True)

    def inside(self, namespace: str) -> list[str]:
        """Words before a command that runs in it."""
        return ["ip", "netns", "exec", self._prefix + namespace]

    def start(self, name: str, words: Sequence[str]) -> None:
        """A program that is called ``name`` from now on."""
        with (self.folder / f"{name}.txt").open("wb") as said:
            self._running[name] = subprocess.Popen(
                [*FIRST, *words], cwd=self.folder, env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip

    def said(self, name: str) -> str:
        """What the program has said so far."""
        return (self.folder / f"{name}.txt").read_text()

    def until(self, name: str, true: Callable[[], bool]) -> None:
        """Waits until ``true()``.

        Raises:
            RuntimeError: the program ended before, or it takes too long; says what it said.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            if self._running[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not come up; it said:\n{self.said(name)}")
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        """Ends a program in good order.

        Raises:
            RuntimeError: as ``ended``.
        """
        self._running[name].terminate()
        self.ended(name, PATIENCE_SECONDS)

    def ended(self, name: str, seconds: float, codes: Sequence[int] = (0,)) -> None:
        """Waits until the program ends by itself.

        Raises:
            RuntimeError: it does not, or with another exit code than ``codes``.
        """
        try:
            code = self._running[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{name} does not end; it said:\n{self.said(name)}") from None
        if code not in codes:
            raise RuntimeError(f"{name} ended with {code}; it said:\n{self.said(name)}")
