"""What a chain is asked to do, and what one call of it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.engine.barrier.registry import BarrierSettings, barrier_of_windows
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.operator import ResultPieces
from slackwater.engine.core.released import Released
from slackwater.engine.operators.constraint.settings import MonitorSettings
from slackwater.engine.operators.match.settings import PatternSettings
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.order.base import Guards, OrderSettings
from slackwater.engine.query.failures import QueryFailure
from slackwater.engine.query.plan import Drift, Plan, checks_of, lookups_of, of_log
from slackwater.engine.query.reference_tables import TableLookup, together

if TYPE_CHECKING:
    from slackwater.engine.operators.match.spill.chunks import ChunkStore

ChunksOf = Callable[[str], "ChunkStore"]
"""Where the spilled chunks of a query are, by its name."""


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """What a chain does; hosts hand it to every site.

    ``certainty``: ``pairwise`` | ``max-delay`` | ``max-delay-r19`` (SPEC 4.3). ``barrier``:
    of matches and windows; None: as each query's REALTIME says. ``ordered``: also give the ordered
    stream itself: ``no`` | ``bare`` (without attributes) | ``full``.
    ``carried``: attributes that a ``bare`` stream brings along all the same. ``aside``: give late
    and refused events, too: likewise ``no`` | ``bare`` | ``full``. ``pattern``: what matchers
    of patterns keep, and how; its certainty is the one above. ``spill``: what of it leaves
    memory; None: nothing. ``window``: of windows. ``monitor``: of patterns under a constraint.
    ``clock``: what the user says of clocks that no sync speaks of.
    ``isolate_failures``: a query that fails at a site is set aside there, and all others go on;
    else the failure is raised.

    What follows from these, for all sites: ``readers``: the plans that read the log itself.
    ``looked_at``: attributes that the order looks at, and whether each must be a number.
    ``has_checks``: whether results of one of the plans are checked. ``asks_delays``: whether one
    asks for every source's delay. ``lookups``: what the plans look up in tables.

    Raises:
        UserError: the order, or a barrier, cannot serve the queries.
    """

    order: OrderSettings
    plans: tuple[Plan, ...] = ()
    barrier: BarrierSettings | None = None
    certainty: str = "pairwise"
    guards: Guards = field(default_factory=Guards)
    clock: ClockChoice = field(default_factory=ClockChoice)
    ordered: str = "no"
    carried: frozenset[str] = frozenset()
    aside: str = "no"
    pattern: PatternSettings = field(default_factory=PatternSettings)
    spill: SpillSettings | None = None
    window: WindowSettings = field(default_factory=WindowSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    isolate_failures: bool = False
    readers: tuple[Plan, ...] = field(init=False, repr=False, compare=False)
    looked_at: Mapping[str, bool] = field(init=False, repr=False, compare=False)
    has_checks: bool = field(init=False, repr=False, compare=False)
    asks_delays: bool = field(init=False, repr=False, compare=False)
    lookups: tuple[TableLookup, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for plan in self.plans:
            if plan.windows:
                barrier_of_windows(self.barrier, plan.name)
        readers = of_log(self.plans)
        object.__setattr__(self, "readers", readers)
        has_checks = any(checks_of(plan) is not None for plan in self.plans)
        object.__setattr__(self, "has_checks", has_checks)
        windows = [window for plan in self.plans for window in plan.windows]
        asks = any(window.drift is not Drift.NONE for window in windows)
        object.__setattr__(self, "asks_delays", asks)
        by_query = {plan.name: found for plan in readers if (found := lookups_of(plan))}
        lookups = together(by_query) if by_query else ()
        object.__setattr__(self, "lookups", lookups)
        looked_at = self.order.attributes(readers)
        if lookups:
            looked_up = {name for each in lookups for name in each.types}
            looked_at = {name: of for name, of in looked_at.items() if name not in looked_up}
        object.__setattr__(self, "looked_at", looked_at)


@dataclass(slots=True)
class ChainOutput:
    """What one call gave: results per query (by position), and batches of the ordered stream.

    ``late``, ``quarantined``: what did not go its way (``engine.output.ordered``), if asked
    for. ``failures``: queries that have failed now, where the settings isolate them.
    """

    results: list[ResultPieces]
    ordered: list[Released] = field(default_factory=list)
    late: list[Released] = field(default_factory=list)
    quarantined: list[Released] = field(default_factory=list)
    failures: list[QueryFailure] = field(default_factory=list)

    def add(self, later: ChainOutput) -> None:
        """Put what a later call gave behind what there is."""
        for mine, its in zip(self.results, later.results, strict=True):
            mine.extend(its)
        self.ordered += later.ordered
        self.late += later.late
        self.quarantined += later.quarantined
        self.failures += later.failures
