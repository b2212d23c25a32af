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

# State of each group's events in order of time, and of their emitted windows.
#
# A group is a cell of ``window.state.cells`` whose tag has no part; its events are chained
# from it in the pool of kept events. A window is a cell, too; their records have the cells'
# numbers.


GROUP: Final = record(
    "base", "count", "next", "begin", "limit", "floor", "reach", "oldest", "newest", "number",
    "first", "last", "before", "after", "group", "stale", "opened", "running", "is_group", "loose",
)  # fmt: skip
"""Of a group: ``base`` events were forgotten, ``count`` are held; ``next`` is the number of the
window to be emitted next, ``begin`` and ``limit`` the places of its first and last event, or -1;
``floor``: time before which an event is too late, ``reach``: of the last emitted one [ns];
``oldest``, ``newest``: its emitted windows.
Where windows emit before they are full: the number of the next to be ``opened``, and the first that
is ``running``, or -1: it and those behind it are among the emitted ones. Of a window: its
``number``, the places of its ``first`` and ``last`` event (-1 as long as it runs), windows of the
``group`` next to it, whether it is ``stale``. ``is_group``: 1, or of a window 0. ``loose``: of a
group, the number of its first event that its clock's error may take away, and all behind with it.
"""
LASTING: Final = (
    "frontier", "frontier_at", "widest", "worst", "vague", "windows", "stale", "too_late",
    "refused", *EVERY_PASS,
)  # fmt: skip
STATE: Final = record(*LASTING, *IN_BATCH, "ticked", "request", "follow")
"""As of sessions; ``worst``: the worst status of a clock; ``vague``: some event may not be there at
all; ``asked``: the window to be emitted next, or -1, and those behind it if ``follow`` is ``FULL``,
or ``EVERY`` one, running ones included. ``ticked``: cells looked at."""
PERHAPS: Final = WHOLE - CERTAIN
"""Part of a kept event that may not be there at all."""
NONE_BEHIND, FULL, EVERY = range(3)
SPARE: Final = 8
"""More cells, events and results than one step of the pass can ask for."""


class RowWindowState(NamedTuple):
    """``of``: GROUP per cell. ``open``: groups by when a window of theirs is emitted, ``kept``: by
    when one leaves. ``prev``: of each kept event, the one before it. ``places``: room for a
    window's events; ``cells`` for their cell. ``nothing``: of no length.
    """

    of: np.ndarray
    open: Heap
    kept: Heap
    prev: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    nothing: np.ndarray


class RowState(NamedTuple):
    """What ROWS have for themselves. ``doubts``: room for those of one window; ``sorted``: the
    values of one window, where only quantiles ask for all of them.
    """

    windows: RowWindowState
    doubts: DoubtfulPlaces
    sorted: Sorted


def new_counted(cells: int, kept: int, rows: int) -> RowWindowState:
    """Nothing yet, with room for so many, and windows of ``rows``."""
    return RowWindowState(
        np.zeros(cells, GROUP), new_heap(cells), new_heap(cells), np.zeros(kept, np.int64),
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip


# The values of one window of ROWS in order of size, which slide to its group's next window.
#
# A window that follows the one before loses its first events and gets as many new ones: their
# values are taken out of the sorted ones and put in, which copies them once. Any other window is
# sorted afresh. What is not kept in snapshots is only time: the values are the same either way.


WINDOW: Final = record("group", "number", "first", "last")
"""Which window's values are sorted: its group's cell, or -1, and its number; the places of its
first and last event."""


class Sorted(NamedTuple):
    """``of``: one WINDOW. ``values``: (attributes, 2, rows), of which ``side`` says which is in
    use, the first ``n`` of each. ``gone``, ``fresh``: room for what leaves and comes. Of no length
    where nobody asks for them.
    """

    of: np.ndarray
    values: np.ndarray
    side: np.ndarray
    n: np.ndarray
    gone: np.ndarray
    fresh: np.ndarray


def new_sorted(attributes: int, rows: int, step: int) -> Sorted:
    """Nothing yet."""
    of = np.zeros(1, WINDOW)
    of["group"] = NONE
    side, n = (np.zeros(attributes, np.int64) for _ in range(2))
    return Sorted(
        of, np.zeros((attributes, 2, rows)), side, n, np.zeros(step), np.zeros(step)
    )  # fmt: skip


@inline
def forget_sorted(values: Sorted, group: int) -> None:
    """A group's events have changed places, or are gone."""
    if values.of[0].group == group:
        values.of[0].group = NONE


@inline
def _put(kept: Kept, place: int, m: int, is_float: bool, out: np.ndarray, n: int) -> int:
    """The value at ``place``, if it has one, becomes number ``n``; gives how many there are."""
    if not kept.valid[place, m]:
        return n
    out[n] = kept.floats[place, m] if is_float else np.float64(kept.ints[place, m])
    return n + 1


@njit
def _sort(values: np.ndarray) -> None:
    values[:] = np.sort(values)


@kernel
def _replace(old: np.ndarray, new: np.ndarray, gone: np.ndarray, fresh: np.ndarray) -> int:
    """``old`` without ``gone`` and with ``fresh``, all sorted, into ``new``; gives how many."""
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
    """Sort what a window (group, number) with these first and last events has."""
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
    """The quantiles of the sorted values, where there are any, in place of those in ``out``."""
    for a in range(len(store.aggregates.function)):
        m = store.aggregates.attribute[a]
        if store.aggregates.function[a] == QUANTILE and values.n[m] > 0:
            mine = values.values[m, values.side[m], : values.n[m]]
            found = interpolated(mine, store.aggregates.parameter[a])
            for place in range(VALUE, HIGH_ONE + 1):
                put_float(out.kinds, out.words, a * NUMBERS + place, found)
