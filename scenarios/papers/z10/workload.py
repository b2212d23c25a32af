"""Events in the shape of Z10 6.1, instants or intervals; an exact share is out of order.

Sensors send events of random types; one arrives when it ends, or later. What is late at a smaller
share is as late at a larger one, so that points of a figure differ by disorder alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import DEFAULT_SITE, FIXED_TYPES, Frame
from slackwater.log import records as r
from slackwater.scenarios.papers.disorder import arrivals

WITHIN_NS: Final = 600 * 10**9
"""The window of Z10 5.2's query."""
SPREAD: Final = 0.25
"""Standard deviation of lengths, as a share of their mean."""
LONGEST: Final = 2
"""Of an interval, as so many means."""
NEGATED: Final = "D"
TYPES: Final = ("A", "B", "C", NEGATED, "E", "F", "G", "H")
SENSORS: Final = 1000
_START_NS: Final = 1_700_000_000 * 10**9


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """Properties of the events.

    ``count``: of all. ``density``: per window. ``types``: so many of ``TYPES``. ``mean_ns``: length
    of an interval; 0: instants. ``delay_ns``: by how much events are out of order, at most, but
    for those that nothing overtakes until later.
    """

    count: int
    density: int = 40
    types: int = 4
    mean_ns: int = 0
    delay_ns: int = WITHIN_NS // 4


@dataclass(frozen=True, slots=True)
class IntervalArrivals:
    """Events in order of their ends, equally long columns.

    ``ts``, ``te``: start and end [ns]; no two ends at one instant. ``kind``: place in ``TYPES``.
    ``arrival``: [ns], no two at one instant. ``late``: something that ended later came before.
    """

    ts: np.ndarray
    te: np.ndarray
    kind: np.ndarray
    arrival: np.ndarray
    late: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def k_ns(self) -> int:
        """Z10's K: both the start and the end of an event come within it, here both at once."""
        return int((self.arrival - self.ts).max())

    @property
    def starts(self) -> IntervalArrivals:
        """What somebody sees who knows instants alone: each at its start."""
        return IntervalArrivals(self.ts, self.ts, self.kind, self.arrival, self.late)

    @property
    def as_arrived(self) -> IntervalArrivals:
        """What somebody sees who takes the order of arrival for that of time."""
        moved = self.arrival - self.te
        return IntervalArrivals(
            self.ts + moved, self.te + moved, self.kind, self.arrival, self.late
        )

    def frames(self, rows: int) -> Iterator[Frame]:
        """Frames of ``rows`` records in order of arrival; ``seq`` is an event's place in here."""
        order = np.argsort(self.arrival)
        count = len(order)
        columns = {
            r.KIND: np.zeros(count, np.int8), r.SEQ: order, r.TS: self.ts[order],
            r.TE: self.te[order], r.ARRIVAL: self.arrival[order],
        }  # fmt: skip
        kinds = pa.array(self.kind[order].astype(np.int32))
        sensors = pa.array((order % SENSORS).astype(np.int32))
        names = pa.array([f"s{number}" for number in range(SENSORS)])
        batch = pa.record_batch(
            {
                r.TYPE: pa.DictionaryArray.from_arrays(kinds, pa.array(TYPES)),
                r.SOURCE: pa.DictionaryArray.from_arrays(sensors, names),
            }
            | {name: pa.array(column, FIXED_TYPES[name]) for name, column in columns.items()}
        )
        for start in range(0, batch.num_rows, rows):
            yield Frame(DEFAULT_SITE, batch.slice(start, rows))


def arriving(shape: WorkloadShape, share: float, seed: int) -> IntervalArrivals:
    """Events of ``shape``, a ``share`` of them out of order."""
    chance, count = np.random.default_rng((seed, 20)), shape.count
    apart = WITHIN_NS / shape.density
    ends = _START_NS + (np.cumsum(chance.exponential(1.0, count)) * apart).astype(np.int64)
    length = np.clip(chance.normal(1.0, SPREAD, count), 0.01, LONGEST) * shape.mean_ns
    te = ends + np.arange(count)
    kind = chance.integers(0, shape.types, count)
    lot = chance.permutation(count)
    delay = chance.integers(1, shape.delay_ns + 1, count)
    late = lot < round(share * count)
    late[-1] = False  # nothing could overtake it
    arrival = arrivals(te, 0, late, delay)
    order = np.argsort(arrival, kind="stable")
    arrival[order] = np.maximum.accumulate(arrival[order] - np.arange(count)) + np.arange(count)
    return IntervalArrivals(te - length.astype(np.int64), te, kind, arrival, late)
