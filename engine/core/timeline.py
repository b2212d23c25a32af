"""The clocks that a batch moves, each move at its place in the released stream.

A moment is a place between or at rows: ``2 n`` just before row number n of the stream, ``2 n + 1``
at it. Whatever a barrier does happens at such a place, so it is independent of how batches are cut.

``engine.core.clocks.stream_clocks`` keeps the clocks; what a batch moves goes with it (``Moved``).
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

# Views of a released stream: rows that are in it, intervals by their ends, uncertain rows.


# Events that may not have happened: results of another statement, which are not always certain.


CHANCE: Final = "chance"
"""Column of released events: 1 where the result is certain, else how probable it is, NaN where
nobody knows. Left out of the log's own events, which all happened.
"""
UNKNOWN: Final = -1.0
"""The chance of a result that compares events of clocks of which one is unknown (SPEC 2)."""


# The ordered stream: what an order dropped from it is not part of it (SPEC 3.1).
#
# Windows see dropped events too, as corrections (SPEC 4.4); a pattern's user who wants late events
# to count asks the order to pass them (``late=pass``).


_Steps = TypeVar("_Steps", Progress, Gaps, Promises)


def in_stream(released: Released) -> Released:
    """``released`` without the events that were dropped; all places count those that are left."""
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


# Intervals in the order of their ends (SPEC 4.7): what is released goes by ``te``, not ``ts``.
#
# An interval comes when it is over, so it is in order, late or beyond a promise by its end; a
# point's end is its start. An order reads one time, the ``ts`` of a record: it is handed the end in
# its stead, and the start in place of the ``te``. What it gives is turned round again.


REF_END: Final = "ref_end"
"""``te`` on the engine's clock, of released columns; left out where it is ``ref`` in every row."""
UNC_START: Final = "unc_start"
EPOCH_START: Final = "epoch_start"
"""With ``REF_END``, ``unc`` and ``epoch`` are those of the end; these are of the start, where they
may differ: a clock that runs off by its rate is off by more at one of the two.
"""


def by_end(columns: Columns) -> Columns:
    """Records with ``te`` as an order is to see them."""
    return {**columns, r.TS: columns[r.TE], r.TE: columns[r.TS]}


def from_start(columns: Columns) -> None:
    """What an order gave with ``te``, in place: ``ts`` and ``ref`` are of the start again."""
    if REF_END in columns:
        return
    columns[r.TS], columns[r.TE] = columns[r.TE], columns[r.TS]
    long = columns[r.TE] - columns[r.TS]
    if "ref" in columns and long.any():
        columns[REF_END] = columns["ref"]
        columns["ref"] = columns["ref"] - long


def ends_of(released: Released) -> np.ndarray:
    """The time by which each row was released: its end on the engine's clock."""
    columns = released.columns
    if not released.n:
        return np.empty(0, np.int64)
    return columns[REF_END] if REF_END in columns else columns["ref"]


def length_errors(released: Released, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """How far the length of each row may be off [ns]: by its clock's rate alone, unless its ends
    are of two offsets, or the clock was set near them.
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
"""The moment of what held before the batch."""
ALL = ""
"""Stands for every type: the progress of an order, which is a promise for all of them."""

ANY_TYPE = "\0any"
"""The type of a step whose events are of any type; no query can write such a name."""


class Steps(Struct, frozen=True):
    """How a clock grows: from ``(at[i], moment[i])`` on it is ``value[i]``; values ascend.

    The first value is what held before the batch.
    """

    value: np.ndarray
    at: np.ndarray
    moment: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, at: np.ndarray, moment: np.ndarray, before: int) -> Steps:
        """Of a clock that stood at ``before`` and then never went back."""
        if len(value) and value[0] > before and bool((value[1:] > value[:-1]).all()):
            # In order each value is a step, and there is nothing to choose.
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
    """Bounds on later records. ``clock``: the event clock (largest ref yet). ``promised``:
    by type, or under ``ALL``, the least ref of later records that is promised.
    """

    clock: Steps
    promised: dict[str, Steps]

    def of(self, types: Sequence[str]) -> StreamProgress:
        """The part about these types."""
        promised = {name: said for name, said in self.promised.items() if name in (ALL, *types)}
        return StreamProgress(self.clock, promised)


class Ahead(Struct, frozen=True):
    """Per row of a batch: the progress at it, what events have expired against (``horizon``), how
    wrong the clock of any source may be (``error``), and T_a (``t_a``; of the rules that have one).
    """

    frontier: np.ndarray
    horizon: np.ndarray
    error: np.ndarray
    t_a: np.ndarray


class Moved(Struct, frozen=True):
    """What one batch moves. ``first``: number of its first row in the stream; ``rows``: at each;
    ``now``, ``received``, ``closed``, ``passed``: as in ``StreamTimeline``; ``horizon``, ``t_a``:
    after it.
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
        """What a query of these types may ask of ``released``, whose moves these are.

        ``by_start``: it asks when intervals begin, so a row is beyond a promise by its start.
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
    """What the barriers may ask of a batch.

    ``now``: the arrival clock after it; what was due before it is due. ``received``: as received.
    ``closed`` and ``passed``: the same less what clocks may err by, seen or not (SPEC 4.3): no
    later record can lie before a time of ``closed``; none can, itself or by what it is matched
    with, be part of a match whose last event lies before a time of ``passed``.
    ``ref``, ``moment`` and ``type``: of the rows that a step of the query can use; a type is a
    place in ``types``.
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
        """Which rows lie below what ``steps``, less ``less``, said before them."""
        place = np.searchsorted(steps.moment, self.moment) - 1
        # Added to the ref, which is far from the ends of int64.
        return np.asarray(self.ref + less < steps.value[place])

    def below_promises(self) -> np.ndarray:
        """Which rows lie below what was promised for their type before them."""
        found = np.zeros(len(self.ref), np.bool_)
        for name, steps in self.received.promised.items():
            mine = True if name == ALL else self.type == self.types.index(name)
            found |= self.below(steps, 0) & mine
        return found


def progress_steps(
    ref: np.ndarray, status: np.ndarray, release: np.ndarray, first: int, progress: Progress,
    before: int,
) -> Steps:  # fmt: skip
    """An order's progress: each row in order moves it to its own ref, and so do its steps."""
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
