"""What is known of each session beside its sums: where it lies, and what its clocks leave open.

A session is a cell of ``engine.window.held.cells``; its records here have the cell's number. Those
of a group are chained in order of time from the group's own cell, whose tag has no part.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.integers import NONE
from engine.kernels.records import numbers_of, record
from engine.window.held.content import Content, Held
from engine.window.panes.held import Entries
from engine.window.told import Outbox, Standing

SESSION: Final = record(
    "first", "last", "low", "high", "far_low", "far_high", "solid_from", "solid_to", "seams",
    "vague", "clock", "epoch", "group", "before", "after", "told", "stale", "merged",
    "in_open", "in_kept",
)  # fmt: skip
"""``first``, ``last``: times of its ends; ``low``, ``high``: the least and largest that any of its
events may have [ns]; ``far_low``: the least of it and of all sessions of the group behind it,
``far_high``: the largest of it and of all before it. ``solid_from`` ... ``seams``: of
``engine.window.session.cover``. ``vague``: of some event more is open than silence tells.
``clock``, ``epoch``: the clock of all its events;
``SEVERAL`` clocks. ``group``: the group's cell; ``before``, ``after``: sessions next to it, or -1.
``told``: it is closed; ``stale``: what is missing has changed since. ``merged``: it is part of
another one. ``in_open``, ``in_kept``: whether the heaps have it. Of a group's cell ``before`` is
its newest session.
"""
SEVERAL: Final = -2
SEAM: Final = record("start", "end", "next")
ASKED: Final = record("session", "wanted")
TALLY: Final = record("free", "live")
LASTING: Final = (
    "frontier", "frontier_at", "widest", "reach", "sessions", "open", "kept", "stale", "too_late",
    "refused",
)  # fmt: skip
BATCH: Final = (
    "row", "step", "gap", "tick", "ticked", "entries", "queued", "scanned", "flush", "told_at",
)  # fmt: skip
STATE: Final = record(*LASTING, *BATCH)
"""``frontier``: progress, and since when; ``reach``: the largest uncertainty so far [ns], and
``widest``: at most half of the gap, for which silence is waited;
``sessions`` so far; sizes of the heaps; whether told sessions are stale; counters; and where the
pass stands in its batch, ``ticked`` open sessions told early, how many sessions are to be told
next, and how far stale ones were sought.
"""
SPARE: Final = 8
"""More cells, seams, kept events and results than one step of the pass can ask for."""


class Sessions(NamedTuple):
    """``of``: SESSION per cell. ``closes``, ``leaves``: per cell [ns], keys of the heaps of cells
    ``open`` (to be told) and ``kept`` (told, to be corrected). ``seam``: SEAM pool; ``tally``.
    ``queue``: ASKED, what to tell next and whether it may have a result.
    """

    of: np.ndarray
    closes: np.ndarray
    leaves: np.ndarray
    open: np.ndarray
    kept: np.ndarray
    seam: np.ndarray
    tally: np.ndarray
    queue: np.ndarray


class SessionBook(NamedTuple):
    """What the pass changes; ``state``: one STATE."""

    state: np.ndarray
    held: Held
    standing: Standing
    outbox: Outbox
    scratch: Content
    entries: Entries
    sessions: Sessions


def new_sessions(cells: int, seams: int) -> Sessions:
    """None yet, with room for so many."""
    seam = np.zeros(seams, SEAM)
    seam["next"] = np.arange(1, seams + 1)
    seam["next"][-1] = NONE
    closes, leaves, opened, kept = (np.zeros(cells, np.int64) for _ in range(4))
    return Sessions(
        np.zeros(cells, SESSION), closes, leaves, opened, kept, seam, np.zeros(1, TALLY),
        np.zeros(SPARE, ASKED),
    )  # fmt: skip


def more_sessions(sessions: Sessions, cells: int) -> Sessions:
    """A copy with room for ``cells``."""
    old, made = len(sessions.of), new_sessions(cells, len(sessions.seam))
    numbers_of(made.of)[:old] = numbers_of(sessions.of)
    for name in ("closes", "leaves", "open", "kept"):
        getattr(made, name)[:old] = getattr(sessions, name)
    return made._replace(seam=sessions.seam, tally=sessions.tally)


def more_seams(sessions: Sessions) -> Sessions:
    """A copy with room for twice as many seams, which keep their numbers."""
    old = len(sessions.seam)
    seam = new_sessions(1, 2 * old).seam
    seam[:old] = sessions.seam
    seam["next"][-1] = sessions.tally["free"][0]
    tally = sessions.tally.copy()
    tally["free"] = old
    return sessions._replace(seam=seam, tally=tally)
