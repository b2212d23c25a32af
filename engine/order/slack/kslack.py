"""K-slack: a fixed K, and the largest delay as K (R19 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MAX, one, record
from slackwater.engine.order.base import (
    SHARED,
    SLACK_MAX_NS,
    Order,
    OrderSite,
    SlackSettings,
    only_known,
    shared,
)
from slackwater.engine.order.slack.buffer import SlackBuffer, SlackOrder, push, release_until

# ``kslack``: every event waits until the event clock has passed it by K (R19 2.3.1).
#
# All events with ``time + K <= clock`` are released, smallest first; the clock is the largest event
# time of all sources so far. An event that is more than K late is released out of order.
#
# When not to use: if delays have a long tail (K must be the largest delay for complete results, and
# every event waits that long); if sources are often silent (the clock stops); if clocks disagree
# and are not compared.


KSLACK: Final = record("slack")
"""K [ns]."""


@dataclass(frozen=True, slots=True)
class KSlackSettings(SlackSettings):
    """``k_ns``: the slack K [ns]."""

    k_ns: int

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
        return fixed_buffers((self.k_ns,), self, site)


def fixed_buffers(slacks: Sequence[int], settings: SlackSettings, site: OrderSite) -> SlackOrder:
    """Return parallel buffers with fixed ``slacks`` [ns]."""
    owns = [one(KSLACK, slack=slack) for slack in slacks]
    return SlackOrder([_run_fixed] * len(owns), owns, settings, site)


@kernel
def _run_fixed(b: SlackBuffer, start: int, end: int, policy: np.ndarray) -> None:
    s, slack = b.state[0], policy[0].slack
    for row in range(start, end):
        s.clock = max(s.clock, b.key[row])
        push(b, row)
        release_until(b, s.clock - slack, b.arrival[row])


# ``mp-kslack``: K-slack whose K is the largest delay seen so far (R19 2.3.2, Fig 2.6).
#
# K starts at 0 and changes only when the clock advances: it becomes the largest distance between
# the new clock and an event since the last advance, if that is larger than before. Then all events
# with ``time + K <= clock`` are released. K never shrinks.
#
# When not to use: if there are stragglers: a single one, or one event stamped in the future, delays
# all later events by its lateness, for ever. The future guard prevents the second case.


MP_KSLACK: Final = record("slack", "lowest")
"""K [ns]; the smallest event time since the clock advanced."""


@dataclass(frozen=True, slots=True)
class MpKSlackSettings(SlackSettings):
    """The settings that all slack orders share."""

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        del time_unit
        only_known(pairs, SHARED)
        return cls(**shared(pairs))

    def build(self, site: OrderSite) -> Order:
        return SlackOrder([_run_growing], [one(MP_KSLACK, lowest=INT_MAX)], self, site)


@kernel
def _run_growing(b: SlackBuffer, start: int, end: int, policy: np.ndarray) -> None:
    s, mine = b.state[0], policy[0]
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
