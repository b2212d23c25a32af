"""Single events that windows must remember: ambiguous ones for bounds, all for quantiles.

A pool of records, chained per key of a window in the order of the rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.jit import inline, kernel
from engine.kernels.records import NONE, record
from engine.window.held.accumulate import RowValues
from engine.window.held.cells import Cells

TALLY: Final = record("free", "live")
"""First free place of a pool, and places in use."""
SPARE: Final = 16
"""More records than one row can ask for."""


class Kept(NamedTuple):
    """``p`` records of events with the values of ``m`` attributes.

    ``next``: of the same key, or the next free one. ``part``: as the cell's. ``clock``, ``epoch``:
    what stamped it; ``ref``, ``unc`` [ns]. ``ints`` (p, m), seen as float64 ``floats``;
    ``valid`` (p, m). ``tally``: one TALLY.
    """

    next: np.ndarray
    part: np.ndarray
    clock: np.ndarray
    epoch: np.ndarray
    ref: np.ndarray
    unc: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    tally: np.ndarray


def new_kept(capacity: int, attributes: int) -> Kept:
    """An empty pool."""
    following = np.arange(1, capacity + 1, dtype=np.int64)
    following[-1] = NONE
    ints = np.zeros((capacity, attributes), np.int64)
    return Kept(
        next=following,
        part=np.zeros(capacity, np.int8),
        clock=np.zeros(capacity, np.int32),
        epoch=np.zeros(capacity, np.int64),
        ref=np.zeros(capacity, np.int64),
        unc=np.zeros(capacity, np.int64),
        ints=ints,
        floats=ints.view(np.float64),
        valid=np.zeros((capacity, attributes), np.bool_),
        tally=np.zeros(1, TALLY),
    )


def more_kept(kept: Kept) -> Kept:
    """A copy of twice the capacity; records keep their numbers."""
    old = len(kept.next)
    made = new_kept(2 * old, kept.ints.shape[1])
    for name in Kept._fields:
        if name != "floats":
            getattr(made, name)[: len(getattr(kept, name))] = getattr(kept, name)
    made.next[-1] = kept.tally["free"][0]
    made.tally["free"] = old
    return made


def widen_kept(kept: Kept, m: int) -> None:
    """The values of attribute ``m`` were integers and are floats from now on."""
    kept.floats[:, m] = kept.ints[:, m].astype(np.float64)


@kernel
def keep(
    kept: Kept, cells: Cells, leader: int, part: int, values: RowValues, i: int,
    event: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """Remember row ``i`` for the key of ``leader``; ``event``: clock, epoch, ref, unc."""
    place = kept.tally[0].free
    kept.tally[0].free = kept.next[place]
    kept.tally[0].live += 1
    kept.next[place] = NONE
    kept.part[place] = part
    kept.clock[place], kept.epoch[place], kept.ref[place], kept.unc[place] = event
    for m in range(kept.ints.shape[1]):
        kept.ints[place, m] = values.ints[m, i]
        kept.valid[place, m] = values.valid[m, i]
    if cells.first[leader] == NONE:
        cells.first[leader] = place
    else:
        kept.next[cells.last[leader]] = place
    cells.last[leader] = place


@kernel
def forget(kept: Kept, cells: Cells, leader: int) -> None:
    """Free the records of a key."""
    place = cells.first[leader]
    while place != NONE:
        following = kept.next[place]
        kept.next[place] = kept.tally[0].free
        kept.tally[0].free = place
        kept.tally[0].live -= 1
        place = following
    cells.first[leader] = NONE
    cells.last[leader] = NONE


@inline
def count(kept: Kept, cells: Cells, leader: int, bits: int) -> int:
    """Number of the records that ``gather`` gives."""
    n, place = 0, cells.first[leader]
    while place != NONE:
        n += (kept.part[place] & bits) != 0
        place = kept.next[place]
    return n


@kernel
def gather(kept: Kept, cells: Cells, leader: int, bits: int, found: np.ndarray) -> int:
    """Write the records of a key whose part has one of ``bits``, in row order; gives how many."""
    n, place = 0, cells.first[leader]
    while place != NONE:
        if kept.part[place] & bits:
            found[n] = place
            n += 1
        place = kept.next[place]
    return n
