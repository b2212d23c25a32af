"""An operator that reads results as events: fed in order, copied, and compared with itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from edge_agent.records import CLOCK
from engine.cascade.derived_events import MISSING
from engine.cascade.rows import CODED, DerivedRows
from engine.clocks.stream_clocks import StreamClocks
from engine.operator import Operator, Result, ResultPieces
from engine.stream.clock_bound import ClockBound
from engine.stream.ends import REF_END
from engine.stream.released import IN_ORDER, Gaps, Progress, Released, Strings

NO_STEPS: Final = Progress()
_TIMES: Final = ("ref", REF_END, "ts", "te", "arrival", "release", "unc", "epoch", "seq")
_NOBODY: Final = {name: np.empty(0, np.int64) for name in _TIMES} | {
    name: np.empty(0, np.int32) for name in CODED if name != CLOCK
}
"""Columns of a batch that has progress alone; the clock is the source's own."""


class AskedOperator:
    """``build``'s operator, with the clocks of the stream that it reads.

    Args:
        build: makes the operator; each call makes one that has read nothing.
        beside: how far from its event's time a gap of missing ones reaches [ns]: 0 where windows
            lie on the clock, 1 where events are their borders.
    """

    def __init__(self, build: Callable[[], Operator], beside: int) -> None:
        self._build, self._beside = build, beside
        self.operator = build()
        types = self.operator.types
        self._clocks = None if types is None else StreamClocks(frozenset(types))

    def feed(
        self, rows: DerivedRows, steps: Progress, strings: Strings, bound: ClockBound
    ) -> Sequence[Result]:
        """Reads ``rows``, in order, which come after all that it has read.

        Args:
            rows: with the instants of their release.
            steps: progress besides.
            strings: what the rows' codes mean.
            bound: how wrong their times may be.
        """
        released = Released(
            rows.n, {**_NOBODY, **rows.columns, "status": np.full(rows.n, IN_ORDER, np.int8)},
            rows.types, strings, 0, steps, self._gaps(rows, steps), None, bound,
        )  # fmt: skip
        if self._clocks is not None:
            released = replace(released, moved=self._clocks.advance(released))
        return self.operator.process(released)

    def _gaps(self, rows: DerivedRows, steps: Progress) -> Gaps:
        """What is missing upstream: once for all results of one extent, as it is of each key."""
        if not rows.n or not rows[MISSING].any():
            return Gaps()
        extent = np.column_stack([rows["ref"], rows[REF_END]])
        first = np.flatnonzero(np.append(True, (extent[1:] != extent[:-1]).any(axis=1)))
        count = np.maximum.reduceat(rows[MISSING], first)
        first, count = first[count > 0], count[count > 0]
        at = rows[REF_END][first]
        return Gaps(
            first, rows["source"][first].astype(np.int64), rows["stream"][first].astype(np.int64),
            np.zeros(len(first), np.int64), count, at - self._beside, at + self._beside,
            np.searchsorted(steps.row, first, "right"),
        )  # fmt: skip

    def copy(self) -> AskedOperator:
        """Another one in the same state."""
        found = AskedOperator(self._build, self._beside)
        found.restore(self.snapshot())
        return found

    def run(
        self, rows: DerivedRows, steps: Progress, now: int, strings: Strings, bound: ClockBound
    ) -> tuple[AskedOperator, ResultPieces]:
        """A copy that has read ``rows``, and come to ``now``; and the results that it gave."""
        run, results = self.copy(), ResultPieces()
        results.extend(run.feed(rows, steps, strings, bound))
        results.extend(run.operator.advance(now))
        return run, results

    def codes(self) -> np.ndarray | None:
        """As of ``engine.operator.Operator``."""
        return self.operator.codes()

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        clocks = None if self._clocks is None else self._clocks.snapshot()
        return {"operator": self.operator.snapshot(), "clocks": clocks}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self.operator.restore(state["operator"])
        if self._clocks is not None:
            self._clocks.restore(state["clocks"])
