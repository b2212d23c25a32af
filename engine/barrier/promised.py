"""Barriers that know only what is promised: at once, and the base of those that wait for promises
or for a time (SPEC 4.2).

A promise says that no later record of a type has ref below it. Where an ordering operator stands
before the query, its progress is a promise for every type.
"""

from __future__ import annotations

import numpy as np

from engine.barrier.base import Asked
from engine.barrier.timeline import ALL, LONG_AGO, Steps, Timeline


class Promised:
    """Due at once; ordered by what is promised for the types of the positive steps."""

    adapts = False

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._types = list(dict.fromkeys([*asked.negated, *asked.positive]))

    def clocks(self, timeline: Timeline) -> list[Steps]:
        promised = timeline.promised
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

    def violations(self, timeline: Timeline) -> int:
        found = 0
        for name, steps in timeline.promised.items():
            mine = slice(None) if name == ALL else timeline.type == timeline.types.index(name)
            found += timeline.below(steps, 0, np.arange(len(timeline.ref))[mine])
        return found
