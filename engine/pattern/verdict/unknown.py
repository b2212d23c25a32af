"""Which matches compare the times of clocks of which one is unknown (SPEC 2, "Unknown clocks").

That is so if their events are of several clocks, one of them unknown; or if a negated step, which
may have an event of any clock, is not tied to one of their sources and the stream has such clocks.
"""

from __future__ import annotations

import numpy as np

from engine.clocks.epochs import UNKNOWN_EPOCH
from engine.clocks.seen import MIXED
from engine.pattern.store import Store
from engine.query.plan import Attribute, Comparison, SeqPlan
from engine.query.repeat_plan import RepeatPlan, step_and_role

_SOURCE = "source"
_NEVER = 2**31 - 1


def compares_others(plan: SeqPlan) -> bool:
    """Whether events that are no part of a match of ``plan``, of any source, may rule it out."""
    if isinstance(plan, RepeatPlan):
        if _SOURCE in plan.partition:
            return False
        by_others = plan.contiguity.name != "ANY" or plan.limit is not None
        by_others |= plan.skip.name != "NONE" or any(often.until for often in plan.often)
        if by_others:
            return True
    return any(step.negated and step.alias not in _tied(plan) for step in plan.steps)


def _tied(plan: SeqPlan) -> set[str]:
    """Steps whose source must be that of another one."""
    pairs = [[a for a in group if a.name == _SOURCE] for group in plan.equalities]
    for other in plan.others:
        match other:
            case Comparison(op="=", left=Attribute(name="source") as one,
                            right=Attribute(name="source") as two):  # fmt: skip
                pairs.append([one, two])
    return {step_and_role(each.alias)[0] for pair in pairs if len(pair) > 1 for each in pair}


def of_unknown_clocks(
    store: Store, rows: np.ndarray, completing: np.ndarray, by_others: np.ndarray
) -> np.ndarray | None:
    """Which matches are unknown; None: all clocks are exact.

    Args:
        store: where the events are.
        rows: (matches, steps): places of their events, -1 for none.
        completing: places of the events that completed them.
        by_others: of each match, ``compares_others`` of its plan.
    """
    mixed = store.columns.get(MIXED)
    if mixed is None:
        return None
    there = rows >= 0
    clock, unknown = store.columns["clock"][rows], store.columns["epoch"][rows] == UNKNOWN_EPOCH
    most = np.where(there, clock, -1).max(axis=1, initial=-1)
    least = np.where(there, clock, _NEVER).min(axis=1, initial=_NEVER)
    own = (unknown & there).any(axis=1) & (least < most)
    return np.asarray((own | by_others) & mixed[completing])


def of_runs(
    store: Store, starts: np.ndarray, events: np.ndarray, completing: np.ndarray, by_others: bool
) -> np.ndarray | None:
    """As ``of_unknown_clocks``, of matches of any length: match i has ``events`` from its place in
    ``starts`` on, which ascend, to that of the next one.
    """
    mixed = store.columns.get(MIXED)
    if mixed is None or not len(starts):
        return None
    clock, unknown = store.columns["clock"][events], store.columns["epoch"][events] == UNKNOWN_EPOCH
    several = np.minimum.reduceat(clock, starts) < np.maximum.reduceat(clock, starts)
    own = np.logical_or.reduceat(unknown, starts) & several
    return np.asarray((own | by_others) & mixed[completing])
