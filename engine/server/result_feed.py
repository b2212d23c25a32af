"""The newest results for live readers: a ring of lines in bounded memory.

The engine publishes from its thread, pages read from theirs. There are no queues: a reader keeps
the number up to which it has read, and learns how many lines it missed.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

LINES_MAX: Final = 2_000
BYTES_MAX: Final = 4 << 20
LINE_MAX: Final = 16 << 10
"""A longer line is kept without its events but the first ones."""
_EVENTS_KEPT: Final = 8
_TAKEN_BACK: Final = b'{"op": "-"'


class Unread(NamedTuple):
    """What a reader gets: ``lines`` up to the number ``end``, after ``skipped`` that are gone."""

    lines: list[bytes]
    end: int
    skipped: int


class ResultFeed:
    """Result lines (DESIGN "Results"), numbered from 1 on as they are published. Thread-safe."""

    def __init__(
        self, lines_max: int = LINES_MAX, bytes_max: int = BYTES_MAX, *, unit_ns: int = 1
    ) -> None:
        self.unit_ns = unit_ns
        """Of the times in the lines."""
        self.inserted = 0
        self.retracted = 0
        """Lines with ``+`` and with ``-``, since the start."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._end = 0
        self._lines_max = lines_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    @property
    def end(self) -> int:
        """The number of the newest line; 0: there is none yet."""
        return self._end

    def publish(self, lines: Sequence[bytes]) -> None:
        """Lines of JSON, with or without their newline, in order of emission."""
        kept = [_short(line) for line in lines[-self._lines_max :]]
        retracted = sum(line.startswith(_TAKEN_BACK) for line in lines)
        with self._lock:
            self.retracted += retracted
            self.inserted += len(lines) - retracted
            self._end += len(lines)
            self._lines.extend(kept)
            self._bytes += sum(map(len, kept))
            while len(self._lines) > self._lines_max or self._bytes > self._bytes_max:
                self._bytes -= len(self._lines.popleft())

    def since(self, number: int, most: int) -> Unread:
        """The lines after ``number``; of more than ``most`` the newest.

        A number that was never given (of an earlier start of the server) counts as none.
        """
        with self._lock:
            end = self._end
            number = number if 0 <= number <= end else 0
            count = min(end - number, most, len(self._lines))
            lines = [self._lines[place] for place in range(-count, 0)]
        return Unread(lines, end, end - number - count)


def _short(line: bytes) -> bytes:
    if len(line) <= LINE_MAX:
        return line
    result: dict[str, Any] = json.loads(line)
    events = result.get("events")
    kept: dict[str, Any] = {
        name: value if len(json.dumps(value)) <= LINE_MAX // 8 else None
        for name, value in result.items()
    }
    if isinstance(events, list):
        kept["events"] = [_bare(event) for event in events[:_EVENTS_KEPT]]
        kept["events_left_out"] = len(events) - len(kept["events"])
    return json.dumps(kept).encode()


def _bare(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "attrs": {}}
