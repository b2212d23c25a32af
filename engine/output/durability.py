"""Which results are durable: files whose bytes are on disk, and checksums that show damage.

What goes on after a stop or a crash begins where these end. What files have beyond was written
later, and is compared with what is made again (``AnswerLines``), kept where it is whole
(``FiledTables``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from slackwater.engine.log.log_files import file_mark
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.whole_file import load, save

MARKS: Final = 16
_STEP: Final = 4096
_PIECE: Final = 1 << 20


class AnswersDamaged(Exception):  # noqa: N818 - no error: they are made again
    """Answers are not as they were written."""


class DurableBytes:
    """``length`` bytes of a file, or of files one after another.

    One checksum over everything shows whether they are as they were written, but not where they
    are not. So those of some beginnings are kept, too, evenly spaced: at most ``MARKS``, however
    many bytes are added (when there are too many, every other one goes, and the next come twice as
    far apart). Damage lies before the first that does not agree, and after the one before that.
    """

    def __init__(self) -> None:
        self.length = 0
        self._sum = 0
        self._step = _STEP
        self._marks: list[tuple[int, int]] = []

    @classmethod
    def of(cls, state: Sequence[int]) -> DurableBytes:
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

    def add_file(self, path: Path) -> None:
        """All of a file; raises OSError."""
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE):
                self.add(piece)

    def damage(self, path: Path, *, grows: bool = False) -> str:
        """In words, how a file does not have these bytes; "": it has.

        Args:
            path: of the file.
            grows: whether more may follow.

        Raises:
            OSError: it cannot be read.
        """
        if not path.exists():
            return "is gone" if self.length or not grows else ""
        size = path.stat().st_size
        if size < self.length or (size > self.length and not grows):
            return f"ends at byte {size}, and had {self.length}"
        at = found = 0
        with path.open("rb") as stream:
            for end, expected in (*self._marks, (self.length, self._sum)):
                start = at
                while at < end and (piece := stream.read(min(_PIECE, end - at))):
                    found = zlib.crc32(piece, found)
                    at += len(piece)
                if found != expected:
                    return f"bytes {start} to {end} are not as they were written"
        return ""


# How far a live engine is: which files of the log it has read, and which answers are durable.


AGAIN: Final = "answers are to be made again from the log's beginning"


class EngineProgress(Struct, frozen=True):
    """Of an engine with certain settings, over ``log``, in the file ``path``."""

    path: Path
    log: Path
    settings: str
    version: tuple[int, int]

    def load(
        self, tell: Callable[[str], None], fits: Callable[[dict[str, Any]], bool] = bool
    ) -> dict[str, Any] | None:
        """What was saved last; None: nothing, or the engine cannot go on with it.

        Args:
            tell: takes a line for people.
            fits: whether it can, beyond that settings, log and version are the same.
        """
        state = load(self.path)
        if state is None and self.path.exists():
            tell(f"{self.path}: is damaged: {AGAIN}")
        if state is None or (
            isinstance(state, dict)
            and state.get("version") == self.version
            and state["settings"] == self.settings
            and (
                state["mark"] == file_mark(self.log, state["done"])
                or state["done"] < retired(self.log).upto
            )
            and fits(state)
        ):
            return state
        tell("the engine's state is of other queries, log or version: starts from scratch")
        return None

    def save(self, done: int, **more: Any) -> None:
        """The log's files up to ``done`` are read; raises OSError: it cannot be written."""
        mark = file_mark(self.log, done)
        content = {"version": self.version, "settings": self.settings, "done": done, "mark": mark}
        save(self.path, content | more)
