"""``bounded:K``: a match leaves when the event clock closes its last scope (SPEC 4.2).

L10's Optimization 4.5 with its last scope instead of its last event.

K promises that every later record has ref >= event clock - K (the largest ref yet). An open end x
is closed when x + K <= clock, a closed one when x + K < clock: L10 Example 4.10. A match without
negated steps leaves at once.

When not to use: delays with a tail. What comes later than K is counted, and corrects results that
had been let go.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.barrier.holding import Need
from engine.barrier.timeline import ALL, Steps, Timeline
from engine.pattern.matches import Change, Match


class Bounded:
    """The policy of ``bounded:K``.

    Args:
        slack_ns: K.
    """

    def __init__(self, slack_ns: int) -> None:
        self._slack_ns = slack_ns

    def clocks(self, timeline: Timeline) -> dict[str, Steps]:
        return {ALL: timeline.clock}

    def needs(self, change: Change) -> list[Need]:
        return [(ALL, value + self._slack_ns) for value in sorted(change.closes[:-1])[-1:]]

    def deadline(self, match: Match) -> int | None:  # noqa: ARG002
        return None

    def last_needs(self, change: Change) -> list[Need]:
        return [(ALL, change.closes[-1] + self._slack_ns)]

    def violations(self, timeline: Timeline) -> int:
        return timeline.below(timeline.clock, self._slack_ns, np.arange(len(timeline.ref)))

    def at_once(self) -> bool:
        return False

    def observe(self, *, spoilt: bool) -> None:
        """Nothing depends on it."""

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        assert not state
