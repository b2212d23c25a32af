"""The way of events from the inputs to the gateway: through memory, or through an outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from edge_agent.drivers.session_driver import SessionDriver
from edge_agent.inputs.base import Outlet


class Channel(Protocol):
    """Started once, closed once; the same for all inputs of an agent."""

    counts: Counter[str]
    """Events: ``read``, ``dropped_full``, ``dropped_oldest``, ``too_long``; ``bad`` records."""

    @property
    def driver(self) -> SessionDriver:
        """Of the session that is running; it may become another one."""

    @property
    def outlet(self) -> Outlet:
        """Where inputs hand their events."""

    def spool_counts(self) -> dict[str, dict[str, int]]:
        """Of each stream's part of the outbox: bytes, and what has happened to it; none: empty."""

    async def start(self) -> None:
        """Begins to connect."""

    async def finish(self) -> None:
        """All inputs have ended: returns when everything is acked, or the session has failed."""

    async def ended(self) -> None:
        """Returns when nothing can be sent any more."""

    async def stop(self, seconds: float) -> None:
        """The agent is to stop before that: what can be done in so many seconds is done."""

    async def close(self) -> None:
        """Stops everything; called in any case, at last."""

    def told(self, tell: Callable[[str], None]) -> bool:
        """Says what has become of the events; whether all is well."""
