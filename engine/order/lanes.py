"""The table of lanes, one per (source, stream), in order of their first record."""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.order.state import (
    INT_MIN,
    LANE,
    LANE_FIRST,
    NONE,
)
from engine.order.timeout import start_lane
from engine.reference import SourceClocks, Sync
from engine.released import Strings


class LaneTable:
    """Numbers the lanes and keeps the arrays that the kernels work on."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._of: dict[tuple[int, int], int] = {}
        self.tables = np.empty(0, LANE)
        self._streams = np.empty(0, np.int32)
        self._linked = -1
        self._linked_clocks: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Number of lanes."""
        return len(self._of)

    def announce(self, sync: Sync, scalars: np.ndarray) -> None:
        """A lane's incarnation ``sync.incarnation`` will start at number ``sync.first_seq``."""
        source = self._strings.code(sync.source)
        lane = self._lane(source, self._strings.code(sync.stream), scalars)
        ln = self.tables
        ln["ann_inc"][lane] = sync.incarnation
        ln["ann_first"][lane] = sync.first_seq
        if not ln["started"][lane]:
            ln["started"][lane] = 1
            ln["inc"][lane] = sync.incarnation
            ln["expected"][lane] = sync.first_seq
            ln["last_arrival"][lane] = sync.arrival
            ln["idle"][lane] = 0
            ln["missing"][lane, 0] = (sync.incarnation, INT_MIN, sync.first_seq, 0)
            ln["missing_n"][lane] = 1

    def newest_ts(self, source: int) -> int:
        """Largest event time seen of ``source`` over its streams."""
        of_source = self.tables["max_ts"][self.tables["source"] == source]
        return int(of_source.max(initial=INT_MIN))

    def of(self, columns: Columns, rows: int, scalars: np.ndarray) -> np.ndarray:
        """Lane of every record; new lanes only for events. -1: a record of no lane."""
        source = columns[r.SOURCE].astype(np.int64)
        stream = columns.get(r.STREAM)
        if stream is None:
            stream = np.full(rows, self._strings.code(r.DEFAULT_STREAM), np.int32)
        events = columns[r.KIND] == 0 if r.KIND in columns else None
        pair = (source + 1) << 32 | (stream.astype(np.int64) + 1)
        size = len(self._strings) + 1
        if size * size <= 1 << 22:  # few strings: a direct table beats sorting
            pair = (source + 1) * size + stream + 1
            first = np.full(size * size, rows, np.int64)
            chosen = pair if events is None else pair[events]
            where = np.arange(rows) if events is None else np.flatnonzero(events)
            first[chosen[::-1]] = where[::-1]
            present = np.flatnonzero(first < rows)
            present = present[np.argsort(first[present], kind="stable")]
            for key in present:
                self._lane(int(key // size) - 1, int(key % size) - 1, scalars)
            table = np.full(size * size, NONE, np.int64)
            for (a, b), lane in self._of.items():
                table[(a + 1) * size + b + 1] = lane
            return table[pair]
        chosen = pair if events is None else pair[events]
        fresh, first = np.unique(chosen, return_index=True)
        for key in fresh[np.argsort(first)]:
            self._lane(int(key >> 32) - 1, int(key & 0xFFFFFFFF) - 1, scalars)
        keys, inverse = np.unique(pair, return_inverse=True)
        lanes = np.array(
            [self._of.get((int(k >> 32) - 1, int(k & 0xFFFFFFFF) - 1), NONE) for k in keys],
            np.int64,
        )
        return lanes[inverse]

    def _lane(self, source: int, stream: int, scalars: np.ndarray) -> int:
        """The lane of (source, stream), made when it is new."""
        found = self._of.get((source, stream))
        if found is not None:
            return found
        lane = self._of[(source, stream)] = len(self._of)
        self.tables = more = np.append(self.tables, _new_lane())
        self._streams = np.append(self._streams, np.int32(stream))
        more["source"][lane] = source
        start_lane(more, scalars, lane)
        return lane

    def link(self, clocks: SourceClocks, sources: int) -> np.ndarray:
        """Ranks by name and the list of each source's lanes, after new ones were made.

        The clocks it gives have room for source codes below ``sources``, and for every lane's.
        """
        clocks.grow(max(sources, int(self.tables["source"].max(initial=NONE)) + 1))
        ck = clocks.clocks
        if self._linked == self.count and ck is self._linked_clocks:
            return ck
        text = self._strings.text
        names = [(text(a) or "", text(b) or "", lane) for (a, b), lane in self._of.items()]
        ck["first_lane"] = NONE
        for rank, (_, _, lane) in enumerate(sorted(names)):
            self.tables["rank"][lane] = rank
        for lane in reversed(range(self.count)):
            source = self.tables["source"][lane]
            self.tables["next_lane"][lane] = ck["first_lane"][source, 0]
            ck["first_lane"][source, 0] = lane
        self._linked, self._linked_clocks = self.count, ck
        return ck

    def stream_of(self, lanes: np.ndarray) -> np.ndarray:
        """Stream codes of ``lanes``."""
        return np.asarray(self._streams[lanes])

    def counters(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        """Per lane: its source and stream, its counters and its present timeouts [ns]."""
        return [
            {
                "source": self._strings.text(source),
                "stream": self._strings.text(stream),
                **{name: int(self.tables[name][lane]) for name in names},
                "gap_timeout": int(self.tables["gap_timeout"][lane]),
                "idle_timeout": int(self.tables["idle_timeout"][lane]),
                "idle": bool(self.tables["idle"][lane]),
            }
            for (source, stream), lane in self._of.items()
        ]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "of": list(self._of),
            "tables": self.tables.copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._of = {pair: lane for lane, pair in enumerate(state["of"])}
        self.tables = state["tables"].copy()
        self._streams = np.array([stream for _, stream in state["of"]], np.int32)
        self._linked = -1


def _new_lane() -> np.ndarray:
    """A lane that has seen nothing."""
    lane = np.zeros(1, LANE)
    for name, value in LANE_FIRST.items():
        lane[name] = value
    return lane
