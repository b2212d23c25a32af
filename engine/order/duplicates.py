"""Second copies of events, found by their numbers, for the orders that look at no numbers.

A copy is an event whose (source, stream, incarnation, number) came before. ``sequence`` knows what
it expects; the others would pass every copy on, and each would be counted as an event. Here one
bit per number says whether it came, in blocks of 64 numbers.

Horizon. A number is compared with those up to ``HORIZON`` below the newest of its lane, a lane
being one (source, stream, incarnation). One further back begins the lane's memory again and is no
copy: counters that wrap at 16 bits, or that begin again, go on. So an event that is no copy is
dropped only where numbers are not unique within the horizon, which ``duplicates=pass`` is for.

Bounded. A lane takes 8 bytes per 64 numbers that it spans, 4 kB at most. There are two generations
of lanes: one that is heard moves to the young one; when that is full the old one is forgotten and
the young one is the old one. So at least the last 2,000 lanes are known, and the last 65,536 where
each has sent little; all take 38 MB at most.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import Columns
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import NONE, copy_of, numbers_of, one, record
from slackwater.engine.kernels.tables import empty_slots, enter, slot_of

HORIZON: Final = 32_000
"""In numbers; less than half of those that 16 bits count."""
_BLOCKS_MAX: Final = 512
"""Of a lane: enough for the horizon wherever in a block it ends."""
LANES_MAX: Final = 1 << 16
"""Of a generation."""
BLOCKS_MAX: Final = 1 << 21
"""Of a generation; 16 MB."""
LANE: Final = np.dtype(
    [
        ("source", "i8"), ("stream", "i8"), ("incarnation", "i8"),  # its key
        ("newest", "i8"), ("low", "i8"),  # the first block that anything came of
        ("start", "i4"), ("blocks", "i4"),  # where its bits are, a power of two of blocks
    ]
)  # fmt: skip
_KEY: Final = 3
STATE: Final = record("lanes", "used", "needed")
"""How many lanes and blocks are in use, and how many blocks found no room."""
_NEW, _COPY, _NO_ROOM = 0, 1, 2
_NO_INTS: Final = np.empty(0, np.int64)
_NO_CODES: Final = np.empty(0, np.int32)


class Generation(NamedTuple):
    """Lanes and their bits. ``slots``: hash table of places in ``lanes``; ``keys``: what these
    begin with. ``bits``: int64 per block of 64 numbers; block b of a lane of n blocks is at
    ``start + b % n``. ``state``: one STATE.
    """

    slots: np.ndarray
    keys: np.ndarray
    lanes: np.ndarray
    bits: np.ndarray
    state: np.ndarray


@kernel
def _is_full(g: Generation) -> bool:
    """Whether the generation is over. It says nothing of the arrays, which a restart cuts."""
    return bool(g.state[0].lanes >= LANES_MAX or g.state[0].used > BLOCKS_MAX - _BLOCKS_MAX)


@kernel
def _has_room(g: Generation, blocks: int) -> bool:
    """Whether one more lane, and so many more blocks, fit."""
    state = g.state[0]
    state.needed = blocks
    count = state.lanes + 1
    fits = count <= len(g.lanes) and state.used + blocks <= len(g.bits)
    return bool(fits and 2 * count <= len(g.slots) and not _is_full(g))


@kernel
def _begin(g: Generation, lane: int, number: int) -> None:
    """Know of ``number`` and of no other."""
    start, blocks = g.lanes[lane].start, g.lanes[lane].blocks
    g.bits[start : start + blocks] = 0
    g.bits[start + (number >> 6 & (blocks - 1))] = 1 << (number & 63)
    g.lanes[lane].newest = number
    g.lanes[lane].low = number >> 6


@kernel
def _enter(young: Generation, old: Generation, key: tuple[int, int, int]) -> int:
    """The lane moved over from the old generation, or a new one; NONE: there is no room."""
    before = old.slots[slot_of(old.slots, old.keys, key)]
    blocks = 1 if before == NONE else old.lanes[before].blocks
    if not _has_room(young, blocks):
        return NONE
    lane, start = young.state[0].lanes, young.state[0].used
    young.state[0].lanes += 1
    young.state[0].used += blocks
    young.slots[slot_of(young.slots, young.keys, key)] = lane
    new = young.lanes[lane]
    new.source, new.stream, new.incarnation = key
    new.start, new.blocks, new.newest = start, blocks, NONE
    if before != NONE:
        was = old.lanes[before]
        for block in range(blocks):
            young.bits[start + block] = old.bits[was.start + block]
        new.newest, new.low = was.newest, was.low
    return int(lane)


@kernel
def _grow(g: Generation, lane: int, needed: int) -> bool:
    """Give the lane a power of two of blocks, ``needed`` at least; False: there is no room."""
    before, was = g.lanes[lane].blocks, g.lanes[lane].start
    blocks = before
    while blocks < needed:
        blocks *= 2
    if not _has_room(g, blocks):
        return False
    start = g.state[0].used
    g.state[0].used += blocks
    g.bits[start : start + blocks] = 0
    top = g.lanes[lane].newest >> 6
    for block in range(max(g.lanes[lane].low, top - before + 1), top + 1):
        g.bits[start + (block & (blocks - 1))] = g.bits[was + (block & (before - 1))]
    g.lanes[lane].start = start
    g.lanes[lane].blocks = blocks
    return True


@inline
def _note(g: Generation, lane: int, number: int) -> int:
    """Whether ``number`` came before; it has come now."""
    newest, block = g.lanes[lane].newest, number >> 6
    if newest == NONE or newest - number > HORIZON or number - newest > HORIZON:
        _begin(g, lane, number)
        return _NEW
    low, top = min(g.lanes[lane].low, block), max(newest >> 6, block)
    needed = min(top - low + 1, _BLOCKS_MAX)
    if needed > g.lanes[lane].blocks and not _grow(g, lane, needed):
        return _NO_ROOM
    start, mask = g.lanes[lane].start, g.lanes[lane].blocks - 1
    if number > newest:
        for passed in range((newest >> 6) + 1, block + 1):
            g.bits[start + (passed & mask)] = 0
        g.lanes[lane].newest = number
    g.lanes[lane].low = max(low, top - mask)
    bit = 1 << (number & 63)
    if g.bits[start + (block & mask)] & bit:
        return _COPY
    g.bits[start + (block & mask)] |= bit
    return _NEW


@kernel
def _sift(
    young: Generation, old: Generation, source: np.ndarray, stream: np.ndarray, default: int,
    incarnation: np.ndarray, seq: np.ndarray, start: int, copies: np.ndarray,
) -> int:  # fmt: skip
    """Mark the copies from row ``start`` on; gives the first row that found no room, or the end.

    ``stream``, ``incarnation``: empty where every event is of stream ``default``, of 0.
    """
    lane = NONE
    of = (0, 0, 0)
    for row in range(start, len(seq)):
        if seq[row] < 0:
            continue  # has no number
        of_row = stream[row] if len(stream) else default
        since = incarnation[row] if len(incarnation) else 0
        key = (int(np.int64(source[row])), int(np.int64(of_row)), int(since))
        if lane == NONE or key != of:
            of = key
            lane = young.slots[slot_of(young.slots, young.keys, key)]
            if lane == NONE:
                lane = _enter(young, old, key)
            if lane == NONE:
                return row
        found = _note(young, lane, seq[row])
        if found == _NO_ROOM:
            return row
        copies[row] = found == _COPY
    return len(seq)


class Duplicates:
    """Which numbers came, of a site's lanes."""

    def __init__(self) -> None:
        self._young, self._old = _generation(), _generation()

    def among(self, columns: Columns, default_stream: int) -> np.ndarray | None:
        """Whether each event is a copy of an earlier one; None: none of them has a number.

        Args:
            columns: of events in arrival order.
            default_stream: code of the stream of those that name none.
        """
        if r.SEQ not in columns:
            return None
        copies = np.zeros(len(columns[r.SEQ]), np.bool_)
        # The kernel sees arrays of one kind; those of a frame may be read-only.
        source, stream, incarnation, seq = (
            np.require(columns.get(name, nothing), nothing.dtype, ["C", "W"])
            for name, nothing in ((r.SOURCE, _NO_CODES), (r.STREAM, _NO_CODES),
                                  (r.INCARNATION, _NO_INTS), (r.SEQ, _NO_INTS))
        )  # fmt: skip
        row = 0
        while True:
            row = _sift(
                self._young, self._old, source, stream, default_stream, incarnation, seq, row,
                copies,
            )  # fmt: skip
            if row == len(copies):
                return copies
            self._make_room()

    def _make_room(self) -> None:
        """Room for what found none."""
        if _is_full(self._young):
            self._old, self._young = self._young, _generation()
        else:
            self._young = _roomy(self._young)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"young": _saved(self._young), "old": _saved(self._old)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._young, self._old = (_made(*state[name]) for name in ("young", "old"))


def _generation() -> Generation:
    return _made(np.empty(0, LANE), _NO_INTS)


def _saved(g: Generation) -> tuple[np.ndarray, np.ndarray]:
    state = g.state[0]
    return copy_of(g.lanes[: state["lanes"]]), g.bits[: state["used"]].copy()


def _roomy(g: Generation) -> Generation:
    """The same with room for one more lane and for the blocks that were needed, and for more."""
    lanes, bits = _saved(g)
    needed = int(g.state["needed"][0])
    return _made(lanes, bits, 2 * len(lanes) + 1, 2 * len(bits) + needed)


def _made(
    lanes: np.ndarray, bits: np.ndarray, lanes_room: int = 0, bits_room: int = 0
) -> Generation:
    """These lanes and bits, copied, with their hash table, in arrays with room; for two lanes, as
    keys of one would be contiguous and thus of another type for the kernel.
    """
    lanes_room = max(2, len(lanes), lanes_room)
    made, of = np.empty(lanes_room, LANE), np.empty(max(len(bits), bits_room), np.int64)
    numbers_of(made)[: len(lanes)], of[: len(bits)] = numbers_of(lanes), bits
    keys, slots = numbers_of(made)[:, :_KEY], empty_slots(lanes_room)
    enter(slots, keys[: len(lanes)], 0)
    return Generation(slots, keys, made, of, one(STATE, lanes=len(lanes), used=len(bits)))
