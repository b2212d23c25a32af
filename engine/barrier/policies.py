"""The barriers: when a match becomes a result (SPEC 4.2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slackwater.engine.barrier.base import BarrierRequirements, Changes, EventTable, ReleasedMatches
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.timeline import ALL, LONG_AGO, Steps, StreamProgress, StreamTimeline

# The base of all policies: matches are due at once. Others wait for promises or for a time
# (SPEC 4.2).
#
# A promise says that no later record of a type has ref below it. If an ordering operator precedes
# the query, its progress is a promise for every type.


class Policy:
    """Decides when matches are due: here at once; if ordered, by promises of positive types.

    Args:
        requirements: the requirements of the query.
        span_ns: the duration of the barrier [ns]; 0: it has none.
        ordered: whether matches leave in order of their last event's time.
    """

    adapts = False
    """Whether new matches leave at once while few results are corrected."""

    def __init__(self, requirements: BarrierRequirements, span_ns: int, *, ordered: bool) -> None:
        self._requirements, self._span_ns, self._ordered = requirements, span_ns, ordered

    def clocks(self, progress: StreamProgress) -> list[Steps]:  # noqa: ARG002 - waits for none
        """Return the clocks that ``targets`` refers to, in that order."""
        return []

    def last_clocks(self, progress: StreamProgress) -> list[Steps]:
        """Return the clocks that ``last_targets`` refers to, in that order."""
        return _of_types(progress, self._requirements.positive)

    def targets(self, closes: np.ndarray) -> np.ndarray:
        """Return (matches, clocks): the value of each clock from which a new match is due.

        Args:
            closes: (matches, scopes + 1); see ``engine.barrier.base.Changes``.
        """
        return closes[:, :0]

    def last_targets(self, closes: np.ndarray) -> np.ndarray:
        """Return (matches, clocks): from these values on no earlier match can come."""
        return np.repeat(closes[:, -1:], len(self._requirements.positive), axis=1)

    def hold_ns(self) -> int | None:
        """Return the time from when a match is known to when it is due [ns]; None: by clocks."""
        return None

    def broken(self, timeline: StreamTimeline) -> np.ndarray:
        """Return a mask of the rows of a batch that break a promise which this policy uses."""
        return timeline.below_promises()


def _of_types(progress: StreamProgress, types: Iterable[str]) -> list[Steps]:
    promised = progress.promised
    return [promised[ALL if ALL in promised else kind] for kind in types]


# ``immediate``: every match is a result at once (SPEC 4.2; L09 IV calls it aggressive).
#
# A later event of a negated step that invalidates a match retracts it (``-``). One that makes it
# uncertain retracts it and emits it again with its probability.
#
# When not to use: if acting on a retracted result costs more than waiting for a certain one.


class Immediate(Restorable):
    """Releases matches at once; ``at`` is the release of the row that completes or changes them.

    Args:
        requirements: the requirements of the query.
    """

    state_fields = ("_broken",)

    def __init__(self, requirements: BarrierRequirements) -> None:
        self._purged = requirements.purged
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
        # The retraction of a change comes directly before its insertion.
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
        """Do nothing: no row is held."""

    def counters(self) -> dict[str, int]:
        """Return ``promises_broken``: rows below a promise, if a purge relies on promises."""
        return {"promises_broken": self._broken} if self._purged else {}


# ``punctuation``: a match leaves when promises close its scopes (SPEC 4.2; L09 VI: conservative).
#
# A promise p of a negated step's type closes the open end x of its scope when p >= x, the closed
# end when p > x. A match without negated steps leaves at once. L09 Example 5.
#
# When not to use: if sources send no promises and no ordering operator precedes the query; then all
# matches wait for the end of the input.


class Punctuation(Policy):
    """The policy of ``punctuation``."""

    def clocks(self, progress: StreamProgress) -> list[Steps]:
        return _of_types(progress, self._requirements.negated)

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
# When not to use: with long-tailed delays. Events later than K are counted, and correct released
# results.


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
# An invalidation up to and including that instant drops the match; a later one retracts it. H = 0
# is nearly ``immediate``, a long H nearly as safe as waiting for promises.
#
# When not to use: if results must be final, as H is no promise.


class Hold(Policy):
    """The policy of ``hold:H``; if ordered, matches also wait for earlier ones by promises."""

    def hold_ns(self) -> int | None:
        return self._span_ns

    def broken(self, timeline: StreamTimeline) -> np.ndarray:
        if self._ordered:
            return super().broken(timeline)
        return np.zeros(len(timeline.ref), np.bool_)  # H is no promise


# ``adaptive``: at once while few results are corrected, else by promises (L09 XI, Z10).
#
# The rate of corrected matches is smoothed over about 64 outcomes: 1 for each match that a later
# row changes, 0 for each that is released. Above 10 % new matches wait as under ``punctuation``;
# below 5 % they leave at once again. Outcomes count at their places in the released stream, so the
# rate does not depend on batches.
#
# When not to use: if a single false alarm is too many, or if there are no promises.


class Adaptive(Punctuation):
    """The policy of ``adaptive``; ``engine.barrier.holding`` smooths the rate."""

    adapts = True
