"""Events of ten types that arrive out of order as L09 Table I says, and promises about them.

A time unit is a second of the arrival clock. Each type has one source. The events themselves depend
only on the seed: with a larger share out of order, more of the same events are delayed, each by
the same time as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import FIXED_TYPES, Frame
from slackwater.log import records as r
from slackwater.scenarios.papers.disorder import arrivals

TYPES: Final = "ABCDEFGHIJ"
NEGATIVE: Final = "C"
UNIT_NS: Final = 10**9
EVENTS_PER_UNIT: Final = 8
"""Events of all types. The paper prints no rate. This is the least even number at which each longer
query has more results and more compensation tuples than the shorter one, as the paper reports."""
MAX_DELAY: Final = 10
"""Longest delay of an event that is out of order [time units] (L09 IX)."""
SITE: Final = "main"
_START_NS: Final = 1_700_000_000 * 10**9
_NO_SEQ: Final = -1

Late = Mapping[str, float]
"""Share of each type's events that are out of order (L09's lambda); 0 where it is absent."""


@dataclass(frozen=True, slots=True)
class PointEvents:
    """Events in order of their times, as equally long columns.

    ``ts``: [ns], strictly ascending. ``type``: index into ``TYPES``. ``place``: rank of an event
    among those of its type that may be delayed; the lowest ranks are delayed first.
    ``delay_ns``: its delay if it is delayed.
    """

    ts: np.ndarray
    type: np.ndarray
    place: np.ndarray
    delay_ns: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)


def make_events(count: int, seed: int, per_unit: int = EVENTS_PER_UNIT) -> PointEvents:
    """``count`` events: every source sends one in each slot of equal length, at any time in it.

    ``per_unit``: of all types, per time unit.
    """
    chance = np.random.default_rng((seed, 9))
    slot, kinds = np.divmod(np.arange(count), len(TYPES))
    length_ns = len(TYPES) * UNIT_NS // per_unit
    times = slot * length_ns + chance.integers(0, length_ns, count)
    order = np.argsort(times)
    times, kinds = times[order] + np.arange(count), kinds[order]  # no two at one instant
    lot = chance.permutation(count)
    lot[-1] = count  # the last event comes last in any case: nothing can overtake it
    place = np.empty(count, np.int64)
    for kind in range(len(TYPES)):
        rows = np.flatnonzero(kinds == kind)
        place[rows[np.argsort(lot[rows])]] = np.arange(len(rows))
    delay_ns = chance.integers(1, MAX_DELAY * UNIT_NS + 1, count)
    return PointEvents(_START_NS + times, kinds, place, delay_ns)


@dataclass(frozen=True, slots=True)
class PointArrivals:
    """The records in order of arrival: events, and promises that follow some of them.

    Columns as in ``engine.core.frame``; ``type``: place in ``TYPES``, its source's name, too.
    """

    columns: dict[str, np.ndarray] = field(repr=False)
    events: int

    def frames(self, rows: int) -> Iterator[Frame]:
        """Frames of ``rows`` records."""
        names = pa.array(list(TYPES))
        columns = dict(self.columns)
        kinds = pa.DictionaryArray.from_arrays(pa.array(columns.pop(r.TYPE), pa.int32()), names)
        batch = pa.record_batch(
            {r.TYPE: kinds, r.SOURCE: kinds}
            | {name: pa.array(column, FIXED_TYPES[name]) for name, column in columns.items()}
        )
        for start in range(0, batch.num_rows, rows):
            yield Frame(SITE, batch.slice(start, rows))


def arriving(
    events: PointEvents, late: Late, promised: float, seed: int, types: str = TYPES
) -> PointArrivals:
    """The arrivals of ``events``, with promises.

    Args:
        events: of ``make_events``.
        late: share of each type's events that are out of order.
        promised: promises per event (L09's POG percentage).
        seed: of the promises' types.
        types: types to make promises about; promises about others are left out.
    """
    shares = np.array([late.get(kind, 0.0) for kind in TYPES])
    counts = np.bincount(events.type, minlength=len(TYPES))
    # The last event is never delayed, even if all of its type should be late.
    delayed = events.place < np.round(shares * counts)[events.type]
    delayed[-1] = False
    arrival = arrivals(events.ts, 0, delayed, events.delay_ns)
    order = np.argsort(arrival, kind="stable")
    count = len(events)
    columns = {
        r.KIND: np.zeros(count, np.int8),
        r.SEQ: _numbers(events.type)[order],
        r.TYPE: events.type[order].astype(np.int32),
        r.TS: events.ts[order],
        r.ARRIVAL: arrival[order],
    }
    if promised:
        promises = _promises(columns, promised, np.random.default_rng((seed, 10)))
        kept = np.isin(promises[r.TYPE], [TYPES.index(kind) for kind in types])
        promises = {name: column[kept] for name, column in promises.items()}
        both = {name: np.concatenate([columns[name], promises[name]]) for name in columns}
        places = np.argsort(both[r.ARRIVAL], kind="stable")  # a promise follows its instant's event
        columns = {name: column[places] for name, column in both.items()}
    return PointArrivals(columns, count)


def _numbers(kinds: np.ndarray) -> np.ndarray:
    """Number of each event among those of its source."""
    numbers = np.empty(len(kinds), np.int64)
    for kind in range(len(TYPES)):
        rows = np.flatnonzero(kinds == kind)
        numbers[rows] = np.arange(len(rows))
    return numbers


def _promises(
    columns: dict[str, np.ndarray], promised: float, chance: np.random.Generator
) -> dict[str, np.ndarray]:
    """Evenly spread over the events, in rounds of all types in random order.

    A promise says that no later record of its type has a smaller time: up to now, or up to the
    oldest event of the type that is still on its way, as its source knows what has arrived.
    """
    arrival, ts = columns[r.ARRIVAL], columns[r.TS]
    count = int(promised * len(arrival))
    after = (np.arange(1, count + 1) / promised).astype(np.int64) - 1
    rounds = count // len(TYPES) + 1
    every = np.tile(np.arange(len(TYPES), dtype=np.int32), (rounds, 1))
    kinds = chance.permuted(every, axis=1).ravel()[:count]
    least = arrival[after].copy()
    for kind in range(len(TYPES)):
        rows = np.flatnonzero(columns[r.TYPE] == kind)
        oldest = np.minimum.accumulate(ts[rows][::-1])[::-1]
        mine = np.flatnonzero(kinds == kind)
        following = np.searchsorted(rows, after[mine], side="right")
        under_way = following < len(rows)
        least[mine[under_way]] = np.minimum(least[mine[under_way]], oldest[following[under_way]])
    return {
        r.KIND: np.full(count, int(r.Kind.POG), np.int8),
        r.SEQ: np.full(count, _NO_SEQ, np.int64),
        r.TYPE: kinds,
        r.TS: least,
        r.ARRIVAL: arrival[after],
    }
