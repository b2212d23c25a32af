"""Barriers that know only what is promised: at once, and the base of those that wait for promises
or for a time (SPEC 4.2).

A promise says that no later record of a type has ref below it. Where an ordering operator stands
before the query, its progress is a promise for every type.
"""

from __future__ import annotations

import numpy as np

from engine.barrier.base import Asked
from engine.stream.timeline import ALL, LONG_AGO, Steps, Timeline, Told


class Promised:
    """Due at once; ordered by what is promised for the types of the positive steps."""

    adapts = False

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._types = list(dict.fromkeys([*asked.negated, *asked.positive]))

    def clocks(self, told: Told) -> list[Steps]:
        promised = told.promised
        return [promised[ALL] if ALL in promised else promised[kind] for kind in self._types]

    def targets(self, closes: np.ndarray) -> np.ndarray:
        return np.full((len(closes), len(self._types)), LONG_AGO)

    def last_targets(self, closes: np.ndarray) -> np.ndarray:
        found = np.full((len(closes), len(self._types)), LONG_AGO)
        for kind in self._asked.positive:
            found[:, self._types.index(kind)] = closes[:, -1]
        return found

    def hold_ns(self) -> int | None:
        return None

    def broken(self, timeline: Timeline) -> np.ndarray:
        return timeline.below_promises()
