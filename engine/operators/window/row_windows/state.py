"""The state of ROWS: events of each group by time, values of one window by size."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import inline, kernel, njit
from slackwater.engine.kernels.records import NONE, record
from slackwater.engine.kernels.tables import Heap, new_heap
from slackwater.engine.operators.window.assign import IN_BATCH
from slackwater.engine.operators.window.row_windows.bounds import DoubtfulPlaces
from slackwater.engine.operators.window.settings import CERTAIN, WHOLE
from slackwater.engine.operators.window.state.accumulate import put_float
from slackwater.engine.operators.window.state.aggregate import QUANTILE, interpolated
from slackwater.engine.operators.window.state.cells import Kept
from slackwater.engine.operators.window.state.content import (
    EVERY_PASS,
    HIGH_ONE,
    NUMBERS,
    VALUE,
    Content,
    WindowStore,
)

# State of each group's events in order of time, and of its emitted windows.
#
# A group is a cell of ``window.state.cells`` whose tag has no part; its events are chained
# from it in the pool of kept events. A window is a cell, too. Records have the numbers of cells.


GROUP: Final = record(
    "base", "count", "next", "begin", "limit", "floor", "reach", "oldest", "newest", "number",
    "first", "last", "before", "after", "group", "stale", "opened", "running", "is_group", "loose",
)  # fmt: skip
"""A group or a window; ``is_group``: 1 or 0.

Of a group: ``base`` events were dropped, ``count`` are kept. ``next``: the number of the next
window to emit; ``begin``, ``limit``: the places of its first and last event, or -1. ``floor``: the
time before which an event is too late; ``reach``: the time of the last emitted event [ns].
``oldest``, ``newest``: its emitted windows. If windows emit before they are full: ``opened``: the
number of the next one to open; ``running``: the first one that is not full, or -1; it and later
ones are among the emitted ones. ``loose``: the number of the first event that may not count by its
clock error; later numbers depend on it. Of a window: its ``number``, the places of its ``first``
and ``last`` event (-1: it is running), the windows ``before`` and ``after`` it in its ``group``,
whether it is ``stale``.
"""
SNAPSHOT_FIELDS: Final = (
    "frontier", "frontier_at", "widest", "worst", "vague", "windows", "stale", "too_late",
    "refused", *EVERY_PASS,
)  # fmt: skip
STATE: Final = record(*SNAPSHOT_FIELDS, *IN_BATCH, "ticked", "request", "follow")
"""See STATE of ``session.enter``. ``worst``: the worst status of a clock. ``vague``: 1: an event
may not exist. ``request``: the window to emit next, or -1. ``follow``: the later windows to emit
after it: FULL ones, or EVERY one, including running ones. ``ticked``: cells processed at a tick."""
PERHAPS: Final = WHOLE - CERTAIN
"""The part of a kept event that may not exist."""
NONE_BEHIND, FULL, EVERY = range(3)
SPARE: Final = 8
"""More cells, events and results than one step of the pass can need."""


class RowWindowState(NamedTuple):
    """``of``: GROUP per cell. ``open``: groups, by the time at which their next window is emitted;
    ``kept``: by the time at which their oldest one is dropped. ``prev``: per kept event, the
    previous one. ``places``, ``cells``: scratch for a window's events and their cell. ``nothing``:
    an empty array.
    """

    of: np.ndarray
    open: Heap
    kept: Heap
    prev: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    nothing: np.ndarray


class RowState(NamedTuple):
    """The state of the ROWS assigner. ``doubts``: scratch for one window; ``sorted``: the values of
    one window, if only quantiles need all values.
    """

    windows: RowWindowState
    doubts: DoubtfulPlaces
    sorted: Sorted


def new_row_windows(cells: int, kept: int, rows: int) -> RowWindowState:
    """Empty, with room for ``cells`` cells and ``kept`` events; windows have ``rows`` events."""
    return RowWindowState(
        np.zeros(cells, GROUP), new_heap(cells), new_heap(cells), np.zeros(kept, np.int64),
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip


# The sorted values of one window of ROWS, which slide to the next window of its group.
#
# The next window loses its first events and gains as many new ones: their values are removed from
# the sorted values and inserted, in one copy. Any other window is sorted from its events. Snapshots
# do not contain the sorted values: this costs time only.


WINDOW: Final = record("group", "number", "first", "last")
"""The window whose values are sorted: its group's cell, or -1, its number, and the places of its
first and last event."""


class Sorted(NamedTuple):
    """``of``: one WINDOW. ``values``: (attributes, 2, rows); per attribute ``side`` is the one in
    use, with ``n`` values. ``gone``, ``fresh``: scratch for removed and new values. All are empty
    if no quantile needs them.
    """

    of: np.ndarray
    values: np.ndarray
    side: np.ndarray
    n: np.ndarray
    gone: np.ndarray
    fresh: np.ndarray


def new_sorted(attributes: int, rows: int, step: int) -> Sorted:
    """No sorted values; ``step``: events between the begins of two windows."""
    of = np.zeros(1, WINDOW)
    of["group"] = NONE
    side, n = (np.zeros(attributes, np.int64) for _ in range(2))
    return Sorted(
        of, np.zeros((attributes, 2, rows)), side, n, np.zeros(step), np.zeros(step)
    )  # fmt: skip


@inline
def forget_sorted(values: Sorted, group: int) -> None:
    """Discard the sorted values if they are of ``group``, whose events have changed."""
    if values.of[0].group == group:
        values.of[0].group = NONE


@inline
def _put(kept: Kept, place: int, m: int, is_float: bool, out: np.ndarray, n: int) -> int:
    """Write the value of the event at ``place``, if it has one, to ``out[n]``; the new count."""
    if not kept.valid[place, m]:
        return n
    out[n] = kept.floats[place, m] if is_float else np.float64(kept.ints[place, m])
    return n + 1


@njit
def _sort(values: np.ndarray) -> None:
    values[:] = np.sort(values)


@kernel
def _replace(old: np.ndarray, new: np.ndarray, gone: np.ndarray, fresh: np.ndarray) -> int:
    """Write ``old`` without ``gone`` and with ``fresh``, all sorted, to ``new``; the new count."""
    n, i, j, g, f = len(old), 0, 0, 0, 0
    while g < len(gone) or f < len(fresh):
        leaves = i + np.searchsorted(old[i:], gone[g]) if g < len(gone) else n
        comes = i + np.searchsorted(old[i:], fresh[f]) if f < len(fresh) else n
        out = g < len(gone) and leaves <= comes
        until = leaves if out else comes
        for k in range(i, until):
            new[j + k - i] = old[k]
        j, i = j + until - i, until
        if out:
            i, g = i + 1, g + 1
        else:
            new[j] = fresh[f]
            j, f = j + 1, f + 1
    for k in range(i, n):
        new[j + k - i] = old[k]
    return j + n - i


@kernel
def _slide(values: Sorted, kept: Kept, m: int, is_float: bool, step: int) -> None:
    place, gone, coming, fresh = values.of[0].first, 0, values.of[0].last, 0
    for _ in range(step):
        gone = _put(kept, place, m, is_float, values.gone, gone)
        place, coming = kept.next[place], kept.next[coming]
        fresh = _put(kept, coming, m, is_float, values.fresh, fresh)
    _sort(values.gone[:gone])
    _sort(values.fresh[:fresh])
    side = values.side[m]
    values.n[m] = _replace(
        values.values[m, side, : values.n[m]], values.values[m, 1 - side], values.gone[:gone],
        values.fresh[:fresh],
    )  # fmt: skip
    values.side[m] = 1 - side


@kernel
def _build(values: Sorted, kept: Kept, m: int, is_float: bool, first: int, last: int) -> None:
    n, place = 0, first
    while True:
        n = _put(kept, place, m, is_float, values.values[m, values.side[m]], n)
        if place == last:
            break
        place = kept.next[place]
    _sort(values.values[m, values.side[m], :n])
    values.n[m] = n


@kernel
def sort_window(
    values: Sorted, store: WindowStore, window: tuple[int, int], ends: tuple[int, int], step: int
) -> None:
    """Sort the values of ``window`` (group, number); ``ends``: its first and last event."""
    now = values.of[0]
    group, number = window
    first, last = ends
    follows = now.group == group and now.number + 1 == number
    for m in range(len(values.n)):
        if store.sums.of[m].keeps_all:
            if follows:
                _slide(values, store.kept, m, store.sums.of[m].is_float, step)
            else:
                _build(values, store.kept, m, store.sums.of[m].is_float, first, last)
    now.group, now.number, now.first, now.last = group, number, first, last


@kernel
def put_quantiles(values: Sorted, store: WindowStore, out: Content) -> None:
    """Write the quantiles of the sorted values, if there are any, to ``out``."""
    for a in range(len(store.aggregates.function)):
        m = store.aggregates.attribute[a]
        if store.aggregates.function[a] == QUANTILE and values.n[m] > 0:
            mine = values.values[m, values.side[m], : values.n[m]]
            found = interpolated(mine, store.aggregates.parameter[a])
            for place in range(VALUE, HIGH_ONE + 1):
                put_float(out.kinds, out.words, a * NUMBERS + place, found)
