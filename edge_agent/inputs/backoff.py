"""Waits between attempts that fail: doubled up to a longest one, each of them random.

Full jitter: devices that lost the same peer at once do not come back all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge_agent.settings_file import Table
from edge_agent.units import NS_PER


class Backoff:
    """``wait`` after each failure, ``reset`` after a success."""

    def __init__(self, first_ns: int, most_ns: int, jitter: Callable[[int], int]) -> None:
        """``jitter``: a random whole number from 0 to its argument."""
        self._first_ns = first_ns
        self._most_ns = most_ns
        self._jitter = jitter
        self._bound_ns = first_ns

    def reset(self) -> None:
        """The next wait is one of the shortest again."""
        self._bound_ns = self._first_ns

    def next_ns(self) -> int:
        """How long to wait now."""
        waited = self._jitter(self._bound_ns)
        self._bound_ns = min(2 * self._bound_ns, self._most_ns)
        return waited

    async def wait(self) -> None:
        """Returns when it is time to try again."""
        await asyncio.sleep(self.next_ns() / NS_PER["s"])


def read_backoff(table: Table, jitter: Callable[[int], int]) -> Backoff:
    """The settings ``reconnect`` (1 s) and ``reconnect_max`` (30 s) of an input."""
    first_ns = table.duration_ns("reconnect", NS_PER["s"], low=NS_PER["ms"])
    most_ns = table.duration_ns("reconnect_max", max(30 * NS_PER["s"], first_ns), low=first_ns)
    return Backoff(first_ns, most_ns, jitter)
