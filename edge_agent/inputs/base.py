"""What an input is, and where it hands its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edge_agent.rows import Row


class Outlet(Protocol):
    """Takes what inputs read. ``take`` returns when there is room for more (backpressure)."""

    async def take(self, stream: str, rows: Sequence[Row]) -> None:
        """Events of one stream, in the order in which they happened to be read."""

    def bad(self, what: str, place: str) -> None:
        """A record that was left out: why, and where it stood."""


class Input(Protocol):
    """Reads events until there are no more. Cancelled when the agent stops."""

    async def run(self, outlet: Outlet) -> None:
        """Returns at the end of the input; raises AgentError when it cannot be read at all."""
