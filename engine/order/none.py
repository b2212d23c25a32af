"""``none``: events pass in arrival order, corrected to reference time but not put in order.

The baseline of every comparison: what a query sees without any disorder handling before it.

When not to use: whenever the query's operator cannot itself repair disorder.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.order.base import Guards, Ordered
from engine.order.state import INT_MAX, INT_MIN, QUARANTINED_FUTURE
from engine.reference import SourceClocks, Sync
from engine.released import Gaps, Progress


class NoOrder:
    """The ordering operator ``none``."""

    def __init__(
        self, clocks: SourceClocks, guards: Guards, wanted: set[str] | None = None
    ) -> None:
        del wanted  # everything that came in goes on at once: nothing is copied for later
        self._clocks = clocks
        self._guards = guards
        self._newest: dict[int, int] = {}
        self._counts: Counter[tuple[int, int, str]] = Counter()
        self.buffered_max = 0

    def announce(self, sync: Sync) -> None:
        """First numbers are of no interest here."""

    def newest_ts(self, source: int) -> int:
        """Largest event time seen of the source with this code."""
        return self._newest.get(source, INT_MIN)

    def buffered(self) -> int:
        """Nothing is ever held."""
        return 0

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        del rows
        if r.KIND in columns:
            events = columns[r.KIND] == int(r.Kind.EVENT)
            columns = {name: column[events] for name, column in columns.items() if name != r.KIND}
        columns = dict(columns)
        source, ts = columns[r.SOURCE], columns[r.TS]
        self._clocks.grow(int(source.max(initial=-1)) + 1)
        ref, unc, epoch = self._clocks.correct(source, ts, self._guards.default_uncertainty_ns)
        columns.update(ref=ref, unc=unc, epoch=epoch, release=columns[r.ARRIVAL])
        columns.setdefault(r.TE, ts)
        columns.setdefault(r.INCARNATION, np.zeros(len(ts), np.int64))
        columns["status"] = np.zeros(len(ts), np.int8)
        self._count(columns, "arrived")
        quarantined: Columns = {}
        if self._guards.guard_ns is not None:
            future = ref > _later(columns[r.ARRIVAL], _later(unc, self._guards.guard_ns))
            if future.any():
                quarantined = {name: column[future] for name, column in columns.items()}
                reason = np.full(int(future.sum()), QUARANTINED_FUTURE)
                self._count(quarantined, "quarantined_future")
                quarantined["reason"] = reason
                columns = {name: column[~future] for name, column in columns.items()}
        source, ts = columns[r.SOURCE], columns[r.TS]
        for code in np.unique(source):
            newest = int(ts[source == code].max())
            self._newest[int(code)] = max(self._newest.get(int(code), INT_MIN), newest)
        return Ordered(len(ts), columns, Progress(), Gaps(), quarantined)

    def _count(self, columns: Columns, name: str) -> None:
        stream = columns.get(r.STREAM)
        if stream is None:
            default = self._clocks.strings.code(r.DEFAULT_STREAM)
            stream = np.full(len(columns[r.TS]), default, np.int32)
        pairs, counts = np.unique(np.stack([columns[r.SOURCE], stream]), axis=1, return_counts=True)
        for (source, of_stream), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            self._counts[source, of_stream, name] += count

    def flush(self) -> Ordered:
        """Nothing is held."""
        return Ordered(0, {})

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): events that arrived, went on, and were quarantined."""
        text = self._clocks.strings.text
        lanes = dict.fromkeys((source, stream) for source, stream, _ in self._counts)
        counts = self._counts
        return [
            {
                "source": text(a),
                "stream": text(b),
                "arrived": counts[a, b, "arrived"],
                "in_order": counts[a, b, "arrived"] - counts[a, b, "quarantined_future"],
                "quarantined_future": counts[a, b, "quarantined_future"],
            }
            for a, b in lanes
        ]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"newest": dict(self._newest), "counts": dict(self._counts)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._newest = dict(state["newest"])
        self._counts = Counter(state["counts"])


def _later(now: np.ndarray, wait: np.ndarray | int) -> np.ndarray:
    """``now + wait``, or never where that is beyond int64."""
    return np.where(now > INT_MAX - wait, INT_MAX, now + wait)
