"""Panes of sliding windows: their borders, their content, and windows built from them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE, record
from slackwater.engine.operators.window.settings import PART_BITS, WHOLE, Geometry
from slackwater.engine.operators.window.state.accumulate import Sums, clear, new_sums
from slackwater.engine.operators.window.state.cells import (
    HEADER,
    SPARE,
    Cells,
    add_to_window,
    find,
    find_or_add,
    free_window,
    merge_cell,
    new_cells,
)
from slackwater.engine.operators.window.state.content import WindowStore
from slackwater.engine.operators.window.uncertainty.missing import GapTable, header_of

# Borders of panes: a pane is a piece of time in which no window of a query starts or ends.
#
# Source: Krishnamurthy, Wu & Franklin 2006 (paired windows): if the slide divides the size, a pane
# is a slide; else every slide is cut once, where windows end.


@inline
def pane_of(geo: Geometry, time: int) -> int:
    """Return the pane that contains ``time`` [ns]."""
    slide, rest = time // geo.step, geo.size % geo.step
    if rest == 0:
        return slide
    return 2 * slide + (time - slide * geo.step >= rest)


@inline
def pane_start(geo: Geometry, pane: int) -> int:
    """Return the start of ``pane`` [ns]."""
    rest = geo.size % geo.step
    if rest == 0:
        return pane * geo.step
    return (pane >> 1) * geo.step + (pane & 1) * rest


# Content of panes, and the tree over them.
#
# An event belongs to one pane: that of the earliest time that it may have in any of its drift
# windows or in truth. Its *span* is the number of panes from there to its latest possible time. A
# node of level l sums up 2**l panes, so a window is the sum of a few nodes (Tangwongsan et al.
# 2015, FlatFAT). A node is built when a window first needs it; late events are added to it.
#
# All are cells of one table: ``window`` is the pane, or the place of the node in its level.


SPAN_MAX: Final = 15
"""Events with a larger span, from clocks with large errors, are added to each of their windows."""
LEVELS: Final = 14
"""Number of levels. Tags: 1 to ``LEVELS`` for nodes, ``WHOLE`` + span for panes; headers:
``HEADER`` - level."""
PANES_SPARE: Final = 32
"""More cells, and entries, than one row can need."""
TALLY: Final = record("entries", "span", "built")
"""Number of entries; the largest span so far; panes from ``built`` on are in no node."""


class Entries(NamedTuple):
    """Pairs of row and cell, in row order, that are still to be added up."""

    row: np.ndarray
    cell: np.ndarray


class Panes(NamedTuple):
    """``cells`` and ``sums`` of panes and nodes; ``entries``: pending; ``tally``: one TALLY."""

    cells: Cells
    sums: Sums
    entries: Entries
    tally: np.ndarray


def new_entries(room: int) -> Entries:
    """Return room for ``room`` entries."""
    return Entries(np.empty(room, np.int64), np.empty(room, np.int64))


def new_panes(of: np.ndarray, picked: np.ndarray, capacity: int, group_columns: int) -> Panes:
    """Return empty panes without room for entries; ``of``, ``picked``: see ``Sums``."""
    tally = np.zeros(1, TALLY)
    tally["built"] = -(2**63)
    cells, sums = new_cells(capacity, group_columns), new_sums(of, picked, capacity)
    return Panes(cells, sums, new_entries(0), tally)


@inline
def add_cell(cells: Cells, header: int, tag: int, keys: np.ndarray, row: int) -> int:
    """Return the cell of the key ``keys[row]``, chained to ``header`` if new; -1 without room."""
    live = cells.tally[0].live
    cell = find_or_add(cells, cells.window[header], tag, keys, row)
    if cells.tally[0].live != live:
        cells.link[cell] = cells.link[header]
        cells.link[header] = cell
    return cell


@inline
def _enter(panes: Panes, header: int, tag: int, clocks: int, keys: np.ndarray, i: int) -> bool:
    cell = add_cell(panes.cells, header, tag, keys, i)
    if cell == NONE:
        return False
    panes.cells.rows[cell] += 1
    panes.cells.clocks[cell] = max(panes.cells.clocks[cell], clocks)
    n = panes.tally[0].entries
    panes.entries.row[n] = i
    panes.entries.cell[n] = cell
    panes.tally[0].entries = n + 1
    return True


@inline
def add_to_pane(
    panes: Panes, pane: int, span: int, u: int, nulls: int, clocks: int, keys: np.ndarray, i: int,
    no_key: np.ndarray,
) -> int:  # fmt: skip
    """Enter row ``i`` in ``pane`` and in the nodes over it; return the pane's header, or -1.

    ``u``: uncertainty of the row [ns]. ``nulls``: null marks of its key. ``clocks``: status of its
    clock. ``no_key``: the key of a header.
    """
    cells = panes.cells
    header = find_or_add(cells, pane, HEADER, no_key, 0)
    marks = nulls << PART_BITS
    if header == NONE or not _enter(panes, header, (WHOLE + span) | marks, clocks, keys, i):
        return NONE
    cells.unc[header] = max(cells.unc[header], u)
    panes.tally[0].span = max(panes.tally[0].span, span)
    if pane < panes.tally[0].built:
        for level in range(1, LEVELS + 1):
            node = find(cells, pane >> level, HEADER - level, no_key, 0)
            if node == NONE:
                continue
            cells.unc[node] = max(cells.unc[node], u)
            if not _enter(panes, node, level | marks, clocks, keys, i):
                return NONE
    return header


# Windows are built from panes when they close; panes that no later window needs are freed.
#
# From then on it is an ordinary window (``window.emission``): late events enter it directly.


MADE, MORE_PANES, MORE_CELLS = 0, 1, 2
"""Results of ``make_window``: done, or the table that is full."""
_PARTS = (1 << PART_BITS) - 1


@njit
def make_window(
    window: int, geo: Geometry, panes: Panes, store: WindowStore, gaps: GapTable, known: int,
    no_key: np.ndarray, panes_grow: bool, cells_grow: bool,
) -> tuple[int, int]:  # fmt: skip
    """Sum up the panes of ``window`` in its cells.

    Args:
        window: its index; its cells may already hold some of its events.
        geo: the geometry of the windows.
        panes: the panes.
        store: the windows.
        gaps: the gaps; the first ``known`` of them are known.
        known: number of known gaps.
        no_key: the key of a header.
        panes_grow: whether the table of panes may grow.
        cells_grow: whether the table of windows may grow.

    Returns:
        (``MADE`` or the full table, number of rows without room).
    """
    first = pane_of(geo, window * geo.step)
    end = pane_of(geo, window * geo.step + geo.size)
    settled = max(first, end - panes.tally[0].span)
    if panes_grow and not _build(panes, first, settled, no_key):
        return MORE_PANES, 0
    needed, pane = 0, first
    while pane < end:
        level = _level(panes.cells, pane, settled, no_key)
        pane_header = _header(panes.cells, pane, level, no_key)
        needed += 0 if pane_header == NONE else _cells(panes.cells, pane_header)
        pane += 1 << level
    if cells_grow and store.cells.tally[0].live + needed > len(store.cells.window) - SPARE:
        return MORE_CELLS, 0
    header = header_of(store.cells, window, gaps, known, no_key)
    refused, widest, pane = 0, 0, first
    while pane < end:
        level = _level(panes.cells, pane, settled, no_key)
        pane_header = _header(panes.cells, pane, level, no_key)
        cell = NONE
        if pane_header != NONE:
            widest = max(widest, panes.cells.unc[pane_header])
            cell = panes.cells.link[pane_header]
        while cell != NONE:
            if level > 0 or pane + (panes.cells.tag[cell] & _PARTS) - WHOLE < end:
                refused += _take(panes, cell, store, header)
            cell = panes.cells.link[cell]
        pane += 1 << level
    if header != NONE:
        store.cells.unc[header] = max(store.cells.unc[header], widest)
    return MADE, refused


@inline
def _take(panes: Panes, cell: int, store: WindowStore, header: int) -> int:
    """Add a cell of panes to the window of ``header``; return the number of rows without room."""
    cells = panes.cells
    if header == NONE:
        return int(cells.rows[cell])
    tag = (cells.tag[cell] & ~_PARTS) | WHOLE
    target = add_to_window(store.cells, header, tag, cells.keys, cell)
    if target == NONE:
        return int(cells.rows[cell])
    merge_cell(cells, panes.sums, cell, store.cells, store.sums, target)
    return 0


@inline
def _header(cells: Cells, pane: int, level: int, no_key: np.ndarray) -> int:
    """Return the header of the node of ``level`` that starts with ``pane``, or -1."""
    return find(cells, pane >> level, HEADER - level, no_key, 0)


@inline
def _cells(cells: Cells, header: int) -> int:
    """Return the number of cells of a node."""
    n, cell = 0, cells.link[header]
    while cell != NONE:
        n += 1
        cell = cells.link[cell]
    return n


@inline
def _largest(pane: int, settled: int) -> int:
    """Return the level of the largest node that starts with ``pane`` and ends by ``settled``."""
    level = 0
    while level < LEVELS and pane & (1 << level) == 0 and pane + (2 << level) <= settled:
        level += 1
    return level


@kernel
def _level(cells: Cells, pane: int, settled: int, no_key: np.ndarray) -> int:
    """Return the level of the largest existing node; see ``_largest``."""
    level = _largest(pane, settled)
    while level > 0 and _header(cells, pane, level, no_key) == NONE:
        level -= 1
    return level


@kernel
def _build(panes: Panes, first: int, settled: int, no_key: np.ndarray) -> bool:
    """Build the missing nodes of [``first``, ``settled``); return False without room."""
    pane = first
    while pane < settled:
        top = _largest(pane, settled)
        if top > 0 and _header(panes.cells, pane, top, no_key) == NONE:
            for level in range(1, top + 1):
                for start in range(pane, pane + (1 << top), 1 << level):
                    there = _header(panes.cells, start, level, no_key) != NONE
                    if not there and not _build_node(panes, start, level, no_key):
                        return False
        pane += 1 << top
        panes.tally[0].built = max(panes.tally[0].built, pane)
    return True


@kernel
def _build_node(panes: Panes, start: int, level: int, no_key: np.ndarray) -> bool:
    """Build a node from two nodes of the level below or two panes; return False without room."""
    cells, half, needed = panes.cells, 1 << (level - 1), 1
    for child in range(start, start + 2 * half, half):
        below = _header(cells, child, level - 1, no_key)
        needed += 0 if below == NONE else _cells(cells, below)
    if cells.tally[0].live + needed > len(cells.window):
        return False
    header = find_or_add(cells, start >> level, HEADER - level, no_key, 0)
    for child in range(start, start + 2 * half, half):
        below = _header(cells, child, level - 1, no_key)
        cell = NONE
        if below != NONE:
            cells.unc[header] = max(cells.unc[header], cells.unc[below])
            cell = cells.link[below]
        while cell != NONE:
            tag = (cells.tag[cell] & ~_PARTS) | level
            target = add_cell(cells, header, tag, cells.keys, cell)
            merge_cell(cells, panes.sums, cell, cells, panes.sums, target)
            cell = cells.link[cell]
    return True


@njit
def free_panes(panes: Panes, before: int) -> None:
    """Free the panes and nodes that end by the start of pane ``before``."""
    cells = panes.cells
    place = cells.tally[0].headers - 1
    while place >= 0:
        header = cells.headers[place]
        level = HEADER - cells.tag[header]
        if (cells.window[header] + 1) << level <= before:
            cell = cells.link[header]
            while cell != NONE:
                clear(panes.sums, cell)
                cell = cells.link[cell]
            free_window(cells, header)
        place -= 1
