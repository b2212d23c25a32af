"""How long a file is that only grows, and the checksum of all of it, so that no damage is missed.

One checksum over everything tells whether the file is as it was written, but not where it is not.
So those of some of its beginnings are kept, too, evenly spaced: at most ``MARKS``, however long
the file grows (when there are too many, every other one goes, and the next come twice as far
apart). Damage lies before the first that does not agree, and after the one before that.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MARKS: Final = 16
_STEP: Final = 4096
_PIECE: Final = 1 << 20


class CheckedLength:
    """``length``: bytes that were added."""

    def __init__(self) -> None:
        self.length = 0
        self._sum = 0
        self._step = _STEP
        self._marks: list[tuple[int, int]] = []

    @classmethod
    def of(cls, state: Sequence[int]) -> CheckedLength:
        """Inverse of ``state``."""
        made = cls()
        made.length, made._sum, made._step, *marks = state
        made._marks = list(zip(marks[::2], marks[1::2], strict=True))
        return made

    def state(self) -> tuple[int, ...]:
        """Plain data."""
        return (self.length, self._sum, self._step, *(n for mark in self._marks for n in mark))

    def add(self, content: bytes) -> None:
        """So much more."""
        self._sum = zlib.crc32(content, self._sum)
        self.length += len(content)
        if self.length - (self._marks[-1][0] if self._marks else 0) >= self._step:
            self._marks.append((self.length, self._sum))
        if len(self._marks) > MARKS:
            self._marks = self._marks[1::2]
            self._step *= 2

    def damage(self, path: Path) -> str:
        """In words, how the beginning of a file is not what was added; "": it is.

        Raises:
            OSError: it cannot be read.
        """
        if not path.exists():
            return "is gone" if self.length else ""
        size = path.stat().st_size
        if size < self.length:
            return f"ends at byte {size}, and had {self.length}"
        at = found = 0
        with path.open("rb") as stream:
            for end, wanted in (*self._marks, (self.length, self._sum)):
                start = at
                while at < end and (piece := stream.read(min(_PIECE, end - at))):
                    found = zlib.crc32(piece, found)
                    at += len(piece)
                if found != wanted:
                    return f"bytes {start} to {end} are not as they were written"
        return ""
