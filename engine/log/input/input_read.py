"""What every reader of an input has: how it is written, what is bad in it, its rows sorted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from engine.log.input.intake import RowIntake
from engine.log.input.lines import STDIN
from engine.log.input.sorting import Sorter
from engine.log.record.bad_lines import BadLines
from engine.log.record.times import Times
from engine.stream.frame import Frame


class InputKind(StrEnum):
    """What an input is."""

    TRACE = "trace"
    CSV = "csv"
    PARQUET = "parquet"
    TABLE = "table"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class InputForm:
    """How an input that is no arrival log is written.

    ``unit``: of times that are numbers; None: ns, and an input whose times are dates only in
    another unit is refused (``log.record.times``). ``mapping``: record field, or ``attrs.NAME``, ->
    column, or key of a trace's objects (``a.b``: key ``b`` of the object ``a``). ``attrs``: columns
    or keys that become attributes; None: all the rest. ``delimiter``: of CSV; None: guessed from
    the header. ``header``: names of the columns of CSV without a header. ``sort``: ``arrival`` |
    ``ts``; None: records stand in order of arrival. ``timezone``: of times that name none; None:
    UTC.
    """

    unit: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    attrs: Sequence[str] | None = None
    delimiter: str | None = None
    header: Sequence[str] | None = None
    sort: str | None = None
    timezone: str | None = None

    @property
    def of_log(self) -> bool:
        """Whether nothing is said that an arrival log could not have."""
        return replace(self, unit=None) == PLAIN_FORM


PLAIN_FORM: Final = InputForm()


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
        self._intake = RowIntake(self._times.unit_ns)
        self._sorter = None if self.form.sort is None else Sorter(self.name, self.form.sort)

    @property
    def bad_count(self) -> int:
        """Lines or rows refused so far and skipped."""
        return self._bad.count

    @property
    def arrival_given(self) -> bool:
        """Whether a record so far gave its arrival (else line numbers stand in)."""
        return self._intake.arrival_given

    def __iter__(self) -> Iterator[Frame]:
        if self._has_begun:
            self._begin()
        self._has_begun = True
        with self._bad.opened():
            yield from self._read()
        if self._sorter is not None:
            for rows in self._sorter.sorted():
                yield from self._intake.frames(*rows)
        if self.records == 0:
            raise self._nothing()

    @abstractmethod
    def _read(self) -> Iterator[Frame]:
        """The frames, in parts of bounded size, but for those that wait to be sorted."""

    @abstractmethod
    def _nothing(self) -> Exception:
        """What is told of an input without any record."""

    def _taken(
        self, fields: dict[str, pa.Array], attrs: dict[str, pa.Array], lines: np.ndarray
    ) -> list[Frame]:
        """Rows without faults as frames; none yet if they are to be sorted."""
        self.records += len(lines)
        if self._sorter is None or not len(lines):
            return self._intake.frames(fields, attrs, lines)
        self._sorter.add(fields, attrs, self._intake.arrivals(fields, lines), lines)
        return []
