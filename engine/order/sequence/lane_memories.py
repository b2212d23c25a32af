"""What lanes remember (``MEMORY``, 30 KB each): places that are used again, never moved.

Sources come and go, and most of them leave a memory that is nearly empty. So a lane that comes
takes a cleared place, and one that is packed keeps only the words that are not 0: a bit for each
word, then those words, compressed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from engine.kernels.jit import kernel
from engine.kernels.records import numbers_of
from engine.order.sequence.state import MEMORY

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
