"""``none``: events pass in arrival order, corrected to reference time but not put in order.

The baseline of every comparison: what a query sees without any disorder handling before it.

When not to use: whenever the query's operator cannot itself repair disorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.order.base import Guards, Ordered
from engine.order.correction import Correction
from engine.reference import SourceClocks, Sync
from engine.released import Gaps, Progress


class NoOrder:
    """The ordering operator ``none``."""

    def __init__(
        self, clocks: SourceClocks, guards: Guards, wanted: set[str] | None = None
    ) -> None:
        del wanted  # everything that came in goes on at once: nothing is copied for later
        self._correction = Correction(clocks, guards)
        self.buffered_max = self.buffered_max_bytes = 0

    def announce(self, sync: Sync) -> None:
        """First numbers are of no interest here."""

    def newest_ts(self, source: int) -> int:
        """Largest event time seen of the source with this code."""
        return self._correction.newest_ts(source)

    def buffered(self) -> int:
        """Nothing is ever held."""
        return 0

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order; see ``engine.order.base.Order``."""
        del rows
        columns, quarantined = self._correction.take(columns)
        columns = self._correction.complete(columns)
        n = len(columns[r.TS])
        self._correction.count(columns, "in_order")
        columns.update(release=columns[r.ARRIVAL], status=np.zeros(n, np.int8))
        return Ordered(n, columns, Progress(), Gaps(), quarantined)

    def flush(self) -> Ordered:
        """Nothing is held."""
        return Ordered(0, {})

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): events that arrived, went on, and were quarantined."""
        return self._correction.counters("arrived", "in_order", "quarantined_future")

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return self._correction.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._correction.restore(state)
