"""What an operator hands to its barrier, and what the barrier releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from msgspec import Struct

from slackwater.engine.core.errors import OverBudget
from slackwater.engine.core.operator import Restorable, Result, ResultPieces
from slackwater.engine.core.released import Released
from slackwater.engine.core.timeline import StreamTimeline

# Contracts of a matcher, and of the barrier that decides when a match is a result (SPEC 4.2).
#
# Adding a barrier: a file with its policy (``engine.barrier.holding``) and a line in the registry.
# ``BarrierStage`` puts the two together.


class BarrierRequirements(Struct, frozen=True):
    """What a barrier knows of the query: types of the negated steps, one per scope, of the positive
    ones, and how many steps there are. ``purged``: events are dropped as promises say, so that a
    broken one counts though no match waits for it.
    """

    negated: tuple[str, ...]
    positive: tuple[str, ...]
    steps: int
    purged: bool = False


class MatcherOutput(NamedTuple):
    """What a matcher says at once: what rows do to matches, and the clocks that moved with them."""

    changes: Changes | None
    timeline: StreamTimeline


class Matcher(Protocol):
    """Finds matches and what changes them; owns the events they are made of.

    What it changes must not depend on how the released stream is cut into batches.
    """

    asked: BarrierRequirements
    types: tuple[str, ...]
    """Of all steps: whose rows and promises it reads."""
    takes_halves: bool
    """Whether it reads halves of intervals, too."""

    @property
    def table(self) -> EventTable:
        """The events, by the rows that changes name."""

    def required_columns(self) -> set[str]:
        """As ``engine.core.operator.Operator``."""

    def process(self, released: Released) -> Iterable[MatcherOutput]:
        """What a batch of the ordered stream does, which tells how its clocks moved.

        The barrier has acted upon one before the next is asked for.
        """

    def advance(self, now: int) -> Iterable[MatcherOutput]:
        """The arrival clock has come to ``now``: what was due before it."""

    def finish(self, at: int) -> Iterable[MatcherOutput]:
        """End of the input at arrival-clock instant ``at``: what was put off."""

    def shown(self, given: ReleasedMatches) -> Sequence[Result]:
        """What the barrier has let go, as results of the matcher's kind."""

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Results that were saved, of the matcher's kind."""

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Drop events that no longer matter, but for those in ``held_rows``.

        Gives the new number of each row, for those who know rows by number; None: as they were.
        """

    def counters(self) -> dict[str, int]:
        """What was dropped, refused or purged, and how much is held; for reports."""

    def codes(self) -> np.ndarray | None:
        """Codes of texts that the state holds; None: of any text, as it cannot tell."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot of a matcher with equal settings."""


@runtime_checkable
class Listener(Protocol):
    """Hears of intervals that have begun (IBP), beside the released stream."""

    def begins(self, begun: dict[str, np.ndarray]) -> None:
        """IBPs in order of arrival: equally long ``type source incarnation ref arrival id``."""


class Barrier(Protocol):
    """Between a matcher and the output; knows nothing of how matches are found."""

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        """What a batch's rows do to matches, in order, and its clocks; gives what is let go, if
        anything.
        """

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


@runtime_checkable
class HoldsMatches(Barrier, Protocol):
    """A barrier that may keep a match for later; ``counters`` say how many: ``matches_held``."""

    def advance(self, now: int) -> ReleasedMatches | None:
        """The arrival clock has come to ``now``: gives what was due before it."""

    def finish(self, at: int) -> ReleasedMatches | None:
        """End of the input at arrival-clock instant ``at``: everything held is decided."""


# What an operator hands to its barrier, and what the barrier lets go: columns.
#
# All that a barrier knows of operators is here. Rows are places in the operator's event table.


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


class ReleasedMatches(Struct):
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


# A matcher and its barrier as one operator of the chain: matches in, results out (SPEC 4.2).


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
        pieces: list[Sequence[Result]] = []
        for changes, timeline in happened:
            self.found += 0 if changes is None else len(changes.rows)
            given = self._barrier.process(changes, timeline, self._matcher.table)
            if given is not None and len(given.at):
                pieces.append(self._matcher.shown(given))
            if self._holding and self._holding.counters()["matches_held"] > self._held_most:
                does = f"its barrier holds back more than {self._held_most:,} matches"
                raise OverBudget.of(self._query, does, self._most)
            number = self._matcher.purge(self._barrier.held_rows)
            if number is not None:
                self._barrier.renumber(number)
        given = then() if then else None
        if given is not None and len(given.at):
            pieces.append(self._matcher.shown(given))
        if len(pieces) < 2:
            return pieces[0] if pieces else ()
        found = ResultPieces()
        for piece in pieces:
            found.extend(piece)
        return found

    def counters(self) -> dict[str, int]:
        """Of both; ``matches_until_end``: how many the end of the input let go."""
        return self._matcher.counters() | self._barrier.counters() | self._until_end

    def codes(self) -> np.ndarray | None:
        return self._matcher.codes()
