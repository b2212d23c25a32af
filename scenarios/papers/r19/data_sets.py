"""Data sets 1 to 3 of R19 5.1: football events; an exact number arrives out of order.

Exact by construction (``scenarios.papers.disorder``): a chosen number of events is delayed, every
other one arrives ``TRANSIT_NS`` after it left.

The paper gives sizes, counts, and in words how late: a truncated Pareto distribution fits all
of them. Its quantiles are spread over the delayed events by chance, so the seed decides who is
late but not how late anyone is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.scenarios.papers.disorder import arrivals
from slackwater.scenarios.papers.r19.football import FootballEvents, football

TRANSIT_NS: Final = 100_000
"""From the source to the engine, when nothing delays an event."""
_MS: Final = 10**6
_EVENTS_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Stall:
    """A connection that stands still: what it took over in between comes late, one by one.

    ``place``: where in the data set it begins, as a share of all events; ``longest_ns`` and
    ``shortest_ns``: delays of its first and last event.
    """

    place: float
    longest_ns: int
    shortest_ns: int
    events: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A data set: its published size and count, and the Pareto distribution of its delays.

    ``index``: exponent of the tail; ``shortest_ns``, ``longest_ns``: ends of the distribution.
    """

    number: int
    events: int
    out_of_order: int
    index: float
    shortest_ns: int
    longest_ns: int
    stalls: tuple[Stall, ...] = ()


PROFILES: Final = {
    1: Profile(1, 499_982, 62_473, 3.0, 100_000, 20 * _MS,
               (Stall(0.55, 850 * _MS, 750 * _MS, 3), Stall(0.9, 1000 * _MS, 900 * _MS, 2))),
    2: Profile(2, 499_499, 62_409, 0.95, 70_000, 1900 * _MS),
    3: Profile(3, 999_499, 83_212, 0.95, 80_000, 30_000 * _MS),
}  # fmt: skip
"""R19 Table 5.2. What its text leaves open is ours: data set 1 has "two significant late arrivals"
of 750 to 1000 ms; they are five events, as that many were too late for a threshold of 500 ms
(Table 5.5), and lie so that MP-K-slack's mean latency is of the published size (Table 5.4)."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Events in order of their times, with the instants they leave their source and arrive.

    All times [ns]: ``events.ts`` is the true time. ``delayed``: bool, those out of order.
    An event leaves its source as soon as it has happened.
    """

    profile: Profile
    events: FootballEvents
    arrival: np.ndarray
    delayed: np.ndarray

    def __len__(self) -> int:
        return len(self.events)

    @property
    def delay_ns(self) -> np.ndarray:
        """How much later than others each delayed event came."""
        late = self.delayed
        return np.asarray(self.arrival[late] - self.events.ts[late] - TRANSIT_NS)


def data_set(number: int, seed: int, scale: float = 1.0) -> DataSet:
    """Data set 1, 2 or 3; with ``scale`` below 1 its beginning, with a like share out of order."""
    profile = PROFILES[number]
    events = max(round(profile.events * scale), _EVENTS_MIN)
    return disordered(profile, events, np.random.default_rng((seed, number)))


def disordered(profile: Profile, events: int, chance: np.random.Generator) -> DataSet:
    """The first ``events`` of a match, disordered as ``profile`` says, in its proportion."""
    count = round(profile.out_of_order * events / profile.events)
    match = football(events, chance)
    delay = np.zeros(events, np.int64)
    for stall in profile.stalls:
        rows, delays = _stalled(stall, match.ts, chance)
        delay[rows] = delays
    free = np.flatnonzero(delay[:-1] == 0)  # the last is never delayed
    chosen = chance.choice(free, count - int((delay > 0).sum()), replace=False)
    delay[chosen] = _delays(profile, len(chosen), chance)
    delayed = delay > 0
    return DataSet(profile, match, arrivals(match.ts, TRANSIT_NS, delayed, delay), delayed)


def _delays(profile: Profile, count: int, chance: np.random.Generator) -> np.ndarray:
    """``count`` quantiles of the truncated Pareto distribution, one in each of equal shares."""
    share = (chance.permutation(count) + 1) / max(count, 1)
    cut = 1 - (profile.shortest_ns / profile.longest_ns) ** profile.index
    delays = profile.shortest_ns * (1 - share * cut) ** (-1 / profile.index)
    return np.asarray(delays, np.int64)


def _stalled(
    stall: Stall, ts: np.ndarray, chance: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, delays) of the events that a stall holds up; those near the end are left out."""
    first = int(stall.place * len(ts))
    until = ts[first] + stall.longest_ns - stall.shortest_ns
    end = min(int(np.searchsorted(ts, until)), len(ts) - 1)
    rows = np.sort(chance.choice(np.arange(first, end), min(stall.events, end - first), False))
    return rows, stall.longest_ns - (ts[rows] - ts[first])
