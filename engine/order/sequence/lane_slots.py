"""The hash table from (source, stream) to lane: open addressing, at most half full."""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent.records import Kind
from engine.kernels.hashing import mixed
from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel

SLOT: Final = np.dtype([("source", "i4"), ("stream", "i4"), ("lane", "i4")])
"""A place of the table."""
_EVENT: Final = int(Kind.EVENT)


@inline
def _slot(slots: np.ndarray, source: int, stream: int) -> int:
    """The place of (source, stream), or the empty one where it belongs."""
    mask = len(slots) - 1
    place = mixed(mixed(0, source), stream) & mask
    while slots[place].lane != NONE and (
        slots[place].source != source or slots[place].stream != stream
    ):
        place = (place + 1) & mask
    return int(place)


@kernel
def enter(sources: np.ndarray, streams: np.ndarray, first: int, slots: np.ndarray) -> None:
    """Lanes ``first``, ``first + 1`` ... of ``sources`` and ``streams`` into the hash table."""
    for i in range(len(sources)):
        place = _slot(slots, sources[i], streams[i])
        slots[place].source = sources[i]
        slots[place].stream = streams[i]
        slots[place].lane = first + i


@kernel
def look_up(
    source: np.ndarray, stream: np.ndarray, default: int, kind: np.ndarray, slots: np.ndarray,
    lanes: np.ndarray, fresh: np.ndarray,
) -> int:  # fmt: skip
    """Write each row's lane, or none; events of none are listed in ``fresh``. Gives their number.

    ``stream``, ``kind``: empty when every record is of stream ``default``, is an event.
    """
    missed = 0
    for row in range(len(source)):
        of_row = stream[row] if len(stream) else default
        lane = slots[_slot(slots, source[row], of_row)].lane
        if lane == NONE and (len(kind) == 0 or kind[row] == _EVENT):
            fresh[missed] = row
            missed += 1
        lanes[row] = lane
    return missed
