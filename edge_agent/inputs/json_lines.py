"""Lines of JSON, as they come out of a pipe: each complete one is an event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from edge_agent.inputs.base import Outlet
from edge_agent.inputs.record_fields import RecordFields
from edge_agent.rows import BadRecord, Row, fits

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
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > LINE_MAX:
            outlet.bad(f"a line of more than {LINE_MAX} bytes", self._place(len(lines) + 1))
            self._skipping, self._rest = True, b""
        for stream, rows in self._batches(lines, now_ns, outlet):
            await outlet.take(stream, rows)

    async def end(self, now_ns: int, outlet: Outlet) -> None:
        """The input has ended: a last line may lack its newline."""
        if self._rest:
            await self.feed(b"\n", now_ns, outlet)

    def _batches(
        self, lines: Sequence[bytes], now_ns: int, outlet: Outlet
    ) -> Iterator[tuple[str, list[Row]]]:
        """Consecutive events of one stream, together."""
        rows: list[Row] = []
        stream = ""
        for line in lines:
            self._line += 1
            if not line.strip():
                continue
            try:
                named, row = self._fields.event(_record(line), now_ns)
            except BadRecord as error:
                outlet.bad(str(error), self._place(0))
                continue
            if rows and (named != stream or not fits(rows, row)):
                yield stream, rows
                rows = []
            stream = named
            rows.append(row)
        if rows:
            yield stream, rows

    def _place(self, further: int) -> str:
        return f"{self._name}: line {self._line + further}"


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"not JSON: {error}") from error
    if type(record) is not dict:
        raise BadRecord("not an object of JSON")
    return record
