"""How each source's offset went: some points of its last hour, in bounded memory.

Points are kept as they come. When a source has as many as it may keep, it loses every second of
them while they span less than an hour, and the oldest otherwise. How many it may keep falls by
halves as sources become more, so that all of them together keep a million at most.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SPAN_NS: Final = 3_600_000_000_000
POINTS_MAX: Final = 1 << 20
"""Of all sources."""
EACH_MAX: Final = 256
EACH_LEAST: Final = 8


class ClockPoint(NamedTuple):
    """At arrival-clock instant ``at`` the offset was ``offset`` +- ``bound`` [ns]."""

    at: int
    offset: int
    bound: int


class ClockHistory:
    """Points by number of the source."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.each_max = EACH_MAX
        self._points_max = points_max
        self._points: dict[int, list[ClockPoint]] = {}

    def add(self, source: int, at: int, offset: int, bound: int) -> None:
        """A sync of ``source``."""
        points = self._points.setdefault(source, [])
        points.append(ClockPoint(at, offset, bound))
        while self.each_max > EACH_LEAST and self.each_max * len(self._points) > self._points_max:
            self.each_max //= 2
            for each in self._points.values():
                _thin(each, self.each_max)
        _thin(points, self.each_max)

    def points(self, source: int) -> list[ClockPoint]:
        """Those that are kept of ``source``, in order."""
        return list(self._points.get(source, ()))


def _thin(points: list[ClockPoint], most: int) -> None:
    while len(points) > most:
        if points[-1].at - points[0].at < SPAN_NS:
            # The newest stays.
            del points[-2::-2]
        else:
            del points[0]
