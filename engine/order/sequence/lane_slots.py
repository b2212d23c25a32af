"""Which lane each record is of, by its source and stream."""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent.records import Kind
from engine.kernels.integers import NONE
from engine.kernels.jit import kernel
from engine.kernels.table import slot_of

_EVENT: Final = int(Kind.EVENT)


@kernel
def look_up(
    source: np.ndarray, stream: np.ndarray, default: int, kind: np.ndarray, slots: np.ndarray,
    keys: np.ndarray, lanes: np.ndarray, fresh: np.ndarray,
) -> int:  # fmt: skip
    """Write each row's lane, or none; events of none are listed in ``fresh``. Gives their number.

    ``stream``, ``kind``: empty when every record is of stream ``default``, is an event.
    """
    missed = 0
    for row in range(len(source)):
        of_row = stream[row] if len(stream) else default
        lane = slots[slot_of(slots, keys, (int(np.int64(source[row])), int(np.int64(of_row))))]
        if lane == NONE and (len(kind) == 0 or kind[row] == _EVENT):
            fresh[missed] = row
            missed += 1
        lanes[row] = lane
    return missed
