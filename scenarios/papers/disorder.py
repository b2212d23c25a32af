"""Disorder with an exact count: who is delayed is out of order, and nobody else is.

Every event that is not delayed takes the same time, and so arrives after all older ones that are
not delayed. A delayed one arrives after at least one later event that is not. Hence the delayed
ones, and only they, are out of order: something that arrived earlier has a larger time.
"""

from __future__ import annotations

import numpy as np


def arrivals(
    ts: np.ndarray, transit_ns: int, delayed: np.ndarray, delay_ns: np.ndarray
) -> np.ndarray:
    """When each event arrives.

    Args:
        ts: true times [ns], int64, strictly ascending.
        transit_ns: how long every event takes that nothing delays.
        delayed: bool; not the last event, which nothing could overtake.
        delay_ns: by how much longer each delayed event takes, at least; more where that is needed
            to be overtaken.

    Returns:
        int64 [ns], one per event.
    """
    arrival = ts + transit_ns
    rows = np.where(delayed, len(delayed), np.arange(len(delayed)))
    overtakes = np.minimum.accumulate(rows[::-1])[::-1]
    late = np.maximum(arrival[delayed] + delay_ns[delayed], arrival[overtakes[delayed]] + 1)
    arrival[delayed] = late
    return arrival
