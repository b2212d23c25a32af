"""When windows close: each result at its own end, in order of the windows.

LOW ends floor(T_a/2) before the window, MIDDLE with it, HIGH (and every result that tells all)
after it by the margin: ``max(ceil(T_a/2), largest uncertainty among the window's events)``.
"""

from __future__ import annotations

import numpy as np

from engine.query.plan import Drift
from engine.window.assign import INT_MIN
from engine.window.drift import Geometry
from engine.window.held.content import STAGE_LAST, STAGE_LOW, STAGE_MIDDLE


class Closing:
    """Per result of a window, the largest window index that is closed."""

    def __init__(self, mode: Drift) -> None:
        each = (STAGE_LOW, STAGE_MIDDLE, STAGE_LAST)
        self.stages: tuple[int, ...] = each if mode is Drift.EACH else (STAGE_LAST,)
        self.closed = [INT_MIN] * len(self.stages)

    def next_at(self, live: np.ndarray, unc: np.ndarray, geo: Geometry) -> int:
        """The frontier at which the next window may close.

        Args:
            live: indices of the windows that hold something, ascending.
            unc: their largest uncertainties [ns].
            geo: sizes and shifts in force.
        """
        ends = []
        for stage, closed in zip(self.stages, self.closed, strict=True):
            margin = self._shift(stage, geo)
            if stage == STAGE_LAST:
                blocked = unc[live == closed + 1]
                margin = max([margin, *blocked.tolist()])
            ends.append((closed + 1) * geo.step + geo.size + margin)
        return max(INT_MIN, min(ends))

    def advance(
        self, frontier: int, live: np.ndarray, unc: np.ndarray, geo: Geometry
    ) -> list[tuple[int, int]]:
        """Close what ``frontier`` passed; gives (window, stage) in the order of emission."""
        found = []
        for place, stage in enumerate(self.stages):
            reach = (frontier - self._shift(stage, geo) - geo.size) // geo.step
            begun = (live > self.closed[place]) & (live <= reach)
            if stage == STAGE_LAST:
                late = frontier < live * geo.step + geo.size + unc
                reach = min([reach, *(live[begun & late] - 1).tolist()])
            if reach > self.closed[place]:
                windows = live[(live > self.closed[place]) & (live <= reach)]
                found += [(window, place) for window in windows.tolist()]
                self.closed[place] = reach
        return [(window, self.stages[place]) for window, place in sorted(found)]

    def finish(self, live: np.ndarray) -> list[tuple[int, int]]:
        """Close everything."""
        found = [
            (window, place)
            for place in range(len(self.stages))
            for window in live[live > self.closed[place]].tolist()
        ]
        self.closed = [max([closed, *live.tolist()]) for closed in self.closed]
        return [(window, self.stages[place]) for window, place in sorted(found)]

    @staticmethod
    def _shift(stage: int, geo: Geometry) -> int:
        return (-geo.low_shift, 0, geo.high_shift)[stage]
