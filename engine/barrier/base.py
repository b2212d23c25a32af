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
    """The properties of the query that a barrier needs.

    ``negated``: the types of negated steps, one per scope. ``positive``: the types of positive
    steps. ``purged``: events are dropped by promises, so broken promises count even if no match
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

    The changes must not depend on batches.
    """

    requirements: BarrierRequirements
    types: tuple[str, ...]
    """The types of all steps; it reads their rows and promises."""
    takes_halves: bool
    """Whether it reads halves of intervals, too."""

    @property
    def table(self) -> EventTable:
        """The store of events; rows of changes are places in it."""

    def required_columns(self) -> set[str]:
        """See ``engine.core.operator.Operator``."""

    def process(self, released: Released) -> Iterable[MatcherOutput]:
        """Yield the changes by a batch of the ordered stream, and the moves of its clocks.

        The barrier processes each item before the next is computed.
        """

    def advance(self, now: int) -> Iterable[MatcherOutput]:
        """Advance the arrival clock to ``now``; yield the output that was due before it."""

    def finish(self, at: int) -> Iterable[MatcherOutput]:
        """End the input at arrival-clock instant ``at``; yield all postponed output."""

    def results(self, matches: ReleasedMatches) -> Sequence[Result]:
        """Convert released matches to results of the matcher's kind."""

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Return results of the matcher's kind from their saved state."""

    def purge(self, held_rows: Callable[[], np.ndarray]) -> np.ndarray | None:
        """Drop events that no later match needs, except those in ``held_rows()``.

        Returns:
            The new number of each row; None: numbers did not change.
        """

    def counters(self) -> dict[str, int]:
        """Return the numbers of dropped, refused, purged and buffered events, for reports."""

    def codes(self) -> np.ndarray | None:
        """Return the codes of texts in the state; None: unknown, possibly any text."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of a matcher with equal settings."""


@runtime_checkable
class Listener(Protocol):
    """Receives intervals that have begun (IBP), outside the released stream."""

    def begins(self, begun: dict[str, np.ndarray]) -> None:
        """Add IBPs in arrival order: columns ``type source incarnation ref arrival id``."""


class Barrier(Protocol):
    """Decides between a matcher and the output when matches become results."""

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        """Apply the changes of a batch, in order, and its clocks; return the released matches."""

    def held_rows(self) -> np.ndarray:
        """Return the rows of the store in held matches."""

    def renumber(self, number: np.ndarray) -> None:
        """Row i of the store becomes row ``number[i]``."""

    def counters(self) -> dict[str, int]:
        """Return the numbers of held, dropped and corrected matches and of broken promises."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of a barrier with equal settings."""


@runtime_checkable
class HoldsMatches(Barrier, Protocol):
    """A barrier that may hold matches; ``counters`` has their number as ``matches_held``."""

    def advance(self, now: int) -> ReleasedMatches | None:
        """Advance the arrival clock to ``now``; release the matches that were due before it."""

    def finish(self, at: int) -> ReleasedMatches | None:
        """End the input at arrival-clock instant ``at``; decide every held match."""


# Columns that an operator passes to its barrier, and that the barrier releases.
#
# This is the whole interface between them. Rows are places in the operator's event table.


ORDER: Final = "order"
"""Number of the row in the released stream; it ascends in release order."""


class EventTable(Protocol):
    """The events of matches as columns, including ``release`` and ORDER."""

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
    """Changes of matches by the rows of a batch: columns of equal length, in order.

    ``rows``: (n, steps of all branches) places in the store; -1: the match lacks the step.
    ``branch``: branch of the OR. ``completing``: the row that completed the match. ``cause``: the
    row that changes it now (the same for a new match). ``before``: the state until now; a new match
    was not valid. ``after``: the state from now on; not valid if the row invalidates the match.
    ``closes``: (n, scopes + 1), for new matches: per scope the least promise that closes it (no
    later event below it); the last column is the time of the match's last event. Promises are
    reduced by clock errors, except by those of the match's own events. ``known_at``: the last
    arrival of its events. ``last_ns``: the time of its last event.
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
        """Return the changes at places ``which``, in that order."""
        return Changes(
            self.rows[which], self.branch[which], self.completing[which], self.cause[which],
            self.before.take(which), self.after.take(which), self.closes[which],
            self.known_at[which], self.last_ns[which],
        )  # fmt: skip


class ReleasedMatches(Struct):
    """Matches that a barrier releases: columns of equal length, in order.

    ``rows``: (n, steps) places in the store. ``plus``: insertion, else retraction. ``at``: the
    release time. ``confirmed``, ``chance``: see ``Verdicts``.
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
        matcher: the matcher of the query.
        barrier: decides when its matches are released.
        query: the name of the query, for messages.
        most: largest number of matches that one event may complete.
        times: the barrier may hold ``times * most`` matches.
    """

    state_fields = ("_matcher", "_barrier")

    def __init__(
        self, matcher: Matcher, barrier: Barrier, query: str = "", most: int = 2**62, times: int = 1
    ) -> None:
        self._query, self._most, self._held_most = query, most, times * most
        self.found = 0
        """Number of matches found or changed so far."""
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
        if self._holding:  # only the end of the input releases these
            self._until_end = {"matches_until_end": self._holding.counters()["matches_held"]}
        then = partial(self._holding.finish, at) if self._holding else None
        return self._release(self._matcher.finish(at), then)

    def unpacked(self, state: dict[str, Any]) -> Sequence[Result]:
        """Return results from their saved state."""
        return self._matcher.unpacked(state)

    def _release(
        self, outputs: Iterable[MatcherOutput], then: Callable[[], ReleasedMatches | None] | None
    ) -> Sequence[Result]:
        """Return the results that the barrier releases at each output and at ``then``; purge rows.

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
        """Return the counters of both; ``matches_until_end``: matches held at the end of input."""
        return self._matcher.counters() | self._barrier.counters() | self._until_end

    def codes(self) -> np.ndarray | None:
        return self._matcher.codes()
