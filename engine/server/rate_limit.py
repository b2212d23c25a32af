"""How fast one connection may send: who is faster is read later, and so waits (TCP)."""

from __future__ import annotations

from typing import Final

WAIT_MAX_S: Final = 10.0
"""Longer than that nobody is left unread, whatever it brought at once: it may have more to say."""


class RateLimit:
    """Bytes and events per second, of which a second's worth may come at once."""

    def __init__(self, bytes_per_s: int, events_per_s: int) -> None:
        self._rates = (bytes_per_s, events_per_s)
        self._levels = [0.0, 0.0]
        self._at = 0.0

    def wait_s(self, now_s: float, size: int, events: int) -> float:
        """How long to wait after so many bytes, with so many events, at ``now_s``; 0: no time."""
        elapsed, self._at = now_s - self._at, now_s
        came = (size, events)
        self._levels = [
            max(level - elapsed * rate, 0.0) + new
            for level, rate, new in zip(self._levels, self._rates, came, strict=True)
        ]
        debts = [level / rate - 1 for level, rate in zip(self._levels, self._rates, strict=True)]
        return min(max(*debts, 0.0), WAIT_MAX_S)
