"""What the policies share that go by promises: POGs, or the progress of an order (SPEC 4.2).

A promise says that no later record of a type has ref below it. Where an ordering operator stands
before the query, its progress is a promise for every type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.barrier.base import Asked
from engine.barrier.holding import Need
from engine.barrier.timeline import ALL, Steps, Timeline
from engine.pattern.matches import Change, Match


class Promised:
    """Due at once; ordered by what is promised for the types of the positive steps."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._for_all = False

    def clocks(self, timeline: Timeline) -> dict[str, Steps]:
        self._for_all = ALL in timeline.promised
        return timeline.promised

    def _needs(self, types: tuple[str, ...], values: tuple[int, ...]) -> list[Need]:
        """One per clock: the latest."""
        found: dict[str, int] = {}
        for kind, value in zip(types, values, strict=True):
            name = ALL if self._for_all else kind
            found[name] = max(found.get(name, value), value)
        return list(found.items())

    def needs(self, change: Change) -> list[Need]:  # noqa: ARG002
        return []

    def deadline(self, match: Match) -> int | None:  # noqa: ARG002
        return None

    def last_needs(self, change: Change) -> list[Need]:
        positive = self._asked.positive
        return self._needs(positive, (change.closes[-1],) * len(positive))

    def violations(self, timeline: Timeline) -> int:
        kinds = np.array(timeline.type)
        found = 0
        for name, steps in timeline.promised.items():
            rows = np.arange(len(kinds)) if name == ALL else np.flatnonzero(kinds == name)
            found += timeline.below(steps, 0, rows)
        return found

    def at_once(self) -> bool:
        return False

    def observe(self, *, spoilt: bool) -> None:
        """Nothing depends on it."""

    def snapshot(self) -> dict[str, Any]:
        return {"for_all": self._for_all}

    def restore(self, state: dict[str, Any]) -> None:
        self._for_all = state["for_all"]
