"""``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive).

A match that a later event of a negated step invalidates is taken back (``-``); one that such an
event puts in doubt is taken back and given anew with its probability.

When not to use: when acting on a result that is taken back costs more than waiting for a sure one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.barrier.base import Asked
from engine.barrier.changes import Changes, EventTable, Given
from engine.stream.timeline import Timeline


class Immediate:
    """Holds nothing; ``at`` is the release of the row that completed or changed the match.

    Args:
        asked: of the query.
    """

    def __init__(self, asked: Asked) -> None:
        self._purged = asked.purged
        self._broken = 0

    def process(
        self, changes: Changes | None, timeline: Timeline, store: EventTable
    ) -> Given | None:
        if self._purged:
            self._broken += int(timeline.below_promises().sum())
        if changes is None:
            return None
        before, after = changes.before, changes.after
        if after.stands.all() and not before.stands.any():
            return Given(
                changes.rows, changes.branch, after.stands,
                store.columns["release"][changes.cause], changes.known_at, after.confirmed,
                after.chance,
            )  # fmt: skip
        # What a change takes back comes just before what it gives instead.
        change = np.repeat(np.arange(len(changes)), before.stands.astype(np.int64) + after.stands)
        plus = np.ones(len(change), np.bool_)
        plus[np.searchsorted(change, np.flatnonzero(before.stands))] = False
        return Given(
            changes.rows[change],
            changes.branch[change],
            plus,
            store.columns["release"][changes.cause[change]],
            changes.known_at[change],
            np.where(plus, after.confirmed[change], before.confirmed[change]),
            np.where(plus, after.chance[change], before.chance[change]),
        )

    def held_rows(self) -> np.ndarray:
        return np.empty(0, np.int64)

    def renumber(self, number: np.ndarray) -> None:
        """No row is held."""

    def counters(self) -> dict[str, int]:
        """``promises_broken``: rows below what was promised, if a purge counts on promises."""
        return {"promises_broken": self._broken} if self._purged else {}

    def snapshot(self) -> dict[str, Any]:
        return {"broken": self._broken}

    def restore(self, state: dict[str, Any]) -> None:
        self._broken = state["broken"]
