"""The state of each session, and whether it stays one however wrong its clocks are."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import NONE, Record, put_over, record
from slackwater.engine.kernels.tables import POOL, chained, free_place, take_place
from slackwater.engine.operators.window.assign import IN_BATCH
from slackwater.engine.operators.window.group_windows import Heap, new_heap
from slackwater.engine.operators.window.state.content import EVERY_PASS

# What is known of each session beside its sums: where it lies, and what its clocks leave open.
#
# A session is a cell of ``window.state.cells``; its records here have the cell's number.
# Those of a group are chained in order of time from the group's own cell, whose tag has no part.


SESSION: Final = record(
    "first", "last", "low", "high", "far_low", "far_high", "seams", "vague", "clock", "epoch",
    "group", "before", "after", "emitted", "stale", "merged",
)  # fmt: skip
"""``first``, ``last``: times of its ends; ``low``, ``high``: the least and largest that any of its
events may have [ns]; ``far_low``: the least of it and of all sessions of the group behind it,
``far_high``: the largest of it and of all before it. ``seams``: the first of the stretches that
keep it together, or -1. ``vague``: of some event more is open than silence tells.
``clock``, ``epoch``: the clock of all its events; ``SEVERAL`` clocks. ``group``: the group's cell;
``before``, ``after``: sessions next to it, or -1. ``emitted``: closed, with its result out;
``stale``: ``missing`` has changed since. ``merged``: now part of another one. Of a group's cell
``before`` is its newest session.
"""
SEVERAL: Final = -2
SEAM: Final = record("start", "end")
ASKED: Final = record("session", "wanted")
LASTING: Final = (
    "frontier", "frontier_at", "widest", "reach", "sessions", "stale", "too_late", "refused",
    *EVERY_PASS,
)  # fmt: skip
STATE: Final = record(*LASTING, *IN_BATCH, "ticked", "queued", "flush")
"""``frontier``: progress, and since when; ``reach``: the largest uncertainty so far [ns], and
``widest``: at most half of the gap, for which silence is waited;
``sessions`` so far; whether emitted sessions are stale; counters; and the position of the pass in
its batch: ``ticked`` open sessions with early results, how many sessions are queued, and how far
stale ones were sought.
"""
SPARE: Final = 8
"""More cells, seams, kept events and results than one step of the pass can ask for."""


class Sessions(NamedTuple):
    """``of``: SESSION per cell. ``open``: those not yet emitted, by when they close; ``kept``:
    emitted ones, by when they leave. ``seam``: SEAM, a pool with ``next`` and ``tally``. ``queue``:
    ASKED, the next to emit and whether it may have a result.
    """

    of: np.ndarray
    open: Heap
    kept: Heap
    seam: np.ndarray
    next: np.ndarray
    tally: np.ndarray
    queue: np.ndarray


def new_sessions(cells: int, seams: int) -> Sessions:
    """None yet, with room for so many."""
    return Sessions(
        np.zeros(cells, SESSION), new_heap(cells), new_heap(cells), np.zeros(seams, SEAM),
        chained(seams), np.zeros(1, POOL), np.zeros(SPARE, ASKED),
    )  # fmt: skip


def more_sessions(sessions: Sessions, cells: int, seams: int) -> Sessions:
    """A copy with room for ``cells`` and ``seams``, which keep their numbers."""
    old = len(sessions.seam)
    made = put_over(new_sessions(cells, seams), sessions)
    if seams > old:
        made.next[-1], made.tally["free"] = sessions.tally["free"][0], old
    return made


# Whether the events of a session stay one session however wrong their clocks are.
#
# With a gap g, an event known to lie in [low, high] keeps a session from being parted at x, between
# events up to x and events from x + g on, if it surely lies between the two: high - g < x < low. If
# each event's clock errs by itself, a session can be parted exactly where no event does that. The
# places that some event keeps are a few stretches (of integers); most often one. They do not depend
# on the order in which the events came, and those of two sessions that merge are put together.


@kernel
def cover(sessions: Sessions, one: Record, start: int, end: int) -> None:
    """Session ``one`` is kept from being parted in [start, end], too."""
    if start > end:
        return
    seam, before, place = sessions.seam, NONE, one.seams
    while place != NONE:
        following = sessions.next[place]
        if start <= seam[place].end + 1 and end >= seam[place].start - 1:
            start, end = min(start, seam[place].start), max(end, seam[place].end)
            if before == NONE:
                one.seams = following
            else:
                sessions.next[before] = following
            free_place(sessions.next, sessions.tally, place)
        else:
            before = place
        place = following
    place = take_place(sessions.next, sessions.tally)
    seam[place].start, seam[place].end, sessions.next[place] = start, end, one.seams
    one.seams = place


@kernel
def uncover(sessions: Sessions, one: Record) -> None:
    """Forget the stretches of a session."""
    while one.seams != NONE:
        place = one.seams
        one.seams = sessions.next[place]
        free_place(sessions.next, sessions.tally, place)


@kernel
def cover_all(sessions: Sessions, one: Record, other: Record) -> None:
    """What keeps session ``other`` together keeps ``one``, too."""
    while other.seams != NONE:
        place = other.seams
        start, end = sessions.seam[place].start, sessions.seam[place].end
        other.seams = sessions.next[place]
        free_place(sessions.next, sessions.tally, place)
        cover(sessions, one, start, end)


@kernel
def is_whole(sessions: Sessions, one: Record, gap: int) -> bool:
    """Whether nothing can part session ``one``, which has several events."""
    start, end = one.low, one.high - gap
    place = one.seams
    while place != NONE and start <= end:
        if sessions.seam[place].start <= start and sessions.seam[place].end >= end:
            return True
        place = sessions.next[place]
    return bool(start > end)
