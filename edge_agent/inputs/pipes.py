"""Events that other programs print, one JSON object per line: ``stdin`` and ``exec``."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs.base import Outlet, Surroundings
from slackwater.edge_agent.inputs.record_columns import events
from slackwater.edge_agent.inputs.record_fields import JsonBatch, RecordFields, read_fields
from slackwater.edge_agent.inputs.stamping import (
    AGENT,
    DEVICE,
    StampingSettings,
    read_stamping,
    stamping_outlet,
)
from slackwater.edge_agent.settings_file import Table
from slackwater.edge_agent.units import NS_PER

# Lines of JSON from a pipe: each complete line is an event.


LINE_MAX: Final = 1 << 20
"""A longer line is skipped [bytes]."""


class JsonLines:
    """Splits chunks of bytes into lines, and lines into batches of events of one stream."""

    def __init__(self, fields: RecordFields, name: str) -> None:
        """``name``: name of the input, for messages."""
        self._fields = fields
        self._name = name
        self._rest = b""
        self._skipping = False
        self._line = 0

    async def feed(self, chunk: bytes, now_ns: int, outlet: Outlet) -> None:
        """Pass on the events that ``chunk``, read at ``now_ns``, completes."""
        data = self._rest + chunk
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return
            data, self._skipping = data[end + 1 :], False
            self._line += 1
        complete, newline, self._rest = data.rpartition(b"\n")
        if len(self._rest) > LINE_MAX:
            outlet.bad(
                f"a line of more than {LINE_MAX} bytes",
                self._place(complete.count(b"\n") + len(newline)),
            )
            self._skipping, self._rest = True, b""
        if not newline:
            return
        numbers, lines = _lines(complete)
        first, self._line = self._line + 1, self._line + 1 + complete.count(b"\n")

        def bad(what: str, place: int) -> None:
            outlet.bad(what, f"{self._name}: line {first + numbers[place]}")

        found = events(self._fields, JsonBatch(lines), now_ns, bad, apart=True)
        for stream, rows in found:
            await outlet.take(stream, rows)

    async def end(self, now_ns: int, outlet: Outlet) -> None:
        """Handle the end of the input: a last line may lack its newline."""
        if self._rest:
            await self.feed(b"\n", now_ns, outlet)

    def _place(self, further: int) -> str:
        return f"{self._name}: line {self._line + 1 + further}"


def _lines(complete: bytes) -> tuple[list[int], list[str | bytes]]:
    """Number (from 0) and text of each line that is not empty."""
    lines: list[str | bytes]
    try:
        lines = [*complete.decode().split("\n")]
    except UnicodeDecodeError:
        lines = [*complete.split(b"\n")]  # each is reported by itself
    kept = [number for number, line in enumerate(lines) if line.strip()]
    if len(kept) < len(lines):
        lines = [lines[number] for number in kept]
    return kept, lines


CHUNK_BYTES: Final = 1 << 16
"""Bytes per read: what a program has printed meanwhile becomes one batch."""
RESTARTS: Final = ("on-failure", "always", "never")
_STOP_SECONDS: Final = 5.0
"""How long a program may take to end when the agent stops."""

WallClock = Callable[[], int]
"""This device's wall clock [ns]."""


class StdinInput:
    """Reads standard input to its end."""

    def __init__(self, fields: RecordFields, wall_ns: WallClock) -> None:
        self.counts: Counter[str] = Counter()
        """Number of ``bytes`` read."""
        self._fields = fields
        self._wall_ns = wall_ns
        self.stamped: Callable[[Outlet], Outlet] = lambda outlet: outlet
        """Wraps the outlet so that events get the clocks that stamped them."""

    async def run(self, outlet: Outlet) -> None:
        outlet = self.stamped(outlet)
        lines = JsonLines(self._fields, "stdin")
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            # A regular file or /dev/null is always ready, and event loops refuse it.
            while chunk := os.read(number, CHUNK_BYTES):
                self.counts["bytes"] += len(chunk)
                await lines.feed(chunk, self._wall_ns(), outlet)
                await asyncio.sleep(0)
        else:
            reader = asyncio.StreamReader(CHUNK_BYTES)
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
            )
            try:
                await _read_on(reader, lines, self._wall_ns, outlet, self.counts)
            finally:
                transport.close()
        await lines.end(self._wall_ns(), outlet)


class ExecInput:
    """Runs a program and reads its output; restarts it according to ``restart``.

    A program that ends with exit code 0 is not restarted unless ``restart`` is ``always``. Its
    standard error is that of the agent.
    """

    def __init__(
        self, command: list[str], restart: str, wait_ns: int, fields: RecordFields,
        wall_ns: WallClock,
    ) -> None:  # fmt: skip
        self.counts: Counter[str] = Counter()
        """Number of ``bytes`` read; ``started`` and ``failed``: number of times."""
        self._command = command
        self._restart = restart
        self._wait_ns = wait_ns
        self._fields = fields
        self._wall_ns = wall_ns
        self.stamped: Callable[[Outlet], Outlet] = lambda outlet: outlet

    async def run(self, outlet: Outlet) -> None:
        outlet = self.stamped(outlet)
        while True:
            code = await self._once(outlet)
            if code:
                self.counts["failed"] += 1
                outlet.bad(f"ended with exit code {code}", " ".join(self._command))
            if self._restart == "never" or (self._restart == "on-failure" and code == 0):
                return
            await asyncio.sleep(self._wait_ns / NS_PER["s"])

    async def _once(self, outlet: Outlet) -> int:
        try:
            program = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                limit=CHUNK_BYTES,
            )  # fmt: skip
        except OSError as error:
            raise AgentError(f"{self._command[0]}: {error.strerror}") from error
        self.counts["started"] += 1
        assert program.stdout is not None
        lines = JsonLines(self._fields, self._command[0])
        try:
            await _read_on(program.stdout, lines, self._wall_ns, outlet, self.counts)
            await lines.end(self._wall_ns(), outlet)
            return await program.wait()
        finally:
            await _ended(program)


async def _read_on(
    reader: asyncio.StreamReader, lines: JsonLines, wall_ns: WallClock, outlet: Outlet,
    counts: Counter[str],
) -> None:  # fmt: skip
    while chunk := await reader.read(CHUNK_BYTES):
        counts["bytes"] += len(chunk)
        await lines.feed(chunk, wall_ns(), outlet)


async def _ended(program: asyncio.subprocess.Process) -> None:
    """End the program: terminate it, and kill it if it does not end in time."""
    if program.returncode is not None:
        return
    program.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await program.wait()
    except TimeoutError:
        program.kill()
        await program.wait()


def stdin_input(table: Table, around: Surroundings) -> StdinInput:
    """``kind = "stdin"``."""
    stamping, fields = _fields(table, around)
    found = StdinInput(fields, around.wall_ns)
    fields.count_in(found.counts, around)
    found.stamped = stamping_outlet(stamping, fields, around, found.counts)
    return found


def _fields(table: Table, around: Surroundings) -> tuple[StampingSettings, RecordFields]:
    """A program on this device uses this device's clock unless the settings say otherwise."""
    stamping = read_stamping(
        table, AGENT, delay_min_max_ns=100 * NS_PER["ms"], delay_max_ns=10 * NS_PER["s"]
    )
    return stamping, read_fields(table, around.schemas, devices=stamping.clock == DEVICE)


def exec_input(table: Table, around: Surroundings) -> ExecInput:
    """``kind = "exec"``: ``command`` (a list: no shell), ``restart``, ``restart_wait``."""
    command = table.texts("command")
    if not command or not command[0]:
        raise table.wrong("command", 'write the program and its arguments: ["program", "-v"]')
    restart = table.text("restart", "on-failure", among=RESTARTS)
    wait_ns = table.duration_ns("restart_wait", NS_PER["s"], low=NS_PER["ms"])
    stamping, fields = _fields(table, around)
    found = ExecInput(command, restart, wait_ns, fields, around.wall_ns)
    fields.count_in(found.counts, around)
    found.stamped = stamping_outlet(stamping, fields, around, found.counts)
    return found
