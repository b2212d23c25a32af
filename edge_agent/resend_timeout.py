"""How long to wait for an ack before its connection is condemned: RFC 6298, in integers.

From the times between sending and ack: a smoothed mean (gain 1/8) and mean deviation (gain 1/4);
the timeout is mean + 4 deviations, within bounds. A message that was sent twice gives no sample, as
its ack may be of either (Karn's rule); a timeout doubles the wait, until there is a sample again.
"""

from __future__ import annotations


class ResendTimeout:
    """``ns`` is what to wait now. All durations on the monotonic clock."""

    def __init__(self, low_ns: int, high_ns: int) -> None:
        """From ``low_ns`` to ``high_ns``, which it is before the first sample. Equal: fixed."""
        assert 0 < low_ns <= high_ns
        self.ns = high_ns
        self._low_ns = low_ns
        self._high_ns = high_ns
        self._mean_ns: int | None = None
        self._deviation_ns = 0

    @property
    def adaptive(self) -> bool:
        """Whether samples change it."""
        return self._low_ns < self._high_ns

    def sample(self, round_trip_ns: int) -> None:
        """A message that was sent once was acked after so long (at least 0)."""
        assert round_trip_ns >= 0
        if self._mean_ns is None:
            self._mean_ns, self._deviation_ns = round_trip_ns, round_trip_ns // 2
        else:
            off = abs(self._mean_ns - round_trip_ns)
            self._deviation_ns = (3 * self._deviation_ns + off) // 4
            self._mean_ns = (7 * self._mean_ns + round_trip_ns) // 8
        wanted = self._mean_ns + 4 * self._deviation_ns
        self.ns = min(max(wanted, self._low_ns), self._high_ns)

    def timed_out(self) -> None:
        """Nothing came in time."""
        self.ns = min(2 * self.ns, self._high_ns)
