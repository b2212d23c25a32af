"""How wrong the clock of any source of a site may be: closing and purge count on it (SPEC 4.3).

A source that has sent nothing yet may send the event that matters, and its clock errs as its last
sync says. So this is not the uncertainty of the events seen, but that of any event that may come.

Errors grow with the distance from a sync, in both directions. The bound is one line for the whole
site: the largest error that any offset had where it began or ended, growing from the oldest of the
sources' last syncs on at the largest rate yet; and likewise towards the past, from the newest of
the oldest offsets that are kept of each source. It is too wide rather than too narrow, and costs
nothing per source and event.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.clocks.prediction import Line
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import LATEST, ClockBound

_EARLIEST: Final = -(1 << 61)
_RATE_MOST: Final = 10**8
"""A tenth: what grows faster than that is no clock."""
_ROUNDED_NS: Final = 2
"""Reference times are rounded."""
_STALE: Final = 64
"""So many entries out of date are no reason to sort."""


class SiteClocks(Restorable):
    """The bound of one site, sync by sync.

    Args:
        least_ns: uncertainty of a source that was never synchronised.
    """

    state_fields = ("_unc_ns", "_rate_ppb", "_back_ppb", "_until", "_last")

    def __init__(self, least_ns: int = 0) -> None:
        self._unc_ns = min(least_ns, UNC_MAX_NS)
        self._rate_ppb = 0
        self._back_ppb = 0
        self._until = -LATEST
        self._last: dict[int, int] = {}
        """Source: reference time of its last sync, of those whose error grows."""
        self._oldest: list[tuple[int, int]] = []
        """Heap of (reference time, source); out of date where ``_last`` says otherwise."""

    @property
    def bound(self) -> ClockBound:
        """What holds until the next sync."""
        heap = self._oldest
        while heap and self._last.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        since = min(max(heap[0][0], _EARLIEST), LATEST) if heap else 0
        rate_ppb = self._rate_ppb if heap else 0
        return ClockBound(self._unc_ns, rate_ppb, since, self._back_ppb, self._until)

    def begins(self, source: int, line: Line) -> None:
        """An offset of the source with this code holds from now on."""
        self._unc_ns = min(max(self._unc_ns, line.unc), UNC_MAX_NS)
        if line.skew_error_ppb <= 0:
            self._last.pop(source, None)
            return
        # Time at the source runs by up to its skew faster than reference time.
        rate_ppb = line.skew_error_ppb + line.skew_error_ppb // 1000 + 1
        self._rate_ppb = min(max(self._rate_ppb, rate_ppb), _RATE_MOST)
        self._last[source] = line.anchor + line.offset - _ROUNDED_NS
        heapq.heappush(self._oldest, (self._last[source], source))
        if len(self._oldest) > 2 * len(self._last) + _STALE:
            self._sort()

    def goes_back(self, anchor: int, offset: int, rate_ppb: int) -> None:
        """The oldest offset kept of a source: how events from before it are corrected."""
        if rate_ppb > 0:
            self._back_ppb = min(max(self._back_ppb, rate_ppb + rate_ppb // 1000 + 1), _RATE_MOST)
            self._until = min(max(self._until, anchor + offset + _ROUNDED_NS), LATEST - 1)

    def ends(self, unc_ns: int) -> None:
        """An offset was in force until its error had grown to ``unc_ns``."""
        self._unc_ns = min(max(self._unc_ns, unc_ns), UNC_MAX_NS)

    def forget(self, source: int) -> None:
        """No event of the source with this code is to come, or it comes as one of a new source."""
        self._last.pop(source, None)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._sort()

    def _sort(self) -> None:
        """Makes the heap again, without what is out of date."""
        self._oldest = sorted((ref, source) for source, ref in self._last.items())
