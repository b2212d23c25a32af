"""The way of events from the inputs to the gateway: through memory, or through an outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from edge_agent.drivers.session_driver import SessionDriver
from edge_agent.inputs.base import Outlet
from edge_agent.outbox.journal import Change
from edge_agent.packing import Row


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

    def begin(
        self, stream: str, ts: int, id: int, type: str, clock_: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """An interval's begin (IBP) is on its way, or (False) there was no room for it."""

    async def put_intervals(
        self, stream: str, rows: Sequence[Row], changes: Sequence[Change], keys: Sequence[bytes]
    ) -> bool:
        """Intervals, and what their end has changed of what is open (``outbox.journal``).

        With an outbox both are as durable as events, and in one piece as long as ``rows`` are one
        message of the wire. ``keys``: of messages whose readings leave no other trace. Returns
        False when some intervals had no room.
        """

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
