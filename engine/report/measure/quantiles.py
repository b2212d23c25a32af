"""Quantiles of whole nanoseconds, and distributions thinned to what a picture can show."""

from __future__ import annotations

from typing import Final

import numpy as np

SHARES: Final = {"p50": (1, 2), "p95": (19, 20), "p99": (99, 100), "p999": (999, 1000)}
POINTS: Final = 200
FLOOR_NS: Final = 1_000


def quantiles(ascending: np.ndarray) -> dict[str, int | None]:
    """Nearest-rank quantiles ``p50 p95 p99 p999 max`` of sorted int64: values that occurred.

    The p-quantile is the smallest value that at least a share p of all values does not exceed.

    >>> quantiles(np.array([10, 20, 30, 40]))
    {'p50': 20, 'p95': 40, 'p99': 40, 'p999': 40, 'max': 40}
    """
    n = int(ascending.size)
    if n == 0:
        return dict.fromkeys((*SHARES, "max"))
    found: dict[str, int | None] = {
        name: int(ascending[-(-n * above // below) - 1]) for name, (above, below) in SHARES.items()
    }
    return found | {"max": int(ascending[-1])}


def axis_floor(ascending: np.ndarray) -> int:
    """Left end of a logarithmic axis: the power of ten below all but the least 0.5 % of the
    positive values, at least a microsecond.
    """
    positive = ascending[np.searchsorted(ascending, 0, side="right") :]
    if not positive.size:
        return FLOOR_NS
    low = int(positive[positive.size // 200])
    return int(max(FLOOR_NS, 10 ** (len(str(low)) - 1)))


def distribution(ascending: np.ndarray, floor: int) -> tuple[np.ndarray, np.ndarray]:
    """Where to read a distribution, and how many values lie at or below each place.

    Args:
        ascending: sorted int64, not empty.
        floor: the smallest place, for a logarithmic axis; values below count there.

    Returns:
        At most ``POINTS`` ascending int64 places, evenly spread over a logarithmic axis from
        ``floor`` to the maximum, and the counts.
    """
    top = max(int(ascending[-1]), floor)
    spread = np.rint(np.geomspace(floor, top, POINTS)).astype(np.int64)
    spread[-1] = top  # beyond 2**53 rounding may miss it
    places = np.unique(spread)
    return places, np.searchsorted(ascending, places, side="right")
