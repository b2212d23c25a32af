"""The base of all readers of inputs: options, bad lines, sorted rows."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.describe import ints
from slackwater.engine.log.input.intake import RowIntake
from slackwater.engine.log.input.lines import CHUNK_LINES, STDIN
from slackwater.engine.log.input.numbering import CountedLane, Numbering
from slackwater.engine.log.record.record_rules import Fault
from slackwater.engine.log.record.times import Times
from slackwater.engine.log.record.trace_record import KnownType

# Sorts the rows of an unordered input by arrival or event time (``--sort``).
#
# The whole input is in memory for this. The sort is stable.


SORTS: Final = (r.ARRIVAL, r.TS)
_FIELD: Final = "field."
_VALUE: Final = "value."
_PLACE: Final = "place"
_EVENT_PLACE: Final = "event place"
Rows = tuple[dict[str, pa.Array], dict[str, pa.Array], np.ndarray]
"""Record fields, attributes, and each row's line number."""


class Sorter:
    """Collects the rows of the input ``name`` and sorts them ``by`` arrival or event time.

    ``by`` None: by arrival if all rows have one, by event time if none has. A row without ``ts``
    stays after the row before it.

    Raises:
        UserError: ``by`` is not one of ``SORTS``.
    """

    def __init__(self, name: str, by: str | None) -> None:
        if by is not None and by not in SORTS:
            raise UserError(f"unknown --sort {by!r}; use {' or '.join(SORTS)}")
        self.name = name
        self.by = by
        self._tables: list[pa.Table] = []
        self._last_ts = 0
        self._arrived = 0

    def add(self, fields: dict[str, pa.Array], attrs: dict[str, pa.Array], place: np.ndarray,
            lines: np.ndarray) -> None:  # fmt: skip
        """Add rows without faults; ``place``: their arrivals [ns] or places in the input.

        Raises:
            UserError: the rows have arrivals but are to be sorted by event time.
        """
        if self.by == r.TS:
            if r.ARRIVAL in fields and fields[r.ARRIVAL].null_count < len(lines):
                line = lines[ints(fields[r.ARRIVAL])[1]][0]
                raise UserError(
                    f"{self.name}:{line}: says when it arrived; --sort ts is for inputs without "
                    '"arrival": give --sort arrival'
                )
            place = self._event_times(fields, len(lines))
        if self.by is None:
            if r.ARRIVAL in fields:
                self._arrived += len(lines) - fields[r.ARRIVAL].null_count
            later = self._event_times(fields, len(lines))
        else:
            later = place
        columns = {_FIELD + name: column for name, column in fields.items()}
        columns |= {_VALUE + name: column for name, column in attrs.items()}
        self._tables.append(pa.table(columns | {_PLACE: place, _EVENT_PLACE: later}))

    def _event_times(self, fields: dict[str, pa.Array], rows: int) -> np.ndarray:
        values, valid = ints(fields.get(r.TS, pa.nulls(rows, pa.int64())))
        at = np.maximum.accumulate(np.where(valid, np.arange(rows), -1))
        place = np.where(at >= 0, values[np.maximum(at, 0)], self._last_ts)
        self._last_ts = int(place[-1])
        return place

    def sorted(self) -> Iterator[Rows]:
        """Yield all rows in order, in parts, numbered from 1.

        Raises:
            UserError: ``by`` is None, and only some rows have an arrival.
        """
        if not self._tables:
            return
        rows = sum(each.num_rows for each in self._tables)
        if self.by is None and 0 < self._arrived < rows:
            raise UserError(
                f"{self.name}: {self._arrived:,} of {rows:,} rows give their arrival; give it for "
                "all, or take it from none: --map attrs.arrival=arrival"
            )
        place = _EVENT_PLACE if self.by is None and not self._arrived else _PLACE
        whole = pa.concat_tables(self._tables, promote_options="permissive").unify_dictionaries()
        self._tables.clear()
        order = np.argsort(whole.column(place).to_numpy(), kind="stable")
        for start in range(0, len(order), CHUNK_LINES):
            part = whole.take(pa.array(order[start : start + CHUNK_LINES])).combine_chunks()
            columns = {name: _one(part.column(name)) for name in part.column_names}
            fields, attrs = (
                {
                    name.removeprefix(prefix): column
                    for name, column in columns.items()
                    if name.startswith(prefix)
                }
                for prefix in (_FIELD, _VALUE)
            )
            yield fields, attrs, np.arange(start, start + part.num_rows) + 1


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


# Sites whose attributes differ in type get separate parts.
#
# In a log or a trace an attribute may be a number at one site and text at another. A column has one
# type, so each part has sites that agree; usually there is one part.


_NONE: Final = type(None)
_Kind = type | str | None
"""The type of an attribute at a site; the site's name if its values have no common type, which
is a fault; None: no values."""
Part = tuple[list[dict[str, Any]], np.ndarray, dict[str, pa.Array]]


def agreeing(
    records: list[dict[str, Any]], lines: np.ndarray, columns: dict[str, pa.Array],
    known: Mapping[Any, KnownType],
) -> list[Part]:  # fmt: skip
    """Return parts in which each attribute has one type, each in order; one part if sites agree.

    Args:
        records: checked by ``trace_record``; their ``attrs`` are compared.
        lines: line numbers, ascending.
        columns: other fields, of equal length.
        known: types from earlier parts, by site and name.
    """
    sites = [record.get(r.SITE) or r.DEFAULT_SITE for record in records]
    several = set(sites)
    apart = _apart(records, sites, known) if len(several) > 1 else []
    if not apart:
        return [(records, lines, columns)]
    of_site = {site: tuple(kinds.get(site) for kinds in apart) for site in several}
    groups: dict[tuple[_Kind, ...], list[int]] = {}
    for row, site in enumerate(sites):
        groups.setdefault(of_site[site], []).append(row)
    parts = []
    for rows in groups.values():
        taken_columns = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        parts.append(([records[row] for row in rows], lines[rows], taken_columns))
    return parts


def _apart(
    records: Sequence[dict[str, Any]], sites: Sequence[str], known: Mapping[Any, KnownType]
) -> list[dict[str, _Kind]]:
    """Return the types by site, for each attribute whose type differs between sites."""
    attrs = [record.get(r.ATTRS) or {} for record in records]
    found = []
    for name in sorted(set[str]().union(*attrs)):
        types: dict[str, set[type]] = {}
        for site, type_ in set(zip(sites, (type(each.get(name)) for each in attrs), strict=True)):
            if type_ is not _NONE:
                types.setdefault(site, set()).add(type_)
        kinds = {site: _kind(site, of, known.get((site, name))) for site, of in types.items()}
        if len(set(kinds.values())) > 1:
            found.append(kinds)
    return found


def _kind(site: str, types: set[type], known: KnownType | None) -> _Kind:
    types = types if known is None else types | {known.type}
    if types == {int, float}:
        return float
    return next(iter(types)) if len(types) == 1 else site


# The base of all readers. A line or row that breaks a rule stops the reader, or is counted, written
# to the dead-letter file and skipped.


ON_BAD: Final = ("stop", "skip")


class InputKind(StrEnum):
    """The kind of an input."""

    TRACE = "trace"
    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"
    LINE_PROTOCOL = "line-protocol"
    ANNOTATED = "annotated-csv"
    TABLE = "table"
    FILES = "files"
    LOG = "log"


class InputForm(Struct, frozen=True):
    """The form of an input that is not an arrival log.

    ``unit``: of times that are numbers; None: ns, and times that are dates only in another unit are
    refused (``log.record.times``). ``mapping``: record field, or ``attrs.NAME``, -> column, or key
    of a trace's objects (``a.b``: key ``b`` of the object ``a``). ``attrs``: columns or keys that
    become attributes; None: all others. ``delimiter``: of CSV; None: detected in the header.
    ``header``: names of columns of CSV without a header. ``sort``: ``arrival`` | ``ts``; None:
    records are in order of arrival. ``timezone``: of times without one; None: UTC. ``seq_bits``: of
    counters that wrap around, by stream (``""``: all others). ``named_by_file``: record fields that
    take the name of the file. ``format``: one of ``FORMATS``; None: detected. ``skip_lines``: lines
    before the header. ``nulls``: texts that mean null. ``on_short``: CSV rows with too few values
    are ``bad`` or filled with nulls (``null``). ``date``: of times of day without one, or the
    order in ``3/1/2026`` (``month-first``, ``day-first``). ``encoding``: of text; None: UTF-8, or
    UTF-16 if the file begins with its mark.
    """

    unit: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    attrs: Sequence[str] | None = None
    delimiter: str | None = None
    header: Sequence[str] | None = None
    sort: str | None = None
    timezone: str | None = None
    seq_bits: Mapping[str, int] = field(default_factory=dict)
    named_by_file: Sequence[str] = ()
    format: str | None = None
    skip_lines: int = 0
    nulls: Sequence[str] = ()
    on_short: str = "bad"
    date: str | None = None
    encoding: str | None = None

    @property
    def of_log(self) -> bool:
        """Whether only options are set that an arrival log supports."""
        return replace(self, unit=None) == PLAIN_FORM


PLAIN_FORM: Final = InputForm()
FORMATS: Final = {
    "csv": InputKind.CSV, "tsv": InputKind.CSV, "jsonl": InputKind.TRACE, "json": InputKind.JSON,
    "parquet": InputKind.PARQUET, "line-protocol": InputKind.LINE_PROTOCOL,
    "annotated-csv": InputKind.ANNOTATED,
}  # fmt: skip
"""Kinds of files by the value of ``--format``."""
ON_SHORT: Final = ("bad", "null")


def named_by_file(source: str | None, stream: str | None) -> tuple[str, ...]:
    """Return the record fields that take the names of files, by the user's options.

    Raises:
        UserError: an option is not ``name``.
    """
    names = {r.SOURCE: source, r.STREAM: stream}
    for name, word in names.items():
        if word not in (None, "name"):
            raise UserError(f"--{name}-from {word}: write --{name}-from name")
    return tuple(name for name, word in names.items() if word is not None)


class BadLines:
    """The policy for bad lines of one input, and their number ``count``.

    ``on_bad="stop"`` raises at the first bad line; ``"skip"`` counts it and appends
    ``{"line", "reason", "text"}`` to the JSONL file ``dead_letter``, if any. Opening the input
    truncates that file: it has the bad lines of this run only.
    """

    def __init__(self, name: str, on_bad: str, dead_letter: Path | None) -> None:
        if on_bad not in ON_BAD:
            raise UserError(f"unknown --on-bad {on_bad!r}; use one of {', '.join(ON_BAD)}")
        self.name = self._input = name
        self.on_bad = on_bad
        self.dead_letter = dead_letter
        self.count = 0
        self._file: TextIO | None = None

    def opened(self) -> AbstractContextManager[TextIO | None]:
        """Reset the count; keep the dead-letter file, if any, open within the context."""
        self.count, self._file = 0, None
        if self.on_bad == "skip" and self.dead_letter is not None:
            check_dead_letter(self.dead_letter, self.name)
            try:
                self._file = self.dead_letter.open("w", encoding="utf-8")
            except OSError as error:
                raise UserError(
                    f"{self.dead_letter}: the dead-letter file cannot be written: {error.strerror}"
                ) from error
        return self._file or nullcontext()

    def report(self, faults: Sequence[Fault], text_of: Callable[[int], str]) -> None:
        """Report the faults of one chunk, in any order; ``text_of(line)`` returns the line.

        Raises:
            UserError: ``FILE:LINE: reason`` of the first line, with ``on_bad="stop"``.
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
                if self.name != self._input:
                    kept["file"] = self.name
                self._file.write(json.dumps(kept) + "\n")


def check_dead_letter(file: Path, source: str) -> None:
    """Refuse a dead-letter file that is the input.

    Raises:
        UserError: ``file`` is ``source``.
    """
    if file.exists() and Path(source).exists() and file.samefile(source):
        raise UserError(f"{file}: is the input itself; give another --dead-letter")


class InputRead(ABC):
    """A reader: iterating yields the frames of its input from the start and updates the counts.

    Args:
        path: the file; ``-``: standard input.
        form: its options, or just the unit of its times.
        on_bad: ``stop`` at the first bad line or row, or ``skip`` and count it.
        dead_letter: JSONL file for skipped lines with reasons.

    Attributes:
        records: records read so far.
        nulls: rows so far without a value, by numeric attribute of CSV.

    Raises:
        UserError: here or while iterating: ``FILE:LINE: reason``, or the file cannot be read.
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
        self.nulls = Counter[str]()
        self._has_begun = False
        self._times = Times(self.name, self.form.unit, self.form.timezone, self.form.date)
        self._intake = RowIntake(self._times.unit_ns, Numbering(self.form.seq_bits))
        self._sorter = None if self.form.sort is None else Sorter(self.name, self.form.sort)

    @property
    def bad_count(self) -> int:
        """Number of lines or rows skipped so far."""
        return self._bad.count

    @property
    def numbered(self) -> bool:
        """Whether an event so far had a sequence number; otherwise events are counted."""
        return self._intake.numbering.some

    @property
    def counted_lanes(self) -> tuple[CountedLane, ...]:
        """Findings about sequence numbers so far, for lanes with findings."""
        return self._intake.numbering.found()

    @property
    def arrival_given(self) -> bool:
        """Whether a record so far had an arrival; otherwise line numbers replace it."""
        return self._intake.arrival_given

    @property
    def dated(self) -> bool:
        """Whether a time so far was a text or timestamp, not a number."""
        return self._times.dated

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
        """Yield rows without faults as frames of at most ``CHUNK_LINES`` records of one site."""
        for frame in self._intake.frames(*rows):
            size = frame.batch.num_rows
            if size <= CHUNK_LINES:
                yield frame
                continue
            for start in range(0, size, CHUNK_LINES):
                yield frame.slice(start, min(CHUNK_LINES, size - start))

    def rows(self, bad: BadLines, units: dict[str, str | None]) -> Iterator[Rows]:
        """Yield the rows without faults of one of several files; ``bad`` gets the others.

        ``units``: time units of all files so far, as in ``Times``; updated in place.
        """
        self._bad, self._times.units = bad, units
        yield from self._read()

    @abstractmethod
    def _read(self) -> Iterator[Rows]:
        """Yield the rows without faults, in parts of bounded size."""

    @abstractmethod
    def _nothing(self) -> Exception:
        """Return the error for an input without records."""
