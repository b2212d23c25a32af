"""``none``: events pass in arrival order, corrected to reference time but not put in order.

The baseline of every comparison: what a query sees without any disorder handling before it.

When not to use: whenever the query's operator cannot itself repair disorder.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.order.base import Guards, Ordered
from engine.order.correction import Correction
from engine.reference import SourceClocks, Sync
from engine.released import Gaps, Progress, Promises

_POG: Final = int(r.Kind.POG)
_PLACE: Final = "place"


class NoOrder:
    """The ordering operator ``none``."""

    def __init__(
        self, clocks: SourceClocks, guards: Guards, wanted: set[str] | None = None
    ) -> None:
        del wanted  # everything that came in goes on at once: nothing is copied for later
        self._clocks = clocks
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
        promised = self._promised(columns)
        columns, quarantined = self._correction.take(
            {**columns, _PLACE: np.arange(len(columns[r.TS]))}
        )
        place = columns.pop(_PLACE)
        quarantined.pop(_PLACE, None)
        promises = Promises(np.searchsorted(place, promised.pop(_PLACE)), **promised)
        columns = self._correction.complete(columns)
        n = len(columns[r.TS])
        self._correction.count(columns, "in_order")
        columns.update(release=columns[r.ARRIVAL], status=np.zeros(n, np.int8))
        return Ordered(n, columns, Progress(), Gaps(), quarantined, promises=promises)

    def _promised(self, columns: Columns) -> dict[str, np.ndarray]:
        """The punctuations: place, type, source, ref and instant.

        One that names no source speaks on the engine's clock. Its number is not looked at here.
        """
        kind = columns.get(r.KIND)
        rows = np.empty(0, np.int64) if kind is None else np.flatnonzero(kind == _POG)
        source, ref = columns[r.SOURCE][rows], columns[r.TS][rows].copy()
        named = np.flatnonzero(source >= 0)
        self._clocks.grow(int(source.max(initial=-1)) + 1)
        ref[named], _, _ = self._clocks.correct(source[named], ref[named], 0)
        types = columns[r.TYPE][rows] if r.TYPE in columns else np.full(len(rows), -1)
        return {
            _PLACE: rows, "type": types, "source": source, "ref": ref,
            "at": columns[r.ARRIVAL][rows],
        }  # fmt: skip

    def flush(self) -> Ordered:
        """Nothing is held."""
        return Ordered(0, {}, promises=Promises())

    def counters(self) -> list[dict[str, Any]]:
        """Per (source, stream): events that arrived, went on, and were quarantined."""
        return self._correction.counters("arrived", "in_order", "quarantined_future")

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return self._correction.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._correction.restore(state)
