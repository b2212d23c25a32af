"""How each source's offset went: some points of its last hour, in bounded memory.

A source may keep so many points, evenly spread over the hour: the newest is always kept, and stays
when the next comes if it is far enough from the one before. How many it may keep falls by halves as
sources become more, so that all of them together keep a million at most.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SPAN_NS: Final = 3_600_000_000_000
POINTS_MAX: Final = 1 << 20
"""Of all sources."""
EACH_MAX: Final = 512
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
        if len(points) > 1 and points[-1].at - points[-2].at < SPAN_NS // self.each_max:
            del points[-1]
        points.append(ClockPoint(at, offset, bound))
        del points[: -self.each_max]
        while self.each_max > EACH_LEAST and self.each_max * len(self._points) > self._points_max:
            self.each_max //= 2
            for each in self._points.values():
                if len(each) > self.each_max:
                    del each[-2::-2]  # the newest stays

    def points(self, source: int) -> list[ClockPoint]:
        """Those that are kept of ``source``, in order."""
        return list(self._points.get(source, ()))
