"""Disorder with an exact count: the delayed events are out of order, and no others are.

Every event that is not delayed takes the same time, and so arrives after all older ones that are
not delayed. A delayed one arrives after at least one newer event that is not delayed. Hence the
delayed events, and only they, are out of order: an event that arrived earlier has a larger time.
"""

from __future__ import annotations

import numpy as np


def arrivals(
    ts: np.ndarray, transit_ns: int, delayed: np.ndarray, delay_ns: np.ndarray
) -> np.ndarray:
    """When each event arrives.

    Args:
        ts: true times [ns], int64, strictly ascending.
        transit_ns: transit time of events that are not delayed.
        delayed: bool, one per event; False for the last event, which nothing could overtake.
        delay_ns: least extra time that each delayed event takes; it takes more where that is
            needed for it to be overtaken.

    Returns:
        int64 [ns], one per event.
    """
    arrival = ts + transit_ns
    rows = np.where(delayed, len(delayed), np.arange(len(delayed)))
    overtakes = np.minimum.accumulate(rows[::-1])[::-1]
    late = np.maximum(arrival[delayed] + delay_ns[delayed], arrival[overtakes[delayed]] + 1)
    arrival[delayed] = late
    return arrival
