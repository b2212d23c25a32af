"""Events go from the inputs into the session's memory: what is not acked dies with the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from edge_agent import clock
from edge_agent.drivers.session_driver import SessionDriver
from edge_agent.drivers.tellings import Tellings
from edge_agent.messages import StreamSchema
from edge_agent.outputs import Emitted
from edge_agent.rows import Row, columns_of


class MemoryOutlet:
    """Where inputs hand their events when there is no outbox."""

    def __init__(
        self,
        driver: SessionDriver,
        streams: Sequence[StreamSchema],
        when_full: dict[str, str],
        tellings: Tellings,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Events: ``read``, ``dropped_full``, ``too_long``; ``bad`` records."""
        self._driver = driver
        self._schemas = {stream.name: stream for stream in streams}
        self._when_full = when_full
        self._tellings = tellings

    async def take(self, stream: str, rows: Sequence[Row]) -> None:
        """Emits ``rows``; where there is no room they wait, or are dropped and counted."""
        self.counts["read"] += len(rows)
        await self._emit(stream, rows)

    def bad(self, what: str, place: str) -> None:
        """A record that was left out."""
        self.counts["bad"] += 1
        self._tellings.rarely(f"{place}: {what}")

    async def _emit(self, stream: str, rows: Sequence[Row]) -> None:
        while True:
            try:
                emitted = self._emitted(stream, rows)
            except ValueError as error:
                await self._in_halves(stream, rows, error)
                return
            if emitted.reason != "full":
                return
            if self._when_full[stream] != "block":
                self.counts["dropped_full"] += len(rows)
                return
            await self._driver.changed()

    def _emitted(self, stream: str, rows: Sequence[Row]) -> Emitted:
        ts, te, ids, types, attrs = columns_of(self._schemas[stream], rows)
        emitted = self._driver.session.emit(
            stream, clock.read(), ts=ts, te=te, ids=ids, types=types, attrs=attrs
        )
        self._driver.carry_out()
        return emitted

    async def _in_halves(self, stream: str, rows: Sequence[Row], error: ValueError) -> None:
        """A message has an end: long texts make one of fewer rows."""
        if len(rows) == 1:
            self.counts["too_long"] += 1
            self.bad(str(error), f"an event of stream {stream}")
            return
        middle = len(rows) // 2
        await self._emit(stream, rows[:middle])
        await self._emit(stream, rows[middle:])
