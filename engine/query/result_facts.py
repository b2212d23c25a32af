"""What a plan says of its results to who reads them as events: when they come, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from engine.query.derived_plan import DerivedPlan, asked_plan
from engine.query.monitor_plan import MonitorPlan
from engine.query.plan import OrPlan, Plan, SeqPlan, WindowKind, WindowPlan

_SECOND: Final = 10**9
_FINE: Final = 8
"""So many steps of progress in the shortest span that a statement names."""


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """Of a plan.

    ``window_ns``: the size of its windows (a gap, of sessions; 0 of ROWS); None: it has none.
    ``on_clock``: its windows lie on the clock. ``match_ns``: how long a match may be; None: it has
    none, or it is not said. ``is_pattern``; ``negated``: something must not occur in a match.
    ``realtime``: as of the plan. ``times_err``: the times of results are known no better than those
    of events; of windows they are.
    """

    window_ns: int | None
    on_clock: bool
    match_ns: int | None
    is_pattern: bool
    negated: bool
    realtime: int | None
    times_err: bool


def sources_of(plan: Plan) -> tuple[Plan, ...]:
    """The statements whose results ``plan`` reads; none: it reads the log."""
    return plan.sources if isinstance(plan, DerivedPlan) else ()


def whole_text(plan: Plan) -> str:
    """The text of a statement, behind those of all that it reads."""
    return "; ".join([*map(whole_text, sources_of(plan)), plan.text])


def facts_of(plan: Plan) -> ResultFacts:
    """Of the results of ``plan``."""
    asked = asked_plan(plan)
    if isinstance(asked, WindowPlan):
        on_clock = asked.kind is WindowKind.TIME
        return ResultFacts(asked.size_ns, on_clock, None, False, False, None, False)
    sources = sources_of(plan)
    times_err = not sources or any(facts_of(source).times_err for source in sources)
    if isinstance(asked, MonitorPlan):
        return ResultFacts(None, False, None, False, False, None, times_err)
    assert isinstance(asked, SeqPlan | OrPlan)
    negated = any(step.negated for branch in asked.branches for step in branch.steps)
    within = asked.branches[0].within_ns
    return ResultFacts(None, False, within, True, negated, asked.realtime, times_err)


def quantum_of(plan: Plan) -> int:
    """Progress of what ``plan`` reads is told when it passes a multiple of this [ns]: windows close
    at the very instant, and nobody else has to look more often than a few times in the shortest
    span that is asked for.
    """
    asked = asked_plan(plan)
    if isinstance(asked, WindowPlan) and asked.kind is WindowKind.TIME:
        return gcd(gcd(asked.size_ns, asked.step_ns), _SECOND)
    spans = [one.step_ns for source in sources_of(plan) for one in asked_plan(source).windows]
    spans += [branch.within_ns for branch in asked.branches if branch.within_ns]
    spans += [window.size_ns for window in asked.windows]
    return max(1, min([_SECOND, *(span // _FINE for span in spans if span > 0)]))
