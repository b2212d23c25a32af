"""The table of lanes, one per (source, stream), in order of their first record."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import DEFAULT_STREAM_CODE, Columns
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Strings
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MIN, NONE, numbers_of, one
from slackwater.engine.kernels.tables import empty_slots, enter, entry_of, slot_of
from slackwater.engine.order.sequence.state import (
    COUNTERS,
    LANE,
    LANE_FIRST,
    LEARNS_FROM,
    MEMORY,
    MODE_QUANTILE,
    MODE_R19_CODE,
    PROGRESS,
    RUN,
)
from slackwater.engine.order.sequence.timeouts import first_timeout

# The order of the lanes by names of source and stream, kept while lanes come and go.


Name = tuple[str, str]


class LaneNames(Struct):
    """Names by lane. Known names stay sorted: only new ones are inserted."""

    _names: list[Name] = field(default_factory=list)
    _by_name: list[int] = field(default_factory=list)

    def by_name(self, lanes: np.ndarray, strings: Strings) -> list[int]:
        """All of ``lanes`` in order of their names; lanes may be new at the end of ``lanes``."""
        new, texts = range(len(self._names), len(lanes)), strings.texts
        if new:
            fresh = (lanes[name][new.start :].tolist() for name in ("source", "stream"))
            self._names += zip(*([texts[code] for code in codes] for codes in fresh), strict=True)
            self._by_name += new
            self._by_name.sort(key=self._names.__getitem__)
        return self._by_name

    def keep(self, kept: np.ndarray, place: np.ndarray) -> None:
        """Keep only the lanes ``kept`` (ascending); lane ``i`` becomes ``place[i]``, or NONE."""
        self._names = [self._names[lane] for lane in kept.tolist()]
        self._by_name = [lane for lane in place[self._by_name].tolist() if lane != NONE]

    def clear(self) -> None:
        """Forget all names; they are read again."""
        self._names, self._by_name = [], []


# The lane of each record, by its source and stream.


_EVENT: Final = int(r.Kind.EVENT)


@kernel
def look_up(
    source: np.ndarray, stream: np.ndarray, default: int, kind: np.ndarray, slots: np.ndarray,
    keys: np.ndarray, lanes: np.ndarray, fresh: np.ndarray,
) -> int:  # fmt: skip
    """Write each row's lane, or NONE; events without a lane are listed in ``fresh``.

    ``stream``, ``kind``: empty if every record is of stream ``default``, or an event.

    Returns:
        the number of events without a lane.
    """
    missed = 0
    for row in range(len(source)):
        of_row = stream[row] if len(stream) else default
        lane = slots[slot_of(slots, keys, (int(np.int64(source[row])), int(np.int64(of_row))))]
        if lane == NONE and (len(kind) == 0 or kind[row] == _EVENT):
            fresh[missed] = row
            missed += 1
        lanes[row] = lane
    return missed


# Totals of forgotten sources: their number, and their counters.


class Forgotten(Restorable, Struct):
    """The number of forgotten sources, and the outcomes of their events."""

    state_fields = ("sources", "may_have_returned", "_sums")

    sources: int = 0
    may_have_returned: int = 0
    """Sources that began without an announcement, and not at number 0, after the first was
    forgotten.
    """
    _sums: Counter[str] = field(default_factory=Counter)

    def add(self, sources: int, lanes: np.ndarray) -> None:
        """Add ``sources`` forgotten sources with their lanes."""
        self.sources += sources
        for name in (*COUNTERS, *PROGRESS):
            self._sums[name] += int(lanes[name].sum())

    def lanes(self, names: tuple[str, ...], others: tuple[str, ...]) -> list[dict[str, Any]]:
        """The totals as one lane without a source, so that the sums over lanes are complete."""
        sums = {name: self._sums[name] for name in names} | dict.fromkeys(others, 0)
        return [
            {
                "source": None, "stream": None, **sums, "newest_ts": None, "last_arrival": None,
                "ended": True, "idle": False,
            }
        ]  # fmt: skip


# The table of lanes, one per (source, stream), in order of their first record.
#
# Beyond a limit, the sources heard least recently are forgotten (``forget``).


_NO_STREAMS: Final = np.empty(0, np.int32)
_NO_KINDS: Final = np.empty(0, np.int8)
_ROOMY: Final = 8
"""The largest ratio of the store's room to its lanes, as returning memory takes time."""
_CODEC: Final = pa.Codec("lz4_raw")


_FIRST: Final = numbers_of(one(LANE, **LANE_FIRST))
"""A lane without records."""


class LaneTable:
    """Numbers the lanes and keeps the arrays that the kernels work on."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self.memories = np.zeros(1, MEMORY)
        """At the lanes' ``memory``; place 0 is shared by lanes that learn nothing."""
        self._free: list[int] = []
        self.runs = np.empty(0, RUN)
        """RUN, ``missing_n`` of each lane, lane by lane."""
        self._store = np.empty(0, LANE)  # grown in steps; ``tables`` is the part in use
        self.tables = self._store
        self._slots = empty_slots(0)
        self._keys = np.empty((0, 2), np.int64)  # source and stream of each lane
        self._names = LaneNames()
        self._linked = -1
        self._linked_clocks: np.ndarray | None = None
        self.forgotten = Forgotten()

    def announce(self, sync: SyncPoint, state: np.ndarray) -> None:
        """Announce that incarnation ``sync.incarnation`` starts at number ``sync.first_seq``."""
        source = self._strings.code(sync.source)
        lane = self._lane(source, self._strings.code(sync.stream), state)
        ln = self.tables
        ln["ann_inc"][lane] = sync.incarnation
        ln["ann_first"][lane] = sync.first_seq
        if not ln["started"][lane]:
            ln["started"][lane] = 1
            ln["inc"][lane] = sync.incarnation
            ln["expected"][lane] = sync.first_seq
            ln["last_arrival"][lane] = sync.arrival
            if sync.ts is not None:  # numbers missing at the front are later than this
                ln["last_low"][lane] = sync.ts + sync.offset - sync.uncertainty
            ln["idle"][lane] = 0
            run = np.array((sync.incarnation, INT_MIN, sync.first_seq, 0), RUN)
            self.runs = np.insert(self.runs, int(ln["missing_n"][:lane].sum()), run)
            ln["missing_n"][lane] = 1

    def of(self, columns: Columns, rows: int, state: np.ndarray) -> np.ndarray:
        """The lane of every record; -1: none. Events create lanes, other records do not."""
        source = columns[r.SOURCE]
        stream = columns.get(r.STREAM, _NO_STREAMS)
        kind = columns.get(r.KIND, _NO_KINDS)
        default = DEFAULT_STREAM_CODE
        lanes = np.empty(rows, np.int32)
        fresh = np.empty(rows, np.int64)
        missed = look_up(source, stream, default, kind, self._slots, self._keys, lanes, fresh)
        if missed:
            self._begin(columns, fresh[:missed], state)
            look_up(source, stream, default, kind, self._slots, self._keys, lanes, fresh)
        if state["mode"][0] in (MODE_QUANTILE, MODE_R19_CODE):
            self._give_memories(lanes, state)
        return lanes

    def _give_memories(self, lanes: np.ndarray, state: np.ndarray) -> None:
        """Give a memory to each lane that has enough events to learn, with those of these rows."""
        least = LEARNS_FROM if state["mode"][0] == MODE_QUANTILE else 1
        ln = self.tables
        most = ln["arrived"] + np.bincount(lanes[lanes != NONE], minlength=len(ln))
        learning = np.flatnonzero((most >= least) & (ln["memory"] == 0))
        ln["memory"][learning] = self._memories(len(learning))

    def _begin(self, columns: Columns, rows: np.ndarray, state: np.ndarray) -> None:
        """Create the lanes of events at ``rows``; several may be of one lane."""
        source, stream = columns[r.SOURCE][rows].astype(np.int64), np.zeros(len(rows), np.int64)
        stream += columns[r.STREAM][rows] if r.STREAM in columns else DEFAULT_STREAM_CODE
        _, first = np.unique(source << 32 | stream, return_index=True)
        first.sort()
        self._make(source[first], stream[first], state)
        if self.forgotten.sources:
            begun = columns[r.SEQ][rows[first]] > 0
            self.forgotten.may_have_returned += int(begun.sum())

    def _lane(self, source: int, stream: int, state: np.ndarray) -> int:
        """The lane of (source, stream), created if it is new."""
        lane = entry_of(self._slots, self._keys, (source, stream))
        if lane != NONE:
            return lane
        self._make(np.array([source]), np.array([stream]), state)
        return len(self.tables) - 1

    def _make(self, source: np.ndarray, stream: np.ndarray, state: np.ndarray) -> None:
        """Create lanes for new pairs of source and stream."""
        first, end = len(self.tables), len(self.tables) + len(source)
        if end > len(self._store):
            store = np.empty(max(end, 2 * first), LANE)
            if first:
                numbers_of(store)[:first] = numbers_of(self.tables)
            self._store = store
        self.tables = self._store[:end]
        numbers_of(self.tables)[first:] = _FIRST
        self.tables["source"][first:] = source
        self.tables["stream"][first:] = stream
        timeout = first_timeout(state[0])
        for name in ("gap_timeout", "idle_timeout"):
            self.tables[name][first:] = timeout
        self._fill_slots(first)

    def _memories(self, count: int) -> list[int]:
        """The places of ``count`` cleared memories."""
        lacking = count - len(self._free)
        if lacking > 0:
            size = len(self.memories)
            end = size + max(lacking, size // 4)
            # In place, as there may be no memory for two copies; new places are 0.
            self.memories.resize(end, refcheck=False)
            self._free = [*range(end - 1, size - 1, -1), *self._free]
        start = len(self._free) - count
        taken = self._free[start:]
        del self._free[start:]
        return taken

    def _fill_slots(self, first: int) -> None:
        """Insert the lanes from ``first`` on into the hash table, or all if it must grow."""
        if 2 * len(self.tables) > len(self._slots):
            self._slots = empty_slots(2 * len(self.tables))
            first = 0
        self._keys = np.column_stack([self.tables["source"], self.tables["stream"]])
        enter(self._slots, self._keys, first)

    def link(self, clocks: SourceClocks, codes: int) -> np.ndarray:
        """Update the ranks by name and the lists of each source's lanes.

        Returns:
            the site's clocks, with room for codes below ``codes`` and for every lane's source.
        """
        least = max(codes, int(self.tables["source"].max(initial=NONE)) + 1)
        if least > len(clocks.clocks):
            clocks.grow(least)
        ck = clocks.clocks
        if self._linked == len(self.tables) and ck is self._linked_clocks:
            return ck
        ln = self.tables
        ln["rank"][self._names.by_name(ln, self._strings)] = np.arange(len(self.tables))
        # The lanes of each source, by number.
        by_source = np.argsort(ln["source"], kind="stable")
        sorted_source = ln["source"][by_source]
        is_first = np.diff(sorted_source, prepend=NONE) != 0
        ck["first_lane"] = NONE
        ck["first_lane"][sorted_source[is_first]] = by_source[is_first]
        following = np.where(np.roll(is_first, -1), NONE, np.roll(by_source, -1))
        ln["next_lane"][by_source] = following
        self._linked, self._linked_clocks = len(self.tables), ck
        return ck

    def known(self, least: int) -> np.ndarray:
        """Whether each source is known, by code, for ``least`` codes or more; then one False."""
        of = self.tables["source"]
        known = np.zeros(max(least, int(of.max(initial=NONE)) + 1) + 1, bool)
        known[of] = True
        return known

    def _inert(self, rows: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Whether each lane has no pending rows or markers, and does not block the merge."""
        ln = self.tables
        # Whether a silent one is marked as idle yet depends on how the records were cut.
        silent = are_silent(ln, int(state["clock"][0]))
        inert = np.asarray((ln["idle"] != 0) | (ln["closed"] != 0) | silent)
        for name in ("pog_seq", "next_pog_seq", "eos_seq"):
            inert &= ln[name] < 0
        inert[rows["lane"]] = False
        if state["blocker"][0] != NONE:
            inert[state["blocker"]] = False
        return inert

    def forget(self, kept: int, rows: np.ndarray, state: np.ndarray) -> list[int]:
        """Forget the sources heard least recently beyond ``kept``, if none of their events is
        buffered. A pure function of the records so far.

        Returns:
            their codes.
        """
        known = self.known(0)
        excess = int(known.sum()) - kept
        if excess <= 0:
            return []
        inert = self._inert(rows, state)
        sources, heard = self._sources_without(~inert, known)
        excess = min(excess, len(heard))
        if not excess:
            return []
        # Those before the last one to forget are found without names.
        last = np.partition(heard, excess - 1)[excess - 1]
        gone: list[int] = sources[heard < last].tolist()
        tied = sources[heard == last].tolist()
        tied.sort(key=lambda source: self._strings.text(source) or "")
        gone += tied[: excess - len(gone)]
        is_gone = np.zeros(len(known), bool)
        is_gone[gone] = True
        going = is_gone[self.tables["source"]]
        self.forgotten.add(len(gone), self.tables[going])
        self._remove(going, rows, state)
        return gone

    def _remove(self, going: np.ndarray, rows: np.ndarray, state: np.ndarray) -> None:
        """Remove lanes without buffered events; renumbers the others in ``rows`` and ``state``."""
        ln = self.tables
        freed = ln["memory"][going & (ln["memory"] > 0)]
        numbers_of(self.memories)[freed] = 0
        self._free += freed.tolist()
        self.runs = self.runs[np.repeat(~going, ln["missing_n"])]
        kept = np.flatnonzero(~going)
        place = np.full(len(ln), NONE)
        place[kept] = np.arange(len(kept))
        _move_down(numbers_of(ln), kept)
        self._names.keep(kept, place)
        self.tables = self._store[: len(kept)]
        if len(self._store) > _ROOMY * len(kept) + _ROOMY:
            self._close_up()
        self._slots = empty_slots(0)
        self._fill_slots(0)
        self._linked = -1
        rows["lane"] = place[rows["lane"]]
        if state["blocker"][0] != NONE:
            state["blocker"] = place[state["blocker"]]

    def _close_up(self) -> None:
        """Reduce the room to that of the lanes."""
        self.tables = self._store = self.tables.copy()
        has_memory = np.flatnonzero(self.tables["memory"])
        self._restore_memories(has_memory, self._used_memories(has_memory))

    def _used_memories(self, lanes: np.ndarray) -> np.ndarray:
        """The memories of ``lanes``, as words."""
        return np.asarray(numbers_of(self.memories)[self.tables["memory"][lanes]])

    def _restore_memories(self, lanes: np.ndarray, words: np.ndarray) -> None:
        """Restore the memories of ``lanes``; there are no others."""
        self.memories, self._free = np.zeros(1 + len(lanes), MEMORY), []
        numbers_of(self.memories)[1:] = words
        self.tables["memory"][lanes] = 1 + np.arange(len(lanes))

    def _sources_without(
        self, busy: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Known sources without a busy lane, and the arrival of the newest record of each."""
        of = self.tables["source"]
        newest = np.full(len(known), INT_MIN)
        np.maximum.at(newest, of, self.tables["last_arrival"])
        free = known.copy()
        free[of[busy]] = False
        sources = np.flatnonzero(free)
        return sources, newest[sources]

    def counters(self, names: tuple[str, ...], now: int) -> list[dict[str, Any]]:
        """Per lane: its source and stream, its counters and its current timeouts [ns].

        ``newest_ts``, ``last_arrival``: its progress; None before its first event (record).
        ``ended``: its end of stream arrived. ``idle``: it did not, and at ``now`` the lane has been
        silent for longer than its idle timeout. Forgotten sources are one lane without a source.
        """
        tables = self.tables
        timeouts = ("gap_timeout", "idle_timeout")
        numbers = (*names, *timeouts)
        others = ("source", "stream", "max_ts", "last_arrival", "closed")
        columns = {name: tables[name].tolist() for name in (*numbers, *others)}
        columns["silent"] = are_silent(tables, now).tolist()
        texts = self._strings.texts
        found = [
            {
                "source": texts[lane["source"]],
                "stream": texts[lane["stream"]],
                **{name: int(lane[name]) for name in numbers},
                **{
                    name: None if lane[instant] == INT_MIN else lane[instant]
                    for name, instant in (("newest_ts", "max_ts"), ("last_arrival", "last_arrival"))
                },
                "ended": bool(lane["closed"]),
                "idle": not lane["closed"] and lane["silent"],
            }
            for row in zip(*columns.values(), strict=True)
            for lane in [dict(zip(columns, row, strict=True))]
        ]
        return found + (self.forgotten.lanes(names, timeouts) if self.forgotten.sources else [])

    def codes(self) -> np.ndarray:
        """Codes of texts that are in use."""
        return np.concatenate([self.tables["source"], self.tables["stream"]])

    def adopt(self, strings: Strings) -> None:
        """Replace the table of texts by ``strings``, which has the same codes for texts in use."""
        self._strings = strings

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""
        words = self._used_memories(np.flatnonzero(self.tables["memory"]))
        return {
            "lanes": self.tables.copy(),
            "runs": self.runs,
            "memories": bytes(_CODEC.compress(words.tobytes(), asbytes=True)),
            "forgotten": self.forgotten.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self.tables = self._store = state["lanes"].copy()
        self.runs = state["runs"]
        has_memory = np.flatnonzero(self.tables["memory"])
        size = len(has_memory) * MEMORY.itemsize
        content = np.frombuffer(_CODEC.decompress(state["memories"], size), MEMORY)
        self._restore_memories(has_memory, numbers_of(content))
        self._names.clear()
        self._slots = empty_slots(0)
        self._fill_slots(0)
        self._linked = -1
        self.forgotten.restore(state["forgotten"])


@kernel
def _move_down(lanes: np.ndarray, kept: np.ndarray) -> None:
    """Move lane ``kept[i]``, as words, to place i; ``kept`` ascends."""
    for i in range(len(kept)):
        if kept[i] != i:
            for place in range(lanes.shape[1]):
                lanes[i, place] = lanes[kept[i], place]


def are_silent(lanes: np.ndarray, now: int) -> np.ndarray:
    """Whether each lane has been silent for longer than its idle timeout at ``now``."""
    last = lanes["last_arrival"]
    return np.asarray((last > INT_MIN) & (now - last > lanes["idle_timeout"]))
