"""A buffer over all sources, ordered by event time, that a slack empties from below."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED
from slackwater.engine.kernels import tables as heap
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, one, record
from slackwater.engine.kernels.tables import bin_start, count_in, log_bin, tail_bin

# A sketch of delays that forgets: which delay a share of them does not exceed.
#
# Counts in bins of 1 ns up to 8 ns, then 8 bins per octave up to 9 years, so that a quantile is
# known to an eighth. All counts are halved every ``REMEMBERED`` delays, so that half of them are of
# the last that many.


_BITS: Final = 3
DELAY_BINS: Final = 8 + 8 * 56
REMEMBERED: Final = 4096
_DELAY_MAX_NS: Final = (1 << 58) - 1


@inline
def bin_of(delay_ns: int) -> int:
    """The bin of a delay of at least 0, which is cut at 9 years."""
    return min(log_bin(min(delay_ns, _DELAY_MAX_NS), _BITS), DELAY_BINS - 1)


@inline
def bin_end(index: int) -> int:
    """The longest delay of a bin [ns]."""
    return bin_start(index + 1, _BITS) - 1


@inline
def learn_delay(bins: np.ndarray, total: int, delay_ns: int) -> int:
    """Count a delay; returns how many are counted now."""
    return count_in(bins, total, bin_of(delay_ns), REMEMBERED)


@kernel
def delay_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """The delay [ns] that at most ``tail_ppm`` millionths of those counted exceed; 0 of none."""
    return bin_end(max(tail_bin(bins, total, tail_ppm), 0))


# A buffer over all sources, ordered by event time, that a slack empties from below.
#
# What the K-slack operators share. They wait for no sequence numbers: an event is let go once the
# event clock (the largest event time seen) has passed its own time by the slack, and nothing is
# ever known to be missing. An event whose time lies below the last one released is late.
#
# The buffer is a queue for the events that come in order and a binary heap for the others, so that
# an ordered stream costs O(1) per event and disorder O(log of the disordered ones). Of equal times
# the first to arrive goes first. Both hold numbers of rows; the rows are in an arena.


STATE: Final = record(
    "late_status", "clock", "last", "head", "tail", "heaped", "out", "now", "most", "steps",
    "limit",
)  # fmt: skip
"""``late_status``: of late events: LATE (passed on) or LATE_DROPPED. ``clock``: the event clock:
largest event time seen [ns]. ``last``: largest event time released. ``head``, ``tail``: ends of the
queue; ``heaped``: rows in the heap. ``out``, ``steps``: rows and steps written in this call.
``now``: the last arrival. ``most``: rows held at once so far. ``limit``: the largest one up to
which all was let go, of those that no released row shows.
"""


class SlackBuffer(NamedTuple):
    """One STATE, and arrays of one call: keys and arrivals of all rows, which are held, what goes.

    ``step_out``, ``step_limit``, ``step_at``: after so many rows went, at that instant, everything
    up to the limit had gone.
    """

    state: np.ndarray
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
def push(b: SlackBuffer, row: int) -> None:
    """Hold ``row``."""
    s = b.state[0]
    # The most that are held after a row is the most that are held before one.
    s.most = max(s.most, s.tail - s.head + s.heaped)
    if s.head == s.tail or heap.before(b.key, b.queue[s.tail - 1], row):
        b.queue[s.tail] = row
        s.tail += 1
        return
    heap.push(b.heap, s.heaped, b.key, row)
    s.heaped += 1


@inline
def release_until(b: SlackBuffer, limit: int, now: int) -> None:
    """Let go of everything with event time up to ``limit``, smallest first, at instant ``now``."""
    s = b.state[0]
    while True:
        queued, heaped = s.head < s.tail, s.heaped > 0
        if heaped and (not queued or heap.before(b.key, b.heap[0], b.queue[s.head])):
            row = b.heap[0]
            if b.key[row] > limit:
                break
            heap.pop(b.heap, s.heaped, b.key)
            s.heaped -= 1
        elif queued:
            row = b.queue[s.head]
            if b.key[row] > limit:
                break
            s.head += 1
        else:
            break
        place = s.out
        s.out = place + 1
        b.out_row[place] = row
        b.out_release[place] = now
        if b.key[row] < s.last:
            b.out_status[place] = s.late_status
        else:
            s.last = b.key[row]
            b.out_status[place] = IN_ORDER
    if limit > s.last and limit > s.limit and limit < INT_MAX:
        s.limit = limit
        step = s.steps
        s.steps = step + 1
        b.step_out[step] = s.out
        b.step_limit[step] = limit
        b.step_at[step] = now


@kernel
def flush_all(b: SlackBuffer) -> None:
    """End of the input: everything goes, in order."""
    release_until(b, INT_MAX, b.state[0].now)


class Index:
    """Which rows of an arena one buffer holds, and the operator's own state.

    ``own``: what that starts with, an array of one record. ``late``: ``pass`` | ``drop``.
    """

    def __init__(self, own: np.ndarray, late: str) -> None:
        self.state = one(
            STATE, clock=INT_MIN, last=INT_MIN, now=INT_MIN, limit=INT_MIN,
            late_status=LATE if late == "pass" else LATE_DROPPED,
        )  # fmt: skip
        self.own = own
        self._queue, self._heap = np.empty((2, 0), np.int32)

    @property
    def held(self) -> int:
        """Rows held now."""
        s = self.state[0]
        return int(s["tail"] - s["head"] + s["heaped"])

    @property
    def most(self) -> int:
        """The most rows held at once so far."""
        return max(int(self.state["most"][0]), self.held)

    @property
    def passes_late(self) -> bool:
        """Whether late events are passed on, not dropped."""
        return bool(self.state["late_status"][0] == LATE)

    def mark(self, flags: np.ndarray) -> None:
        """Set the flags of the rows that are held."""
        s = self.state[0]
        flags[self._queue[s["head"] : s["tail"]]] = True
        flags[self._heap[: s["heaped"]]] = True

    def move(self, numbers: np.ndarray, capacity: int) -> None:
        """Row ``i`` is now ``numbers[i]``, in an arena of ``capacity`` rows."""
        s = self.state[0]
        queued = numbers[self._queue[s["head"] : s["tail"]]]
        heaped = numbers[self._heap[: s["heaped"]]]
        if len(self._queue) != capacity:
            self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(queued)] = queued
        self._heap[: len(heaped)] = heaped
        s["head"], s["tail"] = 0, len(queued)

    def buffer(self, key: np.ndarray, arrival: np.ndarray, rows: int, steps: int) -> SlackBuffer:
        """What a kernel works on; at most those held and ``rows`` new ones can go, in ``steps``."""
        self.state["out"], self.state["steps"], self.state["most"] = 0, 0, self.most
        room = self.held + rows
        return SlackBuffer(
            self.state, key, arrival, self._queue, self._heap, np.empty(room, np.int32),
            np.empty(room, np.int64), np.empty(room, np.int8), *np.empty((3, steps), np.int64),
        )  # fmt: skip

    def saved(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Plain data, of an arena in which row ``i`` has become ``numbers[i]``."""
        s, of = self.state[0], self.state.copy()
        queue = numbers[self._queue[s["head"] : s["tail"]]]
        of["head"], of["tail"] = 0, len(queue)
        heaped = numbers[self._heap[: s["heaped"]]]
        return {"state": of, "own": self.own.copy(), "queue": queue, "heap": heaped}

    def restore(self, state: dict[str, np.ndarray], capacity: int) -> None:
        """Take over what ``saved`` gave, in an arena of ``capacity`` rows."""
        self.state, self.own = state["state"].copy(), state["own"].copy()
        self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(state["queue"])] = state["queue"]
        self._heap[: len(state["heap"])] = state["heap"]
