"""What the K-slack operators share: a buffer that a slack empties from below, and its host."""

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
def learn_delay(bins: np.ndarray, total: int, delay_ns: int) -> int:
    """Count a delay of at least 0, cut at 9 years; returns how many are counted now."""
    place = min(log_bin(min(delay_ns, _DELAY_MAX_NS), _BITS), DELAY_BINS - 1)
    return count_in(bins, total, place, REMEMBERED)


@kernel
def delay_quantile(bins: np.ndarray, total: int, tail_ppm: int) -> int:
    """The delay [ns] that at most ``tail_ppm`` millionths of those counted exceed, as the longest
    one of its bin; 0 of none.
    """
    return bin_start(max(tail_bin(bins, total, tail_ppm), 0) + 1, _BITS) - 1


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


# Rows that stay where they are while they are held, and move together once in a while.
#
# What the slack orders keep their events in. New rows are written behind the old ones; when there
# is no room, the rows still held are moved to the front, or into larger arrays. Room is made for
# half as many rows again as are held, so that a row is moved a constant number of times at most per
# two rows that come, however many are held.
#
# Rows keep their order, so that the number of a row says which of two came first.


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
        """Whether ``rows`` more rows with these columns can be written without moving any."""
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
            kept: rows that are still held.
            columns: the new rows, which need not have the columns of the old.
            rows: how many they are.
        """
        held = len(kept)
        need = held + rows
        self._resize(need)
        if self._alike(columns) and all(len(c) == self.capacity for c in self.columns.values()):
            for mine in self.columns.values():
                mine[:held] = mine[kept]
            self.used = held
            self.append(columns, rows)
            return
        old = {name: column[kept] for name, column in self.columns.items()}
        joined = join([old, columns], [held, rows]) if held else columns
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
        # "clip" only spares a check: every number is one of a row.
        return {name: column.take(numbers, mode="clip") for name, column in self.columns.items()}


# The host of the K-slack operators: events in an arena, and kernels that say when they go.
#
# An operator is a kernel that decides the slack, and its settings. ``order.slack.kslack`` has the
# smallest. State is the events held and one row of numbers; a snapshot holds just that.


Run = Callable[[SlackBuffer, int, int, np.ndarray], None]
"""A kernel: ``run(buffer, start, end, own)`` over rows [start, end) in arrival order."""

_ALWAYS: Final = (r.SOURCE, r.CLOCK, r.TS, r.ARRIVAL, "ref", "unc", "epoch")
_INDEX_BYTES: Final = 4
"""A held row's number in the queue or in the heap."""


class SlackOrder(KeepsSources):
    """An ordering operator around kernels that decide the slack; see the module.

    Each of ``runs`` has a buffer of its own over the same rows: the first queries read what the
    first ones let go of, one each; further queries, and the ordered stream, read the last.
    ``owns``: what each one's own state starts with.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        owns: Sequence[np.ndarray],
        settings: SlackSettings,
        site: OrderSite,
    ) -> None:
        self._runs = runs
        self._indexes = [Index(own, settings.late) for own in owns]
        self._wanted = site.columns_read
        self._correction = Correction(site.clocks, site.guards, settings.duplicates)
        self._arena = Arena()
        self._row_bytes = 0

    @property
    def buffered_max(self) -> int:
        """Most events held at once so far in one buffer; they all hold the same rows."""
        return max(index.most for index in self._indexes)

    @property
    def buffered_max_bytes(self) -> int:
        """What the most events took: their columns, and their place in queues or heaps."""
        return self.buffered_max * (self._row_bytes + _INDEX_BYTES * len(self._indexes))

    def announce(self, sync: SyncPoint) -> None:
        """First numbers are of no interest here."""

    def buffered(self) -> int:
        """Events held now, in the buffer that has the most."""
        return max(index.held for index in self._indexes)

    def _take(self, columns: Columns, rows: int) -> tuple[int, int, Columns]:
        """(first and end of the new rows in the arena, quarantined events)."""
        if rows:
            for index in self._indexes:
                index.state["now"] = columns[r.ARRIVAL][-1]
        columns, quarantined = self._correction.take(columns)
        columns = {name: column for name, column in columns.items() if self._wants(name)}
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
        """(rows that are held, ascending; what number each row gets when only those stay)."""
        flags = np.zeros(self._arena.used, np.bool_)
        for index in self._indexes:
            index.mark(flags)
        return np.flatnonzero(flags), np.cumsum(flags, dtype=np.int32) - np.int32(1)

    def _wants(self, column: str) -> bool:
        return (
            column in _ALWAYS
            or self._wanted is None
            or column in self._wanted
            or column.startswith(VALID_PREFIX)
        )

    def _buffer(self, index: Index, new: int, steps: int) -> SlackBuffer:
        columns = self._arena.columns
        return index.buffer(columns["ref"], columns[r.ARRIVAL], new, steps)

    def _released(self, index: Index, buffer: SlackBuffer) -> Ordered:
        """What a kernel has let go of."""
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
        """Per (source, stream): what became of its events."""
        lanes = self._correction.counters(
            "arrived", "released", "late_passed", "late_dropped", "duplicate", "quarantined_future"
        )
        for lane in lanes:
            lane["in_order"] = lane.pop("released") - lane["late_passed"] - lane["late_dropped"]
        return lanes

    def snapshot(self) -> dict[str, Any]:
        """Plain data: the rows held, and which of them each index has."""
        kept, numbers = self._kept()
        return {
            "correction": self._correction.snapshot(),
            "held": self._arena.rows(kept),
            "indexes": [index.saved(numbers) for index in self._indexes],
            "row_bytes": self._row_bytes,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._correction.restore(state["correction"])
        held = state["held"]
        self._arena.move(np.empty(0, np.intp), held, len(held.get(r.TS, ())))
        for index, saved in zip(self._indexes, state["indexes"], strict=True):
            index.restore(saved, self._arena.capacity)
        self._row_bytes = state["row_bytes"]

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        start, end, quarantined = self._take(columns, rows)
        taps = []
        for run, index in zip(self._runs, self._indexes, strict=True):
            buffer = self._buffer(index, end - start, end - start)
            run(buffer, start, end, index.own)
            taps.append(self._released(index, buffer))
        return self._joined(taps, quarantined)

    def flush(self) -> Ordered:
        """End of the input: everything held goes at the last arrival, in order."""
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
