"""``hold:H``: a match leaves H after it became known, on the arrival clock (SPEC 4.2; Z10).

An invalidation until then, the instant itself included, removes both; a later one takes the match
back. H = 0 is nearly ``immediate``, a long H nearly as safe as waiting for promises.

When not to use: when results must be right for good: H is no promise.
"""

from __future__ import annotations

import numpy as np

from engine.barrier.base import Asked
from engine.barrier.promised import Promised
from engine.stream.timeline import Timeline


class Hold(Promised):
    """The policy of ``hold:H``.

    Args:
        asked: of the query.
        hold_ns: H.
        ordered: whether matches also wait for earlier ones, as promises say.
    """

    def __init__(self, asked: Asked, hold_ns: int, *, ordered: bool = False) -> None:
        super().__init__(asked)
        self._hold_ns = hold_ns
        self._ordered = ordered

    def hold_ns(self) -> int | None:
        return self._hold_ns

    def broken(self, timeline: Timeline) -> np.ndarray:
        if self._ordered:
            return super().broken(timeline)
        return np.zeros(len(timeline.ref), np.bool_)  # H is no promise
