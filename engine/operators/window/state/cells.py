"""Cells: the accumulators of windows, one per (window, key, part)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, copy_of, put_over, record
from slackwater.engine.kernels.tables import POOL, chained, free_place, mixed, take_place
from slackwater.engine.operators.window.settings import PART_BITS
from slackwater.engine.operators.window.state.accumulate import (
    RowValues,
    Sums,
    join_moments,
    join_sums,
    merge_picks,
)

# Copies of the state of windows, for snapshots.


def copied(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of ``columns``."""
    return {
        name: copy_of(column) if column.dtype.names and name != "of" else column.copy()
        for name, column in columns.items()
    }


def without_floats(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a copy without ``floats``, which share the memory of ``ints``."""
    return copied({name: column for name, column in columns.items() if name != "floats"})


def with_floats(columns: dict[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
    """Return a copy with ``floats``: the memory of ``ints`` as ``kind``."""
    made = copied(columns)
    return made | {"floats": made["ints"].view(kind)}


# Cells: the accumulators of windows, one per (window, key, part), in a hash table.
#
# A *part* is a set of bits: which of R19's three windows an event is in, and whether that is
# certain (``window.settings``). So one addition per event serves all three windows. Each window
# also has a header cell (tag ``HEADER``), the head of the chain of its keys. The first cell of a
# key, its leader, is the head of the chain of the key's other cells.
#
# Open addressing with linear probing and backward-shift deletion: no tombstones, so the table
# does not degrade on an endless stream.


HEADER: Final = -1
"""Tag of the header cell of a window; ``window.state.panes`` uses smaller ones, too."""
TALLY: Final = record("free", "live", "headers")
"""First free cell, number of cells in use, number of windows in use."""
SPARE: Final = 16
"""More cells than one row can need."""
TABLE_PLACES: Final = 8
"""Hash places per cell: most searches end at the first place, which helps branch prediction."""


class Cells(NamedTuple):
    """``c`` cells with ``g`` key columns; every array except ``table`` has one entry per cell.

    ``table``: cell at each hash place, or -1 (int32, a power of two, sparse). ``window`` (index),
    ``tag`` (part, null marks) and ``keys`` (int64, c x g) identify a cell. ``rows``: number of
    rows. ``link``: the window's next leader, or the next free cell. ``down``: the next cell of the
    key. ``lead``: the leader of the key. ``clocks``: worst status of the clocks of the rows
    (``engine.core.clocks.epochs``). ``headers``: the header cells of live windows. ``tally``: one
    TALLY.

    Leaders and headers have ``slot``: place of the emitted result (``window.emission``), or -1.
    Leaders have ``first`` and ``last``: their kept events (``Kept``), or -1. Headers have ``unc``:
    largest uncertainty of the window's events [ns]; ``missing``: number of missing events that may
    belong to the window; ``stale``: whether the window changed since it was emitted; ``parts``: a
    bit for each part that some key has.
    """

    table: np.ndarray
    window: np.ndarray
    tag: np.ndarray
    keys: np.ndarray
    rows: np.ndarray
    link: np.ndarray
    down: np.ndarray
    lead: np.ndarray
    slot: np.ndarray
    first: np.ndarray
    last: np.ndarray
    clocks: np.ndarray
    unc: np.ndarray
    missing: np.ndarray
    stale: np.ndarray
    parts: np.ndarray
    headers: np.ndarray
    tally: np.ndarray


def new_cells(capacity: int, group_columns: int) -> Cells:
    """Return an empty table; ``capacity`` is a power of two."""
    names = ("unc", "missing", "parts", "headers")
    of_headers = {name: np.zeros(capacity, np.int64) for name in names}
    chains = {name: np.full(capacity, NONE) for name in ("down", "lead", "slot", "first", "last")}
    return Cells(
        table=np.full(TABLE_PLACES * capacity, NONE, np.int32),
        window=np.zeros(capacity, np.int64),
        tag=np.zeros(capacity, np.int64),
        keys=np.zeros((capacity, group_columns), np.int64),
        rows=np.zeros(capacity, np.int64),
        link=chained(capacity),
        stale=np.zeros(capacity, np.int8),
        clocks=np.zeros(capacity, np.int8),
        tally=np.zeros(1, TALLY),
        **of_headers,
        **chains,
    )


@kernel
def hash_place(window: int, tag: int, keys: np.ndarray, row: int, mask: int) -> int:
    """Return the hash place where the search for a cell with the key ``keys[row]`` starts."""
    found = mixed(mixed(0, window), tag)
    for j in range(keys.shape[1]):
        found = mixed(found, keys[row, j])
    return found & mask


@kernel
def _place_of(cells: Cells, window: int, tag: int, keys: np.ndarray, row: int) -> int:
    """Return the hash place of the cell with the key ``keys[row]``, or the free place for it."""
    mask = len(cells.table) - 1
    place = hash_place(window, tag, keys, row, mask)
    while cells.table[place] != NONE:
        cell = cells.table[place]
        same = cells.window[cell] == window and cells.tag[cell] == tag
        for j in range(keys.shape[1]):
            same = same and cells.keys[cell, j] == keys[row, j]
        if same:
            return place
        place = (place + 1) & mask
    return place


@kernel
def find(cells: Cells, window: int, tag: int, keys: np.ndarray, row: int) -> int:
    """Return the cell of the key ``keys[row]``, or -1."""
    return int(np.int64(cells.table[_place_of(cells, window, tag, keys, row)]))


@kernel
def find_or_add(cells: Cells, window: int, tag: int, keys: np.ndarray, row: int) -> int:
    """Return the cell of the key ``keys[row]``, new if needed; -1 if no cell is free."""
    place = _place_of(cells, window, tag, keys, row)
    if cells.table[place] != NONE:
        return int(np.int64(cells.table[place]))
    if cells.tally[0].live == len(cells.window):
        return int(NONE)
    fresh = take_place(cells.link, cells.tally)
    cells.table[place] = fresh
    cells.window[fresh] = window
    cells.tag[fresh] = tag
    for j in range(keys.shape[1]):
        cells.keys[fresh, j] = keys[row, j]
    cells.rows[fresh] = 0
    cells.clocks[fresh] = 0
    cells.unc[fresh] = 0
    cells.missing[fresh] = 0
    cells.stale[fresh] = 0
    cells.parts[fresh] = 0
    cells.link[fresh] = NONE
    cells.down[fresh] = NONE
    cells.lead[fresh] = fresh
    cells.slot[fresh] = NONE
    cells.first[fresh] = NONE
    cells.last[fresh] = NONE
    if tag <= HEADER:
        cells.headers[cells.tally[0].headers] = fresh
        cells.tally[0].headers += 1
    return int(fresh)


@kernel
def add_to_window(cells: Cells, header: int, tag: int, keys: np.ndarray, row: int) -> int:
    """Return the cell in the window of ``header``, chained if new; -1 if no cell is free."""
    live = cells.tally[0].live
    window = cells.window[header]
    cell = find_or_add(cells, window, tag, keys, row)
    if cells.tally[0].live == live:
        return cell
    parts, there = 1 << PART_BITS, cells.parts[header]
    cells.parts[header] = there | 1 << (tag & (parts - 1))
    for part in range(parts):
        other = (tag & ~(parts - 1)) | part
        if other == tag or not there >> part & 1:
            continue
        sibling = find(cells, window, other, keys, row)
        if sibling != NONE:
            leader = cells.lead[sibling]
            cells.lead[cell] = leader
            cells.down[cell] = cells.down[leader]
            cells.down[leader] = cell
            return cell
    cells.link[cell] = cells.link[header]
    cells.link[header] = cell
    return cell


@kernel
def _unhash(cells: Cells, cell: int) -> None:
    """Remove ``cell`` from the table and move back the cells that were displaced past it."""
    mask = len(cells.table) - 1
    hole = hash_place(cells.window[cell], cells.tag[cell], cells.keys, cell, mask)
    while cells.table[hole] != cell:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    while cells.table[place] != NONE:
        other = cells.table[place]
        home = hash_place(cells.window[other], cells.tag[other], cells.keys, other, mask)
        if ((place - home) & mask) >= ((place - hole) & mask):
            cells.table[hole] = other
            hole = place
        place = (place + 1) & mask
    cells.table[hole] = NONE


@kernel
def free_window(cells: Cells, header: int) -> None:
    """Free the header and every cell of its window."""
    for j in range(cells.tally[0].headers):
        if cells.headers[j] == header:
            cells.tally[0].headers -= 1
            cells.headers[j] = cells.headers[cells.tally[0].headers]
            break
    leader = header
    while leader != NONE:
        following, cell = cells.link[leader], leader
        while cell != NONE:
            below = cells.down[cell]
            _unhash(cells, cell)
            free_place(cells.link, cells.tally, cell)
            cell = below
        leader = following


@inline
def merge_cell(
    cells: Cells, sums: Sums, cell: int, into: Cells, into_sums: Sums, target: int
) -> None:
    """Merge the rows and sums of ``cell`` into ``target``."""
    into.rows[target] += cells.rows[cell]
    into.clocks[target] = max(into.clocks[target], cells.clocks[cell])
    for m in range(len(sums.of)):
        n, is_float = sums.n[m, cell], sums.of[m].is_float
        if n == 0:
            continue
        first = into_sums.n[m, target] == 0
        join_sums(sums, m, cell, into_sums.ints[m, target], into_sums.floats[m, target], first)
        if sums.moments.shape[1] > 0 and sums.of[m].moments:
            join_moments(into_sums.moments[m, target], sums.moments[m, cell], is_float)
        into_sums.n[m, target] += n
    if len(sums.picked) > 0:
        merge_picks(sums.picked, sums.picks, cell, into_sums.picks, target)


@kernel
def _rehash(cells: Cells, live: np.ndarray) -> None:
    for cell in live:
        place = _place_of(cells, cells.window[cell], cells.tag[cell], cells.keys, cell)
        cells.table[place] = cell


def grown(cells: Cells) -> Cells:
    """Return a copy of twice the capacity; cells keep their numbers."""
    old = len(cells.window)
    more = new_cells(2 * old, cells.keys.shape[1])
    put_over(more, cells._replace(table=cells.table[:0]))
    # The chain of free cells: the new half first, then the old free cells.
    more.link[-1], more.tally["free"] = cells.tally["free"][0], old
    _rehash(more, cells.table[cells.table != NONE])
    return more


# Single events that windows keep: ambiguous ones for bounds, all for quantiles.
#
# A pool of records, chained per key of a window in the order of the rows.


class Kept(NamedTuple):
    """``p`` records of events with the values of ``m`` attributes.

    ``next``: the next record of the key, or the next free one. ``part``: the part of its cell.
    ``clock``, ``epoch``: the clock that stamped it; ``clocks``: its status (ROWS windows only).
    ``ref``, ``unc`` [ns]. ``ints``: (p, m); ``floats``: its memory as float64. ``valid``: (p, m).
    ``tally``: one POOL.
    """

    next: np.ndarray
    part: np.ndarray
    clock: np.ndarray
    epoch: np.ndarray
    clocks: np.ndarray
    ref: np.ndarray
    unc: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    tally: np.ndarray


def new_kept(capacity: int, attributes: int) -> Kept:
    """Return an empty pool."""
    ints = np.zeros((capacity, attributes), np.int64)
    return Kept(
        next=chained(capacity),
        part=np.zeros(capacity, np.int8),
        clock=np.zeros(capacity, np.int32),
        epoch=np.zeros(capacity, np.int64),
        clocks=np.zeros(capacity, np.int8),
        ref=np.zeros(capacity, np.int64),
        unc=np.zeros(capacity, np.int64),
        ints=ints,
        floats=ints.view(np.float64),
        valid=np.zeros((capacity, attributes), np.bool_),
        tally=np.zeros(1, POOL),
    )


@inline
def new_event(
    kept: Kept, part: int, values: RowValues, i: int, event: tuple[int, int, int, int]
) -> int:
    """Store row ``i`` outside any chain and return its place; ``event``: clock, epoch, ref, unc."""
    place = take_place(kept.next, kept.tally)
    kept.next[place] = NONE
    kept.part[place] = part
    kept.clock[place], kept.epoch[place], kept.ref[place], kept.unc[place] = event
    for m in range(kept.ints.shape[1]):
        kept.ints[place, m] = values.ints[m, i]
        kept.valid[place, m] = values.valid[m, i]
    return place


@kernel
def keep(
    kept: Kept, cells: Cells, leader: int, part: int, values: RowValues, i: int,
    event: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """Append row ``i`` to the records of ``leader``; ``event``: see ``new_event``."""
    place = new_event(kept, part, values, i, event)
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
        free_place(kept.next, kept.tally, place)
        place = following
    cells.first[leader] = NONE
    cells.last[leader] = NONE


@inline
def count(kept: Kept, cells: Cells, leader: int, bits: int) -> int:
    """Return the number of records that ``gather`` finds."""
    n, place = 0, cells.first[leader]
    while place != NONE:
        n += (kept.part[place] & bits) != 0
        place = kept.next[place]
    return n


@kernel
def gather(kept: Kept, cells: Cells, leader: int, bits: int, found: np.ndarray) -> int:
    """Write the places of a key's records whose part has one of ``bits``; return their number.

    The records are in row order.
    """
    n, place = 0, cells.first[leader]
    while place != NONE:
        if kept.part[place] & bits:
            found[n] = place
            n += 1
        place = kept.next[place]
    return n
