"""A buffer over all sources, ordered by event time, that a slack empties from below.

What the K-slack operators share. They know no sequence numbers: an event is let go once the event
clock (the largest event time seen) has passed its own time by the slack, and nothing is ever known
to be missing. An event whose time lies below the last one released is late.

The buffer is a queue for the events that come in order and a binary heap for the others, so that
an ordered stream costs O(1) per event and disorder O(log of the disordered ones). Of equal times
the first to arrive goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from edge_agent import records as r
from engine.columns import VALID_PREFIX, Columns, join
from engine.jit import inline, kernel
from engine.order.base import Guards, Ordered
from engine.order.correction import Correction
from engine.order.state import INT_MAX, INT_MIN
from engine.reference import SourceClocks, Sync
from engine.released import IN_ORDER, LATE, LATE_DROPPED, Gaps, Progress

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
OWN: Final = 8
"""The first place that an operator may use."""

_NEEDED: Final = (r.SOURCE, r.STREAM, r.TS, r.ARRIVAL, "ref", "unc", "epoch")


class Buffer(NamedTuple):
    """Arrays of one call, each as long as the rows: keys and arrivals, who is held, what goes."""

    key: np.ndarray
    arrival: np.ndarray
    queue: np.ndarray
    heap: np.ndarray
    out_row: np.ndarray
    out_release: np.ndarray
    out_status: np.ndarray


Run = Callable[[Buffer, int, int, np.ndarray], None]
"""A kernel: ``run(buffer, start, end, scalars)`` over rows [start, end) in arrival order."""


@inline
def before(b: Buffer, first: int, second: int) -> bool:
    """Whether row ``first`` goes before row ``second``."""
    return b.key[first] < b.key[second] or (b.key[first] == b.key[second] and first < second)


@inline
def push(b: Buffer, s: np.ndarray, row: int) -> None:
    """Hold ``row``."""
    if s[HEAD] == s[TAIL] or b.key[row] >= b.key[b.queue[s[TAIL] - 1]]:
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
def release_until(b: Buffer, s: np.ndarray, limit: int, now: int) -> None:
    """Let go of everything with event time up to ``limit``, smallest first, at instant ``now``."""
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
def hold_again(b: Buffer, s: np.ndarray, end: int) -> None:
    """Hold the rows before ``end``, which an earlier call left, in the order of their arrival."""
    for row in range(end):
        push(b, s, row)


@kernel
def flush_all(b: Buffer, start: int, end: int, s: np.ndarray) -> None:
    """End of the input: everything goes, in order. No row is new: ``start`` equals ``end``."""
    hold_again(b, s, max(start, end))
    release_until(b, s, INT_MAX, s[NOW])


class SlackOrder:
    """An ordering operator around a kernel that decides the slack; see the module.

    ``own``: what the operator's scalars start with. ``late``: ``pass`` | ``drop``.
    """

    def __init__(
        self,
        run: Run,
        own: tuple[int, ...],
        late: str,
        clocks: SourceClocks,
        guards: Guards,
        wanted: set[str] | None,
    ) -> None:
        self._run = run
        self._wanted = wanted
        self._correction = Correction(clocks, guards)
        self._scalars = np.array([INT_MIN, INT_MIN, LATE, 0, 0, 0, 0, INT_MIN, *own], np.int64)
        if late == "drop":
            self._scalars[LATE_STATUS] = LATE_DROPPED
        self._held: Columns = {}
        self.buffered_max = 0

    def announce(self, sync: Sync) -> None:
        """First numbers are of no interest here."""

    def newest_ts(self, source: int) -> int:
        """Largest event time seen of the source with this code."""
        return self._correction.newest_ts(source)

    def buffered(self) -> int:
        """Events held now."""
        return len(self._held.get(r.TS, ()))

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        if rows:
            self._scalars[NOW] = columns[r.ARRIVAL][-1]
        columns, quarantined = self._correction.take(columns)
        columns = {name: column for name, column in columns.items() if self._wants(name)}
        held, new = self.buffered(), len(columns[r.TS])
        if held:
            columns = join([self._held, columns], [held, new])
        return self._call(self._run, columns, held, held + new, quarantined)

    def flush(self) -> Ordered:
        """End of the input: everything held goes at the last arrival, in order."""
        held = self.buffered()
        return self._call(flush_all, self._held, held, held, {}) if held else Ordered(0, {})

    def _wants(self, column: str) -> bool:
        always = column in (r.SOURCE, r.TS, r.ARRIVAL, "ref", "unc", "epoch")
        return (
            always
            or self._wanted is None
            or column in self._wanted
            or column.startswith(VALID_PREFIX)
        )

    def _call(
        self, run: Run, columns: Columns, held: int, rows: int, quarantined: Columns
    ) -> Ordered:
        s = self._scalars
        # Copied, so that Numba compiles for writable arrays only.
        key, arrival = columns["ref"].copy(), columns[r.ARRIVAL].copy()
        queue, heap, out_row = np.empty((3, rows), np.int32)
        buffer = Buffer(
            key, arrival, queue, heap, out_row, np.empty(rows, np.int64), np.empty(rows, np.int8)
        )
        s[HEAD] = s[TAIL] = s[HEAPED] = s[OUT] = 0
        run(buffer, held, rows, s)
        out = buffer.out_row[: s[OUT]].astype(np.intp)
        released = {name: column[out] for name, column in columns.items()}
        released["release"] = buffer.out_release[: len(out)].copy()
        released["status"] = buffer.out_status[: len(out)].copy()
        self._count(released)
        stays = np.ones(rows, np.bool_)
        stays[out] = False
        self._held = {name: column[stays] for name, column in columns.items()}
        self.buffered_max = max(self.buffered_max, rows - len(out))
        return Ordered(len(out), released, Progress(), Gaps(), quarantined)

    def _count(self, released: Columns) -> None:
        late = released["status"] != IN_ORDER
        self._correction.count(released, "released")
        if late.any():
            name = "late_passed" if self._scalars[LATE_STATUS] == LATE else "late_dropped"
            of_late = {
                column: released[column][late]
                for column in released
                if column in (r.SOURCE, r.STREAM)
            }
            self._correction.count(of_late, name)

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): what became of its events."""
        lanes = self._correction.counters(
            "arrived", "released", "late_passed", "late_dropped", "quarantined_future"
        )
        for lane in lanes:
            lane["in_order"] = lane.pop("released") - lane["late_passed"] - lane["late_dropped"]
        return lanes

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "correction": self._correction.snapshot(),
            "scalars": self._scalars.copy(),
            "held": {name: column.copy() for name, column in self._held.items()},
            "buffered_max": self.buffered_max,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._correction.restore(state["correction"])
        self._scalars[:] = state["scalars"]
        self._held = {name: column.copy() for name, column in state["held"].items()}
        self.buffered_max = state["buffered_max"]
