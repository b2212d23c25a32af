"""Knowledge about the clocks and links of a set-up: the numbers from which a verdict is made.

All times in ns. The bound of a source's clock is the one that the engine would declare (SPEC 2,
``clocks.prediction``): half the delay of the exchange (R19 Eq 3.14), both precisions, and the
growth between two syncs.
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

# Overlapping Allan deviation of a clock, from its offsets at constant distances.
#
# ``sigma_y(tau)``, tau = m * tau0, is the root of the mean square of ``x[i+2m] - 2 x[i+m] + x[i]``
# over ``2 tau**2``: by how much the mean frequency changes from one period tau to the next. A
# constant offset and a constant skew have no effect. White noise of the readings falls as 1/tau, a
# wandering frequency rises as sqrt(tau); beyond the minimum, longer averaging does not help.
#
# Source: Riley, "Handbook of Frequency Stability Analysis", NIST SP 1065 (2008), 5.2.4 (Eq 11).


_TRIPLES_MIN: Final = 3


class Deviation(NamedTuple):
    """``sigma_y`` [ns/s = ppb] over ``tau_ns``, from ``triples`` differences."""

    tau_ns: int
    ppb: float
    triples: int


def allan_deviation(offset_ns: np.ndarray, step_ns: int) -> list[Deviation]:
    """Deviations at tau = 1, 2, 4 ... steps, as long as there are at least three differences.

    Args:
        offset_ns: float64, one reading every ``step_ns``; NaN where missing.
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
    """Random walk of the frequency at the longest taus; 0.0 if none is visible.

    In the simulator's terms: standard deviation of the frequency's change per ``period_ns``. Such a
    walk has sigma_y**2 = wander**2 * tau / (3 * period) (NIST SP 1065, table 1: random walk FM). It
    is visible where the deviation rises with tau; where it falls, noise of the readings dominates.
    """
    if len(deviations) < 2:
        return 0.0
    lowest = min(range(len(deviations)), key=lambda place: deviations[place].ppb)
    rising = deviations[lowest + 1 :]
    if not rising:
        return 0.0
    last = rising[-1]
    return float(last.ppb * (3 * period_ns / last.tau_ns) ** 0.5)


# Agreement of several clocks: the interval that most of their intervals have in common.
#
# Each server states that the true offset is within its offset +- its bound. The intervals of
# correct servers share the truth; a server whose interval is elsewhere is a falseticker.
#
# Source: Marzullo, "Maintaining the Time in a Distributed System" (1984); RFC 5905, 11.2.1.


class Agreement(NamedTuple):
    """``low..high`` [ns] is in ``among`` intervals, and no instant is in more."""

    low: int
    high: int
    among: int

    def holds(self, low: int, high: int) -> bool:
        """Whether this interval agrees."""
        return low <= self.low and self.high <= high


def agreement(intervals: Sequence[tuple[int, int]]) -> Agreement:
    """The smallest such interval; the earliest of several.

    Args:
        intervals: at least one, ``low <= high`` each; ends are included.

    >>> agreement([(8, 12), (11, 13), (10, 12)])
    Agreement(low=11, high=12, among=3)
    >>> agreement([(8, 12), (11, 13), (14, 15)])
    Agreement(low=11, high=12, among=2)
    """
    assert intervals
    assert all(low <= high for low, high in intervals)
    # At one instant, begins come before ends: ends are included.
    edges = sorted([(low, -1) for low, _ in intervals] + [(high, 1) for _, high in intervals])
    best = Agreement(0, 0, 0)
    count = 0
    for place, (at, kind) in enumerate(edges):
        count -= kind
        if count > best.among:
            best = Agreement(at, edges[place + 1][0], count)
    return best


# Fit of a delay distribution: ``min`` plus a lognormal, or a constant.
#
# The distribution has three parameters. Its probability plot is a straight line for the right
# ``min`` only: among many candidates, the one with the straightest plot is taken (probability plot
# correlation, Filliben 1975); slope and intercept of the line are sigma and the logarithm of the
# median above ``min``. A lognormal with a ``min`` approximates most distributions in networks
# (exponential, Weibull, gamma).


_POINTS: Final = 200
_CANDIDATES: Final = 60
_SPREAD_MIN: Final = 0.005
"""Jitter below this share of the delay (at least 50 us) is attributed to the programs' clocks."""
_SPREAD_MIN_NS: Final = 50_000
_SIGMA_MAX: Final = 5.0
"""The largest sigma that a scenario accepts."""
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """``min_ns`` plus a lognormal of median ``median_ns - min_ns``; ``sigma`` 0: a constant."""

    min_ns: int
    median_ns: int
    sigma: float

    @property
    def mean_ns(self) -> float:
        """Mean delay."""
        return self.min_ns + (self.median_ns - self.min_ns) * float(np.exp(self.sigma**2 / 2))

    @property
    def deviation_ns(self) -> float:
        """Standard deviation of the delay."""
        above = self.mean_ns - self.min_ns
        return above * float(np.sqrt(np.expm1(self.sigma**2)))


def delay_law(delays: np.ndarray) -> DelayLaw:
    """Fit a distribution to delays.

    Args:
        delays: [ns], float64; negative values count as 0. At least one.

    Returns:
        A constant if there are few delays, or hardly any jitter.
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
    # Candidates for ``min``: close to the least delay first, then further away, down to 0.
    below = (points[0] + 1) * np.geomspace(1e-4, 1, _CANDIDATES)
    least = np.maximum(points[0] - below, 0.0)
    logs = np.log(np.maximum(points - least[:, None], 1.0))
    deviation = logs - logs.mean(axis=1, keepdims=True)
    slope = deviation @ normal / (normal @ normal)
    straight = deviation @ normal / np.sqrt((deviation**2).sum(axis=1) * (normal @ normal))
    best = int(np.argmax(straight))
    middle = least[best] + np.exp(logs[best].mean())
    return DelayLaw(round(least[best]), round(middle), float(min(slope[best], _SIGMA_MAX)))


# Time until TCP resends a lost packet: the cost of a link's losses.
#
# The next packet of the connection reveals the gap: its selective acknowledgement returns after a
# round trip, and reordering is allowed for an eighth of one (RACK, RFC 8985, as in Linux). If
# packets are rarer, the time-out detects the loss: the round trip plus four times its deviation, at
# least 200 ms (RFC 6298 with Linux' least variation).


RTO_LEAST_NS: Final = 200_000_000
"""Least variation that Linux adds to the round trip [ns]."""


def recovery_ns(trip_ns: float, deviation_ns: float, gap_ns: float | None) -> int:
    """Mean time until a lost packet is sent again.

    Args:
        trip_ns: mean round trip.
        deviation_ns: deviation of the round trip.
        gap_ns: mean time between two packets of a connection, exponentially distributed; None: so
            long that only the time-out detects losses.

    >>> round(recovery_ns(22e6, 2e6, None) / 1e6), round(recovery_ns(22e6, 2e6, 10e6) / 1e6)
    (222, 35)
    """
    timeout = trip_ns + max(RTO_LEAST_NS, 4 * deviation_ns)
    noticed = trip_ns * 9 / 8
    if gap_ns is None or gap_ns <= 0 or noticed >= timeout:
        return round(timeout)
    # The mean of the minimum of both: the next packet's acknowledgement, and the time-out.
    return round(noticed + gap_ns * -math.expm1(-(timeout - noticed) / gap_ns))


# Knowledge about the clocks and links of a set-up: the numbers from which a verdict is made.


RTO_MIN_NS: Final = 200_000_000
"""Least retransmission time-out of Linux's TCP [ns]."""
IN_TIME: Final = 0.999
"""Share of events for which a wait must suffice; as in ``sequence``'s default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockQuality:
    """A source's clock relative to the gateway's.

    ``offset_ns`` None: never synchronised. ``delay_ns``: delay of a round's best exchange, in the
    worst round; ``offset_bound_ns``: bound of ``offset_ns`` at its measurement. ``age_ns``: longest
    time between two syncs. ``deviations``: (tau, Allan deviation in ppb).
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
    """The largest bound that the engine declares for the clock's events in a log."""
    resolution_ns: int = 1
    deviations: tuple[tuple[int, float], ...] = ()

    @property
    def fresh_ns(self) -> int:
        """Bound of an offset directly after a sync (R19 Eq 3.14 and both precisions)."""
        return (self.delay_ns + 1) // 2 + self.precision_ns

    @property
    def held_ns(self) -> int:
        """Bound just before the next sync, if the offset is held (R19 3.2.2)."""
        line = zero_order_hold(Sample(0, 0, self.fresh_ns), self.skew_error_ppb)
        return line.unc_after(self.age_ns, line.skew_error_ppb)

    def bound_ns(self, age_ns: int | None = None) -> int:
        """Bound just before the next sync, once the engine knows several syncs.

        ``age_ns``: assumed time between syncs; None: as it is; in a log, the bound that the engine
        declares.
        """
        if age_ns is None and self.declared_ns is not None:
            return self.declared_ns
        age = self.age_ns if age_ns is None else age_ns
        samples = [Sample(n * age, 0, self.fresh_ns) for n in range(SYNCS_KEPT)]
        _, line = bounded_offset(samples, self.skew_error_ppb)
        return line.unc_after(age, line.skew_error_ppb)


class LinkQuality(Struct, frozen=True, kw_only=True, rename={"trials": "asked"}):
    """A source's path to the gateway. ``transit``: one way, from event time to arrival.

    ``transit_error_ns``: error of transits, from the clock's; None: unknown. ``trials`` (``asked``
    in JSON): number of expected answers or event numbers; ``lost``: those that did not arrive.
    ``gap_wait_ns``: p99.9 of the wait for a late number; 0: none was late.
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
    """Distributions of the delay up and down; None: only events' own transits are known."""

    @property
    def loss(self) -> float:
        """Lost share of the expected answers or numbers."""
        return self.lost / self.trials if self.trials else 0.0

    @property
    def loss_bounds(self) -> tuple[float, float]:
        """Wilson's interval of the loss, 95 %."""
        return wilson(self.lost, self.trials)


@dataclass(frozen=True, slots=True)
class AgentHabits:
    """An agent's settings for its simulated twin: keys of ``[[sources]]`` and its ``sync``, as
    values of TOML, and the number of its connections.
    """

    source: Mapping[str, str]
    sync: Mapping[str, str]
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuality:
    """One source. ``habits`` None: its agent's settings are unknown."""

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
    """All measured sources.

    ``alike``: one device represents all sources of its site. ``lateness_ns``: (p50, p99, p99.9,
    max) of the events out of order by ref; None: unknown. ``facts``: other measurements, for
    people. ``concerns``: other problems (text, whether it makes the set-up unfit).
    """

    sources: tuple[SourceQuality, ...]
    alike: bool
    lateness_ns: tuple[int, int, int, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    concerns: tuple[tuple[str, bool], ...] = ()

    @property
    def synced(self) -> list[SourceQuality]:
        """Sources with a known offset."""
        return [each for each in self.sources if each.clock.offset_ns is not None]

    @property
    def t_a_ns(self) -> int:
        """R19 Eq 3.16: the largest filtered delay over the site's sources."""
        return max((each.clock.delay_ns for each in self.synced), default=0)

    def worst(self) -> list[SourceQuality]:
        """Synchronised sources, the least known clock first."""
        return sorted(self.synced, key=lambda each: -each.clock.bound_ns())

    @property
    def pair_ns(self) -> int:
        """u_e + u_f of the two least known clocks (SPEC 4.3); for one device, twice its own."""
        bounds = [each.clock.bound_ns() for each in self.worst()[:2]]
        return sum(bounds) if len(bounds) == 2 else 2 * sum(bounds)

    @property
    def single_ns(self) -> int:
        """Bound of the least known clock."""
        return max((each.clock.bound_ns() for each in self.synced), default=0)


def wilson(count: int, of: int) -> tuple[float, float]:
    """95 % confidence interval of a share (Wilson 1927), for ``count`` out of ``of``.

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
