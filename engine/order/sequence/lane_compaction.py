"""Lanes of silent sources are packed: 2 KB or less instead of 30."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from engine.kernels.jit import kernel
from engine.kernels.records import INT_MIN, NONE, numbers_of
from engine.order.sequence.state import LANE, MEMORY

# What lanes remember (``MEMORY``, 30 KB each): places that are used again, never moved.
#
# Sources come and go, and most of them leave a memory that is nearly empty. So a lane that comes
# takes a cleared place, and one that is packed keeps only the words that are not 0: a bit for each
# word, then those words, compressed.


_WORDS: Final = MEMORY.itemsize // 8
_MASKS: Final = -(-_WORDS // 64)
_ROOMY: Final = 8
"""There are so many times as many places as lanes at most."""
_CODEC: Final = pa.Codec("lz4_raw")


class LaneMemories:
    """The memories of the lanes in the table, each at its ``LANE.memory``."""

    def __init__(self) -> None:
        self.pool = np.zeros(0, MEMORY)
        self._free: list[int] = []

    def take(self, count: int) -> np.ndarray:
        """Cleared places for so many lanes."""
        lacking = count - len(self._free)
        if lacking > 0:
            # Most sites of ten thousand have one source.
            size = len(self.pool)
            end = max(size + lacking, 2 * size)
            pool = np.zeros(end, MEMORY)  # pages are the process's only once they are used
            if size:
                numbers_of(pool)[:size] = numbers_of(self.pool)
            self.pool = pool
            self._free = [*range(end - 1, size - 1, -1), *self._free]
        start = len(self._free) - count
        taken = self._free[start:]
        del self._free[start:]
        return np.array(taken, np.int64)

    def kept(self, places: np.ndarray) -> list[bytes]:
        """What is at each of these places, packed."""
        if not len(places):
            return []
        words = numbers_of(self.pool)
        ends = np.empty(len(places), np.int64)
        end = _count(words, places, ends)
        room = np.empty(end, np.int64)
        _write(words, places, room)
        parts = room.data.cast("B")
        starts = [0, *(8 * ends[:-1]).tolist()]
        return [
            _sized(parts[start:stop])
            for start, stop in zip(starts, (8 * ends).tolist(), strict=True)
        ]

    def free(self, places: np.ndarray) -> None:
        """Nobody needs what is at these places."""
        _clear(numbers_of(self.pool), places)
        self._free += places.tolist()

    def again(self, contents: list[bytes]) -> np.ndarray:
        """Places where these are what they were when they were ``kept``."""
        places = self.take(len(contents))
        words = numbers_of(self.pool)
        for place, content in zip(places.tolist(), contents, strict=True):
            size = int.from_bytes(content[:4], "little")
            _read(np.frombuffer(_CODEC.decompress(content[4:], size), np.int64), words[place])
        return places

    def roomy(self, lanes: int) -> bool:
        """Whether there are far more places than so many lanes need."""
        return len(self.pool) > _ROOMY * lanes + _ROOMY

    def close_up(self, places: np.ndarray) -> None:
        """Only these are in use: they become the first ones, in this order."""
        pool = np.empty(len(places), MEMORY)
        np.take(numbers_of(self.pool), places, axis=0, out=numbers_of(pool))
        self.pool, self._free = pool, []


def _sized(part: memoryview) -> bytes:
    return len(part).to_bytes(4, "little") + bytes(_CODEC.compress(part, asbytes=True))


@kernel
def _count(words: np.ndarray, places: np.ndarray, ends: np.ndarray) -> int:
    """Where each packed memory ends, in words; gives the last end."""
    end = 0
    for i in range(len(places)):
        end += _MASKS
        for word in range(_WORDS):
            end += words[places[i], word] != 0
        ends[i] = end
    return end


@kernel
def _write(words: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """Masks and words of each memory, one after the other."""
    at = 0
    for i in range(len(places)):
        masks = at
        at += _MASKS
        for mask in range(_MASKS):
            bits = np.int64(0)
            for word in range(64 * mask, min(64 * mask + 64, _WORDS)):
                value = words[places[i], word]
                if value != 0:
                    bits |= np.int64(1) << (word & 63)
                    out[at] = value
                    at += 1
            out[masks + mask] = bits


@kernel
def _read(content: np.ndarray, into: np.ndarray) -> None:
    """The words of one memory, of which all others are 0 already."""
    at = _MASKS
    for word in range(_WORDS):
        if content[word >> 6] >> (word & 63) & 1:
            into[word] = content[at]
            at += 1


@kernel
def _clear(words: np.ndarray, places: np.ndarray) -> None:
    for i in range(len(places)):
        for word in range(_WORDS):
            words[places[i], word] = 0


# Lanes of sources that are quiet: their memories are packed, 2 KB or less instead of 30.
#
# Nothing is lost by packing: a lane that is heard again is what it was. So when it is packed is
# nobody's business but the memory's, and may depend on how the log is cut.


_LEAST: Final = 64


class Lanes(NamedTuple):
    """Some lanes: what the kernels know of each, its number in order of birth, and its memory as
    ``LaneMemories.kept`` gives it.
    """

    heads: np.ndarray
    numbers: np.ndarray
    memories: list[bytes]


def are_silent(lanes: np.ndarray, now: int) -> np.ndarray:
    """Whether the last record of each lane is further back than its idle timeout."""
    last = lanes["last_arrival"]
    silent: np.ndarray = (last > INT_MIN) & (now - last > lanes["idle_timeout"])
    return silent


_no_ints: Final = partial(np.empty, 0, np.int64)


class QuietLanes(Struct):
    """Packed lanes. Places are used again, so that one that goes moves no others."""

    used: int = 0
    """How many there are."""
    _heads: np.ndarray = field(default_factory=partial(np.empty, 0, LANE))
    _source: np.ndarray = field(default_factory=_no_ints)
    """NONE: nothing is here."""
    _heard: np.ndarray = field(default_factory=_no_ints)
    _numbers: np.ndarray = field(default_factory=_no_ints)
    _memories: list[bytes] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)

    def heard(self) -> tuple[np.ndarray, np.ndarray]:
        """Source and arrival of the newest record of each lane."""
        used = self._source != NONE
        return self._source[used], self._heard[used]

    def add(self, lanes: Lanes) -> None:
        """Keep these."""
        self.used += len(lanes.heads)
        lacking = len(lanes.heads) - len(self._free)
        if lacking > 0:
            self._grow(max(lacking, len(self._source), _LEAST))
        start = len(self._free) - len(lanes.heads)
        places = self._free[start:]
        del self._free[start:]
        at = np.array(places, np.int64)
        numbers_of(self._heads)[at] = numbers_of(lanes.heads)
        self._source[at] = lanes.heads["source"]
        self._heard[at] = lanes.heads["last_arrival"]
        self._numbers[at] = lanes.numbers
        for place, memory in zip(places, lanes.memories, strict=True):
            self._memories[place] = memory

    def _grow(self, more: int) -> None:
        size = len(self._source)
        heads = np.empty(size + more, LANE)
        numbers_of(heads)[:size] = numbers_of(self._heads)
        self._heads = heads
        self._source = np.append(self._source, np.full(more, NONE))
        self._heard, self._numbers = (
            np.append(column, np.zeros(more, np.int64)) for column in (self._heard, self._numbers)
        )
        self._memories += [b""] * more
        self._free += range(size + more - 1, size - 1, -1)

    def take(self, is_asked: np.ndarray) -> Lanes:
        """The lanes of sources for which this, by their code, is true; they are no longer here.

        False also for codes beyond its end; the last place is of no source.
        """
        asked = is_asked[np.minimum(self._source, len(is_asked) - 1)]
        places = np.flatnonzero(asked & (self._source != NONE))
        taken = self._at(places)
        self._source[places] = NONE
        self.used -= len(places)
        for place in places.tolist():
            self._memories[place] = b""
            self._free.append(place)
        return taken

    def all(self) -> Lanes:
        """Every lane."""
        return self._at(np.flatnonzero(self._source != NONE))

    def _at(self, places: np.ndarray) -> Lanes:
        return Lanes(
            numbers_of(self._heads)[places].view(LANE).reshape(-1),
            self._numbers[places], [self._memories[place] for place in places.tolist()],
        )  # fmt: skip

    def snapshot(self) -> tuple[Any, ...]:
        """Plain data."""
        return tuple(self.all())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Take over a snapshot, when there are none."""
        self.add(Lanes(*state))
