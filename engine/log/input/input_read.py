"""What every reader of an input has: how it is written, what is bad in it, its rows sorted.

A line or row that breaks a rule stops the reading, or is counted, kept and left out.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final, TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from engine.errors import UserError
from engine.log.input.intake import RowIntake
from engine.log.input.lines import CHUNK_LINES, STDIN
from engine.log.input.numbering import CountedLane, Numbering
from engine.log.input.sorting import Rows, Sorter
from engine.log.record.record_rules import Fault
from engine.log.record.times import Times
from engine.stream.frame import Frame

ON_BAD: Final = ("stop", "skip")


class InputKind(StrEnum):
    """What an input is."""

    TRACE = "trace"
    CSV = "csv"
    PARQUET = "parquet"
    TABLE = "table"
    LOG = "log"


class InputForm(Struct, frozen=True):
    """How an input that is no arrival log is written.

    ``unit``: of times that are numbers; None: ns, and an input whose times are dates only in
    another unit is refused (``log.record.times``). ``mapping``: record field, or ``attrs.NAME``, ->
    column, or key of a trace's objects (``a.b``: key ``b`` of the object ``a``). ``attrs``: columns
    or keys that become attributes; None: all the rest. ``delimiter``: of CSV; None: guessed from
    the header. ``header``: names of the columns of CSV without a header. ``sort``: ``arrival`` |
    ``ts``; None: records stand in order of arrival. ``timezone``: of times that name none; None:
    UTC. ``seq_bits``: of counters that wrap around, by stream (``""``: every other one).
    """

    unit: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    attrs: Sequence[str] | None = None
    delimiter: str | None = None
    header: Sequence[str] | None = None
    sort: str | None = None
    timezone: str | None = None
    seq_bits: Mapping[str, int] = field(default_factory=dict)

    @property
    def of_log(self) -> bool:
        """Whether nothing is said that an arrival log could not have."""
        return replace(self, unit=None) == PLAIN_FORM


PLAIN_FORM: Final = InputForm()


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


class InputRead(ABC):
    """An input being read: iterate it for its frames, anew each time; counts grow meanwhile.

    Args:
        path: the file; ``-``: standard input.
        form: how it is written, or but the unit of its times.
        on_bad: ``stop`` at the first bad line or row, or ``skip`` and count it.
        dead_letter: JSONL file that gets the skipped ones with their reasons.

    Attributes:
        records: records taken so far.

    Raises:
        UserError: here or while iterating: ``FILE:LINE: what is wrong``, or a file that cannot be
            read.
    """

    kind: ClassVar[InputKind]

    def __init__(
        self,
        path: str | Path,
        form: InputForm | str = PLAIN_FORM,
        on_bad: str = "stop",
        dead_letter: str | Path | None = None,
    ) -> None:
        self.form = InputForm(form) if isinstance(form, str) else form
        self.path = str(path)
        self.name = "<stdin>" if self.path == STDIN else self.path
        self._bad = BadLines(self.name, on_bad, None if dead_letter is None else Path(dead_letter))
        self._begin()

    def _begin(self) -> None:
        self.records = 0
        self._has_begun = False
        self._times = Times(self.name, self.form.unit, self.form.timezone)
        self._intake = RowIntake(self._times.unit_ns, Numbering(self.form.seq_bits))
        self._sorter = None if self.form.sort is None else Sorter(self.name, self.form.sort)

    @property
    def bad_count(self) -> int:
        """Lines or rows refused so far and skipped."""
        return self._bad.count

    @property
    def numbered(self) -> bool:
        """Whether an event so far had a number of its own (else they are counted)."""
        return self._intake.numbering.some

    @property
    def counted(self) -> tuple[CountedLane, ...]:
        """What was found of the numbers so far, of each lane where anything was."""
        return self._intake.numbering.found()

    @property
    def arrival_given(self) -> bool:
        """Whether a record so far gave its arrival (else line numbers stand in)."""
        return self._intake.arrival_given

    def __iter__(self) -> Iterator[Frame]:
        if self._has_begun:
            self._begin()
        self._has_begun = True
        with self._bad.opened():
            for fields, attrs, lines in self._read():
                self.records += len(lines)
                if self._sorter is None or not len(lines):
                    yield from self._frames(fields, attrs, lines)
                else:
                    arrivals = self._intake.arrivals(fields, lines)
                    self._sorter.add(fields, attrs, arrivals, lines)
        if self._sorter is not None:
            for rows in self._sorter.sorted():
                yield from self._frames(*rows)
        if self.records == 0:
            raise self._nothing()

    def _frames(self, *rows: *Rows) -> Iterator[Frame]:
        """Rows without faults as frames of at most ``CHUNK_LINES`` records of one site."""
        for frame in self._intake.frames(*rows):
            size = frame.batch.num_rows
            if size <= CHUNK_LINES:
                yield frame
                continue
            for start in range(0, size, CHUNK_LINES):
                yield frame.slice(start, min(CHUNK_LINES, size - start))

    @abstractmethod
    def _read(self) -> Iterator[Rows]:
        """The rows without faults, in parts of bounded size."""

    @abstractmethod
    def _nothing(self) -> Exception:
        """What is told of an input without any record."""
