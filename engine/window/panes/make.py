"""Makes windows of panes when they close, and frees panes that no window to come needs.

From then on a window is one as any other (``engine.window.told``): late events enter it themselves.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.integers import NONE
from engine.kernels.jit import inline, kernel, njit
from engine.window.doubt.gap_table import GapTable
from engine.window.doubt.missing import header_of
from engine.window.drift import PART_BITS, WHOLE, Geometry
from engine.window.held.accumulate import clear
from engine.window.held.cells import (
    HEADER,
    SPARE,
    Cells,
    add_to_window,
    find,
    find_or_add,
    free_window,
)
from engine.window.held.content import Held
from engine.window.panes.geometry import pane_of
from engine.window.panes.held import LEVELS, Panes, add_cell, merge_cell

MADE, MORE_PANES, MORE_CELLS = 0, 1, 2
"""What ``make_window`` says: done, or what has too little room."""
_PARTS = (1 << PART_BITS) - 1


@njit
def make_window(
    window: int, geo: Geometry, panes: Panes, held: Held, gaps: GapTable, known: int,
    no_key: np.ndarray, panes_grow: bool, cells_grow: bool,
) -> tuple[int, int]:  # fmt: skip
    """Sum up the panes of ``window`` in its cells.

    Args:
        window: its index; some of its events may be in its cells already.
        geo: of the windows.
        panes: what is summed up.
        held: the windows.
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
        own = _header(panes.cells, pane, level, no_key)
        needed += 0 if own == NONE else _cells(panes.cells, own)
        pane += 1 << level
    if cells_grow and held.cells.tally[0].live + needed > len(held.cells.window) - SPARE:
        return MORE_CELLS, 0
    header = header_of(held.cells, window, gaps, known, no_key)
    refused, widest, pane = 0, 0, first
    while pane < end:
        level = _level(panes.cells, pane, settled, no_key)
        own = _header(panes.cells, pane, level, no_key)
        cell = NONE
        if own != NONE:
            widest = max(widest, panes.cells.unc[own])
            cell = panes.cells.link[own]
        while cell != NONE:
            if level > 0 or pane + (panes.cells.tag[cell] & _PARTS) - WHOLE < end:
                refused += _take(panes, cell, held, header)
            cell = panes.cells.link[cell]
        pane += 1 << level
    if header != NONE:
        held.cells.unc[header] = max(held.cells.unc[header], widest)
    return MADE, refused


@inline
def _take(panes: Panes, cell: int, held: Held, header: int) -> int:
    """Add a cell of panes to the window of ``header``; gives the rows that found no room."""
    cells = panes.cells
    if header == NONE:
        return int(cells.rows[cell])
    tag = (cells.tag[cell] & ~_PARTS) | WHOLE
    target = add_to_window(held.cells, header, tag, cells.keys, cell)
    if target == NONE:
        return int(cells.rows[cell])
    held.cells.rows[target] += cells.rows[cell]
    merge_cell(panes.sums, cell, held.sums, target)
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
            cells.rows[target] += cells.rows[cell]
            merge_cell(panes.sums, cell, panes.sums, target)
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
