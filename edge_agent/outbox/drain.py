"""How fast an outbox is emptied: after an outage, all devices of a site have much to send at once.

A leaky bucket (ITU-T I.371, as a meter): what was sent is owed, and the debt melts at the rate.
More is sent when there is none, so a message may be of any size, and the mean is kept.
"""

from __future__ import annotations

from typing import Final

_NS: Final = 10**9


class DrainLimit:
    """At most ``events_per_s``, in the mean; 0: no limit. Times are of the monotonic clock."""

    def __init__(self, events_per_s: int) -> None:
        self._rate = events_per_s
        self._free_ns = 0
        """When nothing is owed any more."""

    def wait_ns(self, now_ns: int) -> int:
        """How long until more may be sent; 0: now.

        >>> limit = DrainLimit(1000)
        >>> limit.sent(500, 0), limit.wait_ns(0), limit.wait_ns(500_000_000)
        (None, 500000000, 0)
        """
        return max(self._free_ns - now_ns, 0)

    def sent(self, rows: int, now_ns: int) -> None:
        """So many events are on their way."""
        if self._rate:
            self._free_ns = max(self._free_ns, now_ns) + rows * _NS // self._rate
