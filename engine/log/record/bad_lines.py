"""What happens to a line of the user's input that breaks a rule: stop, or count, keep, go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from engine.errors import UserError

ON_BAD: Final = ("stop", "skip")


class Fault(NamedTuple):
    """``line`` (1-based) of the input breaks a rule, for ``reason``."""

    line: int
    reason: str


class BadLines:
    """The policy for one input, and the count of its bad lines (attribute ``count``).

    ``on_bad="stop"`` raises at the first bad line; ``"skip"`` counts it and appends
    ``{"line", "reason", "text"}`` to the JSONL file ``dead_letter``, if one is named. The file is
    begun anew when the input is opened, so that it speaks of this run only.
    """

    def __init__(self, name: str, on_bad: str, dead_letter: Path | None) -> None:
        if on_bad not in ON_BAD:
            raise UserError(f"unknown --on-bad {on_bad!r}; use one of {', '.join(ON_BAD)}")
        self.name = name
        self.on_bad = on_bad
        self.dead_letter = dead_letter
        self.count = 0
        self._file: TextIO | None = None

    def opened(self) -> AbstractContextManager[TextIO | None]:
        """Begins anew: the dead-letter file, if one is named, is open within."""
        self.count, self._file = 0, None
        if self.on_bad == "skip" and self.dead_letter is not None:
            if _same_file(self.dead_letter, Path(self.name)):
                raise UserError(
                    f"{self.dead_letter}: is the input itself; give another --dead-letter"
                )
            try:
                self._file = self.dead_letter.open("w", encoding="utf-8")
            except OSError as error:
                raise UserError(
                    f"{self.dead_letter}: the dead-letter file cannot be written: {error.strerror}"
                ) from error
        return self._file or nullcontext()

    def report(self, faults: Sequence[Fault], text_of: Callable[[int], str]) -> None:
        """Takes the faults of one chunk, in any order; ``text_of(line)`` gives the line itself.

        Raises:
            UserError: ``FILE:LINE: reason`` of the first line, under ``on_bad="stop"``.
        """
        if not faults:
            return
        ordered = sorted(faults)
        if self.on_bad == "stop":
            raise UserError(f"{self.name}:{ordered[0].line}: {ordered[0].reason}")
        self.count += len(ordered)
        if self._file is not None:
            for line, reason in ordered:
                kept = {"line": line, "reason": reason, "text": text_of(line)}
                self._file.write(json.dumps(kept) + "\n")


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
