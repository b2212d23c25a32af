"""Lines for people: some are told whenever they are due, faults that repeat only now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edge_agent import clock

_EVERY_NS: Final = 10 * 10**9
_AT_ONCE: Final = 5


class Tellings:
    """Tells lines by ``tell``; of those for ``rarely``, 5 every 10 s and how many more."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._since_ns = clock.read().mono_ns
        self._told = 0
        self._left_out = 0

    def rarely(self, line: str) -> None:
        """A fault of which there may be thousands."""
        now_ns = clock.read().mono_ns
        if now_ns - self._since_ns >= _EVERY_NS:
            self.end()
            self._since_ns, self._told = now_ns, 0
        if self._told < _AT_ONCE:
            self._told += 1
            self.tell(line)
        else:
            self._left_out += 1

    def end(self) -> None:
        """Says how many were left out since the last time."""
        if self._left_out:
            self.tell(f"{self._left_out} more such lines")
        self._left_out = 0
