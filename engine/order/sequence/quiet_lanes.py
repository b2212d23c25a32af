"""Lanes of sources that are quiet: their memories are packed, 2 KB or less instead of 30.

Nothing is lost by packing: a lane that is heard again is what it was. So when it is packed is
nobody's business but the memory's, and may depend on how the log is cut.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from engine.kernels.integers import INT_MIN, NONE
from engine.kernels.records import numbers_of
from engine.order.sequence.state import LANE

_LEAST: Final = 64


class Lanes(NamedTuple):
    """Some lanes: what the kernels know of each, its number in order of birth, and its memory as
    ``LaneMemories.kept`` gives it.
    """

    heads: np.ndarray
    numbers: np.ndarray
    memories: list[bytes]


def are_silent(lanes: np.ndarray, now: int) -> np.ndarray:
    """Whether the last record of each lane is further back than its idle timeout."""
    last = lanes["last_arrival"]
    silent: np.ndarray = (last > INT_MIN) & (now - last > lanes["idle_timeout"])
    return silent


_no_ints: Final = partial(np.empty, 0, np.int64)


class QuietLanes(Struct):
    """Packed lanes. Places are used again, so that one that goes moves no others."""

    used: int = 0
    """How many there are."""
    _heads: np.ndarray = field(default_factory=partial(np.empty, 0, LANE))
    _source: np.ndarray = field(default_factory=_no_ints)
    """NONE: nothing is here."""
    _heard: np.ndarray = field(default_factory=_no_ints)
    _numbers: np.ndarray = field(default_factory=_no_ints)
    _memories: list[bytes] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)

    def heard(self) -> tuple[np.ndarray, np.ndarray]:
        """Source and arrival of the newest record of each lane."""
        used = self._source != NONE
        return self._source[used], self._heard[used]

    def add(self, lanes: Lanes) -> None:
        """Keep these."""
        self.used += len(lanes.heads)
        lacking = len(lanes.heads) - len(self._free)
        if lacking > 0:
            self._grow(max(lacking, len(self._source), _LEAST))
        start = len(self._free) - len(lanes.heads)
        places = self._free[start:]
        del self._free[start:]
        at = np.array(places, np.int64)
        numbers_of(self._heads)[at] = numbers_of(lanes.heads)
        self._source[at] = lanes.heads["source"]
        self._heard[at] = lanes.heads["last_arrival"]
        self._numbers[at] = lanes.numbers
        for place, memory in zip(places, lanes.memories, strict=True):
            self._memories[place] = memory

    def _grow(self, more: int) -> None:
        size = len(self._source)
        heads = np.empty(size + more, LANE)
        numbers_of(heads)[:size] = numbers_of(self._heads)
        self._heads = heads
        self._source = np.append(self._source, np.full(more, NONE))
        self._heard, self._numbers = (
            np.append(column, np.zeros(more, np.int64)) for column in (self._heard, self._numbers)
        )
        self._memories += [b""] * more
        self._free += range(size + more - 1, size - 1, -1)

    def take(self, is_asked: np.ndarray) -> Lanes:
        """The lanes of sources for which this, by their code, is true; they are no longer here.

        False also for codes beyond its end; the last place is of no source.
        """
        asked = is_asked[np.minimum(self._source, len(is_asked) - 1)]
        places = np.flatnonzero(asked & (self._source != NONE))
        taken = self._at(places)
        self._source[places] = NONE
        self.used -= len(places)
        for place in places.tolist():
            self._memories[place] = b""
            self._free.append(place)
        return taken

    def all(self) -> Lanes:
        """Every lane."""
        return self._at(np.flatnonzero(self._source != NONE))

    def _at(self, places: np.ndarray) -> Lanes:
        return Lanes(
            numbers_of(self._heads)[places].view(LANE).reshape(-1),
            self._numbers[places], [self._memories[place] for place in places.tolist()],
        )  # fmt: skip

    def snapshot(self) -> tuple[Any, ...]:
        """Plain data."""
        return tuple(self.all())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Take over a snapshot, when there are none."""
        self.add(Lanes(*state))
