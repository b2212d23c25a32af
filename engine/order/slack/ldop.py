"""``ldop``: the slack follows the mean delay of recent out-of-order events (R19 2.3.4).

Latency distance and purging time: LD is the mean of ``arrival - time`` over the out-of-order events
in the last |w| of the event clock (Eq 2.4); the purging time of an event is ``time + |w| + SF *
LD`` (Eq 2.5). R19 describes it for the buffers of a pattern matcher, where a purged event has no
further effect. In an ordering operator the purging time is the release time: an event is released
when the event clock reaches its purging time, with the LD of that moment, not of its arrival. So
all buffered events wait for the same span, and the smallest is released first:

    limit = clock - |w| - SF * LD;    each arrival releases all events with time <= limit.

``|w|`` is the WITHIN or the window of the query (``engine.order.query_defaults``). Disorder is
measured on the events that the queries read: an event is out of order if a larger one of them came
before it. All events move the clock and are released in the same way, so no event waits for a rare
type.

An event that arrives behind the limit is released at once; it is late if a larger one has been
released.

In the paper SF is a random choice from a slack range. Here ``factor=LOW..HIGH`` is drawn by a hash
of the number of the current stretch of |w| on the event clock, so a log always gives the same
result. SF is constant within a stretch: with a draw per event the smallest of many draws would
release everything, and only the lower end of the range would matter.

The window has 64 buckets of the event clock, or one per ns if |w| is shorter. A delay counts at the
clock when the event arrived, so it may exceed |w|; it is limited to [0, 6.5 days]. The sums are
exact.

When not to use: LD is a mean, so with SF = 1 about half of the events that |w| does not cover are
late, and more if delays have a tail. All events wait for |w| even if nothing is out of order.
Disagreement of clocks counts as delay, as a delay is the difference of two clocks. The method was
made for patterns, which do not buffer irrelevant events; an aggregate buffers all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MIN, Record, one, record
from slackwater.engine.kernels.tables import MULTIPLIER
from slackwater.engine.order.base import (
    SHARED,
    Order,
    OrderSite,
    SlackSettings,
    factor,
    only_known,
    shared,
    span_if_given,
)
from slackwater.engine.order.query_defaults import longest_window, reads_of
from slackwater.engine.order.slack.buffer import SlackBuffer, SlackOrder, push, release_until
from slackwater.engine.query.plan import Plan

BUCKETS: Final = 64
DELAY_MAX_NS: Final = 1 << 49
FACTOR_UNIT: Final = 1000
FACTOR_MAX: Final = 1000
"""Largest slack factor: its product with the longest delay fits into 64 bits."""
WAIT_MAX_NS: Final = 1 << 60

BUCKET: Final = record("n", "high_sum", "low_sum")
"""Number of out-of-order events, and the sum of their delays as two numbers."""
LDOP: Final = np.dtype(
    [
        *((name, "i8") for name in (
            "window", "low", "choices", "width", "places",
            "bucket", "stretch", "factor", "wait", "read", "n", "high_sum", "low_sum",
        )),
        ("ring", BUCKET, (BUCKETS,)),
    ]
)  # fmt: skip
"""``window``: |w| [ns]. ``low``: the smallest slack factor, in thousandths. ``choices``: the number
of factors in the range. ``width``: span of a bucket [ns]. ``places``: buckets in use.

``bucket``, ``stretch``: numbers of the current ones of the event clock. ``factor``: the factor of
the stretch. ``wait``: |w| + SF * LD, at most ``WAIT_MAX_NS``. ``read``: largest time so far of the
events that the queries read. ``n``, ``high_sum``, ``low_sum``: BUCKET fields of the whole window.
``ring``: the buckets.
"""
_SPLIT: Final = 30
"""Bits of the lower part of a delay: 2**32 delays add up within 64 bits."""


@dataclass(frozen=True, slots=True)
class LdopSettings(SlackSettings):
    """``window_ns``: ``|w|``; None: that of the queries (``engine.order.query_defaults``).

    ``factor_low_milli`` to ``factor_high_milli``: the slack range, in thousandths.
    """

    window_ns: int | None = None
    factor_low_milli: int = FACTOR_UNIT
    factor_high_milli: int = FACTOR_UNIT

    first = "factor"

    @classmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        only_known(pairs, ("factor", "window", *SHARED))
        low, dots, high = pairs.get("factor", "1").partition("..")
        low_milli = factor(low, "factor", FACTOR_MAX)
        high_milli = factor(high, "factor", FACTOR_MAX) if dots else low_milli
        if high_milli < low_milli:
            raise UserError(f"factor={pairs['factor']}: the lower end comes first")
        window_ns = span_if_given(pairs, "window", time_unit)
        return cls(window_ns, low_milli, high_milli, **shared(pairs))

    def build(self, site: OrderSite) -> Order:
        return Ldop(self, site)

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        longest_window(plans, self.window_ns)
        return {}


class Ldop(SlackOrder):
    """The ordering operator ``ldop``.

    Args:
        settings: its settings.
        site: the site that it orders.
    """

    def __init__(self, settings: LdopSettings, site: OrderSite) -> None:
        window_ns = longest_window(site.plans, settings.window_ns)
        low, width = settings.factor_low_milli, -(-window_ns // BUCKETS)
        policy = one(
            LDOP, window=window_ns, low=low, choices=settings.factor_high_milli - low + 1,
            width=width, places=-(-window_ns // width), bucket=INT_MIN, stretch=INT_MIN,
            factor=low, wait=window_ns, read=INT_MIN,
        )  # fmt: skip
        self._reads, self._strings = reads_of(site.plans), site.clocks.strings
        super().__init__([self._looked_at], [policy], settings, site)

    def _looked_at(self, buffer: SlackBuffer, start: int, end: int, policy: np.ndarray) -> None:
        read = self._reads.rows(self._arena.columns, start, end, self._strings)
        _run(buffer, read, start, end, policy)


@kernel
def splitmix64(number: int) -> int:
    """Return output ``number`` of splitmix64 with seed 0, without its lowest bit (63 bits)."""
    z = np.uint64(number + 1) * MULTIPLIER
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@kernel
def _mean(n: int, high: int, low: int) -> int:
    """Return ``(high * 2**30 + low) // n`` for up to 2**32 delays; 0 if n is 0."""
    if n == 0:
        return 0
    whole, rest = high // n, high % n
    return (whole << _SPLIT) + ((rest << _SPLIT) + low) // n


@inline
def _weigh(policy: Record) -> None:
    """Set the wait from the current window and factor."""
    mean = _mean(policy.n, policy.high_sum, policy.low_sum)
    whole, rest = mean // FACTOR_UNIT, mean % FACTOR_UNIT  # separate, to stay within 64 bits
    slack = whole * policy.factor + rest * policy.factor // FACTOR_UNIT
    policy.wait = min(policy.window + slack, WAIT_MAX_NS)


@inline
def _advance(policy: Record, clock: int) -> bool:
    """Move the window to ``clock``; return whether that may change the wait."""
    changed = False
    bucket = clock // policy.width
    if bucket > policy.bucket:
        emptied = min(bucket - policy.bucket, policy.places) if policy.bucket != INT_MIN else 0
        for number in range(bucket - emptied + 1, bucket + 1):
            gone = policy.ring[number % policy.places]
            changed = changed or gone.n > 0
            policy.n -= gone.n
            policy.high_sum -= gone.high_sum
            policy.low_sum -= gone.low_sum
            gone.n, gone.high_sum, gone.low_sum = 0, 0, 0
        policy.bucket = bucket
    stretch = clock // policy.window
    if stretch != policy.stretch:
        policy.stretch = stretch
        policy.factor = policy.low + splitmix64(stretch) % policy.choices
        changed = True
    return changed


@inline
def _learn(policy: Record, delay_ns: int) -> None:
    """Add the delay of an out-of-order event."""
    delay = min(max(delay_ns, 0), DELAY_MAX_NS)
    high, low = delay >> _SPLIT, delay & ((1 << _SPLIT) - 1)
    bucket = policy.ring[policy.bucket % policy.places]
    bucket.n += 1
    policy.n += 1
    bucket.high_sum += high
    policy.high_sum += high
    bucket.low_sum += low
    policy.low_sum += low


@kernel
def _run(b: SlackBuffer, read: np.ndarray, start: int, end: int, policy: np.ndarray) -> None:
    """Process rows [``start``, ``end``); ``read``: which rows the queries read; empty: all."""
    s, mine = b.state[0], policy[0]
    for row in range(start, end):
        key = b.key[row]
        push(b, row)
        if key > s.clock:
            s.clock = key
            if _advance(mine, key):
                _weigh(mine)
        if len(read) == 0 or read[row - start]:
            if key < mine.read:
                _learn(mine, b.arrival[row] - key)
                _weigh(mine)
            mine.read = max(mine.read, key)
        release_until(b, s.clock - mine.wait, b.arrival[row])
