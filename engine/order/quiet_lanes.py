"""Lanes of sources that are quiet, packed: 1 KB each, or less, instead of 30.

Nothing is lost by packing: a lane that is heard again is what it was. So when it is packed is
nobody's business but the memory's, and may depend on how the log is cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from engine.order.state import COUNTERS, LANE, LANE_FIRST, PROGRESS

SUMMED: Final = (*COUNTERS, *PROGRESS)
_CODEC: Final = pa.Codec("lz4_raw")


class Quiet(NamedTuple):
    """A packed lane: its number in order of birth, its codes, when it was last heard, its
    ``SUMMED``, and all of it.
    """

    number: int
    source: int
    stream: int
    last_arrival: int
    sums: tuple[int, ...]
    content: bytes


def _new_lane() -> np.ndarray:
    lane = np.zeros(1, LANE)
    for name, value in LANE_FIRST.items():
        lane[name] = value
    return lane


FIRST: Final = _new_lane()
"""A lane that has seen nothing."""


def in_bytes(lanes: np.ndarray) -> np.ndarray:
    """The same lanes as (lanes, bytes), which NumPy copies many times as fast as records."""
    return lanes.view(np.uint8).reshape(len(lanes), LANE.itemsize)


def packed(lanes: np.ndarray) -> list[bytes]:
    """Each lane: what it has beyond a new one is little."""
    beyond = in_bytes(lanes) ^ in_bytes(FIRST)
    return [_CODEC.compress(lane.tobytes(), asbytes=True) for lane in beyond]


def unpacked(content: Iterable[bytes]) -> np.ndarray:
    """Lanes, as they were."""
    parts = [_CODEC.decompress(each, LANE.itemsize) for each in content]
    beyond = [np.frombuffer(each, np.uint8) for each in parts]
    lanes = np.concatenate([*beyond, np.empty(0, np.uint8)]).reshape(-1, LANE.itemsize)
    return np.asarray((lanes ^ in_bytes(FIRST)).view(LANE).reshape(-1))


class QuietLanes:
    """Packed lanes by source."""

    def __init__(self) -> None:
        self._of: dict[int, list[Quiet]] = {}

    def __contains__(self, source: int) -> bool:
        return source in self._of

    def __len__(self) -> int:
        return len(self._of)

    def sources(self) -> np.ndarray:
        """Codes, int64."""
        return np.fromiter(self._of, np.int64, len(self._of))

    def add(self, lane: Quiet) -> None:
        """Keep a lane."""
        self._of.setdefault(lane.source, []).append(lane)

    def take(self, source: int) -> list[Quiet]:
        """The lanes of a source, which are no longer here."""
        return self._of.pop(source)

    def all(self) -> list[Quiet]:
        """Every lane."""
        return [lane for lanes in self._of.values() for lane in lanes]

    def heard(self) -> tuple[np.ndarray, np.ndarray]:
        """Source and arrival of the newest record of each lane."""
        lanes = self.all()
        return (
            np.array([lane.source for lane in lanes], np.int64),
            np.array([lane.last_arrival for lane in lanes], np.int64),
        )

    def snapshot(self) -> list[tuple[Any, ...]]:
        """Plain data."""
        return [tuple(lane) for lane in self.all()]

    def restore(self, state: list[tuple[Any, ...]]) -> None:
        """Take over a snapshot."""
        self._of = {}
        for lane in state:
            self.add(Quiet(*lane))
