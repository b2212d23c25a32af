"""How far results of a statement have come: what its operator has read, less how long it waits.

Who reads results as events must know when no earlier one comes any more. A plan says how long after
its time a result may come at most, and how far back it may be corrected after that. The first is
a matter of speed alone: a result that comes later all the same is taken in as a correction is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from engine.barrier.registry import BARRIERS, BarrierSettings, Closes, barrier_in_force
from engine.pattern.seq import kept_ns
from engine.pattern.settings import PatternSettings
from engine.query.plan import Plan
from engine.query.results_as_events import ResultFacts, facts_of, sources_of
from engine.stream.ends import ends_of
from engine.stream.released import IN_ORDER, Released
from engine.stream.timeline import LONG_AGO
from engine.window.settings import WindowSettings, horizon_ns

EARLIEST: Final = -(2**62)
"""Progress while there is none; what is taken off it stays within int64."""
_ERRORS: Final = 3
"""So many clocks' errors lie between an event and what lets a match of it go at most."""


@dataclass(slots=True)
class ProgressSteps:
    """Steps of progress: from arrival-clock instant ``at[i]`` on none is below ``value[i]``."""

    at: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, slots=True)
class Reach:
    """``waits_ns``: so long after its own time a result may come, besides what clocks err by.
    ``back_ns``: results that far behind progress may still change; None: any may.
    """

    waits_ns: int
    back_ns: int | None


def reach_of(
    plan: Plan, window: WindowSettings, pattern: PatternSettings, given: BarrierSettings | None
) -> Reach:
    """Of the results of ``plan``.

    Args:
        plan: of the statement.
        window: of windows.
        pattern: of patterns.
        given: the barrier asked for.
    """
    facts = facts_of(plan)
    waits, back = 0, horizon_ns(window, 0)
    kept: int | None = 0
    if facts.window_ns is not None:
        back = horizon_ns(window, facts.window_ns) + 2 * facts.window_ns
    elif facts.is_pattern:
        barrier, within = barrier_in_force(given, facts.realtime), facts.match_ns or 0
        kind = BARRIERS[barrier.name]
        at_once = kind.closes is Closes.NOTHING and not kind.by_arrival and not barrier.ordered
        if not at_once:
            waits = barrier.span_ns + within * (facts.negated + barrier.ordered)
        kept = kept_ns(facts.match_ns, pattern)
        back = (kept or 0) + within + waits
    further = [reach_of(source, window, pattern, given).back_ns for source in sources_of(plan)]
    if kept is None or None in further:
        return Reach(waits, None)
    # What changes upstream changes what is made of it, from there on.
    return Reach(waits, back + max((each for each in further if each is not None), default=0))


@dataclass(slots=True)
class SourceProgress:
    """The progress of the results of one statement that reads the log.

    Args:
        plan: of the statement.
        reach: of its results.
    """

    plan: Plan
    reach: Reach
    facts: ResultFacts = field(init=False)
    frontier: int = EARLIEST
    last_read: int = LONG_AGO
    steps: list[ProgressSteps] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = facts_of(self.plan)

    def saw(self, released: Released) -> None:
        """The statement's operator has read a batch."""
        columns, n = released.columns, released.n
        empty = np.empty(0, np.int64)
        in_order = columns.get("status", empty) == IN_ORDER
        steps = released.progress
        if self.facts.window_ns is not None and len(released.slack.row):
            steps = released.slack
        value = np.concatenate([np.where(in_order, ends_of(released), LONG_AGO), steps.frontier])
        at = np.concatenate([columns.get("release", empty)[:n], steps.at])
        # A step comes before the row whose number it has.
        place = np.concatenate([2 * np.arange(n) + 1, 2 * steps.row])
        order = np.argsort(place, kind="stable")
        if not len(order):
            return
        read = np.maximum.accumulate(np.maximum(value[order], self.last_read))
        self.last_read = int(read[-1])
        behind = np.maximum(read, EARLIEST) - self.reach.waits_ns - self._error(read, released)
        value = np.maximum.accumulate(np.maximum(behind, self.frontier))
        self.frontier = int(value[-1])
        # Instants ascend but for steps that were due before rows which came with them.
        self.steps.append(ProgressSteps(np.maximum.accumulate(at[order]), value))

    def _error(self, read: np.ndarray, released: Released) -> np.ndarray:
        """What clocks may err by, when progress is ``read``."""
        error = released.bound.at(read)
        if self.facts.window_ns is not None:
            if self.facts.on_clock:
                error = np.minimum(error, self.facts.window_ns)
            return np.asarray(np.maximum(error, (released.t_a + 1) // 2))
        return _ERRORS * error if self.reach.waits_ns else error

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        emitted = [(step.at.copy(), step.value.copy()) for step in self.steps]
        return {"frontier": self.frontier, "read": self.last_read, "steps": emitted}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.frontier, self.last_read = state["frontier"], state["read"]
        self.steps = [ProgressSteps(*step) for step in state["steps"]]
