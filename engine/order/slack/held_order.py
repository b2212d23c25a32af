"""The host of the K-slack operators: events in an arena, and kernels that say when they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

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
from slackwater.engine.core.released import IN_ORDER, Gaps, Progress
from slackwater.engine.order.base import (
    Correction,
    KeepsSources,
    Ordered,
    OrderSite,
    SlackSettings,
)
from slackwater.engine.order.slack.buffer import Index, SlackBuffer, flush_all

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
        self._wanted = site.wanted
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
