"""Wakes a core in time: one timer of the event loop, set anew after all that happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls ``ring`` once, at the earliest instant that it was set to since it rang last.

    One that is set to a later instant rings too early. That does no harm, and most deadlines move
    on before they come: so the loop's timer is mostly left as it is.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> None:
        """Rings in so long at the latest."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._now)

    def cancel(self) -> None:
        """Does not ring any more until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()
