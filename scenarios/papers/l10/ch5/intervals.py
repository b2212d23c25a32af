"""Interval streams in the shape of L10 5.5.2, and the queries that are asked of them.

Twenty types, as many intervals of each; lengths normally distributed around a mean; the density is
the number of intervals whose centre lies in one window. An interval arrives when it ends; its begin
punctuation (IBP) when it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.log import DEFAULT_SITE, STRING, Frame
from slackwater.log import records as r

TYPES: Final = tuple("ABCDEFGHIJKLMNOPQRST")
WITHIN_NS: Final = 30 * 10**9
"""L10 5.5.3: the window of all queries."""
SPREAD: Final = 0.25
"""Standard deviation of lengths, as a share of their mean; the paper prints none."""
_START_NS: Final = 10**12


@dataclass(frozen=True, slots=True)
class IntervalStream:
    """Intervals in order of their ends; equally long columns.

    ``ts``, ``te``: start and end [ns], int64, no two ends at one instant. ``kind``: place of the
    type in ``TYPES``. ``value``: evenly drawn from 0 to 1.
    """

    ts: np.ndarray
    te: np.ndarray
    kind: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.ts)

    def frames(self, rows: int, *, ibp: bool) -> Iterator[Frame]:
        """Frames of ``rows`` records in order of arrival; ``ibp``: also of their starts."""
        count = len(self)
        kinds = np.zeros(count, np.int8)
        columns: dict[str, np.ndarray] = {
            r.KIND: kinds, r.SEQ: np.arange(count), r.TYPE: self.kind.astype(np.int32),
            r.TS: self.ts, r.TE: self.te, r.ARRIVAL: self.te, r.ID: np.arange(count),
            "v": self.value,
        }  # fmt: skip
        if ibp:
            begun = columns | {
                r.KIND: np.full(count, int(r.Kind.IBP), np.int8),
                r.TE: self.ts, r.ARRIVAL: self.ts, "v": np.full(count, np.nan),
            }  # fmt: skip
            columns = {
                name: np.concatenate([begun[name], column]) for name, column in columns.items()
            }
            order = np.argsort(columns[r.ARRIVAL], kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
            columns[r.SEQ] = np.arange(2 * count)
        names = pa.array(TYPES)
        types = pa.DictionaryArray.from_arrays(pa.array(columns.pop(r.TYPE)), names)
        value = columns.pop("v")
        sources = np.zeros(len(value), np.int32)
        batch = pa.record_batch(
            {
                r.SOURCE: pa.DictionaryArray.from_arrays(pa.array(sources), pa.array(["s0"])),
                r.TYPE: types.cast(STRING),
                "attrs.v": pa.array(value, mask=np.isnan(value)),
            }
            | {name: pa.array(column) for name, column in columns.items()}
        )
        for start in range(0, batch.num_rows, rows):
            yield Frame(DEFAULT_SITE, batch.slice(start, rows))


def intervals(
    count: int, density: int, mean_ns: int, seed: int, spread: float = SPREAD
) -> IntervalStream:
    """``count`` intervals, ``density`` per window, ``mean_ns`` long on average, give or take
    ``spread`` of it.

    Streams of one seed and size differ in their lengths and distances alone.
    """
    chance = np.random.default_rng((seed, 5))
    apart = WITHIN_NS / density
    centres = _START_NS + (np.cumsum(chance.exponential(1.0, count)) * apart).astype(np.int64)
    lengths = np.maximum(chance.normal(1.0, spread, count), 0.01) * mean_ns
    half = (lengths / 2).astype(np.int64)
    kind = chance.integers(0, len(TYPES), count)
    value = chance.random(count)
    ts, te = centres - half, centres + half
    order = np.argsort(te, kind="stable")
    ts, te = ts[order], te[order] + np.arange(count)
    return IntervalStream(ts, te, kind[order], value[order])


def query(length: int, ends: int, rising: int) -> str:
    """ISEQ over ``length`` types whose end points follow one another: the first are starts, the
    last ``ends`` are ends (L10 5.5.4 prints the one of length 6 with 3). The attribute ``v`` rises
    over the last ``rising`` steps.

    >>> query(3, 1, 2)
    'EVENT ISEQ[a.ts < b.ts < c.te](A a, B b, C c) WHERE b.v < c.v WITHIN 30 s'
    """
    names = [kind.lower() for kind in TYPES[:length]]
    points = [f"{name}.{'te' if at >= length - ends else 'ts'}" for at, name in enumerate(names)]
    steps = ", ".join(f"{kind} {kind.lower()}" for kind in TYPES[:length])
    conditions = " AND ".join(
        f"{x}.v < {y}.v" for x, y in pairwise(names[max(length - rising, 0) :])
    )
    where = f" WHERE {conditions}" if conditions else ""
    return f"EVENT ISEQ[{' < '.join(points)}]({steps}){where} WITHIN 30 s"
