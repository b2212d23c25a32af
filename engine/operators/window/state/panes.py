"""Panes of windows that slide: where they lie, what they hold, and windows made of them."""

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

# Where panes lie: the pieces of time that no window of a query starts or ends in.
#
# Source: Krishnamurthy, Wu & Franklin 2006 (paired windows): if the slide divides the size, a pane
# is a slide; else every slide is cut once, where windows end.


@inline
def pane_of(geo: Geometry, time: int) -> int:
    """The pane with ``time`` [ns]."""
    slide, rest = time // geo.step, geo.size % geo.step
    if rest == 0:
        return slide
    return 2 * slide + (time - slide * geo.step >= rest)


@inline
def pane_start(geo: Geometry, pane: int) -> int:
    """Where ``pane`` starts [ns]."""
    rest = geo.size % geo.step
    if rest == 0:
        return pane * geo.step
    return (pane >> 1) * geo.step + (pane & 1) * rest


# What panes hold, and the tree over them.
#
# An event goes to one pane, that of the earliest time that any of its drift windows or its true
# time may have, with how many panes further the latest lies (its *span*). A node of level l sums up
# 2**l panes, so that a window is the sum of a few nodes (Tangwongsan et al. 2015, FlatFAT); it is
# made when a window asks for it first, and late events are added to it.
#
# All are cells of one table: ``window`` is the pane, or the node's place in its level.


SPAN_MAX: Final = 15
"""Larger spans, of clocks that err by many slides, go to each of their windows instead."""
LEVELS: Final = 14
"""Tags: levels from 1, then ``WHOLE`` and more are spans. Headers: HEADER - level."""
PANES_SPARE: Final = 32
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


def new_entries(room: int) -> Entries:
    """Room for so many."""
    return Entries(np.empty(room, np.int64), np.empty(room, np.int64))


def new_panes(of: np.ndarray, picked: np.ndarray, capacity: int, group_columns: int) -> Panes:
    """Nothing in any pane, and no room for entries; ``of``, ``picked``: as in ``Sums``."""
    tally = np.zeros(1, TALLY)
    tally["built"] = -(2**63)
    cells, sums = new_cells(capacity, group_columns), new_sums(of, picked, capacity)
    return Panes(cells, sums, new_entries(0), tally)


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
    """Enter row ``i`` of uncertainty ``u``, by a clock of status ``clocks``, in ``pane``; gives the
    pane's header, or -1.
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


# Makes windows of panes when they close, and frees panes that no window to come needs.
#
# From then on a window is one as any other (``window.emission``): late events enter it
# themselves.


MADE, MORE_PANES, MORE_CELLS = 0, 1, 2
"""What ``make_window`` says: done, or what has too little room."""
_PARTS = (1 << PART_BITS) - 1


@njit
def make_window(
    window: int, geo: Geometry, panes: Panes, store: WindowStore, gaps: GapTable, known: int,
    no_key: np.ndarray, panes_grow: bool, cells_grow: bool,
) -> tuple[int, int]:  # fmt: skip
    """Sum up the panes of ``window`` in its cells.

    Args:
        window: its index; some of its events may be in its cells already.
        geo: of the windows.
        panes: what is summed up.
        store: the windows.
        gaps: with ``known`` of them known.
        known: see ``gaps``.
        no_key: the key of a header.
        panes_grow: whether there may be more cells of panes.
        cells_grow: whether there may be more cells of windows.

    Returns:
        (``MADE`` or why not, rows that found no room).
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
    """Add a cell of panes to the window of ``header``; gives the rows that found no room."""
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
    """Of the node that starts with ``pane``, or -1."""
    return find(cells, pane >> level, HEADER - level, no_key, 0)


@inline
def _cells(cells: Cells, header: int) -> int:
    """How many there are of a node."""
    n, cell = 0, cells.link[header]
    while cell != NONE:
        n += 1
        cell = cells.link[cell]
    return n


@inline
def _largest(pane: int, settled: int) -> int:
    """The level of the largest node that starts with ``pane`` and ends before ``settled``."""
    level = 0
    while level < LEVELS and pane & (1 << level) == 0 and pane + (2 << level) <= settled:
        level += 1
    return level


@kernel
def _level(cells: Cells, pane: int, settled: int, no_key: np.ndarray) -> int:
    """As ``_largest``, of those that there are."""
    level = _largest(pane, settled)
    while level > 0 and _header(cells, pane, level, no_key) == NONE:
        level -= 1
    return level


@kernel
def _build(panes: Panes, first: int, settled: int, no_key: np.ndarray) -> bool:
    """Make the nodes of [first, settled) that there are not yet; False without room."""
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
    """Sum up two nodes of the level below, or two panes; False without room."""
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
    """Free panes and nodes that end before pane ``before`` starts, or with it."""
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
