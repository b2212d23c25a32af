"""The pass over released rows that finds each row's windows and cells, and sees windows close.

Sequential in row order, so results do not depend on how the stream is cut into batches. It stops
wherever Python has work to do (windows to close, a closed window changed, room to make) and
continues from there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.jit import njit
from engine.released import IN_ORDER, LATE
from engine.window.cells import (
    HEADER,
    LIVE,
    NONE,
    SPARE,
    Cells,
    add_to_window,
    find,
    find_or_add,
    hash_place,
)
from engine.window.drift import AMBIGUOUS, CERTAIN, HIGH, LOW, MIDDLE, PART_BITS, WHOLE
from engine.window.missing import GapTable, fill

INT_MIN: Final = -(2**63)
_NEVER: Final = 2**62

# Places in the state array that outlive a batch.
FRONTIER, FRONTIER_AT, CLOSE_AT, CLOSED_LOW, CLOSED_MIDDLE, CLOSED_ALL = 0, 1, 2, 3, 4, 5
TOO_LATE, REFUSED, CAPPED = 6, 7, 8
# Places that belong to the batch: where the pass stands, and how much it wrote.
ROW, STEP, GAP, ENTRIES, AMBIGUOUS_ENTRIES, DIRTY, DIRTY_AT, CLOSING = 9, 10, 11, 12, 13, 14, 15, 16
STATE_SIZE: Final = 17
LASTING: Final = 9

DONE, STOPPED, GROW = 0, 1, 2
"""Why the pass returned: all rows taken; look at the state; too few free cells."""


class Rows(NamedTuple):
    """A batch as the pass reads it; ``selected`` and ``nulls`` are empty where they say nothing.

    int64 of length n: ``ref unc release seq``; int32 codes ``source stream``; int8 ``status``;
    ``keys`` int64 (n x g); ``nulls`` int64, bit j set where group column j is null.
    """

    ref: np.ndarray
    unc: np.ndarray
    release: np.ndarray
    status: np.ndarray
    source: np.ndarray
    stream: np.ndarray
    seq: np.ndarray
    selected: np.ndarray
    keys: np.ndarray
    nulls: np.ndarray


class Agenda(NamedTuple):
    """Progress steps and gaps of the batch, by the row before which they hold."""

    step_row: np.ndarray
    step_frontier: np.ndarray
    step_at: np.ndarray
    gap_row: np.ndarray
    gap_steps: np.ndarray


class Entries(NamedTuple):
    """Which row goes to which cell, in row order; ``dirty``: cells of closed windows."""

    row: np.ndarray
    cell: np.ndarray
    dirty: np.ndarray


class Geometry(NamedTuple):
    """The window's size, how far LOW and HIGH reach, and how long closed windows are kept [ns]."""

    size: int
    low_shift: int
    high_shift: int
    horizon: int


@njit
def _contribute(
    k: int, part: int, u: int, i: int, rows: Rows, geo: Geometry, cells: Cells,
    st: np.ndarray, out: Entries,
) -> int:  # fmt: skip
    """Enter row ``i`` in window ``k``; gives the header, -1 without room, -2 when too late."""
    if k <= st[CLOSED_ALL] and st[FRONTIER] - geo.horizon >= (k + 1) * geo.size:
        return -2
    header = find_or_add(cells, k, HEADER, np.zeros((1, rows.keys.shape[1]), np.int64), 0)
    if header == NONE:
        return NONE
    tag = part
    if len(rows.nulls) > 0:
        tag |= rows.nulls[i] << PART_BITS
    cell = add_to_window(cells, header, tag, rows.keys, i)
    if cell == NONE:
        return NONE
    cells.rows[cell] += 1
    cells.unc[header] = max(cells.unc[header], u)
    out.row[st[ENTRIES]] = i
    out.cell[st[ENTRIES]] = cell
    st[ENTRIES] += 1
    if part & AMBIGUOUS:
        st[AMBIGUOUS_ENTRIES] += 1
    if (
        k <= st[CLOSED_ALL]
        or (part & LOW and k <= st[CLOSED_LOW])
        or (part & (LOW | MIDDLE) and k <= st[CLOSED_MIDDLE])
    ):
        out.dirty[st[DIRTY]] = cell
        st[DIRTY] += 1
        st[DIRTY_AT] = rows.release[i]
    return header


@njit
def _part(k: int, r: int, u: int, geo: Geometry) -> int:
    """Which of window ``k``'s drift windows hold ``r``, and how surely [k*size, (k+1)*size)."""
    part = 0
    if (r + geo.low_shift) // geo.size == k:
        part |= LOW
    if r // geo.size == k:
        part |= MIDDLE
    if (r - geo.high_shift) // geo.size == k:
        part |= HIGH
    start, end = k * geo.size, (k + 1) * geo.size
    if r - u >= start and r + u < end:
        part |= CERTAIN
    elif r + u >= start and r - u < end:
        part |= AMBIGUOUS
    return part


@njit
def _enter(
    r: int, u: int, i: int, rows: Rows, geo: Geometry, cells: Cells, st: np.ndarray, out: Entries
) -> int:
    """Enter a row in each of its windows; gives the header of its own window, or -1."""
    first, last = (r - u) // geo.size, (r + u) // geo.size
    in_high, in_low = (r - geo.high_shift) // geo.size, (r + geo.low_shift) // geo.size
    own = NONE
    lost, refused = False, False
    for j in range(first - 1, last + 2):
        k = j
        if j == first - 1:
            if in_high >= first:
                continue
            k = in_high
        elif j == last + 1:
            if in_low <= last:
                continue
            k = in_low
        header = _contribute(k, _part(k, r, u, geo), u, i, rows, geo, cells, st, out)
        lost = lost or header == -2
        refused = refused or header == NONE
        if k == r // geo.size and header >= 0:
            own = header
    st[TOO_LATE] += lost
    st[REFUSED] += refused
    return own


@njit
def _agenda(i: int, agenda: Agenda, st: np.ndarray) -> int:
    """Take what holds before row ``i``; gives the next row with something, -1 to stop."""
    gaps, steps = len(agenda.gap_row), len(agenda.step_row)
    while True:
        gap, step = st[GAP], st[STEP]
        if gap < gaps and agenda.gap_row[gap] <= i and agenda.gap_steps[gap] <= step:
            st[GAP] += 1
        elif step < steps and agenda.step_row[step] <= i:
            st[FRONTIER] = max(st[FRONTIER], agenda.step_frontier[step])
            st[FRONTIER_AT] = agenda.step_at[step]
            st[STEP] += 1
            if st[FRONTIER] >= st[CLOSE_AT]:
                st[CLOSING] = 1
                return -1
        else:
            break
    following = _NEVER
    if st[GAP] < gaps:
        following = min(following, agenda.gap_row[st[GAP]])
    if st[STEP] < steps:
        following = min(following, agenda.step_row[st[STEP]])
    return int(following)


@njit
def _run_inside(
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


@njit
def _take_row(
    i: int, rows: Rows, gaps: GapTable, known: int, geo: Geometry, cells: Cells, st: np.ndarray,
    out: Entries,
) -> int:  # fmt: skip
    """Any one row; gives the header of its own window, -1 if it entered none."""
    r, u = rows.ref[i], rows.unc[i]
    header = NONE
    if rows.status[i] >= LATE:
        fill(gaps, known, rows.source[i], rows.stream[i], rows.seq[i])
    if len(rows.selected) == 0 or rows.selected[i]:
        if u > geo.size:
            u = geo.size
            st[CAPPED] += 1
        header = _enter(r, u, i, rows, geo, cells, st, out)
    if rows.status[i] == IN_ORDER:
        st[FRONTIER] = max(st[FRONTIER], r)
        st[FRONTIER_AT] = rows.release[i]
        st[CLOSING] = st[FRONTIER] >= st[CLOSE_AT]
    return header


@njit
def assign(
    rows: Rows, agenda: Agenda, gaps: GapTable, known_before: int, geo: Geometry, cells: Cells,
    can_grow: bool, st: np.ndarray, out: Entries,
) -> int:  # fmt: skip
    """Go on from row ``st[ROW]``; gives DONE, STOPPED or GROW.

    Args:
        rows: the batch.
        agenda: its steps and gaps.
        gaps: gaps known so far: ``known_before`` from earlier batches, then this batch's.
        known_before: see ``gaps``.
        geo: sizes and shifts in force.
        cells: the table, changed in place.
        can_grow: whether the table may still be made larger.
        st: state, changed in place (``FRONTIER`` ... above).
        out: entries written; ``st[ENTRIES]`` of them.
    """
    n = len(rows.ref)
    free, room = len(cells.window) - SPARE, len(out.row) - SPARE
    i = st[ROW]
    next_agenda = i
    while True:
        st[ROW] = i
        if i >= next_agenda:
            next_agenda = _agenda(i, agenda, st)
            if next_agenda < 0:
                return STOPPED
        if i == n:
            return DONE
        if cells.tally[LIVE] > free and can_grow:
            return GROW
        if st[ENTRIES] > room:
            return STOPPED
        header = _take_row(i, rows, gaps, known_before + st[GAP], geo, cells, st, out)
        window = rows.ref[i] // geo.size
        i += 1
        if st[DIRTY] + st[CLOSING] > 0:
            st[ROW] = i
            return STOPPED
        if header >= 0 and window > st[CLOSED_LOW]:
            start = window * geo.size
            i, entries, frontier, widest, moved = _run_inside(
                i, min(n, next_agenda, i + room - st[ENTRIES]), rows.ref, rows.unc, rows.status,
                rows.selected, rows.keys, rows.nulls, cells.table, cells.window, cells.tag,
                cells.keys, cells.rows, out.row, out.cell,
                (window, start, start + geo.size, geo.high_shift, geo.low_shift),
                (st[ENTRIES], st[FRONTIER], st[CLOSE_AT], cells.unc[header]),
            )  # fmt: skip
            st[ENTRIES], st[FRONTIER], cells.unc[header] = entries, frontier, widest
            if moved >= 0:
                st[FRONTIER_AT] = rows.release[moved]


@njit
def cells_of_key(cells: Cells, window: int, nulls: int, keys: np.ndarray) -> np.ndarray:
    """Every cell of one window and key (``keys``: 1 x columns), by its part."""
    found = np.empty(1 << PART_BITS, np.int64)
    n = 0
    for part in range(1 << PART_BITS):
        cell = find(cells, window, (nulls << PART_BITS) | part, keys, 0)
        if cell != NONE:
            found[n] = cell
            n += 1
    return found[:n]
