"""Hold time: how long ordering kept each event, release minus arrival on the arrival clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ContractViolation
from engine.report.measure.quantiles import axis_floor, distribution, quantiles
from engine.report.measure.rows import ordered_rows
from engine.stream.released import LATE_DROPPED


def measure_holds(directory: Path) -> dict[str, Any]:
    """Hold times of the events that one pass released; dropped ones were not held for anything.

    Returns:
        ``events``, ``at_once`` (held for 0 ns), ``hold_ns`` (quantiles and ``mean``) and
        ``curve``: share held at most this long.

    Raises:
        ContractViolation: an event was released before it arrived.
    """
    rows = ordered_rows(directory, ("arrival", "release", "status"))
    passed = rows["status"] != LATE_DROPPED
    hold = np.sort(rows["release"][passed] - rows["arrival"][passed])
    n = int(hold.size)
    if n and hold[0] < 0:
        raise ContractViolation(f"{directory}: an event was released {-hold[0]} ns before it came")
    found: dict[str, Any] = {
        "events": n,
        "at_once": int((hold == 0).sum()),
        # Rounded: int64 sums of some 10^8 hours-long holds could overflow, floats only blur them.
        "hold_ns": {"mean": round(float(hold.mean())) if n else None, **quantiles(hold)},
        "curve": {"hold_ns": [], "share": []},
    }
    if n:
        places, below = distribution(hold, axis_floor(hold))
        found["curve"] = {"hold_ns": places.tolist(), "share": (below / n).tolist()}
    return found
