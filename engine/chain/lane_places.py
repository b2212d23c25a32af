"""Where each lane's newest event lies on the engine's clock, for reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.clocks.reference import SourceClocks
from engine.stream.released import Strings


def placed(
    lanes: list[dict[str, Any]], strings: Strings, clocks: SourceClocks, least_ns: int
) -> list[dict[str, Any]]:  # fmt: skip
    """``lanes``, each with the time of its newest event, and by which offset it is corrected.

    ``least_ns``: what an event of a clock that no handshake corrects may be off by [ns].
    """
    for lane in lanes:
        newest = lane.pop("newest_ts")
        lane |= {"last_event": None, "offset": None, "uncertainty": None}
        if newest is None:
            continue
        code = strings.find(lane["source"] or "")
        clocks.grow(code + 1)
        ref, unc, _ = clocks.correct(np.array([code]), np.array([newest]), least_ns)
        last = int(ref[0])
        lane |= {"last_event": last, "offset": last - newest, "uncertainty": int(unc[0])}
    return lanes
