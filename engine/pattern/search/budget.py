"""How many matches a query may find: by one event, and in one call of a kernel.

The bound of one event does not depend on how the stream is cut; that of a call is of its memory.
"""

from __future__ import annotations

import numpy as np

from engine.errors import OverBudget
from engine.query.purge_settings import MATCHES_TOGETHER


class MatchBudget:
    """Of the query ``name``, of which one event may complete or change ``most`` matches."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._together = MATCHES_TOGETHER * most
        self.room = self._together + most
        """For the matches of a call, at the most."""

    def larger(self, room: int, causes: np.ndarray) -> int:
        """The next larger room for matches; ``causes``: of those found by the events before the one
        that had no room, as in ``check``.

        Raises:
            OverBudget: there is enough.
        """
        self.check(causes)
        if room - len(causes) >= self._most:
            raise self._of_one()
        if len(causes) > self._together:
            raise self.exceeded(f"events of one call complete more than {self._together:,} matches")
        return min(4 * room, self.room)

    def check(self, causes: np.ndarray) -> None:
        """``causes``: of the matches found, in order, the events that complete or change them.

        Raises:
            OverBudget: they are too many.
        """
        if len(causes) <= self._most:
            return
        ends = np.flatnonzero(np.diff(causes, append=-1))
        if np.diff(ends, prepend=-1).max() > self._most:
            raise self._of_one()

    def _of_one(self) -> OverBudget:
        return self.exceeded(f"one event completes or changes more than {self._most:,} matches")

    def exceeded(self, does: str) -> OverBudget:
        """The error to raise; ``does``: what the query does."""
        return OverBudget.of(self._name, does, self._most)
