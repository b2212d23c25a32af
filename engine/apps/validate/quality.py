"""What is known of the clocks and links of a set-up: the numbers that a verdict is made of.

All times in ns. How wrong a source's clock may be is what the engine itself would declare (SPEC 2,
``clocks.prediction``): half the delay of the exchange (R19 Eq 3.14), both precisions, and
what grows between two syncs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.engine.apps.validate.clock_statistics import DelayLaw
from slackwater.engine.core.clocks.prediction import SYNCS_KEPT, Sample, bounded, held
from slackwater.engine.kernels.records import NS_PER_S

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
        line = held(Sample(0, 0, self.fresh_ns), self.skew_error_ppb)
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
        _, line = bounded(samples, self.skew_error_ppb)
        return line.unc_after(age, line.skew_error_ppb)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuality:
    """A source's way to the gateway. ``transit``: one way, from event time to arrival.

    ``transit_error_ns``: how wrong transits are, by the clock's error; None: unknown. ``asked``,
    ``lost``: what should have come, and what did not. ``waits_ns``: least, p50, p99, p99.9 and most
    of how long a number that came late was waited for; empty: none did.
    """

    least_ns: int
    p50_ns: int
    p95_ns: int
    p999_ns: int
    most_ns: int
    transit_error_ns: int | None
    round_trip_ns: int | None = None
    asked: int = 0
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
        return self.lost / self.asked if self.asked else 0.0

    @property
    def loss_bounds(self) -> tuple[float, float]:
        """Wilson's interval of the loss, 95 %."""
        return wilson(self.lost, self.asked)


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
