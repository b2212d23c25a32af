"""Intervals in the order of their ends (SPEC 4.7): what is released goes by ``te``, not ``ts``.

An interval comes when it is over, so it is in order, late or beyond a promise by its end; a point's
end is its start. An order reads one time, the ``ts`` of a record: it is handed the end in its
stead, and the start in place of the ``te``. What it gives is turned round again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from edge_agent import records as r
from engine.stream.columns import Columns
from engine.stream.released import Released

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
