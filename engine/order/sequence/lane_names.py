"""The order of the lanes by names of source and stream, kept while lanes come and go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.kernels.integers import NONE

Name = tuple[str, str]


class LaneNames:
    """Names by lane. What is in order stays in order: only new names are put among the others."""

    def __init__(self) -> None:
        self._names: list[Name] = []
        self._by_name: list[int] = []

    def by_name(self, lanes: int, name_of: Callable[[int], Name]) -> list[int]:
        """All of so many lanes; those that are new are asked for their names."""
        new = range(len(self._names), lanes)
        if new:
            self._names += map(name_of, new)
            self._by_name += new
            self._by_name.sort(key=self._names.__getitem__)
        return self._by_name

    def keep(self, kept: np.ndarray, place: np.ndarray) -> None:
        """Only the lanes ``kept`` stay, which ascend; lane ``i`` becomes ``place[i]``, or NONE."""
        self._names = [self._names[lane] for lane in kept.tolist()]
        self._by_name = [lane for lane in place[self._by_name].tolist() if lane != NONE]

    def clear(self) -> None:
        """All are asked again."""
        self._names, self._by_name = [], []
