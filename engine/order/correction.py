"""What orders without numbers do first: reference times, second copies, future guard, counts."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.operator import Restorable
from slackwater.engine.kernels.records import INT_MAX, INT_MIN
from slackwater.engine.order.base import Guards
from slackwater.engine.order.duplicates import Duplicates
from slackwater.engine.order.sequence.state import DUPLICATE, QUARANTINED_FUTURE

_DENSE: Final = 4
"""Codes per event up to which a table of all codes beats sorting."""


class Correction(Restorable):
    """Corrects the events of a site, sets copies and the future aside, and counts per lane.

    Args:
        clocks: of the site's sources.
        guards: what is checked before an event time is believed.
        duplicates: what becomes of second copies: ``drop`` | ``pass``.
    """

    state_fields = ("_newest", "_last", "_duplicates", "_counts")

    def __init__(self, clocks: SourceClocks, guards: Guards, duplicates: str) -> None:
        self._duplicates = Duplicates() if duplicates == "drop" else None
        self._clocks = clocks
        self._guards = guards
        self._newest = np.empty(0, np.int64)
        self._last = np.empty(0, np.int64)
        self._counts: dict[tuple[int, str], np.ndarray] = {}

    def take(self, columns: Columns) -> tuple[Columns, Columns]:
        """The events among ``columns`` with ``ref unc epoch``, and those set aside.

        A copy is set aside (``engine.order.duplicates``), also one of an event that was. An event
        is quarantined when its ref lies beyond its arrival by more than its uncertainty and the
        guard. Neither moves a clock.
        """
        if r.KIND in columns:
            events = columns[r.KIND] == int(r.Kind.EVENT)
            columns = {name: column[events] for name, column in columns.items() if name != r.KIND}
        columns = dict(columns)
        source, clock, ts = columns[r.SOURCE], clock_codes(columns), columns[r.TS]
        sources = int(source.max(initial=-1)) + 1
        ref, unc, epoch = self._clocks.correct(clock, ts, self._guards.default_uncertainty_ns)
        columns.update(ref=ref, unc=unc, epoch=epoch)
        self.count(columns, "arrived")
        self._newest, self._last = _room(self._newest, sources), _room(self._last, sources)
        self._last[source] = columns[r.ARRIVAL]  # of equal places NumPy keeps the last
        columns, quarantined = self._set_aside(columns)
        np.maximum.at(self._newest, columns[r.SOURCE], columns[r.TS])
        np.maximum.at(self._clocks.clocks["max_ts"], clock_codes(columns), columns[r.TS])
        return columns, quarantined

    def _set_aside(self, columns: Columns) -> tuple[Columns, Columns]:
        """(events that go on, those that do not with their ``reason``), both as they came."""
        copies = future = None
        if self._duplicates is not None:
            default = self._clocks.strings.code(r.DEFAULT_STREAM)
            copies = self._duplicates.among(columns, default)
        if self._guards.guard_ns is not None:
            latest = _later(columns[r.ARRIVAL], _later(columns["unc"], self._guards.guard_ns))
            future = columns["ref"] > latest
        found = [each for each in (copies, future) if each is not None and each.any()]
        if not found:
            return columns, {}
        aside = found[0] if len(found) == 1 else found[0] | found[1]
        quarantined = self.complete({name: column[aside] for name, column in columns.items()})
        is_copy = np.zeros(len(quarantined[r.TS]), np.bool_) if copies is None else copies[aside]
        quarantined["reason"] = np.where(is_copy, DUPLICATE, QUARANTINED_FUTURE)
        for name, chosen in (("duplicate", is_copy), ("quarantined_future", ~is_copy)):
            self.count(
                {n: quarantined[n][chosen] for n in (r.SOURCE, r.STREAM) if n in quarantined}, name
            )
        return {name: column[~aside] for name, column in columns.items()}, quarantined

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
