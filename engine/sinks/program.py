"""The process of a server's sinks: ``python -m slackwater.engine.sinks.program``.

``serve`` starts it, so that receiving, acking and the engine never wait for a receiver. Each sink
has a thread. Standard input has the task in its first line, and its end says that the server stops.
Standard output has JSON lines: what to say to people, and the sinks' figures each second.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.settings_file import Table
from slackwater.engine.core.errors import SlackwaterError
from slackwater.engine.output.part_store import wait_for_sole_use
from slackwater.engine.sinks.base import SinkSettings, read_sinks
from slackwater.engine.sinks.forwarding import FOLDER, Forwarder

STOP_S: Final = 5.0
"""So long what is there may take to be delivered when the server stops."""
_FIGURES_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTask:
    """What the process is to do.

    ``answers``: their folder; ``file``: of the settings; ``tables``: its ``[[sink]]`` as they are
    written; ``queries``: what sinks follow that name none.
    """

    answers: str
    file: str
    tables: tuple[Mapping[str, Any], ...]
    queries: tuple[str, ...]

    def as_line(self) -> bytes:
        """For the process."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> SinkTask:
        """Inverse of ``as_line``."""
        return cls(**json.loads(line))

    def sinks(self) -> tuple[SinkSettings, ...]:
        """As the tables say, which were read before."""
        tables = [Table(values, self.file, "sink") for values in self.tables]
        return read_sinks(tables, None)


class _Lines:
    """To the server; nothing happens when it is gone."""

    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        self._one = threading.Lock()

    def say(self, message: Mapping[str, Any]) -> None:
        with self._one:
            try:
                self._stream.write(json.dumps(message).encode() + b"\n")
            except BrokenPipeError:
                return  # its end is read from standard input

    def tell(self, line: str) -> None:
        self.say({"line": line})


def main() -> int:
    """Runs until standard input ends; gives the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the server, which ends this process
        signal.signal(number, signal.SIG_IGN)
    lines = _Lines()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints
    first = io.FileIO(sys.stdin.fileno(), closefd=False).readline()  # no buffer beside select
    if not first:
        return 0  # the server was killed before it said what is to be done
    task = SinkTask.of_line(first)
    answers = Path(task.answers)
    with ExitStack() as stack:
        try:
            folder = answers / FOLDER
            if not wait_for_sole_use(folder, stack, _ended_within, lines.tell, "the sinks"):
                return 1
            forwarders = [
                Forwarder(sink, answers, task.queries, lines.tell) for sink in task.sinks()
            ]
        except (SlackwaterError, SettingsError) as error:  # the server starts it again
            lines.tell(f"sinks: {error}")
            return 1
        return _run(forwarders, lines)


def _run(forwarders: list[Forwarder], lines: _Lines) -> int:
    stopping = threading.Event()
    faults: list[str] = []

    def forward(forwarder: Forwarder) -> None:
        try:
            forwarder.run(stopping)
        except Exception:
            faults.append(traceback.format_exc())

    threads = [
        threading.Thread(target=forward, args=(each,), name=each.figures.name, daemon=True)
        for each in forwarders
    ]
    for thread in threads:
        thread.start()
    while not faults and not _ended_within(_FIGURES_S):
        lines.say({"figures": [each.figures.plain() for each in forwarders]})
    stopping.set()
    end = time.monotonic() + STOP_S
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    lines.say({"figures": [each.figures.plain() for each in forwarders]})
    for fault in faults:
        for line in fault.splitlines():
            lines.tell(f"sinks: {line}")
    return 1 if faults or any(thread.is_alive() for thread in threads) else 0


def _ended_within(seconds: float) -> bool:
    """Whether standard input ends in that time."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1 << 16)


if __name__ == "__main__":
    sys.exit(main())
