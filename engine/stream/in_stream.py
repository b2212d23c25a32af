"""The ordered stream: what an order dropped from it is not part of it (SPEC 3.1).

Windows see dropped events too, as corrections (SPEC 4.4); a pattern's user who wants late events to
count asks the order to pass them (``late=pass``).
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from engine.stream.released import LATE_DROPPED, Gaps, Progress, Promises, Released

_Told = TypeVar("_Told", Progress, Gaps, Promises)


def in_stream(released: Released) -> Released:
    """``released`` without the events that were dropped; all places count those that are left."""
    kept = released.columns["status"] != LATE_DROPPED
    if kept.all():
        return released
    before = np.concatenate(([0], np.cumsum(kept)))

    def moved(told: _Told) -> _Told:
        return replace(told, row=before[told.row])

    return replace(
        released,
        n=int(before[-1]),
        columns={name: column[kept] for name, column in released.columns.items()},
        progress=moved(released.progress),
        gaps=moved(released.gaps),
        slack=moved(released.slack),
        promises=None if released.promises is None else moved(released.promises),
    )
