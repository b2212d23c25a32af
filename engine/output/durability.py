"""Durable results: the bytes of files that are on disk, with checksums that detect damage.

After a stop or a crash the engine continues at the end of the durable bytes. Later bytes are
compared with the recomputed results (``AnswerLines``), or kept as whole files (``FiledTables``).
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


class AnswersDamaged(Exception):  # noqa: N818 - not an error: answers are computed again
    """Files of answers have changed since they were written."""


class DurableBytes:
    """``length`` bytes of a file, or of consecutive files.

    One checksum over all bytes detects a change, but not its place. So checksums of at most
    ``MARKS`` evenly spaced prefixes are kept, too; beyond that every other one is dropped and the
    distance is doubled. Damage is between the first prefix with a wrong checksum and the one before
    it.
    """

    def __init__(self) -> None:
        self.length = 0
        self._sum = 0
        self._step = _STEP
        self._marks: list[tuple[int, int]] = []

    @classmethod
    def of(cls, state: Sequence[int]) -> DurableBytes:
        """Return the bytes described by ``state``."""
        made = cls()
        made.length, made._sum, made._step, *marks = state
        made._marks = list(zip(marks[::2], marks[1::2], strict=True))
        return made

    def state(self) -> tuple[int, ...]:
        """Return plain data, for ``of``."""
        return (self.length, self._sum, self._step, *(n for mark in self._marks for n in mark))

    def add(self, content: bytes) -> None:
        """Append ``content``."""
        self._sum = zlib.crc32(content, self._sum)
        self.length += len(content)
        if self.length - (self._marks[-1][0] if self._marks else 0) >= self._step:
            self._marks.append((self.length, self._sum))
        if len(self._marks) > MARKS:
            self._marks = self._marks[1::2]
            self._step *= 2

    def add_file(self, path: Path) -> None:
        """Append the content of a file; raises OSError."""
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE):
                self.add(piece)

    def damage(self, path: Path, *, grows: bool = False) -> str:
        """Return how the file differs from these bytes, as text; "" if it does not.

        Args:
            path: path of the file.
            grows: more bytes may follow.

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


# The progress of a live engine: the files of the log that it has read, and its durable answers.


AGAIN: Final = "answers are to be made again from the log's beginning"


class EngineProgress(Struct, frozen=True):
    """The progress of an engine with ``settings`` on ``log``, saved in the file ``path``."""

    path: Path
    log: Path
    settings: str
    version: tuple[int, int]

    def load(
        self, tell: Callable[[str], None], fits: Callable[[dict[str, Any]], bool] = bool
    ) -> dict[str, Any] | None:
        """Return the saved state; None: there is none, or the engine cannot continue with it.

        Args:
            tell: takes a line for the user.
            fits: further condition on the state, besides equal settings, log and version.
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
        """Save that the log's files up to ``done`` are read; raises OSError."""
        mark = file_mark(self.log, done)
        content = {"version": self.version, "settings": self.settings, "done": done, "mark": mark}
        save(self.path, content | more)
