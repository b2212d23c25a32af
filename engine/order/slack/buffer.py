"""A buffer over all sources, ordered by event time, that a slack empties from below.

What the K-slack operators share. They wait for no sequence numbers: an event is let go once the
event clock (the largest event time seen) has passed its own time by the slack, and nothing is ever
known to be missing. An event whose time lies below the last one released is late.

The buffer is a queue for the events that come in order and a binary heap for the others, so that
an ordered stream costs O(1) per event and disorder O(log of the disordered ones). Of equal times
the first to arrive goes first. Both hold numbers of rows; the rows are in an arena.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from engine.kernels.integers import INT_MAX, INT_MIN
from engine.kernels.jit import inline, kernel
from engine.stream.released import IN_ORDER, LATE, LATE_DROPPED

# Places in the scalars of a buffer; an operator's own come behind them.
CLOCK: Final = 0
"""The event clock: largest event time seen [ns]."""
LAST: Final = 1
"""Largest event time released."""
LATE_STATUS: Final = 2
"""The status of late events: LATE (passed on) or LATE_DROPPED."""
HEAD: Final = 3
TAIL: Final = 4
HEAPED: Final = 5
OUT: Final = 6
NOW: Final = 7
"""The last arrival."""
MOST: Final = 8
"""The most rows held at once so far."""
STEPS: Final = 9
TOLD: Final = 10
"""The largest limit up to which all was let go, of those that no released row shows."""
OWN: Final = 11
"""The first place that an operator may use."""


class Buffer(NamedTuple):
    """Arrays of one call: keys and arrivals of all rows, which of them are held, what goes.

    ``step_out``, ``step_limit``, ``step_at``: after so many rows went, at that instant, everything
    up to the limit had gone.
    """

    key: np.ndarray
    arrival: np.ndarray
    queue: np.ndarray
    heap: np.ndarray
    out_row: np.ndarray
    out_release: np.ndarray
    out_status: np.ndarray
    step_out: np.ndarray
    step_limit: np.ndarray
    step_at: np.ndarray


@inline
def before(b: Buffer, first: int, second: int) -> bool:
    """Whether row ``first`` goes before row ``second``."""
    return b.key[first] < b.key[second] or (b.key[first] == b.key[second] and first < second)


@inline
def push(b: Buffer, s: np.ndarray, row: int) -> None:
    """Hold ``row``."""
    # The most that are held after a row is the most that are held before one.
    held = s[TAIL] - s[HEAD] + s[HEAPED]
    s[MOST] = max(s[MOST], held)
    if s[HEAD] == s[TAIL] or before(b, b.queue[s[TAIL] - 1], row):
        b.queue[s[TAIL]] = row
        s[TAIL] += 1
        return
    place = s[HEAPED]
    s[HEAPED] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if not before(b, row, b.heap[above]):
            break
        b.heap[place] = b.heap[above]
        place = above
    b.heap[place] = row


@inline
def _pop_heap(b: Buffer, s: np.ndarray) -> None:
    """Take the smallest row off the heap."""
    size = s[HEAPED] - 1
    s[HEAPED] = size
    row = b.heap[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and before(b, b.heap[below + 1], b.heap[below]):
            below += 1
        if not before(b, b.heap[below], row):
            break
        b.heap[place] = b.heap[below]
        place = below
    b.heap[place] = row


@inline
def _release_rows(b: Buffer, s: np.ndarray, limit: int, now: int) -> None:
    while True:
        queued, heaped = s[HEAD] < s[TAIL], s[HEAPED] > 0
        if heaped and (not queued or before(b, b.heap[0], b.queue[s[HEAD]])):
            row = b.heap[0]
            if b.key[row] > limit:
                return
            _pop_heap(b, s)
        elif queued:
            row = b.queue[s[HEAD]]
            if b.key[row] > limit:
                return
            s[HEAD] += 1
        else:
            return
        place = s[OUT]
        s[OUT] = place + 1
        b.out_row[place] = row
        b.out_release[place] = now
        if b.key[row] < s[LAST]:
            b.out_status[place] = s[LATE_STATUS]
        else:
            s[LAST] = b.key[row]
            b.out_status[place] = IN_ORDER


@inline
def release_until(b: Buffer, s: np.ndarray, limit: int, now: int) -> None:
    """Let go of everything with event time up to ``limit``, smallest first, at instant ``now``."""
    _release_rows(b, s, limit, now)
    if limit > s[LAST] and limit > s[TOLD] and limit < INT_MAX:
        s[TOLD] = limit
        step = s[STEPS]
        s[STEPS] = step + 1
        b.step_out[step] = s[OUT]
        b.step_limit[step] = limit
        b.step_at[step] = now


@kernel
def flush_all(b: Buffer, start: int, end: int, s: np.ndarray) -> None:
    """End of the input: everything goes, in order. No row is new: ``start`` equals ``end``."""
    if start == end:
        release_until(b, s, INT_MAX, s[NOW])


class Index:
    """Which rows of an arena one buffer holds, and the operator's scalars.

    ``own``: what the operator's scalars start with. ``late``: ``pass`` | ``drop``.
    """

    def __init__(self, own: tuple[int, ...], late: str) -> None:
        self.scalars = np.zeros(OWN + len(own), np.int64)
        self.scalars[[CLOCK, LAST, NOW, TOLD]] = INT_MIN
        self.scalars[LATE_STATUS] = LATE if late == "pass" else LATE_DROPPED
        self.scalars[OWN:] = own
        self._queue, self._heap = np.empty((2, 0), np.int32)

    @property
    def held(self) -> int:
        """Rows held now."""
        s = self.scalars
        return int(s[TAIL] - s[HEAD] + s[HEAPED])

    @property
    def most(self) -> int:
        """The most rows held at once so far."""
        return max(int(self.scalars[MOST]), self.held)

    @property
    def passes_late(self) -> bool:
        """Whether late events are passed on, not dropped."""
        return bool(self.scalars[LATE_STATUS] == LATE)

    def mark(self, flags: np.ndarray) -> None:
        """Set the flags of the rows that are held."""
        s = self.scalars
        flags[self._queue[s[HEAD] : s[TAIL]]] = True
        flags[self._heap[: s[HEAPED]]] = True

    def move(self, numbers: np.ndarray, capacity: int) -> None:
        """Row ``i`` is now ``numbers[i]``, in an arena of ``capacity`` rows."""
        s = self.scalars
        queued = numbers[self._queue[s[HEAD] : s[TAIL]]]
        heaped = numbers[self._heap[: s[HEAPED]]]
        if len(self._queue) != capacity:
            self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(queued)] = queued
        self._heap[: len(heaped)] = heaped
        s[HEAD], s[TAIL] = 0, len(queued)

    def buffer(self, key: np.ndarray, arrival: np.ndarray, rows: int, steps: int) -> Buffer:
        """What a kernel works on; at most those held and ``rows`` new ones can go, in ``steps``."""
        self.scalars[[OUT, STEPS]], self.scalars[MOST] = 0, self.most
        room = self.held + rows
        return Buffer(
            key, arrival, self._queue, self._heap, np.empty(room, np.int32),
            np.empty(room, np.int64), np.empty(room, np.int8), *np.empty((3, steps), np.int64),
        )  # fmt: skip

    def saved(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Plain data, of an arena in which row ``i`` has become ``numbers[i]``."""
        s = self.scalars.copy()
        queue = numbers[self._queue[s[HEAD] : s[TAIL]]]
        s[HEAD], s[TAIL] = 0, len(queue)
        return {"scalars": s, "queue": queue, "heap": numbers[self._heap[: s[HEAPED]]]}

    def restore(self, state: dict[str, np.ndarray], capacity: int) -> None:
        """Take over what ``saved`` gave, in an arena of ``capacity`` rows."""
        self.scalars[:] = state["scalars"]
        self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(state["queue"])] = state["queue"]
        self._heap[: len(state["heap"])] = state["heap"]
