"""The table of lanes, one per (source, stream), in order of their first record."""

from __future__ import annotations

from bisect import insort
from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.jit import inline, kernel
from engine.order.state import (
    INT_MIN,
    LANE,
    LANE_FIRST,
    NONE,
)
from engine.order.timeout import start_lane
from engine.reference import SourceClocks, Sync
from engine.released import Strings

SLOT: Final = np.dtype([("source", "i4"), ("stream", "i4"), ("lane", "i4")])
"""A place of the hash table from (source, stream) to lane; open addressing, at most half full."""
_NO_STREAMS: Final = np.empty(0, np.int32)
_NO_KINDS: Final = np.empty(0, np.int8)
_EVENT: Final = int(r.Kind.EVENT)


@inline
def _slot(slots: np.ndarray, source: int, stream: int) -> int:
    """The place of (source, stream), or the empty one where it belongs."""
    mask = len(slots) - 1
    place = (source * 0x9E3779B1 + stream * 0x85EBCA77) >> 7 & mask
    while slots[place].lane != NONE and (
        slots[place].source != source or slots[place].stream != stream
    ):
        place = (place + 1) & mask
    return int(place)


@kernel
def _enter(sources: np.ndarray, streams: np.ndarray, first: int, slots: np.ndarray) -> None:
    """Lanes ``first``, ``first + 1`` ... of ``sources`` and ``streams`` into the hash table."""
    for i in range(len(sources)):
        place = _slot(slots, sources[i], streams[i])
        slots[place].source = sources[i]
        slots[place].stream = streams[i]
        slots[place].lane = first + i


@kernel
def _look_up(
    source: np.ndarray, stream: np.ndarray, default: int, kind: np.ndarray, slots: np.ndarray,
    start: int, lanes: np.ndarray,
) -> int:  # fmt: skip
    """Write the lanes from row ``start`` on; gives the first event of none, or the end.

    ``stream``, ``kind``: empty when every record is of stream ``default``, is an event.
    """
    for row in range(start, len(source)):
        of_row = stream[row] if len(stream) else default
        lane = slots[_slot(slots, source[row], of_row)].lane
        if lane == NONE and (len(kind) == 0 or kind[row] == _EVENT):
            return row
        lanes[row] = lane
    return len(source)


class LaneTable:
    """Numbers the lanes and keeps the arrays that the kernels work on."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._of: dict[tuple[int, int], int] = {}
        self._store = np.empty(0, LANE)  # grown in steps; ``tables`` is the part in use
        self.tables = self._store
        self._slots = np.full(16, NONE, SLOT)
        self._streams = np.empty(0, np.int32)
        self._named: list[tuple[str, str, int]] = []
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
        """Lane of every record; new lanes only for events. -1: a record of no lane yet."""
        source = columns[r.SOURCE]
        stream = columns.get(r.STREAM, _NO_STREAMS)
        kind = columns.get(r.KIND, _NO_KINDS)
        default = self._strings.code(r.DEFAULT_STREAM)
        lanes = np.empty(rows, np.int32)
        row = _look_up(source, stream, default, kind, self._slots, 0, lanes)
        while row < rows:
            of_row = int(stream[row]) if len(stream) else default
            self._lane(int(source[row]), of_row, scalars)
            row = _look_up(source, stream, default, kind, self._slots, row, lanes)
        return lanes

    def _lane(self, source: int, stream: int, scalars: np.ndarray) -> int:
        """The lane of (source, stream), made when it is new."""
        found = self._of.get((source, stream))
        if found is not None:
            return found
        lane = self._of[(source, stream)] = len(self._of)
        if lane == len(self._store):
            # Most sites of ten thousand have one source, and a lane takes 30 KB.
            self._store = np.concatenate((self._store, np.zeros(max(lane, 1), LANE)))
        self.tables = self._store[: lane + 1]
        self.tables[lane] = _new_lane()
        self.tables["source"][lane] = source
        self._streams = np.append(self._streams, np.int32(stream))
        start_lane(self.tables, scalars, lane)
        self._fill_slots(lane)
        return lane

    def _fill_slots(self, first: int) -> None:
        """Enter the lanes from ``first`` on into the hash table, or all when it must grow."""
        size = 1 << max(4, (4 * self.count - 1).bit_length())
        if size != len(self._slots):
            self._slots = np.full(size, NONE, SLOT)
            first = 0
        _enter(self.tables["source"][first:], self._streams[first:], first, self._slots)

    def link(self, clocks: SourceClocks, sources: int) -> np.ndarray:
        """Ranks by name and the list of each source's lanes, after new ones were made.

        The clocks it gives have room for source codes below ``sources``, and for every lane's.
        """
        clocks.grow(max(sources, int(self.tables["source"].max(initial=NONE)) + 1))
        ck = clocks.clocks
        if self._linked == self.count and ck is self._linked_clocks:
            return ck
        for source, stream in list(self._of)[len(self._named) :]:
            text = self._strings.text
            insort(self._named, (text(source) or "", text(stream) or "", self._of[source, stream]))
        ln = self.tables
        ln["rank"][[lane for _, _, lane in self._named]] = np.arange(self.count)
        # Each source's lanes, one after the other by number.
        by_source = np.argsort(ln["source"], kind="stable")
        sorted_source = ln["source"][by_source]
        is_first = np.diff(sorted_source, prepend=NONE) != 0
        ck["first_lane"] = NONE
        ck["first_lane"][sorted_source[is_first], 0] = by_source[is_first]
        following = np.where(np.roll(is_first, -1), NONE, np.roll(by_source, -1))
        ln["next_lane"][by_source] = following
        self._linked, self._linked_clocks = self.count, ck
        return ck

    def stream_of(self, lanes: np.ndarray) -> np.ndarray:
        """Stream codes of ``lanes``."""
        return np.asarray(self._streams[lanes])

    def counters(self, names: tuple[str, ...], now: int) -> list[dict[str, Any]]:
        """Per lane: its source and stream, its counters and its present timeouts [ns].

        ``newest_ts``, ``last_arrival``: how far it has got, None before its first event (record).
        ``ended``: its end of stream came. ``idle``: it did not, and ``now`` the lane has been
        silent for longer than its idle timeout.
        """
        names = (*names, "gap_timeout", "idle_timeout")
        return [
            {
                "source": self._strings.text(source),
                "stream": self._strings.text(stream),
                **{name: int(lane[name]) for name in names},
                "newest_ts": _unless_none(lane["max_ts"]),
                "last_arrival": _unless_none(lane["last_arrival"]),
                "ended": bool(lane["closed"]),
                "idle": not lane["closed"] and _is_silent(lane, now),
            }
            for (source, stream), lane in zip(self._of, self.tables, strict=True)
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
        self._store = self.tables = state["tables"].copy()
        self._streams = np.array([stream for _, stream in state["of"]], np.int32)
        self._slots = np.full(16, NONE, SLOT)
        self._fill_slots(0)
        self._named = []
        self._linked = -1


def _unless_none(instant: np.int64) -> int | None:
    return None if instant == INT_MIN else int(instant)


def _is_silent(lane: np.void, now: int) -> bool:
    last = int(lane["last_arrival"])
    return last > INT_MIN and last + int(lane["idle_timeout"]) < now


def _new_lane() -> np.ndarray:
    """A lane that has seen nothing."""
    lane = np.zeros(1, LANE)
    for name, value in LANE_FIRST.items():
        lane[name] = value
    return lane
