"""``hold:H``: a match leaves H after it became known, on the arrival clock (SPEC 4.2; Z10).

An invalidation until then, the instant itself included, removes both; a later one takes the match
back. H = 0 is nearly ``immediate``, a long H nearly as safe as waiting for promises.

When not to use: when results must be right for good: H is no promise.
"""

from __future__ import annotations

from engine.barrier.base import Asked
from engine.barrier.promised import Promised
from engine.barrier.timeline import Timeline


class Hold(Promised):
    """The policy of ``hold:H``.

    Args:
        asked: of the query.
        hold_ns: H.
    """

    def __init__(self, asked: Asked, hold_ns: int) -> None:
        super().__init__(asked)
        self._hold_ns = hold_ns

    def hold_ns(self) -> int | None:
        return self._hold_ns

    def violations(self, timeline: Timeline) -> int:  # noqa: ARG002 - nothing is promised
        return 0
