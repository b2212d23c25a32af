"""``ldop``: the slack follows the mean delay of what came out of order lately (R19 2.3.4).

Latency distance and purging time: LD is the mean of ``arrival - time`` over the events that came
out of order while the event clock went through its last |w| (Eq 2.4); the purging time of an event
is ``time + |w| + SF * LD`` (Eq 2.5). R19 describes it for the buffers of a pattern matcher, where
an event is purged: it can take part in nothing any more. For an ordering operator we read that as
giving up its place: the event is let go once the event clock has reached its purging time, with
the LD of that moment, not of its arrival. So all held events wait for the same span, and go
smallest first:

    limit = clock - |w| - SF * LD;    everything with time <= limit goes, at every arrival.

``|w|`` is the WITHIN or the window of the query that is served (``engine.order.served``). Only
events that the queries read are looked at: one is out of order when a larger one of these came
before. All events move the clock and are let go alike, so that none waits for a type that seldom
comes.

An event that comes when the limit has passed it goes at once, and is late if a larger one went.

SF is a random choice from a slack range in the paper. Here ``factor=LOW..HIGH`` is drawn by a hash
of the number of the present stretch of |w| on the event clock, so that a log gives one result.
It stays for that stretch: were it drawn for every event, the smallest of many draws would let
go of everything, and the range would be its lower end.

The window is kept as 64 buckets of the event clock, or one per ns where |w| is shorter. A delay
counts where the clock was when it was seen, so that an event may be later than |w|; it is at
least 0 and at most 6.5 days. The sums are exact.

When not to use: LD is a mean, so with SF = 1 about half of the events that |w| does not cover are
late, and more where delays have a tail; |w| is waited out even if nothing is out of order; clocks
that disagree count as delay, since it is taken across two clocks. It was made for patterns, whose
other events need no place in memory; an aggregate pays for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.kernels.hashing import MULTIPLIER
from engine.kernels.integers import INT_MIN
from engine.kernels.jit import inline, kernel
from engine.order.correction import Correction
from engine.order.served import Reads
from engine.order.slack.buffer import CLOCK, OWN, Buffer, push, release_until
from engine.order.slack.held_order import SlackOrder
from engine.stream.released import Strings

BUCKETS: Final = 64
DELAY_MAX_NS: Final = 1 << 49
FACTOR_UNIT: Final = 1000
FACTOR_MAX: Final = 1000
"""Largest slack factor: times the longest delay it is still within 64 bits."""
WAIT_MAX_NS: Final = 1 << 60

_WINDOW: Final = OWN
_LOW: Final = OWN + 1
"""The smallest slack factor, in thousandths."""
_CHOICES: Final = OWN + 2
"""How many thousandths there are to choose from."""
_WIDTH: Final = OWN + 3
"""Of a bucket [ns]."""
_PLACES: Final = OWN + 4
"""Buckets in use."""
_BUCKET: Final = OWN + 5
"""Number of the bucket that the event clock is in."""
_STRETCH: Final = OWN + 6
"""Number of the stretch of |w| that the event clock is in."""
_FACTOR: Final = OWN + 7
_WAIT: Final = OWN + 8
"""|w| + SF * LD, at most ``WAIT_MAX_NS``."""
_READ: Final = OWN + 9
"""Largest time seen of the events that are looked at."""
_N: Final = OWN + 10
"""Out-of-order events in the window; then the sum of their delays, as two numbers."""
_HIGH_SUM: Final = OWN + 11
_LOW_SUM: Final = OWN + 12
_RING: Final = OWN + 13
"""Per bucket: events, and the sum of their delays, as two numbers."""
_SPLIT: Final = 30
"""Bits of the lower part of a delay: 2**32 delays add up within 64 bits."""


@dataclass(frozen=True, slots=True)
class LdopSettings:
    """``window_ns``: ``|w|``; None: as the queries say (``engine.order.served``).

    ``factor_low_milli`` to ``factor_high_milli``: the slack range, in thousandths.

    ``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``;
    ``duplicates``: ``drop`` | ``pass``.
    """

    window_ns: int | None = None
    factor_low_milli: int = FACTOR_UNIT
    factor_high_milli: int = FACTOR_UNIT
    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"


class Ldop(SlackOrder):
    """The ordering operator ``ldop``.

    Args:
        settings: its own.
        window_ns: ``|w|``.
        reads: the events that are looked at.
        strings: of the site.
        correction: what is done first.
        wanted: columns that travel with the events; None: all.
    """

    def __init__(
        self,
        settings: LdopSettings,
        window_ns: int,
        reads: Reads,
        strings: Strings,
        correction: Correction,
        wanted: set[str] | None,
    ) -> None:
        low, width = settings.factor_low_milli, -(-window_ns // BUCKETS)
        own = (
            window_ns, low, settings.factor_high_milli - low + 1, width, -(-window_ns // width),
            INT_MIN, INT_MIN, low, window_ns, INT_MIN, 0, 0, 0, *([0] * (3 * BUCKETS)),
        )  # fmt: skip
        self._reads, self._strings = reads, strings
        super().__init__(self._looked_at, own, settings.late, correction, wanted)

    def _looked_at(self, buffer: Buffer, start: int, end: int, scalars: np.ndarray) -> None:
        read = self._reads.rows(self._arena.columns, start, end, self._strings)
        _run(buffer, read, start, end, scalars)


@kernel
def splitmix64(number: int) -> int:
    """The ``number``-th output of splitmix64 seeded with 0, less its lowest bit (63 bits)."""
    z = np.uint64(number + 1) * MULTIPLIER
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@kernel
def _mean(n: int, high: int, low: int) -> int:
    """``(high * 2**30 + low) // n`` of up to 2**32 delays; 0 of none."""
    if n == 0:
        return 0
    whole, rest = high // n, high % n
    return (whole << _SPLIT) + ((rest << _SPLIT) + low) // n


@inline
def _weigh(s: np.ndarray) -> None:
    """Wait as long as the present window and factor say."""
    mean = _mean(s[_N], s[_HIGH_SUM], s[_LOW_SUM])
    whole, rest = mean // FACTOR_UNIT, mean % FACTOR_UNIT  # apart, to stay within 64 bits
    slack = whole * s[_FACTOR] + rest * s[_FACTOR] // FACTOR_UNIT
    s[_WAIT] = min(s[_WINDOW] + slack, WAIT_MAX_NS)


@inline
def _advance(s: np.ndarray, clock: int) -> bool:
    """Move the window to ``clock``; whether that may change the wait."""
    changed = False
    bucket = clock // s[_WIDTH]
    if bucket > s[_BUCKET]:
        emptied = min(bucket - s[_BUCKET], s[_PLACES]) if s[_BUCKET] != INT_MIN else 0
        for number in range(bucket - emptied + 1, bucket + 1):
            place = _RING + 3 * (number % s[_PLACES])
            changed = changed or s[place] > 0
            for part in range(3):
                s[_N + part] -= s[place + part]
                s[place + part] = 0
        s[_BUCKET] = bucket
    stretch = clock // s[_WINDOW]
    if stretch != s[_STRETCH]:
        s[_STRETCH] = stretch
        s[_FACTOR] = s[_LOW] + splitmix64(stretch) % s[_CHOICES]
        changed = True
    return changed


@inline
def _learn(s: np.ndarray, delay_ns: int) -> None:
    """An event came out of order."""
    delay = min(max(delay_ns, 0), DELAY_MAX_NS)
    place = _RING + 3 * (s[_BUCKET] % s[_PLACES])
    s[place] += 1
    s[_N] += 1
    s[place + 1] += delay >> _SPLIT
    s[_HIGH_SUM] += delay >> _SPLIT
    s[place + 2] += delay & ((1 << _SPLIT) - 1)
    s[_LOW_SUM] += delay & ((1 << _SPLIT) - 1)


@kernel
def _run(b: Buffer, read: np.ndarray, start: int, end: int, s: np.ndarray) -> None:
    """``read``: whether each row is looked at; empty where every one is."""
    for row in range(start, end):
        key = b.key[row]
        push(b, s, row)
        if key > s[CLOCK]:
            s[CLOCK] = key
            if _advance(s, key):
                _weigh(s)
        if len(read) == 0 or read[row - start]:
            if key < s[_READ]:
                _learn(s, b.arrival[row] - key)
                _weigh(s)
            s[_READ] = max(s[_READ], key)
        release_until(b, s, s[CLOCK] - s[_WAIT], b.arrival[row])
