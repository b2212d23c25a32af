"""The table of lanes, one per (source, stream), in order of their first record.

Sources come and go: a lane of which nothing is held and that nobody waits for is packed after a
while (``quiet_lanes``), and sources beyond those heard last are forgotten (``forget``).
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from edge_agent import records as r
from engine.columns import Columns
from engine.jit import kernel
from engine.order.forgotten import Forgotten
from engine.order.lane_slots import SLOT, enter, look_up
from engine.order.quiet_lanes import FIRST, SUMMED, Quiet, QuietLanes, in_bytes, packed, unpacked
from engine.order.state import (
    INT_MIN,
    LANE,
    NONE,
    V_BLOCKER,
)
from engine.order.timeout import start_lanes
from engine.reference import SourceClocks, Sync
from engine.released import Strings

_NO_STREAMS: Final = np.empty(0, np.int32)
_NO_KINDS: Final = np.empty(0, np.int8)
_WORTH_PACKING: Final = 64
_SHARE: Final = 4
"""Lanes are packed when so many and such a share of all can be: the table is then made anew."""
_ROOMY: Final = 8
"""The store has room for so many times its lanes at most: to give memory back takes time."""


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
        self._numbers = np.empty(0, np.int64)
        self._born = 0
        self._calls = 0
        self._heard = np.empty(0, np.int64)  # in which call; only where it may be packed
        self._quiet = QuietLanes()
        self.forgotten = Forgotten()

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
        fresh = np.empty(rows, np.int64)
        missed = look_up(source, stream, default, kind, self._slots, lanes, fresh)
        if missed:
            self._begin(columns, fresh[:missed], default, scalars)
            look_up(source, stream, default, kind, self._slots, lanes, fresh)
        self._calls += 1
        heard = np.zeros(self.count + 1, bool)
        heard[lanes] = True  # the last place is of records without a lane
        self._heard[heard[:-1]] = self._calls
        return lanes

    def _begin(self, columns: Columns, rows: np.ndarray, default: int, scalars: np.ndarray) -> None:
        """New lanes, for events at ``rows`` that have none; several may be of one lane."""
        source = columns[r.SOURCE][rows].astype(np.int64)
        stream = columns[r.STREAM][rows] if r.STREAM in columns else np.full(len(rows), default)
        _, first = np.unique(source << 32 | stream, return_index=True)
        first.sort()
        self._make(source[first].astype(np.int32), stream[first].astype(np.int32), scalars)
        if self.forgotten.sources:
            begun = columns[r.SEQ][rows[first]] > 0
            self.forgotten.may_have_returned += int(begun.sum())

    def _lane(self, source: int, stream: int, scalars: np.ndarray) -> int:
        """The lane of (source, stream), made when it is new."""
        found = self._of.get((source, stream))
        if found is None:
            found = self.count
            self._make(np.array([source], np.int32), np.array([stream], np.int32), scalars)
        return found

    def _make(self, source: np.ndarray, stream: np.ndarray, scalars: np.ndarray) -> None:
        """Lanes of sources and streams that have none; all of a source, or none, are packed."""
        first, end = self.count, self.count + len(source)
        if end > len(self._store):
            # Most sites of ten thousand have one source, and a lane takes 30 KB.
            store = np.empty(max(end, 2 * first), LANE)
            in_bytes(store)[:first] = in_bytes(self.tables)
            self._store = store
        self.tables = self._store[:end]
        in_bytes(self.tables)[first:] = in_bytes(FIRST)
        self.tables["source"][first:] = source
        self._of.update(zip(zip(source.tolist(), stream.tolist(), strict=True),
                            range(first, end), strict=True))  # fmt: skip
        self._streams = np.append(self._streams, stream)
        self._numbers = np.append(self._numbers, self._born + np.arange(len(source)))
        self._heard = np.append(self._heard, np.full(len(source), self._calls))
        self._born += len(source)
        start_lanes(self.tables, scalars, first)
        self._fill_slots(first)

    def _fill_slots(self, first: int) -> None:
        """Enter the lanes from ``first`` on into the hash table, or all when it must grow."""
        size = 1 << max(4, (4 * self.count - 1).bit_length())
        if size != len(self._slots):
            self._slots = np.full(size, NONE, SLOT)
            first = 0
        enter(self.tables["source"][first:], self._streams[first:], first, self._slots)

    def link(self, clocks: SourceClocks, sources: int) -> np.ndarray:
        """Ranks by name and the list of each source's lanes, after new ones were made.

        The clocks it gives have room for source codes below ``sources``, and for every lane's.
        """
        clocks.grow(max(sources, int(self.tables["source"].max(initial=NONE)) + 1))
        ck = clocks.clocks
        if self._linked == self.count and ck is self._linked_clocks:
            return ck
        text = self._strings.text
        new = itertools.islice(self._of.items(), len(self._named), None)
        named = [(text(source) or "", text(stream) or "", lane) for (source, stream), lane in new]
        self._named = sorted([*self._named, *named])
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

    def sources(self) -> set[int]:
        """Codes of the sources that are remembered."""
        return {source for source, _ in self._of} | set(self._quiet.sources().tolist())

    def wake(self, sources: np.ndarray, rows: np.ndarray, scalars: np.ndarray) -> None:
        """The packed lanes of the sources with these codes are in the table again.

        ``rows``: pending ones, which name their lanes by place.
        """
        found = [
            lane
            for source in np.intersect1d(sources, self._quiet.sources()).tolist()
            for lane in self._quiet.take(source)
        ]
        if not found:
            return
        numbers = np.concatenate([self._numbers, [lane.number for lane in found]])
        order = np.argsort(numbers)
        both = (self.tables, unpacked(lane.content for lane in found))
        tables = np.concatenate([in_bytes(lanes) for lanes in both])[order].view(LANE).reshape(-1)
        pairs = [*self._of, *((lane.source, lane.stream) for lane in found)]
        heard = np.append(self._heard, np.full(len(found), self._calls))[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._take_over(tables, [pairs[lane] for lane in order.tolist()], numbers[order], heard)
        _renumber(rows, scalars, place)

    def pack(self, rows: np.ndarray, scalars: np.ndarray) -> None:
        """Pack lanes that hold nothing back, were not heard lately, and are many enough.

        Args:
            rows: pending ones.
            scalars: of the kernels.
        """
        inert = self._inert(rows, scalars) & (self._heard < self._calls - 1)
        if inert.sum() >= _WORTH_PACKING + self.count // _SHARE:
            self._pack(inert, rows, scalars)

    def _pack(self, inert: np.ndarray, rows: np.ndarray, scalars: np.ndarray) -> None:
        """Pack these lanes."""
        if not inert.any():
            return
        pairs, going = list(self._of), np.flatnonzero(inert)
        tables = in_bytes(self.tables)[going].view(LANE).reshape(-1)
        facts = zip(
            self._numbers[going].tolist(), tables["last_arrival"].tolist(),
            zip(*(tables[name].tolist() for name in SUMMED), strict=True), packed(tables),
            strict=True,
        )  # fmt: skip
        for lane, (number, heard, sums, content) in zip(going.tolist(), facts, strict=True):
            self._quiet.add(Quiet(number, *pairs[lane], heard, sums, content))
        kept = np.flatnonzero(~inert)
        place = np.full(self.count, NONE)
        place[kept] = np.arange(len(kept))
        _move_down(in_bytes(self.tables), kept)
        self._take_over(
            self.tables[: len(kept)], [pairs[lane] for lane in kept.tolist()],
            self._numbers[kept], self._heard[kept],
        )  # fmt: skip
        _renumber(rows, scalars, place)

    def _inert(self, rows: np.ndarray, scalars: np.ndarray) -> np.ndarray:
        """Lanes without pending rows and markers, for which the merge does not wait."""
        ln = self.tables
        inert = np.asarray((ln["idle"] != 0) | (ln["closed"] != 0))
        for name in ("pog_seq", "next_pog_seq", "eos_seq"):
            inert &= ln[name] < 0
        inert[np.unique(rows["lane"])] = False
        if scalars[V_BLOCKER] != NONE:
            inert[scalars[V_BLOCKER]] = False
        return inert

    def forget(self, kept: int, rows: np.ndarray, scalars: np.ndarray) -> list[int]:
        """Of more than ``kept`` sources those heard least recently go, if nothing of them is held.

        Which they are depends on the records up to here alone. Gives their codes.
        """
        excess = len(self.sources()) - kept
        if excess <= 0:
            return []
        inert = self._inert(rows, scalars)
        sources, heard = self._free(inert)
        excess = min(excess, len(heard))
        if not excess:
            return []
        # Those before the last one to go are found without a look at names.
        last = np.partition(heard, excess - 1)[excess - 1]
        gone: list[int] = sources[heard < last].tolist()
        tied = sources[heard == last].tolist()
        tied.sort(key=lambda source: self._strings.text(source) or "")
        gone += tied[: excess - len(gone)]
        self._pack(inert & np.isin(self.tables["source"], gone), rows, scalars)
        for source in gone:
            self.forgotten.add(self._quiet.take(source))
        return gone

    def _free(self, inert: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sources of which nothing is held, and the arrival of the newest record of each."""
        quiet, quiet_heard = self._quiet.heard()
        of, heard = self.tables["source"], self.tables["last_arrival"]
        sources, place = np.unique(np.concatenate([of, quiet]), return_inverse=True)
        newest = np.full(len(sources), INT_MIN)
        np.maximum.at(newest, place, np.concatenate([heard, quiet_heard]))
        free = ~np.isin(sources, of[~inert])
        return sources[free], newest[free]

    def _take_over(
        self, tables: np.ndarray, pairs: list[tuple[int, int]], numbers: np.ndarray,
        heard: np.ndarray,
    ) -> None:  # fmt: skip
        """These are the lanes now; they may be the first ones of the store."""
        if tables.base is not self._store or len(self._store) > _ROOMY * len(tables) + _ROOMY:
            self._store = tables.copy()
        self.tables = self._store[: len(tables)]
        self._of = {pair: lane for lane, pair in enumerate(pairs)}
        self._streams = np.array([stream for _, stream in pairs], np.int32)
        self._numbers, self._heard = numbers, heard
        self._slots = np.full(16, NONE, SLOT)
        self._fill_slots(0)
        self._named = []
        self._linked = -1

    def counters(self, names: tuple[str, ...], now: int) -> list[dict[str, Any]]:
        """Per lane: its source and stream, its counters and its present timeouts [ns].

        ``newest_ts``, ``last_arrival``: how far it has got, None before its first event (record).
        ``ended``: its end of stream came. ``idle``: it did not, and ``now`` the lane has been
        silent for longer than its idle timeout. What is forgotten is one lane of no source.
        """
        quiet = self._quiet.all()
        pairs = [*self._of, *((lane.source, lane.stream) for lane in quiet)]
        tables = np.concatenate([self.tables, unpacked(lane.content for lane in quiet)])
        timeouts = ("gap_timeout", "idle_timeout")
        found = [
            {
                "source": self._strings.text(source),
                "stream": self._strings.text(stream),
                **{name: int(lane[name]) for name in (*names, *timeouts)},
                "newest_ts": _unless_none(lane["max_ts"]),
                "last_arrival": _unless_none(lane["last_arrival"]),
                "ended": bool(lane["closed"]),
                "idle": not lane["closed"] and _is_silent(lane, now),
            }
            for (source, stream), lane in zip(pairs, tables, strict=True)
        ]
        return found + self.forgotten.lanes(names, timeouts)

    def codes(self) -> np.ndarray:
        """Codes of texts that are in use."""
        pairs = [*self._of, *((lane.source, lane.stream) for lane in self._quiet.all())]
        return np.array(pairs, np.int64).reshape(-1)

    def adopt(self, strings: Strings) -> None:
        """``strings`` has what is in use, at the same codes."""
        self._strings = strings

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "of": list(self._of),
            "tables": self.tables.copy(),
            "numbers": self._numbers.copy(),
            "heard": self._heard - self._calls,
            "born": self._born,
            "quiet": self._quiet.snapshot(),
            "forgotten": self.forgotten.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._take_over(
            state["tables"].copy(), list(state["of"]), state["numbers"].copy(),
            state["heard"].copy(),
        )  # fmt: skip
        self._calls, self._born = 0, state["born"]
        self._quiet.restore(state["quiet"])
        self.forgotten.restore(state["forgotten"])


@kernel
def _move_down(lanes: np.ndarray, kept: np.ndarray) -> None:
    """Lane ``kept[i]``, as bytes, becomes lane i; ``kept`` ascends."""
    for i in range(len(kept)):
        if kept[i] != i:
            for place in range(lanes.shape[1]):
                lanes[i, place] = lanes[kept[i], place]


def _renumber(rows: np.ndarray, scalars: np.ndarray, place: np.ndarray) -> None:
    """Lane i is now called ``place[i]``."""
    rows["lane"] = place[rows["lane"]]
    if scalars[V_BLOCKER] != NONE:
        scalars[V_BLOCKER] = place[scalars[V_BLOCKER]]


def _unless_none(instant: np.int64) -> int | None:
    return None if instant == INT_MIN else int(instant)


def _is_silent(lane: np.void, now: int) -> bool:
    last = int(lane["last_arrival"])
    return last > INT_MIN and last + int(lane["idle_timeout"]) < now
