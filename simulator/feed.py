"""The events of one device, handed to its agent as they become due.

Batches of the workload are pulled lazily and stamped by the device's clock as a whole (a
reading is a pure function of true time, so that is the same as stamping each event when it
happens); the agent then takes slices.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simulator.clocks import Clock
from simulator.truth import StampedBatch
from simulator.workload import Batch, Columns


class Slice(NamedTuple):
    """Rows ``low`` to ``high`` of a stamped batch, and the batch's columns for cutting."""

    stamped: StampedBatch
    columns: Columns
    low: int
    high: int


@dataclass(slots=True)
class _Open:
    stamped: StampedBatch
    columns: Columns
    due_ns: list[int]
    at: int = 0


class Feed:
    """What has happened on a device and was not taken yet.

    Args:
        batches: of the workload, in order of their first due times.
        clock: the device's wall clock, which stamps.
    """

    def __init__(self, batches: Iterator[Batch], clock: Clock) -> None:
        self.generated: list[StampedBatch] = []
        """Everything pulled so far, for the truth table."""
        self._batches = batches
        self._clock = clock
        self._open: list[_Open] = []
        self._ahead = self._pull()

    def next_due(self) -> int | None:
        """True instant at which the device has its next event; None: there is none."""
        due_ns = None if self._ahead is None else self._ahead.due_ns[0]
        for each in self._open:
            next_ns = each.due_ns[each.at]
            if due_ns is None or next_ns < due_ns:
                due_ns = next_ns
        return due_ns

    def take(self, now_ns: int) -> list[Slice]:
        """All that is due at true time ``now_ns``, batch by batch; each event once."""
        while self._ahead is not None and self._ahead.due_ns[0] <= now_ns:
            self._open.append(self._ahead)
            self._ahead = self._pull()
        taken: list[Slice] = []
        ended = False
        for each in self._open:
            high = bisect_right(each.due_ns, now_ns, each.at)
            if high > each.at:
                taken.append(Slice(each.stamped, each.columns, each.at, high))
                each.at = high
                ended |= high == len(each.due_ns)
        if ended:
            self._open = [each for each in self._open if each.at < len(each.due_ns)]
        return taken

    def _pull(self) -> _Open | None:
        batch = next(self._batches, None)
        if batch is None:
            return None
        stamped = StampedBatch.stamp(batch, self._clock)
        columns = Columns(batch)
        batch.attrs = {}  # from here on only the agent needs them
        self.generated.append(stamped)
        return _Open(stamped, columns, batch.due_ns.tolist())
