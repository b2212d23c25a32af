"""``mp-kslack``: K-slack whose K is the largest delay seen so far (R19 2.3.2, Fig 2.6).

K starts at 0 and is looked at only when the clock advances: K becomes the largest distance of an
event since the last advance from the new clock, if that is more than before. Then everything with
``time + K <= clock`` goes. K never shrinks.

When not to use: a single straggler, or one event stamped in the future, makes every later event
wait as long as it was late, for ever. The future guard keeps the second from happening.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from engine.kernels.integers import INT_MAX
from engine.kernels.jit import kernel
from engine.kernels.records import one, record
from engine.order.base import Order, OrderSettings, OrderSite
from engine.order.correction import Correction
from engine.order.short_form import SHARED, only_known, shared
from engine.order.slack.buffer import Buffer, push, release_until
from engine.order.slack.held_order import SlackOrder

MP_KSLACK: Final = record("slack", "lowest")
"""K [ns]; the smallest event time since the clock advanced."""


@dataclass(frozen=True, slots=True)
class MpKSlackSettings(OrderSettings):
    """``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``; ``duplicates``: as
    ``engine.order.duplicates``, ``drop`` | ``pass``.
    """

    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        del time_unit
        only_known(pairs, SHARED)
        return cls(**shared(pairs))

    def build(self, site: OrderSite) -> Order:
        own = one(MP_KSLACK, lowest=INT_MAX)
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return SlackOrder(_run, own, self.late, correction, site.wanted)


@kernel
def _run(b: Buffer, start: int, end: int, own: np.ndarray) -> None:
    s, mine = b.state[0], own[0]
    for row in range(start, end):
        key = b.key[row]
        push(b, row)
        if key <= s.clock:
            mine.lowest = min(mine.lowest, key)
            continue
        if mine.lowest != INT_MAX:
            mine.slack = max(mine.slack, key - mine.lowest)
            mine.lowest = INT_MAX
        s.clock = key
        release_until(b, key - mine.slack, b.arrival[row])
