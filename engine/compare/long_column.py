"""An int64 column of any length in bounded memory, and the values at places of its sorted order.

Values beyond a buffer go to a temporary file, which has no name and ends with the column: 8 bytes
each. The value at a place is found digit by digit, the highest first: one reading of the values
counts how many have each digit, which tells the digit of the wanted one. Values that lie within
68 s take three readings for any number of places, and nothing is sorted.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, Final

import numpy as np

_ROOM: Final = 1 << 16
"""Values in memory: 512 KiB."""
_DIGIT_BITS: Final = 12
"""Counts of a digit take 32 KiB, which the processor keeps close."""
_LOW_BITS: Final = 32


class LongColumn:
    """Grows at its end. ``smallest``, ``largest``, ``total``: exact; 0 without values."""

    def __init__(self) -> None:
        self._room = np.empty(_ROOM, np.int64)
        self._n = 0
        self._file: IO[bytes] | None = None
        self._blocks = 0
        self.smallest = self.largest = self.total = 0

    @classmethod
    def of(cls, values: np.ndarray) -> LongColumn:
        """Of an int64 array."""
        made = cls()
        made.add(values)
        return made

    def __len__(self) -> int:
        return self._blocks * _ROOM + self._n

    def add(self, values: np.ndarray) -> None:
        """Append int64 values.

        Raises:
            OSError: the disk for temporary files is full.
        """
        if not len(values):
            return
        smallest, largest = int(values.min()), int(values.max())
        self.smallest = min(self.smallest, smallest) if len(self) else smallest
        self.largest = max(self.largest, largest) if len(self) else largest
        high = int((values >> _LOW_BITS).sum()) << _LOW_BITS
        self.total += high + int((values & ((1 << _LOW_BITS) - 1)).sum())
        for at in range(0, len(values), _ROOM):
            self._append(values[at : at + _ROOM])

    def _append(self, values: np.ndarray) -> None:
        """At most as many as the buffer holds."""
        fits = min(len(values), _ROOM - self._n)
        self._room[self._n : self._n + fits] = values[:fits]
        self._n += fits
        if self._n < _ROOM:
            return
        if self._file is None:
            self._file = file = tempfile.TemporaryFile(prefix="slackwater-")  # noqa: SIM115
            weakref.finalize(self, file.close)
        self._file.seek(self._blocks * self._room.nbytes)
        self._file.write(self._room.data)
        self._blocks += 1
        self._n = len(values) - fits
        self._room[: self._n] = values[fits:]

    def at(self, places: Sequence[int]) -> list[int]:
        """The values at these places of the ascending order, the first of which is 0."""
        # Of each place: its digits so far, and its place among the values that begin with them.
        wanted = [(0, place) for place in places]
        bits = (self.largest - self.smallest).bit_length()
        for shift in reversed(range(0, bits, _DIGIT_BITS)):
            counts = self._count({digits for digits, _ in wanted}, shift)
            for number, (digits, place) in enumerate(wanted):
                upto = counts[digits]
                digit = int(np.searchsorted(upto, place, side="right"))
                before = int(upto[digit - 1]) if digit else 0
                wanted[number] = (digits << _DIGIT_BITS) | digit, place - before
        return [self.smallest + digits for digits, _ in wanted]

    def _count(self, beginnings: set[int], shift: int) -> dict[int, np.ndarray]:
        """Of the values that begin with some digits: how many go on with each digit or less."""
        counts = {digits: np.zeros(1 << _DIGIT_BITS, np.int64) for digits in beginnings}
        lowest = np.uint64(self.smallest % (1 << 64))
        for block in self._read():
            # As uint64, which a difference of two int64 always fits.
            above = (block.astype(np.uint64) - lowest) >> np.uint64(shift)
            digit = (above & np.uint64((1 << _DIGIT_BITS) - 1)).astype(np.int64)
            beginning = above >> np.uint64(_DIGIT_BITS)
            for digits in beginnings:
                counts[digits] += np.bincount(
                    digit[beginning == digits], minlength=1 << _DIGIT_BITS
                )
        return {digits: np.cumsum(count) for digits, count in counts.items()}

    def _read(self) -> Iterator[np.ndarray]:
        """All values, a buffer's at a time."""
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._blocks):
                yield np.frombuffer(self._file.read(self._room.nbytes), np.int64)
        yield self._room[: self._n]
