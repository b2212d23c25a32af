"""What all outlets do with rows: make a message of them, in halves when it would be too long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from edge_agent.drivers.tellings import Tellings
from edge_agent.rows import Row


class BaseOutlet(ABC):
    """Counts, and cuts batches; a subclass says what ``_put`` does with a message's rows."""

    def __init__(self, tellings: Tellings) -> None:
        self.counts: Counter[str] = Counter()
        self._tellings = tellings

    async def take(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes] = ()) -> bool:
        """Puts ``rows``; where there is no room they wait, or are dropped and counted."""
        self.counts["read"] += len(rows)
        return await self._cut(stream, rows, keys)

    def bad(self, what: str, place: str) -> None:
        """A record that was left out."""
        self.counts["bad"] += 1
        self._tellings.rarely(f"{place}: {what}")

    def trouble(self, what: str, place: str) -> None:
        """A fault that costs no record by itself."""
        self._tellings.rarely(f"{place}: {what}")

    @abstractmethod
    async def _put(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        """Whether there was room. ValueError: too long for one message; nothing was put."""

    async def _cut(self, stream: str, rows: Sequence[Row], keys: Sequence[bytes]) -> bool:
        try:
            return await self._put(stream, rows, keys)
        except ValueError as error:
            if len(rows) == 1:
                self.counts["too_long"] += 1
                self.bad(str(error), f"an event of stream {stream}")
                return False
            middle = len(rows) // 2
            first = await self._cut(stream, rows[:middle], ())
            return await self._cut(stream, rows[middle:], keys) and first
