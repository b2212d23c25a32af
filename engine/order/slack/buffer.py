"""The common part of the K-slack operators: a buffer in order of event time, and its host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.columns import (
    VALID_PREFIX,
    Columns,
    fill_missing,
    is_valued,
    join,
    mask_name,
)
from slackwater.engine.core.released import IN_ORDER, LATE, LATE_DROPPED, Gaps, Progress
from slackwater.engine.kernels import tables as heap
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, one, record
from slackwater.engine.kernels.tables import bin_start, count_in, log_bin, tail_bin
from slackwater.engine.order.base import (
    Correction,
    KeepsSources,
    Ordered,
    OrderSite,
    SlackSettings,
)

# A sketch of recent delays, for quantiles.
#
# Counts in bins of 1 ns up to 8 ns, then 8 bins per octave up to 9 years, so that a quantile is
# known to an eighth. All counts are halved every ``REMEMBERED`` delays, so that half of the total
# comes from the last ``REMEMBERED`` ones.


_BITS: Final = 3
DELAY_BINS: Final = 8 + 8 * 56
REMEMBERED: Final = 4096
_DELAY_MAX_NS: Final = (1 << 58) - 1


@inline
def learn_delay(bins: np.ndarray, total: int, delay_ns: int) -> int:
    """Count a delay (at least 0, at most 9 years); returns the new total."""
    place = min(log_bin(min(delay_ns, _DELAY_MAX_NS), _BITS), DELAY_BINS - 1)
    return count_in(bins, total, place, REMEMBERED)


@kernel
def delay_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """Return the delay [ns] that at most ``tail_ppm`` millionths of the delays exceed: the longest
    one of its bin; 0 without delays.
    """
    return bin_start(max(tail_bin(bins, total, tail_ppm), 0) + 1, _BITS) - 1


# A buffer over all sources, ordered by event time; the slack decides when its front is released.
#
# K-slack operators do not wait for sequence numbers: an event is released once the event clock (the
# largest event time seen) is beyond its time by the slack. They cannot know of missing events. An
# event whose time is below the last released one is late.
#
# The buffer is a queue for the events that come in order and a binary heap for the others, so that
# an ordered stream costs O(1) per event and disorder O(log of the disordered ones). Events of equal
# times leave in order of arrival. Both hold numbers of rows; the rows are in an arena.


STATE: Final = record(
    "late_status", "clock", "last", "head", "tail", "heaped", "out", "now", "most", "steps",
    "limit",
)  # fmt: skip
"""``late_status``: of late events: LATE (passed on) or LATE_DROPPED. ``clock``: the event clock:
largest event time seen [ns]. ``last``: largest event time released. ``head``, ``tail``: ends of the
queue; ``heaped``: rows in the heap. ``out``, ``steps``: rows and steps written in this call.
``now``: the last arrival. ``most``: the most rows buffered at once so far. ``limit``: the largest
time up to which all events are released, if it is beyond every released row.
"""


class SlackBuffer(NamedTuple):
    """One STATE, and the arrays of one call: keys and arrivals of all rows, queue, heap, output.

    A step says: once ``step_out`` rows are released, at instant ``step_at``, every event up to
    ``step_limit`` is released.
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
    """Put ``row`` into the buffer."""
    s = b.state[0]
    # The size before each push is counted; ``Index.most`` adds the size at the end.
    s.most = max(s.most, s.tail - s.head + s.heaped)
    if s.head == s.tail or heap.before(b.key, b.queue[s.tail - 1], row):
        b.queue[s.tail] = row
        s.tail += 1
        return
    heap.push(b.heap, s.heaped, b.key, row)
    s.heaped += 1


@inline
def release_until(b: SlackBuffer, limit: int, now: int) -> None:
    """Release every event with time up to ``limit``, smallest first, at instant ``now``."""
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
    """End of the input: release every event, in order."""
    release_until(b, INT_MAX, b.state[0].now)


class Index:
    """The rows of an arena that one buffer holds, and the state of its slack policy.

    ``policy``: the policy's initial state, an array of one record. ``late``: ``pass`` | ``drop``.
    """

    def __init__(self, policy: np.ndarray, late: str) -> None:
        self.state = one(
            STATE, clock=INT_MIN, last=INT_MIN, now=INT_MIN, limit=INT_MIN,
            late_status=LATE if late == "pass" else LATE_DROPPED,
        )  # fmt: skip
        self.policy = policy
        self._queue, self._heap = np.empty((2, 0), np.int32)

    @property
    def size(self) -> int:
        """Rows in the buffer."""
        s = self.state[0]
        return int(s["tail"] - s["head"] + s["heaped"])

    @property
    def most(self) -> int:
        """The most rows in the buffer at once so far."""
        return max(int(self.state["most"][0]), self.size)

    @property
    def passes_late(self) -> bool:
        """Whether late events are passed on, not dropped."""
        return bool(self.state["late_status"][0] == LATE)

    def mark(self, flags: np.ndarray) -> None:
        """Set the flags of the rows in the buffer."""
        s = self.state[0]
        flags[self._queue[s["head"] : s["tail"]]] = True
        flags[self._heap[: s["heaped"]]] = True

    def move(self, numbers: np.ndarray, capacity: int) -> None:
        """Renumber: row ``i`` becomes ``numbers[i]``, in an arena of ``capacity`` rows."""
        s = self.state[0]
        queued = numbers[self._queue[s["head"] : s["tail"]]]
        heaped = numbers[self._heap[: s["heaped"]]]
        if len(self._queue) != capacity:
            self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(queued)] = queued
        self._heap[: len(heaped)] = heaped
        s["head"], s["tail"] = 0, len(queued)

    def buffer(self, key: np.ndarray, arrival: np.ndarray, rows: int, steps: int) -> SlackBuffer:
        """Return the arrays of one call; room to release all rows and ``rows`` new ones, in
        ``steps``.
        """
        self.state["out"], self.state["steps"], self.state["most"] = 0, 0, self.most
        room = self.size + rows
        return SlackBuffer(
            self.state, key, arrival, self._queue, self._heap, np.empty(room, np.int32),
            np.empty(room, np.int64), np.empty(room, np.int8), *np.empty((3, steps), np.int64),
        )  # fmt: skip

    def saved(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """State as plain data, for an arena in which row ``i`` becomes ``numbers[i]``."""
        s, of = self.state[0], self.state.copy()
        queue = numbers[self._queue[s["head"] : s["tail"]]]
        of["head"], of["tail"] = 0, len(queue)
        heaped = numbers[self._heap[: s["heaped"]]]
        return {"state": of, "policy": self.policy.copy(), "queue": queue, "heap": heaped}

    def restore(self, state: dict[str, np.ndarray], capacity: int) -> None:
        """Restore the state of ``saved``, in an arena of ``capacity`` rows."""
        self.state, self.policy = state["state"].copy(), state["policy"].copy()
        self._queue, self._heap = np.empty((2, capacity), np.int32)
        self._queue[: len(state["queue"])] = state["queue"]
        self._heap[: len(state["heap"])] = state["heap"]


# The store of buffered events: rows keep their places and are moved together once in a while.
#
# New rows are appended; when there is no room, the buffered rows are moved to the front, or into
# larger arrays. The capacity is half as many rows again as are buffered, so that the moves per new
# row are bounded by a constant.
#
# Rows keep their order: of two rows the smaller number arrived first.


_LEAST: Final = 1 << 12


class Arena:
    """Columns of equal capacity, filled up to ``used``."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self.used = 0
        self.capacity = 0

    @property
    def row_bytes(self) -> int:
        """Bytes that one row takes."""
        return sum(column.itemsize for column in self.columns.values())

    def fits(self, columns: Columns, rows: int) -> bool:
        """Return whether ``rows`` more rows with these columns can be appended without a move."""
        return self.used + rows <= self.capacity and self._alike(columns)

    def _alike(self, columns: Columns) -> bool:
        mine = self.columns
        if any(n not in mine or mine[n].dtype != column.dtype for n, column in columns.items()):
            return False
        return all(
            name in columns or not is_valued(name) or mask_name(name) in mine for name in mine
        )

    def append(self, columns: Columns, rows: int) -> None:
        """Write rows that fit."""
        end = self.used + rows
        for name, mine in self.columns.items():
            if name in columns:
                mine[self.used : end] = columns[name]
            else:
                mine[self.used : end] = fill_missing(name, columns, rows, mine.dtype)
        self.used = end

    def move(self, kept: np.ndarray, columns: Columns, rows: int) -> None:
        """Keep only the rows ``kept`` (ascending), now numbered from 0, and append new ones.

        Args:
            kept: rows that are still buffered.
            columns: the new rows; their columns may differ from those of the old rows.
            rows: number of new rows.
        """
        old_rows = len(kept)
        need = old_rows + rows
        self._resize(need)
        if self._alike(columns) and all(len(c) == self.capacity for c in self.columns.values()):
            for mine in self.columns.values():
                mine[:old_rows] = mine[kept]
            self.used = old_rows
            self.append(columns, rows)
            return
        old = {name: column[kept] for name, column in self.columns.items()}
        joined = join([old, columns], [old_rows, rows]) if old_rows else columns
        self.columns = {}
        for name, column in joined.items():
            self.columns[name] = np.empty(self.capacity, column.dtype)
            self.columns[name][:need] = column
        self.used = need

    def _resize(self, need: int) -> None:
        if not need + need // 2 <= self.capacity <= 8 * max(need, _LEAST):
            self.capacity = max(need + need // 2, _LEAST)

    def rows(self, numbers: np.ndarray) -> Columns:
        """Copies of the rows with these numbers."""
        # "clip" only skips a check: every number is valid.
        return {name: column.take(numbers, mode="clip") for name, column in self.columns.items()}


# The host of the K-slack operators: events in an arena, and kernels that decide their release.
#
# An operator is a kernel that decides the slack, and its settings; the smallest one is
# ``order.slack.kslack``. The state is the buffered events and one record; so is a snapshot.


Run = Callable[[SlackBuffer, int, int, np.ndarray], None]
"""A kernel: ``run(buffer, start, end, policy)`` over rows [start, end) in arrival order."""

_ALWAYS: Final = (r.SOURCE, r.CLOCK, r.TS, r.ARRIVAL, "ref", "unc", "epoch")
_INDEX_BYTES: Final = 4
"""Of a row's number in the queue or in the heap."""


class SlackOrder(KeepsSources):
    """An ordering operator around kernels that decide the slack.

    Each of ``runs`` has a separate buffer over the same rows. Query i reads the output of run i;
    further queries, and the ordered stream, read the output of the last one. ``policies``: the
    initial state of each run.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        policies: Sequence[np.ndarray],
        settings: SlackSettings,
        site: OrderSite,
    ) -> None:
        self._runs = runs
        self._indexes = [Index(policy, settings.late) for policy in policies]
        self._columns_read = site.columns_read
        self._correction = Correction(site.clocks, site.guards, settings.duplicates)
        self._arena = Arena()
        self._row_bytes = 0

    @property
    def buffered_max(self) -> int:
        """The most events in one buffer at once so far; all buffers are over the same rows."""
        return max(index.most for index in self._indexes)

    @property
    def buffered_max_bytes(self) -> int:
        """The most bytes of buffered events so far: columns, and places in queues or heaps."""
        return self.buffered_max * (self._row_bytes + _INDEX_BYTES * len(self._indexes))

    def announce(self, sync: SyncPoint) -> None:
        """Do nothing: sequence numbers are not used."""

    def buffered(self) -> int:
        """Events in the fullest buffer."""
        return max(index.size for index in self._indexes)

    def _take(self, columns: Columns, rows: int) -> tuple[int, int, Columns]:
        """Append a batch: (first and end of its rows in the arena, quarantined events)."""
        if rows:
            for index in self._indexes:
                index.state["now"] = columns[r.ARRIVAL][-1]
        columns, quarantined = self._correction.take(columns)
        columns = {name: column for name, column in columns.items() if self._is_read(name)}
        new = len(columns[r.TS])
        arena = self._arena
        if not arena.fits(columns, new):
            self._move(columns, new)
        else:
            arena.append(columns, new)
        self._row_bytes = max(self._row_bytes, arena.row_bytes)
        return arena.used - new, arena.used, quarantined

    def _move(self, columns: Columns, new: int) -> None:
        kept, numbers = self._kept()
        self._arena.move(kept, columns, new)
        for index in self._indexes:
            index.move(numbers, self._arena.capacity)

    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """(buffered rows, ascending; the number of each row once only those remain)."""
        flags = np.zeros(self._arena.used, np.bool_)
        for index in self._indexes:
            index.mark(flags)
        return np.flatnonzero(flags), np.cumsum(flags, dtype=np.int32) - np.int32(1)

    def _is_read(self, column: str) -> bool:
        return (
            column in _ALWAYS
            or self._columns_read is None
            or column in self._columns_read
            or column.startswith(VALID_PREFIX)
        )

    def _buffer(self, index: Index, new: int, steps: int) -> SlackBuffer:
        columns = self._arena.columns
        return index.buffer(columns["ref"], columns[r.ARRIVAL], new, steps)

    def _released(self, index: Index, buffer: SlackBuffer) -> Ordered:
        """Return the events that a kernel released."""
        out = int(index.state["out"][0])
        columns = self._arena.rows(buffer.out_row[:out].astype(np.intp))
        columns = self._correction.complete(columns)
        columns["release"] = buffer.out_release[:out].copy()
        columns["status"] = buffer.out_status[:out].copy()
        steps = slice(int(index.state["steps"][0]))
        slack = Progress(
            buffer.step_out[steps].copy(), buffer.step_limit[steps].copy(),
            buffer.step_at[steps].copy(),
        )  # fmt: skip
        return Ordered(out, columns, Progress(), Gaps(), slack=slack)

    def _count(self, released: Columns, index: Index) -> None:
        self._correction.count(released, "released")
        late = released["status"] != IN_ORDER
        if late.any():
            of_late: Columns = {
                name: released[name][late] for name in (r.SOURCE, r.STREAM) if name in released
            }
            self._correction.count(of_late, "late_passed" if index.passes_late else "late_dropped")

    def counters(self) -> list[dict[str, Any]]:
        """Counts of events per (source, stream), by outcome."""
        lanes = self._correction.counters(
            "arrived", "released", "late_passed", "late_dropped", "duplicate", "quarantined_future"
        )
        for lane in lanes:
            lane["in_order"] = lane.pop("released") - lane["late_passed"] - lane["late_dropped"]
        return lanes

    def snapshot(self) -> dict[str, Any]:
        """State as plain data: the buffered rows, and the numbers of each index."""
        kept, numbers = self._kept()
        return {
            "correction": self._correction.snapshot(),
            "rows": self._arena.rows(kept),
            "indexes": [index.saved(numbers) for index in self._indexes],
            "row_bytes": self._row_bytes,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self._correction.restore(state["correction"])
        rows = state["rows"]
        self._arena.move(np.empty(0, np.intp), rows, len(rows.get(r.TS, ())))
        for index, saved in zip(self._indexes, state["indexes"], strict=True):
            index.restore(saved, self._arena.capacity)
        self._row_bytes = state["row_bytes"]

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        start, end, quarantined = self._take(columns, rows)
        taps = []
        for run, index in zip(self._runs, self._indexes, strict=True):
            buffer = self._buffer(index, end - start, end - start)
            run(buffer, start, end, index.policy)
            taps.append(self._released(index, buffer))
        return self._joined(taps, quarantined)

    def flush(self) -> Ordered:
        """End of the input: every buffered event is released at the last arrival, in order."""
        if not self.buffered():
            return Ordered(0, {})
        taps = []
        for index in self._indexes:
            buffer = self._buffer(index, 0, 0)
            flush_all(buffer)
            taps.append(self._released(index, buffer))
        return self._joined(taps, {})

    def _joined(self, taps: list[Ordered], quarantined: Columns) -> Ordered:
        last = taps.pop()
        self._count(last.columns, self._indexes[-1])
        last.quarantined, last.taps = quarantined, tuple(taps)
        return last
