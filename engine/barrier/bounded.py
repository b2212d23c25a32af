"""``bounded:K``: a match leaves when the event clock closes its last scope (SPEC 4.2).

L10's Optimization 4.5 with its last scope instead of its last event.

K promises that every later record has ref >= event clock - K (the largest ref yet). An open end x
is closed when x + K <= clock, a closed one when x + K < clock: L10 Example 4.10. A match without
negated steps leaves at once.

When not to use: delays with a tail. What comes later than K is counted, and corrects results that
had been let go.
"""

from __future__ import annotations

import numpy as np

from engine.stream.timeline import LONG_AGO, Steps, Timeline, Told


class Bounded:
    """The policy of ``bounded:K``.

    Args:
        slack_ns: K.
    """

    adapts = False

    def __init__(self, slack_ns: int) -> None:
        self._slack_ns = slack_ns

    def clocks(self, told: Told) -> list[Steps]:
        return [told.clock]

    def targets(self, closes: np.ndarray) -> np.ndarray:
        last = closes[:, :-1].max(axis=1, initial=LONG_AGO)
        return self._after(last)

    def last_targets(self, closes: np.ndarray) -> np.ndarray:
        return self._after(closes[:, -1])

    def _after(self, ref: np.ndarray) -> np.ndarray:
        return np.where(ref == LONG_AGO, ref, ref + self._slack_ns)[:, None]

    def hold_ns(self) -> int | None:
        return None

    def broken(self, timeline: Timeline) -> np.ndarray:
        return timeline.below(timeline.told.clock, self._slack_ns)
