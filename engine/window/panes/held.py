"""What panes hold, and the tree over them.

An event goes to one pane, that of the earliest time that any of its drift windows or its true time
may have, with how many panes further the latest lies (its *span*). A node of level l sums up 2**l
panes, so that a window is the sum of a few nodes (Tangwongsan et al. 2015, FlatFAT); it is made
when a window asks for it first, and late events are added to it.

All are cells of one table: ``window`` is the pane, or the node's place in its level.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.integers import NONE
from engine.kernels.jit import inline
from engine.kernels.records import record
from engine.window.drift import PART_BITS, WHOLE
from engine.window.held.accumulate import Sums, add_float, join_moments, new_sums
from engine.window.held.cells import HEADER, Cells, find, find_or_add, new_cells
from engine.window.held.picks import merge_picks

SPAN_MAX: Final = 15
"""Larger spans, of clocks that err by many slides, go to each of their windows instead."""
LEVELS: Final = 14
"""Tags: levels from 1, then ``WHOLE`` and more are spans. Headers: HEADER - level."""
SPARE: Final = 32
"""More cells, and entries, than one row can ask for."""
TALLY: Final = record("entries", "span", "built")
"""Rows to add up; the largest span so far; panes from here on are in no node."""


class Entries(NamedTuple):
    """Which row goes to which cell, in row order, until they are added up."""

    row: np.ndarray
    cell: np.ndarray


class Panes(NamedTuple):
    """``cells``, ``sums``: of panes and nodes; ``entries``: to add up; ``tally``: one TALLY."""

    cells: Cells
    sums: Sums
    entries: Entries
    tally: np.ndarray


def new_panes(
    of: np.ndarray, picked: np.ndarray, capacity: int, group_columns: int, chunk: int
) -> Panes:
    """Nothing in any pane; ``of``, ``picked``: as in ``Sums``; room for ``chunk`` entries."""
    tally = np.zeros(1, TALLY)
    tally["built"] = -(2**63)
    entries = Entries(np.empty(chunk, np.int64), np.empty(chunk, np.int64))
    return Panes(new_cells(capacity, group_columns), new_sums(of, picked, capacity), entries, tally)


@inline
def add_cell(cells: Cells, header: int, tag: int, keys: np.ndarray, row: int) -> int:
    """The cell of the key ``keys[row]``, chained to ``header`` if it is new; -1 without room."""
    live = cells.tally[0].live
    cell = find_or_add(cells, cells.window[header], tag, keys, row)
    if cells.tally[0].live != live:
        cells.link[cell] = cells.link[header]
        cells.link[header] = cell
    return cell


@inline
def _enter(panes: Panes, header: int, tag: int, keys: np.ndarray, i: int) -> bool:
    cell = add_cell(panes.cells, header, tag, keys, i)
    if cell == NONE:
        return False
    panes.cells.rows[cell] += 1
    n = panes.tally[0].entries
    panes.entries.row[n] = i
    panes.entries.cell[n] = cell
    panes.tally[0].entries = n + 1
    return True


@inline
def add_to_pane(
    panes: Panes, pane: int, span: int, u: int, nulls: int, keys: np.ndarray, i: int,
    no_key: np.ndarray,
) -> int:  # fmt: skip
    """Enter row ``i`` of uncertainty ``u`` in ``pane``; gives the pane's header, or -1."""
    cells = panes.cells
    header = find_or_add(cells, pane, HEADER, no_key, 0)
    marks = nulls << PART_BITS
    if header == NONE or not _enter(panes, header, (WHOLE + span) | marks, keys, i):
        return NONE
    cells.unc[header] = max(cells.unc[header], u)
    panes.tally[0].span = max(panes.tally[0].span, span)
    if pane < panes.tally[0].built:
        for level in range(1, LEVELS + 1):
            node = find(cells, pane >> level, HEADER - level, no_key, 0)
            if node == NONE:
                continue
            cells.unc[node] = max(cells.unc[node], u)
            if not _enter(panes, node, level | marks, keys, i):
                return NONE
    return header


@inline
def merge_cell(sums: Sums, cell: int, into: Sums, target: int) -> None:
    """Add what ``cell`` sums up to ``target``."""
    for m in range(len(sums.of)):
        n = sums.n[m, cell]
        if n == 0:
            continue
        first = into.n[m, target] == 0
        if sums.of[m].is_float:
            one, more = into.floats[m, target], sums.floats[m, cell]
            if first:
                one.total, one.rest = more.total, more.rest
                one.smallest, one.largest = more.smallest, more.largest
            else:
                add_float(one, more.total)
                one.rest += more.rest
                one.smallest = min(one.smallest, more.smallest)
                one.largest = max(one.largest, more.largest)
        else:
            whole, other = into.ints[m, target], sums.ints[m, cell]
            if first:
                whole.high, whole.low = other.high, other.low
                whole.smallest, whole.largest = other.smallest, other.largest
            else:
                whole.high += other.high
                whole.low += other.low
                whole.smallest = min(whole.smallest, other.smallest)
                whole.largest = max(whole.largest, other.largest)
        if sums.moments.shape[1] > 0 and sums.of[m].moments:
            join_moments(into.moments[m, target], sums.moments[m, cell], sums.of[m].is_float)
        into.n[m, target] += n
    if len(sums.picked) > 0:
        merge_picks(sums.picked, sums.picks, cell, into.picks, target)
