"""The arrival clock: the engine's clock, but it never goes back.

A clock that was set back a little is waited for. One that was set back by more must not make the
gateway hold frames, acks and time-outs until it has caught up, which may take hours; so arrival
runs on from where it was, ahead of the engine's clock from then on, and NTP questions are answered
by it too: for the sources nothing has happened, and reference times do not go back either.
"""

from __future__ import annotations

from typing import Final

from edge_agent.limits import TIME_MAX_NS

WAITED_FOR_NS: Final = 1_000_000_000


class ArrivalClock:
    """Readings of the engine's clock [ns] become arrivals.

    Attributes:
        ahead_ns: by how much arrivals are ahead of the engine's clock; a new log begins at 0.
        set_back: how often the engine's clock was set back by more than is waited for.
    """

    def __init__(self, last_arrival: int | None) -> None:
        """``last_arrival``: of the log that is continued; None: of a new one."""
        self.ahead_ns = 0
        self.set_back = 0
        self.now = -TIME_MAX_NS if last_arrival is None else last_arrival

    def advance(self, now_ns: int) -> int:
        """The arrival of what comes at ``now_ns`` of the engine's clock."""
        arrival = now_ns + self.ahead_ns
        if arrival < self.now - WAITED_FOR_NS:
            self.set_back += 1
            self.ahead_ns += self.now - arrival
        self.now = max(self.now, now_ns + self.ahead_ns)
        return self.now

    def engine_ns(self, arrival: int) -> int:
        """The engine's clock at a later ``arrival``."""
        return arrival - self.ahead_ns
