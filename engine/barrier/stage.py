"""A matcher and its barrier as one operator of the chain: matches in, results out (SPEC 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from slackwater.engine.barrier.base import (
    Barrier,
    HoldsMatches,
    Listener,
    Matcher,
    MatcherOutput,
    ReleasedMatches,
)
from slackwater.engine.core.errors import OverBudget
from slackwater.engine.core.operator import Restorable, Result, ResultPieces
from slackwater.engine.core.released import Released


class BarrierStage(Restorable):
    """The operator that gives what ``barrier`` lets go of what ``matcher`` finds.

    Args:
        matcher: of the query.
        barrier: when its matches are let go.
        query: its name.
        most: matches that one event may complete.
        times: the barrier may hold back so many times as many.
    """

    state_fields = ("_matcher", "_barrier")

    def __init__(
        self, matcher: Matcher, barrier: Barrier, query: str = "", most: int = 2**62, times: int = 1
    ) -> None:
        self._query, self._most, self._held_most = query, most, times * most
        self.found = 0
        """Matches that were found or changed, so far."""
        self._matcher = matcher
        self._barrier = barrier
        self._holding = barrier if isinstance(barrier, HoldsMatches) else None
        self.types = matcher.types
        self.takes_halves = matcher.takes_halves
        self._until_end: dict[str, int] = {}

    def required_columns(self) -> set[str]:
        return {*self._matcher.required_columns(), "status"}

    def begins(self, begun: dict[str, np.ndarray]) -> None:
        """IBPs have arrived, for a matcher that listens to them."""
        if isinstance(self._matcher, Listener):
            self._matcher.begins(begun)

    def process(self, released: Released) -> Sequence[Result]:
        return self._let_go(self._matcher.process(released), None)

    def advance(self, now: int) -> Sequence[Result]:
        then = partial(self._holding.advance, now) if self._holding else None
        return self._let_go(self._matcher.advance(now), then)

    def finish(self, at: int) -> Sequence[Result]:
        if self._holding:  # nothing but the end of the input lets these go
            self._until_end = {"matches_until_end": self._holding.counters()["matches_held"]}
        then = partial(self._holding.finish, at) if self._holding else None
        return self._let_go(self._matcher.finish(at), then)

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Results that were saved."""
        return self._matcher.unpacked(state)

    def _let_go(
        self, happened: Iterable[MatcherOutput], then: Callable[[], ReleasedMatches | None] | None
    ) -> Sequence[Result]:
        """What the barrier gives at each of these, and ``then``; rows that none holds may go.

        Raises:
            OverBudget: the barrier holds back more than it may.
        """
        found = ResultPieces()
        for changes, timeline in happened:
            self.found += 0 if changes is None else len(changes.rows)
            given = self._barrier.process(changes, timeline, self._matcher.table)
            if given is not None and len(given.at):
                found.extend(self._matcher.shown(given))
            if self._holding and self._holding.counters()["matches_held"] > self._held_most:
                does = f"its barrier holds back more than {self._held_most:,} matches"
                raise OverBudget.of(self._query, does, self._most)
            number = self._matcher.purge(self._barrier.held_rows)
            if number is not None:
                self._barrier.renumber(number)
        given = then() if then else None
        if given is not None and len(given.at):
            found.extend(self._matcher.shown(given))
        return found

    def counters(self) -> dict[str, int]:
        """Of both; ``matches_until_end``: how many the end of the input let go."""
        return self._matcher.counters() | self._barrier.counters() | self._until_end

    def codes(self) -> np.ndarray | None:
        return self._matcher.codes()
