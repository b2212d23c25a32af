"""What is known of the clocks and links of a set-up: the numbers that a verdict is made of.

All times in ns. How wrong a source's clock may be is what the engine itself would declare (SPEC 2,
``clocks.prediction``): half the delay of the exchange (R19 Eq 3.14), both precisions, and
what grows between two syncs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from slackwater.engine.core.clocks.prediction import (
    SYNCS_KEPT,
    Sample,
    bounded_offset,
    zero_order_hold,
)
from slackwater.engine.kernels.records import NS_PER_S

# Overlapping Allan deviation of a clock, from its offset at even distances.
#
# ``sigma_y(tau)``, tau = m * tau0, is the root of the mean square of ``x[i+2m] - 2 x[i+m] + x[i]``
# over ``2 tau**2``: how much the frequency over one stretch of tau differs from that over the next.
# A constant offset and a constant skew do not count. White noise of the readings falls as 1/tau, a
# wandering frequency rises as sqrt(tau); where one becomes the other, averaging longer is no use.
#
# Source: Riley, "Handbook of Frequency Stability Analysis", NIST SP 1065 (2008), 5.2.4 (Eq 11).


_TRIPLES_MIN: Final = 3


class Deviation(NamedTuple):
    """``sigma_y`` [ns/s = ppb] over ``tau_ns``, from ``triples`` differences."""

    tau_ns: int
    ppb: float
    triples: int


def allan_deviation(offset_ns: np.ndarray, step_ns: int) -> list[Deviation]:
    """At tau = 1, 2, 4 ... steps, as far as there are three differences or more.

    Args:
        offset_ns: float64, one reading every ``step_ns``; NaN where there is none.
        step_ns: above 0.

    >>> bent = np.array([0.0, 1, 4, 9, 16, 25])  # the frequency grows by 2 ns/s every second
    >>> round(allan_deviation(bent, 10**9)[0].ppb, 6)  # |2| / sqrt(2)
    1.414214
    """
    assert step_ns > 0
    found = []
    m = 1
    while 2 * m + _TRIPLES_MIN <= len(offset_ns):
        second = offset_ns[2 * m :] - 2 * offset_ns[m:-m] + offset_ns[: -2 * m]
        second = second[np.isfinite(second)]
        if len(second) >= _TRIPLES_MIN:
            seconds = m * step_ns / 1e9
            mean = float(np.mean(second**2))
            found.append(Deviation(m * step_ns, (mean / 2) ** 0.5 / seconds, len(second)))
        m *= 2
    return found


def wander_ppb(deviations: list[Deviation], period_ns: int) -> float:
    """The random walk of the frequency that the longest taus show; 0.0 where none is seen.

    In the simulator's terms: standard deviation of the frequency's change per ``period_ns``. A
    frequency that walks so has sigma_y**2 = wander**2 * tau / (3 * period) (NIST SP 1065, table 1:
    random walk FM). It is seen where the deviation rises with tau; where it still falls, it is
    noise of the readings.
    """
    if len(deviations) < 2:
        return 0.0
    lowest = min(range(len(deviations)), key=lambda place: deviations[place].ppb)
    rising = deviations[lowest + 1 :]
    if not rising:
        return 0.0
    last = rising[-1]
    return float(last.ppb * (3 * period_ns / last.tau_ns) ** 0.5)


# Where several clocks agree: the interval that most of their intervals have in common.
#
# Each server says that the true offset lies within its offset +- its bound. Servers that are right
# have the truth in common; one whose interval lies apart is a falseticker.
#
# Source: Marzullo, "Maintaining the Time in a Distributed System" (1984); RFC 5905, 11.2.1.


class Agreement(NamedTuple):
    """``low..high`` [ns] lies in ``among`` intervals, and no instant in more of them."""

    low: int
    high: int
    among: int

    def holds(self, low: int, high: int) -> bool:
        """Whether this interval is one of those that agree."""
        return low <= self.low and self.high <= high


def agreement(intervals: Sequence[tuple[int, int]]) -> Agreement:
    """The smallest such interval; the earliest of several.

    Args:
        intervals: at least one, ``low <= high`` each; ends belong to them.

    >>> agreement([(8, 12), (11, 13), (10, 12)])
    Agreement(low=11, high=12, among=3)
    >>> agreement([(8, 12), (11, 13), (14, 15)])
    Agreement(low=11, high=12, among=2)
    """
    assert intervals
    assert all(low <= high for low, high in intervals)
    # At one instant an interval begins before another ends: ends belong to them.
    edges = sorted([(low, -1) for low, _ in intervals] + [(high, 1) for _, high in intervals])
    best = Agreement(0, 0, 0)
    count = 0
    for place, (at, kind) in enumerate(edges):
        count -= kind
        if count > best.among:
            best = Agreement(at, edges[place + 1][0], count)
    return best


# A law of delays that was drawn from, out of its draws: ``min`` plus a lognormal, or a constant.
#
# The law has three numbers, and its probability plot is a straight line for the right ``min``
# alone: of many, that one is taken whose plot is straightest (probability plot correlation,
# Filliben 1975); slope and height of the line are sigma and the logarithm of what lies above
# ``min`` in the median. A lognormal with a ``min`` comes near most laws that networks have
# (exponential, Weibull, gamma).


_POINTS: Final = 200
_CANDIDATES: Final = 60
_SPREAD_MIN: Final = 0.005
"""Below this share of the delay, 50 us at least, jitter is what the programs' clocks read."""
_SPREAD_MIN_NS: Final = 50_000
_SIGMA_MAX: Final = 5.0
"""The largest that a scenario takes."""
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """``min_ns`` plus a lognormal of median ``median_ns - min_ns``; ``sigma`` 0: a constant."""

    min_ns: int
    median_ns: int
    sigma: float

    @property
    def mean_ns(self) -> float:
        """Of all delays."""
        return self.min_ns + (self.median_ns - self.min_ns) * float(np.exp(self.sigma**2 / 2))

    @property
    def deviation_ns(self) -> float:
        """Standard deviation."""
        above = self.mean_ns - self.min_ns
        return above * float(np.sqrt(np.expm1(self.sigma**2)))


def delay_law(delays: np.ndarray) -> DelayLaw:
    """The law that fits best.

    Args:
        delays: [ns], float64; what lies below 0 is taken for 0. At least one.

    Returns:
        A constant where there are few delays, or hardly any jitter.
    """
    ranked = np.maximum(np.sort(delays), 0.0)
    median = float(np.median(ranked))
    low, high = np.quantile(ranked, [0.05, 0.95])
    if len(ranked) < _FEW or high - low < max(_SPREAD_MIN * median, _SPREAD_MIN_NS):
        return DelayLaw(round(median), round(median), 0.0)
    share = (np.arange(_POINTS) + 0.5) / _POINTS
    inverse = NormalDist().inv_cdf
    normal = np.array([inverse(each) for each in share.tolist()])
    points = np.quantile(ranked, share)
    # Close to the least delay first, then further and further away, down to 0.
    below = (points[0] + 1) * np.geomspace(1e-4, 1, _CANDIDATES)
    least = np.maximum(points[0] - below, 0.0)
    logs = np.log(np.maximum(points - least[:, None], 1.0))
    deviation = logs - logs.mean(axis=1, keepdims=True)
    slope = deviation @ normal / (normal @ normal)
    straight = deviation @ normal / np.sqrt((deviation**2).sum(axis=1) * (normal @ normal))
    best = int(np.argmax(straight))
    middle = least[best] + np.exp(logs[best].mean())
    return DelayLaw(round(least[best]), round(middle), float(min(slope[best], _SIGMA_MAX)))


# How long after a packet TCP sends it again, when it is lost: what a link's losses cost.
#
# The next packet of the connection tells of the gap: its selective acknowledgement is back after a
# round trip, and reordering is waited for, for an eighth of one (RACK, RFC 8985, as Linux does it).
# Where packets are rarer than that, a time-out tells: the round trip, and four times its deviation,
# 200 ms at least (RFC 6298 with Linux' least variation).


RTO_LEAST_NS: Final = 200_000_000
"""Least variation that Linux adds to the round trip."""


def recovery_ns(trip_ns: float, deviation_ns: float, gap_ns: float | None) -> int:
    """Mean time until a lost packet is sent again.

    Args:
        trip_ns: mean round trip.
        deviation_ns: of the round trip.
        gap_ns: mean time between two packets of a connection, exponentially distributed; None:
            so long that only the time-out tells.

    >>> round(recovery_ns(22e6, 2e6, None) / 1e6), round(recovery_ns(22e6, 2e6, 10e6) / 1e6)
    (222, 35)
    """
    timeout = trip_ns + max(RTO_LEAST_NS, 4 * deviation_ns)
    noticed = trip_ns * 9 / 8
    if gap_ns is None or gap_ns <= 0 or noticed >= timeout:
        return round(timeout)
    # The mean of the lesser of both: the next packet's news, and the time-out.
    return round(noticed + gap_ns * -math.expm1(-(timeout - noticed) / gap_ns))


# What is known of the clocks and links of a set-up: the numbers that a verdict is made of.


RTO_MIN_NS: Final = 200_000_000
"""Least wait of Linux's TCP before it sends again what was not acknowledged."""
IN_TIME: Final = 0.999
"""The share of events that a wait is to be long enough for; as of ``sequence``'s default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockQuality:
    """A source's clock against the gateway's.

    ``offset_ns`` None: never synchronised. ``delay_ns``: of a round's best exchange, in the worst
    round; ``offset_bound_ns``: of ``offset_ns`` where it was measured. ``age_ns``: longest time
    between two syncs. ``deviations``: (tau, Allan deviation in ppb).
    """

    offset_ns: int | None
    offset_bound_ns: int = 0
    delay_ns: int = 0
    precision_ns: int = 0
    skew_ppb: int | None = None
    skew_bound_ppb: int | None = None
    skew_error_ppb: int | None = None
    age_ns: int = 60 * NS_PER_S
    syncs: int = 0
    steps: tuple[int, ...] = ()
    jitter_ns: int | None = None
    wander_ppb: float = 0.0
    declared_ns: int | None = None
    """The largest bound that the engine declares of the clock's events in a log."""
    resolution_ns: int = 1
    deviations: tuple[tuple[int, float], ...] = ()

    @property
    def fresh_ns(self) -> int:
        """How wrong an offset is right after a sync (R19 Eq 3.14 and both precisions)."""
        return (self.delay_ns + 1) // 2 + self.precision_ns

    @property
    def held_ns(self) -> int:
        """How wrong it may become until the next sync, if it is held (R19 3.2.2)."""
        line = zero_order_hold(Sample(0, 0, self.fresh_ns), self.skew_error_ppb)
        return line.unc_after(self.age_ns, line.skew_error_ppb)

    def bound_ns(self, age_ns: int | None = None) -> int:
        """How wrong it may become until the next sync, once the engine knows several.

        ``age_ns``: what it would be with a sync so often; None: as it is, which in a log is what
        the engine declares.
        """
        if age_ns is None and self.declared_ns is not None:
            return self.declared_ns
        age = self.age_ns if age_ns is None else age_ns
        samples = [Sample(n * age, 0, self.fresh_ns) for n in range(SYNCS_KEPT)]
        _, line = bounded_offset(samples, self.skew_error_ppb)
        return line.unc_after(age, line.skew_error_ppb)


class LinkQuality(Struct, frozen=True, kw_only=True, rename={"trials": "asked"}):
    """A source's way to the gateway. ``transit``: one way, from event time to arrival.

    ``transit_error_ns``: how wrong transits are, by the clock's error; None: unknown. ``trials``
    (``asked`` in JSON): answers or numbers that should have come; ``lost``: those that did not.
    ``gap_wait_ns``: p99.9 of how long a late number was waited for; 0: none was late.
    """

    least_ns: int
    p50_ns: int
    p95_ns: int
    p999_ns: int
    most_ns: int
    transit_error_ns: int | None
    round_trip_ns: int | None = None
    trials: int = 0
    lost: int = 0
    duplicates: int = 0
    reordered: int = 0
    gap_wait_ns: int = 0
    resends: bool = True
    laws: tuple[DelayLaw, DelayLaw] | None = None
    """Of the delay up and down; None: only events' own transits are known."""

    @property
    def loss(self) -> float:
        """Share lost, of what should have come."""
        return self.lost / self.trials if self.trials else 0.0

    @property
    def loss_bounds(self) -> tuple[float, float]:
        """Wilson's interval of the loss, 95 %."""
        return wilson(self.lost, self.trials)


@dataclass(frozen=True, slots=True)
class AgentHabits:
    """What an agent's settings say that its twin needs; keys of ``[[sources]]`` and its ``sync``,
    as TOML's values; and how many connections its messages go by.
    """

    source: Mapping[str, str]
    sync: Mapping[str, str]
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuality:
    """One source. ``habits`` None: its agent's settings are not known."""

    site: str
    name: str
    clock: ClockQuality
    link: LinkQuality | None
    events: int = 0
    period_ns: int | None = None
    streams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    habits: AgentHabits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All sources that were measured.

    ``alike``: one device represents all sources of its site. ``lateness_ns``: (p50, p99, p99.9,
    most) of the events that came out of order by ref; None: not seen. ``facts``: what else was
    measured, for people. ``concerns``: what is wrong besides (text, whether it forbids to go on).
    """

    sources: tuple[SourceQuality, ...]
    alike: bool
    lateness_ns: tuple[int, int, int, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    concerns: tuple[tuple[str, bool], ...] = ()

    @property
    def synced(self) -> list[SourceQuality]:
        """Those whose offset is known."""
        return [each for each in self.sources if each.clock.offset_ns is not None]

    @property
    def t_a_ns(self) -> int:
        """R19 Eq 3.16: the largest filtered delay over the site's sources."""
        return max((each.clock.delay_ns for each in self.synced), default=0)

    def worst(self) -> list[SourceQuality]:
        """The least known clocks first."""
        return sorted(self.synced, key=lambda each: -each.clock.bound_ns())

    @property
    def pair_ns(self) -> int:
        """u_e + u_f of the two least known clocks (SPEC 4.3); of one device twice its own."""
        bounds = [each.clock.bound_ns() for each in self.worst()[:2]]
        return sum(bounds) if len(bounds) == 2 else 2 * sum(bounds)

    @property
    def single_ns(self) -> int:
        """Of the least known clock."""
        return max((each.clock.bound_ns() for each in self.synced), default=0)


def wilson(count: int, of: int) -> tuple[float, float]:
    """Where a share lies with 95 % (Wilson 1927), when ``count`` ``of`` so many had it.

    >>> [round(x, 4) for x in wilson(0, 100)], [round(x, 3) for x in wilson(10, 100)]
    ([0.0, 0.037], [0.055, 0.174])
    """
    if not of:
        return 0.0, 1.0
    z = 1.959963984540054
    share, spread = count / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * ((share * (1 - share) + spread / 4) / of) ** 0.5
    return max(middle - half, 0.0) if count else 0.0, min(middle + half, 1.0)
