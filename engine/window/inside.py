"""The fast way of most rows: they lie well inside one open window, whose cells exist already."""

from __future__ import annotations

import numpy as np

from engine.kernels.integers import NONE
from engine.kernels.jit import kernel
from engine.stream.released import IN_ORDER, LATE
from engine.window.drift import PART_BITS, WHOLE
from engine.window.held.cells import hash_place


@kernel
def run_inside(
    i: int, stop: int, ref: np.ndarray, unc: np.ndarray, status: np.ndarray, selected: np.ndarray,
    keys: np.ndarray, nulls: np.ndarray, table: np.ndarray, windows: np.ndarray, tags: np.ndarray,
    cell_keys: np.ndarray, counts: np.ndarray, out_row: np.ndarray, out_cell: np.ndarray,
    span: tuple[int, int, int, int, int], so_far: tuple[int, int, int, int],
) -> tuple[int, int, int, int, int]:  # fmt: skip
    """The fast path: rows well inside the open window whose cells exist already.

    Plain arrays, since taking them out of named tuples for every row costs more than the rest.
    Starts with row ``i``, ends before ``stop`` or the first row that needs more. ``span``: the
    window, its start, its end, how far HIGH reaches back and LOW on [ns]. ``so_far``: entries,
    frontier, frontier at which windows close, largest uncertainty.

    Returns:
        (next row, entries, frontier, largest uncertainty, last row that moved the clock or -1).
    """
    window, start, end, back, on = span
    entries, frontier, close_at, widest = so_far
    mask = len(table) - 1
    columns = keys.shape[1]
    all_rows, no_nulls = len(selected) == 0, len(nulls) == 0
    moved = -1
    while i < stop:
        r, u, state = ref[i], unc[i], status[i]
        if state >= LATE or (state == IN_ORDER and r >= close_at):
            break
        if all_rows or selected[i]:
            if r - max(u, back) < start or r + max(u, on) >= end:
                break
            tag = WHOLE
            if not no_nulls:
                tag |= nulls[i] << PART_BITS
            place = hash_place(window, tag, keys, i, mask)
            cell = table[place]
            while cell != NONE:
                same = windows[cell] == window and tags[cell] == tag
                for j in range(columns):
                    same = same and cell_keys[cell, j] == keys[i, j]
                if same:
                    break
                place = (place + 1) & mask
                cell = table[place]
            if cell == NONE:
                break
            counts[cell] += 1
            widest = max(widest, u)
            out_row[entries] = i
            out_cell[entries] = cell
            entries += 1
        if state == IN_ORDER:
            frontier = max(frontier, r)
            moved = i
        i += 1
    return i, entries, frontier, widest, moved
