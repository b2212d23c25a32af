"""How many matches a query may find: by one event, and in one call of a kernel.

The bound of one event does not depend on how the stream is cut; that of a call is of its memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import OverBudget
from engine.query.purge_settings import MATCHES_TOGETHER


@dataclass(frozen=True, slots=True)
class MatchBudget:
    """Of the query ``name``, of which one event may complete or change ``most`` matches."""

    name: str
    most: int

    def larger(self, room: int, causes: np.ndarray) -> int:
        """The next larger room for matches; ``causes``: of those found by the events before the one
        that had no room, as in ``check``.

        Raises:
            OverBudget: there is enough.
        """
        self.check(causes)
        if room - len(causes) >= self.most:
            raise self._of_one()
        together = MATCHES_TOGETHER * self.most
        if len(causes) > together:
            raise self.exceeded(f"events of one call complete more than {together:,} matches")
        return min(4 * room, together + self.most)

    def check(self, causes: np.ndarray) -> None:
        """``causes``: of the matches found, in order, the events that complete or change them.

        Raises:
            OverBudget: they are too many.
        """
        ends = np.flatnonzero(np.diff(causes, append=-1))
        if np.diff(ends, prepend=-1).max(initial=0) > self.most:
            raise self._of_one()

    def _of_one(self) -> OverBudget:
        return self.exceeded(f"one event completes or changes more than {self.most:,} matches")

    def exceeded(self, does: str) -> OverBudget:
        """The error to raise; ``does``: what the query does."""
        return OverBudget.of(self.name, does, self.most)
