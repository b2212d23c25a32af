"""What an operator hands to its barrier, and what the barrier lets go: columns.

All that a barrier knows of operators stands here. Rows are places in the operator's event table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from msgspec import Struct

ORDER: Final = "order"
"""Number of the row in the released stream: what was released earlier."""


class EventTable(Protocol):
    """The events that matches are made of, by columns; ``release`` and ORDER are among them."""

    @property
    def columns(self) -> Mapping[str, np.ndarray]: ...


class Verdicts(Struct):
    """Per match: does it stand, is it confirmed, with which probability?"""

    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray

    def take(self, which: np.ndarray) -> Verdicts:
        return Verdicts(self.stands[which], self.confirmed[which], self.chance[which])


class Changes(Struct):
    """What rows of a batch do to matches: equally long columns, in order.

    ``rows``: (n, steps of all branches) places in the store, -1 for steps the match does not have.
    ``branch``: of the OR. ``completing`` and ``cause``: the row that completed the match, and the
    one that changes it now (the same for a new match). ``before``: as it stood, which a new match
    did not. ``after``: it does not stand when the row invalidates it. ``closes``: (n, scopes + 1),
    of new matches: per scope the least promise that closes it (no later event below it), and last
    the time of the match's last event. What clocks may err is taken off the promises, but for the
    errors of the match's own events.
    """

    rows: np.ndarray
    branch: np.ndarray
    completing: np.ndarray
    cause: np.ndarray
    before: Verdicts
    after: Verdicts
    closes: np.ndarray
    known_at: np.ndarray
    last_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.cause)

    def take(self, which: np.ndarray) -> Changes:
        """Those of ``which``, in its order."""
        return Changes(
            self.rows[which], self.branch[which], self.completing[which], self.cause[which],
            self.before.take(which), self.after.take(which), self.closes[which],
            self.known_at[which], self.last_ns[which],
        )  # fmt: skip


class Given(Struct):
    """What a barrier lets go, in order: equally long columns.

    ``rows``: (n, steps) places in the store. ``plus``: given, or else taken back.
    """

    rows: np.ndarray
    branch: np.ndarray
    plus: np.ndarray
    at: np.ndarray
    known_at: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray
