"""Lines of JSON, as they come out of a pipe: each complete one is an event."""

from __future__ import annotations

from typing import Final

from edge_agent.inputs.base import Outlet
from edge_agent.inputs.record_batch import JsonBatch
from edge_agent.inputs.record_columns import events
from edge_agent.inputs.record_fields import RecordFields

LINE_MAX: Final = 1 << 20
"""A longer line is left out [bytes]."""


class JsonLines:
    """Cuts chunks of bytes into lines, and lines into batches of events of one stream."""

    def __init__(self, fields: RecordFields, name: str) -> None:
        """``name``: of the input, for messages."""
        self._fields = fields
        self._name = name
        self._rest = b""
        self._skipping = False
        self._line = 0

    async def feed(self, chunk: bytes, now_ns: int, outlet: Outlet) -> None:
        """Hands on the events that ``chunk``, read at ``now_ns``, completes."""
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
        """The input has ended: a last line may lack its newline."""
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
        lines = [*complete.split(b"\n")]  # each is told by itself
    kept = [number for number, line in enumerate(lines) if line.strip()]
    if len(kept) < len(lines):
        lines = [lines[number] for number in kept]
    return kept, lines
