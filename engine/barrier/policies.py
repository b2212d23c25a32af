"""The barriers: when a match becomes a result (SPEC 4.2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slackwater.engine.barrier.base import BarrierRequirements, Changes, EventTable, ReleasedMatches
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.timeline import ALL, LONG_AGO, Steps, StreamProgress, StreamTimeline

# Barriers that know only what is promised: at once, and the base of those that wait for promises
# or for a time (SPEC 4.2).
#
# A promise says that no later record of a type has ref below it. Where an ordering operator is
# before the query, its progress is a promise for every type.


class Policy:
    """When matches are due: at once; ordered by what is promised for the types of positive steps.

    Args:
        asked: of the query.
        span_ns: the barrier's duration; 0: it has none.
        ordered: whether matches leave by their last event's time.
    """

    adapts = False
    """Whether new matches leave at once while that is seldom wrong."""

    def __init__(self, asked: BarrierRequirements, span_ns: int, *, ordered: bool) -> None:
        self._asked, self._span_ns, self._ordered = asked, span_ns, ordered

    def clocks(self, progress: StreamProgress) -> list[Steps]:  # noqa: ARG002 - waits for none
        """The clocks that the targets are of."""
        return []

    def last_clocks(self, progress: StreamProgress) -> list[Steps]:
        """... that the last targets are of."""
        return _of_types(progress, self._asked.positive)

    def targets(self, closes: np.ndarray) -> np.ndarray:
        """(matches, clocks): what each clock must come to before a new match is due.

        Args:
            closes: (matches, scopes + 1), as in ``engine.barrier.base.Changes``.
        """
        return closes[:, :0]

    def last_targets(self, closes: np.ndarray) -> np.ndarray:
        """(matches, clocks): ... before no later match can have an earlier last event."""
        return np.repeat(closes[:, -1:], len(self._asked.positive), axis=1)

    def hold_ns(self) -> int | None:
        """How long after it became known a match is due; None: the clocks say."""
        return None

    def broken(self, timeline: StreamTimeline) -> np.ndarray:
        """Which rows of a batch came later than was promised, of what it waits for."""
        return timeline.below_promises()


def _of_types(progress: StreamProgress, types: Iterable[str]) -> list[Steps]:
    promised = progress.promised
    return [promised[ALL if ALL in promised else kind] for kind in types]


# ``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive).
#
# A match that a later event of a negated step invalidates is taken back (``-``); one that such an
# event puts in doubt is taken back and given again with its probability.
#
# When not to use: when acting on a result that is taken back costs more than waiting for a sure
# one.


class Immediate(Restorable):
    """Holds nothing; ``at`` is the release of the row that completed or changed the match.

    Args:
        asked: of the query.
    """

    state_fields = ("_broken",)

    def __init__(self, asked: BarrierRequirements) -> None:
        self._purged = asked.purged
        self._broken = 0

    def process(
        self, changes: Changes | None, timeline: StreamTimeline, store: EventTable
    ) -> ReleasedMatches | None:
        if self._purged:
            self._broken += int(timeline.below_promises().sum())
        if changes is None:
            return None
        before, after = changes.before, changes.after
        if after.stands.all() and not before.stands.any():
            return ReleasedMatches(
                changes.rows, changes.branch, after.stands,
                store.columns["release"][changes.cause], changes.known_at, after.confirmed,
                after.chance,
            )  # fmt: skip
        # What a change takes back comes just before what it gives instead.
        change = np.repeat(np.arange(len(changes)), before.stands.astype(np.int64) + after.stands)
        plus = np.ones(len(change), np.bool_)
        plus[np.searchsorted(change, np.flatnonzero(before.stands))] = False
        return ReleasedMatches(
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


# ``punctuation``: a match leaves when promises close its scopes (SPEC 4.2; L09 VI: conservative).
#
# A promise p of a negated step's type closes the open end x of its scope when p >= x, the closed
# end when p > x. A match without negated steps leaves at once. L09 Example 5.
#
# When not to use: sources that promise nothing, with no order before the query: everything waits
# for the end of the input.


class Punctuation(Policy):
    """The policy of ``punctuation``."""

    def clocks(self, progress: StreamProgress) -> list[Steps]:
        return _of_types(progress, self._asked.negated)

    def targets(self, closes: np.ndarray) -> np.ndarray:
        return closes[:, :-1]


# ``bounded:K``: a match leaves when the event clock closes its last scope (SPEC 4.2).
#
# L10's Optimization 4.5 with its last scope instead of its last event.
#
# K promises that every later record has ref >= event clock - K (the largest ref yet). An open end x
# is closed when x + K <= clock, a closed one when x + K < clock: L10 Example 4.10. A match without
# negated steps leaves at once.
#
# When not to use: delays with a tail. What comes later than K is counted, and corrects results that
# had been let go.


class Bounded(Policy):
    """The policy of ``bounded:K``."""

    def clocks(self, progress: StreamProgress) -> list[Steps]:
        return [progress.clock]

    last_clocks = clocks

    def targets(self, closes: np.ndarray) -> np.ndarray:
        last = closes[:, :-1].max(axis=1, initial=LONG_AGO)
        return self._after(last)

    def last_targets(self, closes: np.ndarray) -> np.ndarray:
        return self._after(closes[:, -1])

    def _after(self, ref: np.ndarray) -> np.ndarray:
        return np.where(ref == LONG_AGO, ref, ref + self._span_ns)[:, None]

    def broken(self, timeline: StreamTimeline) -> np.ndarray:
        return timeline.below(timeline.received.clock, self._span_ns)


# ``hold:H``: a match leaves H after it became known, on the arrival clock (SPEC 4.2; Z10).
#
# An invalidation until then, the instant itself included, removes both; a later one takes the match
# back. H = 0 is nearly ``immediate``, a long H nearly as safe as waiting for promises.
#
# When not to use: when results must be right for good: H is no promise.


class Hold(Policy):
    """The policy of ``hold:H``; where ordered, matches also wait for earlier ones by promises."""

    def hold_ns(self) -> int | None:
        return self._span_ns

    def broken(self, timeline: StreamTimeline) -> np.ndarray:
        if self._ordered:
            return super().broken(timeline)
        return np.zeros(len(timeline.ref), np.bool_)  # H is no promise


# ``adaptive``: at once while that is seldom wrong, by promises while it is not (L09 XI, Z10).
#
# The rate of spoilt matches is smoothed over about 64 fates: 1 for each match that a later row
# changes, 0 for each that is let go. Above 10 % new matches wait as under ``punctuation``; below 5
# % they leave at once again. Fates count at their places in the released stream, so no cut changes
# it.
#
# When not to use: when a single wrong alarm is one too many, or when there are no promises.


class Adaptive(Punctuation):
    """The policy of ``adaptive``; ``engine.barrier.holding`` smooths the rate."""

    adapts = True
