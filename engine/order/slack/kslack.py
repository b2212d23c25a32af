"""``kslack``: every event waits until the event clock has passed it by K (R19 2.3.1).

Release all events with ``time + K <= clock``, smallest first, where the clock is the largest event
time seen of any source. An event that is more than K late comes out of order.

When not to use: when delays have a tail (K must be the largest one for a complete answer, and then
every event waits that long); when some sources are often silent (the clock stands still); when
clocks disagree and are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.records import one, record
from engine.order.correction import Correction
from engine.order.slack.buffer import Buffer, push, release_until
from engine.order.slack.held_order import SlackOrder

KSLACK: Final = record("slack")
"""K [ns]."""


@dataclass(frozen=True, slots=True)
class KSlackSettings:
    """``k_ns``: the slack; ``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``.

    ``duplicates``: ``drop`` | ``pass``.
    """

    k_ns: int
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"


def kslack(settings: KSlackSettings, correction: Correction, wanted: set[str] | None) -> SlackOrder:
    """The ordering operator ``kslack``."""
    return SlackOrder(_run, one(KSLACK, slack=settings.k_ns), settings.late, correction, wanted)


@kernel
def _run(b: Buffer, start: int, end: int, own: np.ndarray) -> None:
    s, slack = b.state[0], own[0].slack
    for row in range(start, end):
        s.clock = max(s.clock, b.key[row])
        push(b, row)
        release_until(b, s.clock - slack, b.arrival[row])
