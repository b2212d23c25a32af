"""Views of a released stream: rows that are in it, intervals by their ends, uncertain rows."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace

from edge_agent import records as r
from engine.stream.columns import Columns
from engine.stream.released import LATE_DROPPED, Gaps, Progress, Promises, Released

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
