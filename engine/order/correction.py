"""What every order without numbers does first: reference times, the future guard, the counts."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.order.base import Guards
from engine.order.state import INT_MAX, INT_MIN, QUARANTINED_FUTURE
from engine.reference import SourceClocks

_DENSE: Final = 4
"""Codes per event up to which a table of all codes beats sorting."""


class Correction:
    """Corrects the events of a site, sets those from the future aside, and counts per lane."""

    def __init__(self, clocks: SourceClocks, guards: Guards) -> None:
        self._clocks = clocks
        self._guards = guards
        self._newest = np.empty(0, np.int64)
        self._last = np.empty(0, np.int64)
        self._counts: dict[tuple[int, str], np.ndarray] = {}

    def newest_ts(self, source: int) -> int:
        """Largest event time seen of the source with this code; ``INT_MIN`` before any."""
        return int(self._newest[source]) if source < len(self._newest) else INT_MIN

    def take(self, columns: Columns) -> tuple[Columns, Columns]:
        """The events among ``columns`` with ``ref unc epoch``, and those set aside.

        An event is quarantined when its ref lies beyond its arrival by more than its uncertainty
        and the guard; it moves no clock.
        """
        if r.KIND in columns:
            events = columns[r.KIND] == int(r.Kind.EVENT)
            columns = {name: column[events] for name, column in columns.items() if name != r.KIND}
        columns = dict(columns)
        source, ts = columns[r.SOURCE], columns[r.TS]
        sources = int(source.max(initial=-1)) + 1
        self._clocks.grow(sources)
        ref, unc, epoch = self._clocks.correct(source, ts, self._guards.default_uncertainty_ns)
        columns.update(ref=ref, unc=unc, epoch=epoch)
        self.count(columns, "arrived")
        self._newest, self._last = _room(self._newest, sources), _room(self._last, sources)
        self._last[source] = columns[r.ARRIVAL]  # of equal places NumPy keeps the last
        quarantined: Columns = {}
        if self._guards.guard_ns is not None:
            future = ref > _later(columns[r.ARRIVAL], _later(unc, self._guards.guard_ns))
            if future.any():
                quarantined = {name: column[future] for name, column in columns.items()}
                quarantined = self.complete(quarantined)
                quarantined["reason"] = np.full(int(future.sum()), QUARANTINED_FUTURE)
                self.count(quarantined, "quarantined_future")
                columns = {name: column[~future] for name, column in columns.items()}
        np.maximum.at(self._newest, columns[r.SOURCE], columns[r.TS])
        return columns, quarantined

    @staticmethod
    def complete(columns: Columns) -> Columns:
        """``columns`` with what their frames left out because it goes without saying."""
        columns.setdefault(r.TE, columns[r.TS])
        if r.INCARNATION not in columns:
            columns[r.INCARNATION] = np.zeros(len(columns[r.TS]), np.int64)
        return columns

    def count(self, columns: Columns, name: str) -> None:
        """Add the events of ``columns`` to the counter ``name`` of their lanes."""
        source, stream = columns[r.SOURCE], columns.get(r.STREAM)
        if not len(source):
            return
        if stream is None:
            self._add(self._clocks.strings.code(r.DEFAULT_STREAM), name, source)
        elif stream.min() == stream.max():
            self._add(int(stream[0]), name, source)
        else:
            for code in np.unique(stream).tolist():
                self._add(code, name, source[stream == code])

    def _add(self, stream: int, name: str, source: np.ndarray) -> None:
        """Count events of one stream, by source."""
        size = int(source.max()) + 2
        table = self._counts.get((stream, name), np.empty(0, np.int64))
        if len(table) < size:
            more = np.zeros(max(size, 2 * len(table)), np.int64)
            more[: len(table)] = table
            table = self._counts[stream, name] = more
        # A code is -1 where a text is null.
        if size <= _DENSE * len(source):
            table[:size] += np.bincount(source + 1, minlength=size)
        else:
            np.add.at(table, source + 1, 1)

    def counters(self, *names: str) -> list[dict[str, Any]]:
        """Per lane its source and stream, and the counters ``names`` (0 when never counted).

        ``newest_ts``, ``last_arrival``: of the source over its streams; None before any.
        """
        text = self._clocks.strings.text
        lanes: dict[tuple[int, int], Counter[str]] = {}
        for (stream, name), table in self._counts.items():
            for place in np.flatnonzero(table).tolist():
                lanes.setdefault((place - 1, stream), Counter())[name] = int(table[place])
        return [
            {
                "source": text(source),
                "stream": text(stream),
                **{name: counts[name] for name in names},
                "newest_ts": _at(self._newest, source),
                "last_arrival": _at(self._last, source),
            }
            for (source, stream), counts in lanes.items()
        ]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "newest": self._newest.copy(),
            "last": self._last.copy(),
            "counts": {of: table.copy() for of, table in self._counts.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._newest = state["newest"].copy()
        self._last = state["last"].copy()
        self._counts = {of: table.copy() for of, table in state["counts"].items()}


def _room(table: np.ndarray, sources: int) -> np.ndarray:
    """``table`` with places for source codes below ``sources``; new ones say "never"."""
    if sources <= len(table):
        return table
    more = np.full(max(sources, 2 * len(table)), INT_MIN)
    more[: len(table)] = table
    return more


def _at(table: np.ndarray, source: int) -> int | None:
    known = 0 <= source < len(table) and table[source] > INT_MIN
    return int(table[source]) if known else None


def _later(now: np.ndarray, wait: np.ndarray | int) -> np.ndarray:
    """``now + wait``, or never where that is beyond int64."""
    return np.where(now > INT_MAX - wait, INT_MAX, now + wait)
