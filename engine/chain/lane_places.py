"""Where the newest event of each lane lies on the engine's clock, for counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.clocks.reference import SourceClocks


def placed(
    lanes: list[dict[str, Any]], clocks: SourceClocks, least_ns: int
) -> list[dict[str, Any]]:
    """``lanes`` with where each one's newest event lies, and by which offset.

    Args:
        lanes: counters of an order, changed in place.
        clocks: of the site's sources.
        least_ns: what a clock that is never synchronised may err by.
    """
    for lane in lanes:
        newest = lane.pop("newest_ts")
        lane |= {"last_event": None, "offset": None, "uncertainty": None}
        if newest is None:
            continue
        code = clocks.strings.find(lane["source"] or "")
        clocks.grow(code + 1)
        ref, unc, _ = clocks.correct(np.array([code]), np.array([newest]), least_ns)
        last = int(ref[0])
        lane |= {"last_event": last, "offset": last - newest, "uncertainty": int(unc[0])}
    return lanes
