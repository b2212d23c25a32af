"""The window queries, and their answers if every clock were right.

Computed from true times and true values only: one pass of NumPy over the truth table, nothing of
the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenarios.soccer.pitch import BALL_SID, SECOND

Key = tuple[int, int | None]
"""Start of the window [ns], and ``sid`` where the query groups by it."""


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """One query over tumbling windows; ``sid`` None: over all sensors, not grouped."""

    name: str
    text: str
    size_ns: int
    labels: tuple[str, ...]
    sid: int | None = None


QUERIES: Final = (
    WindowQuery(
        "plain", "SELECT avg(v) FROM soccer WINDOW TUMBLING 10 s", 10 * SECOND, ("avg(v)",)
    ),
    WindowQuery(
        "velocity",
        "SELECT avg(v), count(*) FROM soccer WINDOW TUMBLING 10 s DRIFT together",
        10 * SECOND,
        ("avg(v)", "count(*)"),
    ),
    WindowQuery(
        "ball",
        "SELECT avg(v), max(v), count(*) FROM soccer WHERE sid = 4 GROUP BY sid "
        "WINDOW TUMBLING 1 s",
        SECOND,
        ("avg(v)", "max(v)", "count(*)"),
        BALL_SID,
    ),
)
"""R19 Query 5.6 and 5.7, and the ball's speed second by second."""


def true_windows(
    query: WindowQuery, true_ns: np.ndarray, sid: np.ndarray, v: np.ndarray
) -> dict[Key, dict[str, float]]:
    """The aggregates of ``query`` by label, over events of these true times and values."""
    if query.sid is not None:
        chosen = sid == query.sid
        true_ns, v = true_ns[chosen], v[chosen]
    windows, place = np.unique(true_ns // query.size_ns, return_inverse=True)
    count = np.bincount(place, minlength=windows.size)
    total = np.zeros(windows.size, np.int64)
    np.add.at(total, place, v)
    largest = np.full(windows.size, np.iinfo(np.int64).min)
    np.maximum.at(largest, place, v)
    values = {"avg(v)": total / np.maximum(count, 1), "max(v)": largest, "count(*)": count}
    return {
        (int(window) * query.size_ns, query.sid): {
            label: values[label][at].item() for label in query.labels
        }
        for at, window in enumerate(windows.tolist())
    }
