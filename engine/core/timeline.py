"""The progress of a batch at each place in the released stream, for barriers.

A moment is a place between or at rows: ``2 n`` just before row n of the stream, ``2 n + 1`` at it.
Every action of a barrier has such a place, so it is independent of how batches are cut.

``engine.core.clocks.stream_clocks`` keeps the clocks; ``Moved`` has the changes of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import Columns
from slackwater.engine.core.released import (
    IN_ORDER,
    LATE_DROPPED,
    NO_EPOCH,
    Gaps,
    Progress,
    Promises,
    Released,
)

# Events that may not have happened: results of another statement, which may be uncertain.


CHANCE: Final = "chance"
"""Column of released events: 1 for certain results, else their probability, NaN if unknown.
Omitted for events of the log, which all happened.
"""
UNKNOWN: Final = -1.0
"""The chance of a result that compares events of several clocks, one of them unknown (SPEC 2)."""


# The ordered stream: events that an order dropped are not part of it (SPEC 3.1).
#
# Windows process dropped events too, as corrections (SPEC 4.4); for patterns that should use late
# events, the order passes them with ``late=pass``.


_Steps = TypeVar("_Steps", Progress, Gaps, Promises)


def in_stream(released: Released) -> Released:
    """Return ``released`` without dropped events; places are renumbered."""
    kept = released.columns["status"] != LATE_DROPPED
    if kept.all():
        return released
    before = np.concatenate(([0], np.cumsum(kept)))

    def moved(steps: _Steps) -> _Steps:
        return replace(steps, row=before[steps.row])

    return replace(
        released,
        n=int(before[-1]),
        columns={name: column[kept] for name, column in released.columns.items()},
        progress=moved(released.progress),
        gaps=moved(released.gaps),
        slack=moved(released.slack),
        promises=None if released.promises is None else moved(released.promises),
    )


# Intervals in order of their ends (SPEC 4.7): they are released by ``te``, not ``ts``.
#
# An interval arrives when it is over, so it is in order, late or beyond a promise by its end; for a
# point the end is the start. An order reads only ``ts``, so it gets records with ``ts`` and ``te``
# exchanged, and its output is exchanged back.


REF_END: Final = "ref_end"
"""``te`` on the engine's clock, in released columns; omitted if equal to ``ref`` in every row."""
UNC_START: Final = "unc_start"
EPOCH_START: Final = "epoch_start"
"""With ``REF_END``, ``unc`` and ``epoch`` are those at the end; these columns have the values at
the start if they may differ, as the error of a clock grows by its rate.
"""


def by_end(columns: Columns) -> Columns:
    """Return records with ``ts`` and ``te`` exchanged, for an order."""
    return {**columns, r.TS: columns[r.TE], r.TE: columns[r.TS]}


def from_start(columns: Columns) -> None:
    """Exchange an order's ``ts`` and ``te`` back, in place, and set ``ref`` to the start."""
    if REF_END in columns:
        return
    columns[r.TS], columns[r.TE] = columns[r.TE], columns[r.TS]
    long = columns[r.TE] - columns[r.TS]
    if "ref" in columns and long.any():
        columns[REF_END] = columns["ref"]
        columns["ref"] = columns["ref"] - long


def ends_of(released: Released) -> np.ndarray:
    """Return the time by which each row was released: its end on the engine's clock."""
    columns = released.columns
    if not released.n:
        return np.empty(0, np.int64)
    return columns[REF_END] if REF_END in columns else columns["ref"]


def length_errors(released: Released, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Return the error bound of each row's length [ns]: from the rate of its clock only, unless its
    ends have two offsets, or the clock was set near them.
    """
    columns = released.columns
    unc, epoch = columns["unc"][rows], columns["epoch"][rows]
    start, other = (
        columns[name][rows] if name in columns else end_column
        for name, end_column in ((UNC_START, unc), (EPOCH_START, epoch))
    )
    apart = np.abs(unc - start)
    of_one = (epoch == other) & ((epoch != NO_EPOCH) | (apart == 0))
    return np.asarray(np.where(of_one, apart, unc + start))


LONG_AGO = -(2**63)
BEFORE = -1
"""The moment of values from before the batch."""
ALL = ""
"""Stands for every type: the progress of an order is a promise for all types."""

ANY_TYPE = "\0any"
"""The type of a step for events of any type; no query can contain such a name."""


class Steps(Struct, frozen=True):
    """A clock that only grows: from ``(at[i], moment[i])`` on it is ``value[i]``; values ascend.

    The first value is from before the batch.
    """

    value: np.ndarray
    at: np.ndarray
    moment: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, at: np.ndarray, moment: np.ndarray, before: int) -> Steps:
        """Return the steps of a clock that began at ``before``."""
        if len(value) and value[0] > before and bool((value[1:] > value[:-1]).all()):
            # In order, each value is a step.
            return cls(
                np.concatenate(([before], value)),
                np.concatenate(([LONG_AGO], at)),
                np.concatenate(([BEFORE], moment)),
            )
        highest = np.maximum.accumulate(np.concatenate(([before], value)))
        moves = np.flatnonzero(highest[1:] > highest[:-1])
        return cls(
            np.concatenate(([before], highest[1:][moves])),
            np.concatenate(([LONG_AGO], at[moves])),
            np.concatenate(([BEFORE], moment[moves])),
        )


class StreamProgress(Struct, frozen=True):
    """Bounds on later records. ``clock``: the event clock (largest ref so far). ``promised``: the
    promised least ref of later records, by type or ``ALL``.
    """

    clock: Steps
    promised: dict[str, Steps]

    def of(self, types: Sequence[str]) -> StreamProgress:
        """Return the part for these types."""
        promised = {name: said for name, said in self.promised.items() if name in (ALL, *types)}
        return StreamProgress(self.clock, promised)


class Ahead(Struct, frozen=True):
    """Per row of a batch: progress, the time against which events expire (``horizon``), the error
    bound of any clock (``error``), and T_a (``t_a``; for certainty rules that use it).
    """

    frontier: np.ndarray
    horizon: np.ndarray
    error: np.ndarray
    t_a: np.ndarray


class Moved(Struct, frozen=True):
    """The changes by one batch. ``first``: number of its first row in the stream; ``rows``: values
    at each row; ``now``, ``received``, ``closed``, ``passed``: as in ``StreamTimeline``;
    ``horizon``, ``t_a``: after the batch.
    """

    first: int
    rows: Ahead
    now: int
    received: StreamProgress
    closed: StreamProgress
    passed: StreamProgress
    horizon: int
    t_a: int

    def timeline(
        self, released: Released, types: Sequence[str], *, by_start: bool = False
    ) -> StreamTimeline:
        """Return the timeline of ``released``, the batch of this object, for a query of these
        types.

        ``by_start``: the query uses starts of intervals, so promises bound rows by their start.
        """
        strings, columns = released.strings, released.columns
        place = np.full(len(strings.texts) + 3, -1)
        place[[strings.find(kind) for kind in types]] = np.arange(len(types))
        place[-2:] = -1
        empty = np.empty(0, np.int64)
        kinds = place[columns.get("type", empty)]
        if ANY_TYPE in types:
            kinds = np.where(kinds < 0, types.index(ANY_TYPE), kinds)
        mine = np.flatnonzero(kinds >= 0)
        ref = columns.get("ref", empty) if by_start else ends_of(released)
        return StreamTimeline(
            self.now, self.received.of(types), self.closed.of(types), self.passed.of(types),
            ref[mine], 2 * (self.first + mine) + 1, kinds[mine], types,
        )  # fmt: skip


class StreamTimeline(Struct, frozen=True):
    """The progress of a batch, for barriers.

    ``now``: the arrival clock after it; deadlines before it are due. ``received``: as received.
    ``closed`` and ``passed``: ``received`` minus clock errors, of known or new sources (SPEC 4.3):
    no later record can be before a time of ``closed``; no later record, nor a record matched with
    it, can belong to a match whose last event is before a time of ``passed``.
    ``ref``, ``moment`` and ``type``: of the rows that a step of the query can use; a type is an
    index in ``types``.
    """

    now: int
    received: StreamProgress
    closed: StreamProgress
    passed: StreamProgress
    ref: np.ndarray
    moment: np.ndarray
    type: np.ndarray
    types: Sequence[str]

    def below(self, steps: Steps, less: int) -> np.ndarray:
        """Return which rows are below the value of ``steps`` before them, minus ``less``."""
        place = np.searchsorted(steps.moment, self.moment) - 1
        # Added to ref, which is far from the limits of int64.
        return np.asarray(self.ref + less < steps.value[place])

    def below_promises(self) -> np.ndarray:
        """Return which rows are below the promise for their type before them."""
        found = np.zeros(len(self.ref), np.bool_)
        for name, steps in self.received.promised.items():
            mine = True if name == ALL else self.type == self.types.index(name)
            found |= self.below(steps, 0) & mine
        return found


def progress_steps(
    ref: np.ndarray, status: np.ndarray, release: np.ndarray, first: int, progress: Progress,
    before: int,
) -> Steps:  # fmt: skip
    """Return an order's progress: rows in order move it to their ref, and its steps to theirs."""
    rows = np.flatnonzero(status == IN_ORDER)
    if not len(progress.row):
        taken: np.ndarray | slice
        taken = slice(None) if len(rows) == len(ref) else rows  # of all, no copies are made
        return Steps.of(ref[taken], release[taken], 2 * (first + rows) + 1, before)
    value = np.concatenate([ref[rows], progress.frontier])
    at = np.concatenate([release[rows], progress.at])
    moment = np.concatenate([2 * (first + rows) + 1, 2 * (first + progress.row)])
    places = np.argsort(moment, kind="stable")
    return Steps.of(value[places], at[places], moment[places], before)
