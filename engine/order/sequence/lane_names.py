"""The order of the lanes by names of source and stream, kept while lanes come and go."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from engine.kernels.integers import NONE
from engine.stream.released import Strings

Name = tuple[str, str]


class LaneNames(Struct):
    """Names by lane. What is in order stays in order: only new names are put among the others."""

    _names: list[Name] = field(default_factory=list)
    _by_name: list[int] = field(default_factory=list)

    def by_name(self, lanes: np.ndarray, strings: Strings) -> list[int]:
        """All of ``lanes``, of which there may be new ones behind."""
        new, texts = range(len(self._names), len(lanes)), strings.texts
        if new:
            fresh = (lanes[name][new.start :].tolist() for name in ("source", "stream"))
            self._names += zip(*([texts[code] for code in codes] for codes in fresh), strict=True)
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
