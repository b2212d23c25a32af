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
    """What a barrier knows of the query.

    ``negated``: the types of negated steps, one per scope. ``positive``: of positive steps.
    ``purged``: events are dropped by promises, so that broken promises count even if no match
    waits for them.
    """

    negated: tuple[str, ...]
    positive: tuple[str, ...]
    steps: int
    purged: bool = False


class MatcherOutput(NamedTuple):
    """One piece of a matcher's output: changes of matches, and the clocks that moved with them."""

    changes: Changes | None
    timeline: StreamTimeline


class Matcher(Protocol):
    """Finds matches and their changes; owns the events that matches consist of.

    The changes must not depend on how the released stream is cut into batches.
    """

    requirements: BarrierRequirements
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
        """The changes by a batch of the ordered stream, and how its clocks moved.

        The barrier processes each item before the next is computed.
        """

    def advance(self, now: int) -> Iterable[MatcherOutput]:
        """The arrival clock is at ``now``: output that was due before it."""

    def finish(self, at: int) -> Iterable[MatcherOutput]:
        """End of the input at arrival-clock instant ``at``: all output that was postponed."""

    def results(self, matches: ReleasedMatches) -> Sequence[Result]:
        """Matches that the barrier released, as results of the matcher's kind."""

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Results of the matcher's kind from their saved state."""

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Drop events that no later match needs, except those in ``held_rows()``.

        Returns:
            the new number of each row; None: numbers did not change.
        """

    def counters(self) -> dict[str, int]:
        """Counts of dropped, refused, purged and buffered events; for reports."""

    def codes(self) -> np.ndarray | None:
        """Codes of the texts in the state; None: possibly any text, it is not known."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of a matcher with equal settings."""


@runtime_checkable
class Listener(Protocol):
    """Receives intervals that have begun (IBP), outside the released stream."""

    def begins(self, begun: dict[str, np.ndarray]) -> None:
        """IBPs in order of arrival: equally long ``type source incarnation ref arrival id``."""


class Barrier(Protocol):
    """Between a matcher and the output; knows nothing of how matches are found."""

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        """Apply the changes of a batch, in order, and its clocks; returns the released matches."""

    def held_rows(self) -> np.ndarray:
        """The rows of the store that held matches consist of."""

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store becomes row ``number[i]``."""

    def counters(self) -> dict[str, int]:
        """Counts of held, dropped and corrected matches and of broken promises; for reports."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of a barrier with equal settings."""


@runtime_checkable
class HoldsMatches(Barrier, Protocol):
    """A barrier that may keep a match for later; ``counters`` say how many: ``matches_held``."""

    def advance(self, now: int) -> ReleasedMatches | None:
        """The arrival clock is at ``now``: releases the matches that were due before it."""

    def finish(self, at: int) -> ReleasedMatches | None:
        """End of the input at arrival-clock instant ``at``: every held match is decided."""


# What an operator passes to its barrier, and what the barrier releases: columns.
#
# A barrier knows nothing else of operators. Rows are places in the operator's event table.


ORDER: Final = "order"
"""Number of the row in the released stream: earlier released rows have smaller ones."""


class EventTable(Protocol):
    """The events of matches, by columns; ``release`` and ORDER are among them."""

    @property
    def columns(self) -> Mapping[str, np.ndarray]: ...


class Verdicts(Struct):
    """Per match: is it valid (``stands``), is it certain (``confirmed``), its probability."""

    stands: np.ndarray
    confirmed: np.ndarray
    chance: np.ndarray

    def take(self, which: np.ndarray) -> Verdicts:
        return Verdicts(self.stands[which], self.confirmed[which], self.chance[which])


class Changes(Struct):
    """Changes of matches by the rows of a batch: equally long columns, in order.

    ``rows``: (n, steps of all branches) places in the store, -1 for steps the match does not have.
    ``branch``: of the OR. ``completing`` and ``cause``: the row that completed the match, and the
    one that changes it now (the same for a new match). ``before``: the state until now; a new match
    was not valid. ``after``: the state from now on; not valid if the row invalidates the match.
    ``closes``: (n, scopes + 1), of new matches: per scope the least promise that closes it (no
    later event below it), and last the time of the match's last event. Promises are reduced by
    clock errors, except by those of the match's own events.
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
        """The changes at places ``which``, in that order."""
        return Changes(
            self.rows[which], self.branch[which], self.completing[which], self.cause[which],
            self.before.take(which), self.after.take(which), self.closes[which],
            self.known_at[which], self.last_ns[which],
        )  # fmt: skip


class ReleasedMatches(Struct):
    """Matches that a barrier releases, in order: equally long columns.

    ``rows``: (n, steps) places in the store. ``plus``: insertion, or else retraction.
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
    """The operator that emits the matches of ``matcher`` when ``barrier`` releases them.

    Args:
        matcher: the query's.
        barrier: decides when its matches are released.
        query: the query's name, for messages.
        most: the most matches that one event may complete.
        times: the barrier may hold ``times * most`` matches.
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
        """Pass IBPs on to a matcher that listens to them."""
        if isinstance(self._matcher, Listener):
            self._matcher.begins(begun)

    def process(self, released: Released) -> Sequence[Result]:
        return self._release(self._matcher.process(released), None)

    def advance(self, now: int) -> Sequence[Result]:
        then = partial(self._holding.advance, now) if self._holding else None
        return self._release(self._matcher.advance(now), then)

    def finish(self, at: int) -> Sequence[Result]:
        if self._holding:  # nothing but the end of the input lets these go
            self._until_end = {"matches_until_end": self._holding.counters()["matches_held"]}
        then = partial(self._holding.finish, at) if self._holding else None
        return self._release(self._matcher.finish(at), then)

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Results from their saved state."""
        return self._matcher.unpacked(state)

    def _release(
        self, outputs: Iterable[MatcherOutput], then: Callable[[], ReleasedMatches | None] | None
    ) -> Sequence[Result]:
        """Results that the barrier releases at each output, and at ``then``; purges rows.

        Raises:
            OverBudget: the barrier holds more matches than allowed.
        """
        pieces: list[Sequence[Result]] = []
        for changes, timeline in outputs:
            self.found += 0 if changes is None else len(changes.rows)
            released = self._barrier.process(changes, timeline, self._matcher.table)
            if released is not None and len(released.at):
                pieces.append(self._matcher.results(released))
            if self._holding and self._holding.counters()["matches_held"] > self._held_most:
                does = f"its barrier holds back more than {self._held_most:,} matches"
                raise OverBudget.of(self._query, does, self._most)
            number = self._matcher.purge(self._barrier.held_rows)
            if number is not None:
                self._barrier.renumber(number)
        released = then() if then else None
        if released is not None and len(released.at):
            pieces.append(self._matcher.results(released))
        if len(pieces) < 2:
            return pieces[0] if pieces else ()
        found = ResultPieces()
        for piece in pieces:
            found.extend(piece)
        return found

    def counters(self) -> dict[str, int]:
        """Counters of both; ``matches_until_end``: how many the end of the input releases."""
        return self._matcher.counters() | self._barrier.counters() | self._until_end

    def codes(self) -> np.ndarray | None:
        return self._matcher.codes()
