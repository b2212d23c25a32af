"""The contract of a barrier: it decides when a match becomes a result (SPEC 4.2).

Adding one: a file with its policy (``engine.barrier.holding``) and a line in the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from engine.barrier.changes import Changes, EventTable, Given
from engine.barrier.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Asked:
    """What a barrier knows of the query: types of the negated steps, one per scope, of the positive
    ones, and how many steps there are. ``purged``: events are dropped as promises say, so that a
    broken one counts though no match waits for it.
    """

    negated: tuple[str, ...]
    positive: tuple[str, ...]
    steps: int
    purged: bool = False


class Barrier(Protocol):
    """Stands between a matcher and the output; knows nothing of how matches are found."""

    def process(self, changes: Changes | None, timeline: Timeline, store: EventTable) -> Given:
        """What a batch's rows do to matches, in order, and its clocks; gives what is let go."""

    def advance(self, now: int) -> Given:
        """The arrival clock has come to ``now``: gives what was due before it."""

    def finish(self, at: int) -> Given:
        """End of the input at arrival-clock instant ``at``: everything held is decided."""

    def held_rows(self) -> np.ndarray:
        """The rows of the store that matches held are made of."""

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store is now called ``number[i]``."""

    def counters(self) -> dict[str, int]:
        """What is held, and what went wrong; for reports."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of a barrier with equal settings."""
