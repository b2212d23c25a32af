"""Which operator answers which plan: adding one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.barrier.base import Matcher
from slackwater.engine.barrier.registry import BARRIERS, Closes, barrier_in_force, build_barrier
from slackwater.engine.barrier.stage import BarrierStage
from slackwater.engine.core.clocks.choice import Lane
from slackwater.engine.core.clocks.seen import will_mix
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Operator
from slackwater.engine.hosts.chain.settings import ChainSettings
from slackwater.engine.operators.grouping.operations import GroupingPlan
from slackwater.engine.operators.match.settings import Rule
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.query.clocked import lanes_asked, lanes_read
from slackwater.engine.query.failures import QueryFailures
from slackwater.engine.query.monitor_plan import MonitorPlan
from slackwater.engine.query.plan import (
    DerivedPlan,
    Emit,
    JoinPlan,
    OrPlan,
    Plan,
    SeqPlan,
    TreePlan,
    WindowKind,
    WindowPlan,
)
from slackwater.engine.query.purge_settings import MATCHES_TOGETHER
from slackwater.engine.query.repeat_plan import RepeatPlan
from slackwater.engine.query.results_as_events import facts_of
from slackwater.engine.query.shape import of_intervals

if TYPE_CHECKING:
    from slackwater.engine.operators.cascade.cascade import Cascade, Reaching
    from slackwater.engine.operators.match.spill.chunks import ChunkStore

# ruff: noqa: PLC0415 - a query has one operator, and the others are hundreds of modules

Build = Callable[[Any, ChainSettings, str, "ChunkStore | None"], Operator | Matcher]
"""(plan, settings, site, where spilled chunks are; None: as the settings say) -> its operator, or
the matcher of a pattern, which a barrier follows."""


def _pattern(
    plan: SeqPlan | OrPlan, settings: ChainSettings, site: str, chunks: ChunkStore | None
) -> Matcher:
    pattern = replace(settings.pattern, certainty=settings.certainty)
    if settings.spill is not None:
        from slackwater.engine.operators.match.spill.matcher import SpillingMatcher

        return SpillingMatcher(plan, settings.spill, pattern, site, chunks)
    if isinstance(plan, SeqPlan) and of_intervals(plan):
        from slackwater.engine.operators.match.interval.trees import IseqMatcher

        return IseqMatcher(plan, pattern, site)
    from slackwater.engine.operators.match.seq import SeqMatcher

    return SeqMatcher(plan, pattern, site)


def _tree(plan: TreePlan, settings: ChainSettings, site: str, chunks: ChunkStore | None) -> Matcher:
    pattern = replace(settings.pattern, certainty=settings.certainty)
    if settings.spill is not None:
        from slackwater.engine.operators.match.spill.matcher import SpillingTree

        spilling = SpillingTree(plan, pattern, site)
        spilling.spill_to(settings.spill, chunks)
        return spilling
    from slackwater.engine.operators.match.interval.trees import TreeMatcher

    return TreeMatcher(plan, pattern, site)


def _repetition(
    plan: RepeatPlan, settings: ChainSettings, site: str, chunks: ChunkStore | None
) -> Matcher:
    pattern = replace(settings.pattern, certainty=settings.certainty)
    if settings.spill is not None:
        from slackwater.engine.operators.match.spill.matcher import SpillingRepetition

        spilling = SpillingRepetition(plan, pattern, site)
        spilling.spill_to(settings.spill, chunks)
        return spilling
    from slackwater.engine.operators.match.repetition.matcher import RepeatMatcher

    return RepeatMatcher(plan, pattern, site)


def windows_of(
    plan: WindowPlan, settings: WindowSettings | None = None, site: str = DEFAULT_SITE
) -> Operator:
    """The operator of ``plan``. Of windows that slide it has panes if they overlap, no aggregate
    needs all values, and none emits before it closes.
    """
    from slackwater.engine.operators.window.state.aggregate import NEEDS_ALL_VALUES

    if plan.kind is WindowKind.SESSION:
        from slackwater.engine.operators.window.session.run import SessionWindows

        return SessionWindows(plan, settings, site)
    if plan.kind is WindowKind.ROWS:
        from slackwater.engine.operators.window.row_windows.run import CountedWindows

        return CountedWindows(plan, settings, site)
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
    mixed = _mixes(plan, settings, site)
    return windows_of(plan, replace(settings.window, barrier=settings.barrier, mixed=mixed), site)


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
    mixed = _mixes(plan, settings, site)
    return GroupingOperator(plan, site, barrier, mixed=mixed)


def _derived(
    plan: DerivedPlan, settings: ChainSettings, site: str, _chunks: ChunkStore | None
) -> Operator:
    from slackwater.engine.operators.cascade.stage import DerivedStage

    # What the log's order and sources say of events says nothing of results.
    lanes = lanes_asked(plan, _lanes(settings, site))
    upcoming = [each._replace(lanes=lanes) for each in settings.clock.upcoming if each.site == site]
    own = replace(
        settings, certainty="pairwise", spill=None,
        pattern=replace(settings.pattern, purge="late", slack_ns=0),
        clock=replace(settings.clock, upcoming=tuple(upcoming)),
    )  # fmt: skip
    reach = [reaching(settings).reach(source) for source in plan.sources]
    return DerivedStage(plan, lambda: build_operator(plan.plan, own, site), reach)


def _mixes(plan: WindowPlan | GroupingPlan, settings: ChainSettings, site: str) -> bool:
    """Whether it is known that the plan will read several clocks of which one is unknown."""
    return will_mix(settings.clock, site, lanes_read(plan, _lanes(settings, site)))


def _lanes(settings: ChainSettings, site: str) -> tuple[Lane, ...]:
    """What will come, of an input that ends."""
    mine = (each.lanes for each in settings.clock.upcoming if each.site == site)
    return next(mine, ())


def reaching(settings: ChainSettings) -> Reaching:
    """How long results of statements take, and may change, in chains of these ``settings``."""
    from slackwater.engine.operators.cascade.cascade import Reaching

    return Reaching(settings.window, settings.pattern, settings.barrier)


def cascade_of(
    settings: ChainSettings, operators: Sequence[Operator], failures: QueryFailures
) -> Cascade:
    """What flows between the ``operators`` of statements, some of which do not read the log."""
    from slackwater.engine.operators.cascade.cascade import Cascade

    return Cascade(settings.plans, operators, reaching(settings), failures)


OPERATORS: Final[dict[type, Build]] = {
    SeqPlan: _pattern,
    OrPlan: _pattern,
    JoinPlan: _pattern,
    TreePlan: _tree,
    RepeatPlan: _repetition,
    WindowPlan: _windows,
    MonitorPlan: _monitor,
    DerivedPlan: _derived,
    GroupingPlan: _grouping,
}


def build_operator(
    plan: Plan, settings: ChainSettings, site: str, chunks: ChunkStore | None = None
) -> Operator:
    """The operator of ``plan`` for ``site``.

    ``chunks``: where spilled ones are; None: as the settings say.

    Raises:
        UserError: an unknown certainty rule, naming the known ones.
    """
    Rule(settings.certainty)
    made = OPERATORS[type(plan)](plan, settings, site, chunks)
    operator = cast("Operator", made)
    if isinstance(plan, SeqPlan | OrPlan | TreePlan | RepeatPlan):
        matcher = cast("Matcher", made)
        barrier = build_barrier(barrier_in_force(settings.barrier, plan.realtime), matcher.asked)
        most = settings.pattern.matches_max
        operator = BarrierStage(matcher, barrier, plan.name, most, MATCHES_TOGETHER)
    limit = getattr(getattr(plan, "checks", None), "limit", None)
    if isinstance(plan, DerivedPlan) or limit is None:
        return operator
    from slackwater.engine.operators.check.emit_limit import LimitedOperator

    return LimitedOperator(operator, limit, _corrected_ns(plan, settings))


def _corrected_ns(plan: Plan, settings: ChainSettings) -> int | None:
    """How far behind the latest result others may change [ns]; None: any may."""
    reach, facts = reaching(settings).reach(plan), facts_of(plan)
    kind = BARRIERS[barrier_in_force(settings.barrier, facts.realtime).name]
    if facts.negated and kind.closes is Closes.PROMISE and settings.order.leaves_promises:
        return None  # nothing bounds how long a match waits for a promise
    if reach.back_ns is None and all(branch.alone for branch in plan.branches):
        from slackwater.engine.operators.match.seq import kept_ns

        return (kept_ns(0, settings.pattern) or 0) + reach.waits_ns
    return reach.back_ns
