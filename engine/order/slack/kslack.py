"""``kslack``: every event waits until the event clock has passed it by K (R19 2.3.1).

Release all events with ``time + K <= clock``, smallest first, where the clock is the largest event
time seen of any source. An event that is more than K late comes out of order.

When not to use: when delays have a tail (K must be the largest one for a complete answer, and then
every event waits that long); when some sources are often silent (the clock stands still); when
clocks disagree and are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from engine.errors import UserError
from engine.kernels.jit import kernel
from engine.kernels.records import one, record
from engine.order.base import Order, OrderSettings, OrderSite
from engine.order.correction import Correction
from engine.order.short_form import SHARED, SLACK_MAX_NS, only_known, shared
from engine.order.slack.buffer import Buffer, push, release_until
from engine.order.slack.held_order import SlackOrder
from engine.units import parse_duration

KSLACK: Final = record("slack")
"""K [ns]."""


@dataclass(frozen=True, slots=True)
class KSlackSettings(OrderSettings):
    """``k_ns``: the slack; ``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``.

    ``duplicates``: ``drop`` | ``pass``.
    """

    k_ns: int
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"

    first = "k"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        only_known(pairs, ("k", *SHARED))
        if "k" not in pairs:
            raise UserError("kslack needs its slack, as in kslack:2s")
        k_ns = parse_duration(pairs["k"], time_unit)
        if k_ns > SLACK_MAX_NS:
            raise UserError(f"k={pairs['k']}: at most {SLACK_MAX_NS} ns")
        return cls(k_ns, **shared(pairs))

    def build(self, site: OrderSite) -> Order:
        own = one(KSLACK, slack=self.k_ns)
        correction = Correction(site.clocks, site.guards, self.duplicates)
        return SlackOrder(_run, own, self.late, correction, site.wanted)


@kernel
def _run(b: Buffer, start: int, end: int, own: np.ndarray) -> None:
    s, slack = b.state[0], own[0].slack
    for row in range(start, end):
        s.clock = max(s.clock, b.key[row])
        push(b, row)
        release_until(b, s.clock - slack, b.arrival[row])
