"""What R19 counts on a released stream, beyond what ``engine.apps.compare`` measures.

R19 5.2.2 calls an event out of order when the one received just before it has a larger time;
``compare`` and L10 when any earlier one has. Both are counted here, against true times, and
so is what is out of order by more than the clocks' uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.engine.core.released import LATE_DROPPED, Released
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.registry import parse_order
from slackwater.log import ATTR_PREFIX, Frame
from slackwater.log import records as r
from slackwater.scenario import Guards
from slackwater.scenarios.papers.r19.log_writing import SITE

BATCH: Final = 10_000
"""Released events over which a mean and a maximum are taken for a series."""
NS_PER_MS: Final = 10**6
_BEFORE_ALL: Final = np.iinfo(np.int64).min // 2

Advanced = Callable[[int], None]


@dataclass(slots=True)
class ReleasedOrder:
    """Counts of events released, and a series over batches of ``BATCH`` of them.

    ``after_previous``: out of order by R19's definition; ``after_previous_ms``: likewise, of times
    in whole ms. ``after_any``: by L10's. ``beyond``: by L10's, by more than both clocks can be
    wrong. ``dropped``: came too late and not released. ``turns``: runs of one source's events.
    ``held_mean_ns``, ``held_max_ns``: of release - arrival, over each whole batch.
    """

    released: int = 0
    after_previous: int = 0
    after_previous_ms: int = 0
    after_any: int = 0
    beyond: int = 0
    dropped: int = 0
    turns: int = 0
    held_mean_ns: list[float] = field(default_factory=list)
    held_max_ns: list[int] = field(default_factory=list)


def observe(
    frames: Iterable[Frame],
    order: str,
    truth: str,
    within_ns: int = 0,
    advanced: Advanced = lambda _rows: None,
) -> ReleasedOrder:
    """One pass over a site's frames without the future guard, as R19's prototype has none.

    Args:
        frames: in order of arrival.
        order: short form.
        truth: attribute that holds the true event time [ns].
        within_ns: up to here a wrong order is within the clocks' uncertainty.
        advanced: called with the number of records after each frame.
    """
    settings = ChainSettings(
        parse_order(order),
        guards=Guards(guard_ns=None),
        ordered="bare",
        carried=frozenset({truth}),
    )
    chain = Chain(settings, SITE)
    tally = _Tally(truth, within_ns)
    for frame in frames:
        for batch in chain.process([frame]).ordered:
            tally.add(batch)
        advanced(frame.rows)
    for batch in chain.finish().ordered:
        tally.add(batch)
    return tally.found


class _Tally:
    """Adds up batches of a released stream."""

    def __init__(self, truth: str, within_ns: int) -> None:
        self._truth = ATTR_PREFIX + truth
        self._within_ns = within_ns
        self._previous = self._newest = _BEFORE_ALL
        self._source = -1
        self._waiting = np.empty(0, np.int64)
        self.found = ReleasedOrder()

    def add(self, batch: Released) -> None:
        columns, found = batch.columns, self.found
        passed = columns["status"] != LATE_DROPPED
        times = columns[self._truth][passed]
        found.dropped += batch.n - len(times)
        if not len(times):
            return
        found.released += len(times)
        steps = np.diff(times, prepend=self._previous)
        found.after_previous += int((steps < 0).sum())
        in_ms = np.diff(times // NS_PER_MS, prepend=self._previous // NS_PER_MS)
        found.after_previous_ms += int((in_ms < 0).sum())
        newest = np.maximum(np.maximum.accumulate(times), self._newest)
        found.after_any += int((times < newest).sum())
        found.beyond += int((times < newest - self._within_ns).sum())
        source = columns[r.SOURCE][passed]
        found.turns += int((np.diff(source, prepend=self._source) != 0).sum())
        self._previous, self._newest = int(times[-1]), int(newest[-1])
        self._source = int(source[-1])
        hold_ns = columns["release"][passed] - columns[r.ARRIVAL][passed]
        hold_ns = np.concatenate([self._waiting, hold_ns])
        means, maxima = by_batches(hold_ns)
        found.held_mean_ns += means
        found.held_max_ns += maxima
        self._waiting = hold_ns[len(means) * BATCH :]


def by_batches(hold_ns: np.ndarray) -> tuple[list[float], list[int]]:
    """Means and maxima of every whole ``BATCH`` of values."""
    whole = len(hold_ns) // BATCH
    batches = hold_ns[: whole * BATCH].reshape(whole, BATCH)
    return batches.mean(axis=1).tolist(), batches.max(axis=1).tolist()
