"""What is known of each group's events in order of time, and of the windows told of them.

A group is a cell of ``engine.window.held.cells`` whose tag has no part; its events are chained from
it in the pool of kept events. A window is a cell, too; their records have the cells' numbers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.records import numbers_of, record
from engine.window.counted.bounds import DoubtfulPlaces
from engine.window.counted.order_statistics import Sorted
from engine.window.drift import CERTAIN, WHOLE
from engine.window.held.content import Content, Held
from engine.window.panes.held import Entries
from engine.window.told import Outbox, Standing

GROUP: Final = record(
    "base", "count", "next", "begin", "limit", "floor", "reach", "oldest", "newest", "in_open",
    "in_kept", "number", "first", "last", "before", "after", "group", "stale", "opened", "running",
    "is_group",
)  # fmt: skip
"""Of a group: ``base`` events were forgotten, ``count`` are held; ``next`` is the number of the
window to be told next, ``begin`` and ``limit`` the places of its first and last event, or -1;
``floor``: time before which an event is too late, ``reach``: of the last one that was told [ns];
``oldest``, ``newest``: its told windows; ``in_open``, ``in_kept``: whether the heaps have it. Where
windows are told before they are full: the number of the next to be ``opened``, and the first that
is ``running``, or -1: it and those behind it are among the told ones. Of a window: its ``number``,
the places of its ``first`` and ``last`` event (-1 as long as it runs), windows of the ``group``
next to it, whether it is ``stale``. ``is_group``: 1, or of a window 0.
"""
LASTING: Final = (
    "frontier", "frontier_at", "widest", "vague", "windows", "open", "kept", "stale", "too_late",
    "refused",
)  # fmt: skip
BATCH: Final = (
    "row", "step", "gap", "tick", "ticked", "entries", "asked", "follow", "scanned", "told_at",
)  # fmt: skip
STATE: Final = record(*LASTING, *BATCH)
"""As of sessions; ``vague``: some event may not be there at all; ``asked``: the window to be told
next, or -1, and those behind it if ``follow`` is ``TOLD``, or ``EVERY`` one, running ones included.
``ticked``: cells looked at."""
PERHAPS: Final = WHOLE - CERTAIN
"""Part of a kept event that may not be there at all."""
NOBODY, TOLD, EVERY = range(3)
SPARE: Final = 8
"""More cells, events and results than one step of the pass can ask for."""


class Counted(NamedTuple):
    """``of``: GROUP per cell. ``closes``, ``leaves``: per cell [ns], keys of the heaps of groups
    ``open`` (with a window to tell) and ``kept`` (with told ones). ``prev``: of each kept event,
    the one before it. ``places``: room for a window's events; ``cells`` for their cell.
    ``nothing``: of no length.
    """

    of: np.ndarray
    closes: np.ndarray
    leaves: np.ndarray
    open: np.ndarray
    kept: np.ndarray
    prev: np.ndarray
    places: np.ndarray
    cells: np.ndarray
    nothing: np.ndarray


class CountedBook(NamedTuple):
    """What the pass changes; ``state``: one STATE. ``doubts``: room for those of one window;
    ``sorted``: the values of one window, where only quantiles ask for all of them.
    """

    state: np.ndarray
    held: Held
    standing: Standing
    outbox: Outbox
    scratch: Content
    entries: Entries
    counted: Counted
    doubts: DoubtfulPlaces
    sorted: Sorted


def new_counted(cells: int, kept: int, rows: int) -> Counted:
    """Nothing yet, with room for so many, and windows of ``rows``."""
    closes, leaves, opened, held = (np.zeros(cells, np.int64) for _ in range(4))
    return Counted(
        np.zeros(cells, GROUP), closes, leaves, opened, held, np.zeros(kept, np.int64),
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip


def more_counted(counted: Counted, cells: int, kept: int) -> Counted:
    """A copy with room for ``cells`` and ``kept`` events."""
    made = new_counted(cells, kept, len(counted.places))
    numbers_of(made.of)[: len(counted.of)] = numbers_of(counted.of)
    for name in ("closes", "leaves", "open", "kept", "prev"):
        before = getattr(counted, name)
        getattr(made, name)[: len(before)] = before
    return made
