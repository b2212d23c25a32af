"""The settings and output of a chain, and the registry of operators by class of plan.

A new operator needs one file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.barrier.base import BarrierStage, Matcher
from slackwater.engine.barrier.registry import (
    BARRIERS,
    BarrierSettings,
    Closes,
    barrier_in_force,
    barrier_of_windows,
    build_barrier,
)
from slackwater.engine.core.clocks.choice import ClockChoice, Lane
from slackwater.engine.core.clocks.epochs import unknown_read
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Operator, ResultPieces
from slackwater.engine.core.released import Released
from slackwater.engine.operators.grouping.operations import GroupingPlan
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.order.base import Guards, OrderSettings
from slackwater.engine.query.clock_sensitivity import lanes_read, result_lanes
from slackwater.engine.query.failures import QueryFailure, QueryFailures
from slackwater.engine.query.monitor_plan import MonitorPlan, MonitorSettings
from slackwater.engine.query.pattern_settings import MATCHES_TOGETHER, PatternSettings, Rule
from slackwater.engine.query.plan import (
    DerivedPlan,
    Drift,
    Emit,
    JoinPlan,
    OrPlan,
    Plan,
    SeqPlan,
    TreePlan,
    WindowKind,
    WindowPlan,
    checks_of,
    lookups_of,
    of_log,
)
from slackwater.engine.query.reference_tables import TableLookup, merge_lookups
from slackwater.engine.query.repeat_plan import RepeatPlan
from slackwater.engine.query.results_as_events import facts_of
from slackwater.engine.query.shape import of_intervals

if TYPE_CHECKING:
    from slackwater.engine.operators.cascade.cascade import Cascade, Reaching
    from slackwater.engine.operators.match.spill.chunks import ChunkStore


# The settings of a chain, and the output of one call.


ChunksOf = Callable[[str], "ChunkStore"]
"""The store of the spilled chunks of a query, by its name."""


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """The settings of a chain; equal at every site.

    ``certainty``: ``pairwise`` | ``max-delay`` | ``max-delay-r19`` (SPEC 4.3). ``barrier``:
    of matches and windows; None: by each query's REALTIME. ``ordered``: output of the ordered
    stream: ``no`` | ``bare`` (without attributes) | ``full``. ``carried``: attributes that a
    ``bare`` stream has nevertheless. ``aside``: output of late and quarantined events: likewise
    ``no`` | ``bare`` | ``full``. ``pattern``: of matchers; ``certainty`` overrides its own.
    ``spill``: of state on disk; None: all state is in memory. ``window``: of windows. ``monitor``:
    of patterns under a constraint. ``clock``: the user's statements about clocks without syncs.
    ``isolate_failures``: a query that fails at a site stops there, and the others continue; else
    the failure is raised.

    Derived from these: ``readers``: the plans that read the log. ``looked_at``: attributes that
    the order reads, and whether each must be a number. ``has_checks``: a plan has checks.
    ``asks_delays``: a plan needs every source's delay. ``lookups``: lookups of all plans.

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
        lookups = merge_lookups(by_query) if by_query else ()
        object.__setattr__(self, "lookups", lookups)
        looked_at = self.order.attributes(readers)
        if lookups:
            looked_up = {name for each in lookups for name in each.types}
            looked_at = {name: of for name, of in looked_at.items() if name not in looked_up}
        object.__setattr__(self, "looked_at", looked_at)


@dataclass(slots=True)
class ChainOutput:
    """The output of one call: results per query (by position), and batches of the ordered stream.

    ``late``, ``quarantined``: the side output (``engine.output.ordered_stream``), if configured.
    ``failures``: failed queries of this call, if the settings isolate failures.
    """

    results: list[ResultPieces]
    ordered: list[Released] = field(default_factory=list)
    late: list[Released] = field(default_factory=list)
    quarantined: list[Released] = field(default_factory=list)
    failures: list[QueryFailure] = field(default_factory=list)

    def add(self, later: ChainOutput) -> None:
        """Append the output of a later call."""
        for mine, its in zip(self.results, later.results, strict=True):
            mine.extend(its)
        self.ordered += later.ordered
        self.late += later.late
        self.quarantined += later.quarantined
        self.failures += later.failures


# ruff: noqa: PLC0415 - a query has one operator, and the others are hundreds of modules

Build = Callable[[Any, ChainSettings, str, "ChunkStore | None"], Operator | Matcher]
"""(plan, settings, site, store of spilled chunks; None: as in the settings) -> the operator, or the
matcher of a pattern, to which a barrier is added."""


def _matcher(plan: Any, settings: ChainSettings, site: str, chunks: ChunkStore | None) -> Matcher:
    pattern = replace(settings.pattern, certainty=settings.certainty)
    if settings.spill is not None:
        from slackwater.engine.operators.match.spill.matcher import (
            Spilling,
            SpillingRepetition,
            SpillingTree,
        )

        others: dict[type, type[Spilling]] = {
            TreePlan: SpillingTree, RepeatPlan: SpillingRepetition,
        }  # fmt: skip
        spilling = others.get(type(plan), Spilling)(plan, pattern, site)
        return spilling.spill_to(settings.spill, chunks)
    if isinstance(plan, RepeatPlan):
        from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher

        return RepeatMatcher(plan, pattern, site)
    if isinstance(plan, TreePlan):
        from slackwater.engine.operators.match.interval.trees import TreeMatcher

        return TreeMatcher(plan, pattern, site)
    if isinstance(plan, SeqPlan) and of_intervals(plan):
        from slackwater.engine.operators.match.interval.trees import IseqMatcher

        return IseqMatcher(plan, pattern, site)
    from slackwater.engine.operators.match.seq import SeqMatcher

    return SeqMatcher(plan, pattern, site)


def windows_of(
    plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
) -> Operator:
    """Return the operator of ``plan``. Sliding windows use panes if they overlap, no aggregate
    needs all values, and there are no early results.
    """
    from slackwater.engine.operators.window.state.aggregate import NEEDS_ALL_VALUES

    if plan.kind is WindowKind.SESSION:
        from slackwater.engine.operators.window.session.run import SessionWindows

        return SessionWindows(plan, settings, site)
    if plan.kind is WindowKind.ROWS:
        from slackwater.engine.operators.window.row_windows.run import RowWindows

        return RowWindows(plan, settings, site)
    alone = plan.every_ns is None or plan.every_ns == plan.size_ns
    early = plan.emit is not Emit.CLOSE  # a window of panes is made when it closes
    if (
        alone
        or early
        or any(one.function in NEEDS_ALL_VALUES for one in plan.worked_out.aggregates)
    ):
        from slackwater.engine.operators.window.time_windows import TimeWindows

        return TimeWindows(plan, settings, site)
    from slackwater.engine.operators.window.time_windows import PaneWindows

    return PaneWindows(plan, settings, site)


def _windows(
    plan: WindowPlan, settings: ChainSettings, site: str, _chunks: ChunkStore | None
) -> Operator:
    declared = max((bound for _, _, bound in settings.clock.declared), default=0)
    window_settings = replace(
        settings.window, barrier=settings.barrier, unknown=_unknown(plan, settings, site),
        declared=declared,
    )  # fmt: skip
    return windows_of(plan, window_settings, site)


def _monitor(
    plan: MonitorPlan, settings: ChainSettings, site: str, _chunks: ChunkStore | None
) -> Operator:
    from slackwater.engine.operators.constraint.monitor import MonitorOperator

    if settings.certainty != "pairwise":
        raise UserError(
            f"query {plan.name!r}: alerts are certain or not by their events' own uncertainties; "
            "leave --certainty out"
        )
    return MonitorOperator(plan, site, settings.monitor)


def _grouping(
    plan: GroupingPlan, settings: ChainSettings, site: str, _chunks: ChunkStore | None
) -> Operator:
    from slackwater.engine.operators.grouping.operator import GroupingOperator

    barrier = barrier_in_force(settings.barrier, plan.realtime)
    return GroupingOperator(plan, site, barrier, unknown=_unknown(plan, settings, site))


def _derived(
    plan: DerivedPlan, settings: ChainSettings, site: str, _chunks: ChunkStore | None
) -> Operator:
    from slackwater.engine.operators.cascade.stage import DerivedStage

    # The order and the sources of the log do not apply to results.
    lanes = result_lanes(plan, _lanes(settings, site))
    upcoming = [each._replace(lanes=lanes) for each in settings.clock.upcoming if each.site == site]
    stage_settings = replace(
        settings, certainty="pairwise", spill=None,
        pattern=replace(settings.pattern, purge="late", slack_ns=0),
        clock=replace(settings.clock, upcoming=tuple(upcoming)),
    )  # fmt: skip
    reach = [reaching(settings).reach(source) for source in plan.sources]
    return DerivedStage(plan, lambda: build_operator(plan.plan, stage_settings, site), reach)


def _unknown(
    plan: WindowPlan | GroupingPlan, settings: ChainSettings, site: str
) -> tuple[str, ...]:
    """Unknown clocks that the plan is known to read together with others."""
    return unknown_read(settings.clock, site, lanes_read(plan, _lanes(settings, site)))


def _lanes(settings: ChainSettings, site: str) -> tuple[Lane, ...]:
    """Return the lanes of an input that ends; empty if they are not known."""
    mine = (each.lanes for each in settings.clock.upcoming if each.site == site)
    return next(mine, ())


def reaching(settings: ChainSettings) -> Reaching:
    """Return the calculator of how long results take and may change, for these ``settings``."""
    from slackwater.engine.operators.cascade.cascade import Reaching

    return Reaching(settings.window, settings.pattern, settings.barrier)


def cascade_of(
    settings: ChainSettings, operators: Sequence[Operator], failures: QueryFailures
) -> Cascade:
    """Return the cascade of derived statements between the ``operators``."""
    from slackwater.engine.operators.cascade.cascade import Cascade

    return Cascade(settings.plans, operators, reaching(settings), failures)


OPERATORS: Final[dict[type, Build]] = {
    SeqPlan: _matcher,
    OrPlan: _matcher,
    JoinPlan: _matcher,
    TreePlan: _matcher,
    RepeatPlan: _matcher,
    WindowPlan: _windows,
    MonitorPlan: _monitor,
    DerivedPlan: _derived,
    GroupingPlan: _grouping,
}


def build_operator(
    plan: Plan, settings: ChainSettings, site: str, chunks: ChunkStore | None = None
) -> Operator:
    """Return the operator of ``plan`` for ``site``.

    ``chunks``: store of spilled chunks; None: as in the settings.

    Raises:
        UserError: the certainty rule is unknown; the message names the known ones.
    """
    Rule(settings.certainty)
    made = OPERATORS[type(plan)](plan, settings, site, chunks)
    operator = cast("Operator", made)
    if isinstance(plan, SeqPlan | OrPlan | TreePlan | RepeatPlan):
        matcher = cast("Matcher", made)
        barrier = build_barrier(
            barrier_in_force(settings.barrier, plan.realtime), matcher.requirements
        )
        most = settings.pattern.matches_max
        operator = BarrierStage(matcher, barrier, plan.name, most, MATCHES_TOGETHER)
    limit = getattr(getattr(plan, "checks", None), "limit", None)
    if isinstance(plan, DerivedPlan) or limit is None:
        return operator
    from slackwater.engine.operators.check.emit_limit import LimitedOperator

    return LimitedOperator(operator, limit, _corrected_ns(plan, settings))


def _corrected_ns(plan: Plan, settings: ChainSettings) -> int | None:
    """Return how long after a result others may still change [ns]; None: unbounded."""
    reach, facts = reaching(settings).reach(plan), facts_of(plan)
    kind = BARRIERS[barrier_in_force(settings.barrier, facts.realtime).name]
    if facts.negated and kind.closes is Closes.PROMISE and settings.order.leaves_promises:
        return None  # nothing bounds how long a match waits for a promise
    if reach.back_ns is None and all(branch.alone for branch in plan.branches):
        from slackwater.engine.operators.match.seq import kept_ns

        return (kept_ns(0, settings.pattern) or 0) + reach.waits_ns
    return reach.back_ns
