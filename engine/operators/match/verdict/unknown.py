"""Which matches compare times of clocks when one of them is unknown (SPEC 2, "Unknown clocks").

That is so if their events are of several clocks, one of them unknown; or if a negated step, which
may have an event of any clock, is not tied to one of their sources and the stream has such clocks.
"""

from __future__ import annotations

import numpy as np

from slackwater.engine.core.clocks.epochs import UNKNOWN_EPOCH
from slackwater.engine.core.clocks.seen import MIXED, STAMPED_BY
from slackwater.engine.operators.match.store import Store

_NEVER = 2**31 - 1


def may_be_unknown(store: Store) -> bool:
    """Whether some clock may be unknown; else all clocks are exact, and so are matches."""
    return MIXED in store.columns


def of_unknown_clocks(
    store: Store, rows: np.ndarray, completing: np.ndarray, by_others: np.ndarray
) -> np.ndarray:
    """Which matches are unknown, where not all clocks are exact.

    Args:
        store: where the events are.
        rows: (matches, steps): places of their events, -1 for none.
        completing: places of the events that completed them.
        by_others: of each match, ``engine.query.repeat_plan.compares_others`` of its plan.
    """
    mixed = store.columns[MIXED]
    there = rows >= 0
    clock = store.columns.get(STAMPED_BY, store.columns["clock"])[rows]
    unknown = store.columns["epoch"][rows] == UNKNOWN_EPOCH
    most = np.where(there, clock, -1).max(axis=1, initial=-1)
    least = np.where(there, clock, _NEVER).min(axis=1, initial=_NEVER)
    own = (unknown & there).any(axis=1) & (least < most)
    return np.asarray((own | by_others) & mixed[completing])


def of_runs(
    store: Store, starts: np.ndarray, events: np.ndarray, completing: np.ndarray, by_others: bool
) -> np.ndarray:
    """As ``of_unknown_clocks``, of matches of any length: match i has ``events`` from its place in
    ``starts`` on, which ascend, to that of the next one.
    """
    mixed = store.columns[MIXED]
    clock = store.columns.get(STAMPED_BY, store.columns["clock"])[events]
    unknown = store.columns["epoch"][events] == UNKNOWN_EPOCH
    several = np.minimum.reduceat(clock, starts) < np.maximum.reduceat(clock, starts)
    own = np.logical_or.reduceat(unknown, starts) & several
    return np.asarray((own | by_others) & mixed[completing])
