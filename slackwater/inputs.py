"""Inputs: a trace, CSV, Parquet, an arrival log or a table in memory, read once for many calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import unit_ns
from slackwater.engine.hosts.pipeline import Prepared, prepare
from slackwater.engine.log.arrival_log import LogReader
from slackwater.engine.log.describe import describe
from slackwater.engine.log.input.input_read import InputForm, InputKind, named_by_file
from slackwater.engine.log.input.numbering import read_seq_bits
from slackwater.engine.log.input.table_import import as_arrow
from slackwater.engine.log.record.times import DEFAULT_UNIT
from slackwater.engine.log.row_export import rows_of, rows_schema
from slackwater.engine.output.json_lines import Dates
from slackwater.folder import ClosesItself, Folder
from slackwater.frames import AsFrames
from slackwater.translate_options import translate_options


class ArrowTable(Protocol):
    """A table in memory: Arrow, pandas, polars, or any with Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's PyCapsule interface."""


Columns = Mapping[str, Sequence[object]]
PathLike = str | os.PathLike[str]
Rows = Sequence[Mapping[str, object]] | Iterator[Mapping[str, object]]
Source = PathLike | Sequence[PathLike] | ArrowTable | Columns | Rows


class Input(ClosesItself, AsFrames):
    """Events read by ``read``, stored as an arrival log on disk.

    A context manager; without ``with``, its temporary folder is removed when it is
    garbage-collected.

    Attributes:
        name: name of the input in messages.
        log: the arrival log; for an input that is one, the input itself.
        time_unit: unit of times in results, and of durations without one.
        arrival_given: whether arrivals are instants; otherwise they are line numbers.
        bad_count: number of lines or rows skipped under ``on_bad="skip"``.
        numbered: whether the events have their own numbers, as far as known.
        counted: findings about the events' numbers, per lane with a finding.
        dates: how tables of results show times; None: as numbers.
    """

    def __init__(
        self, name: str, prepared: Prepared, time_unit: str | None, folder: Folder,
        timezone: str | None = None,
    ) -> None:  # fmt: skip
        """``time_unit``, ``timezone``: None: the default."""
        self.name = name
        self.time_unit = time_unit or DEFAULT_UNIT
        self.arrival_given = prepared.log.arrival_given
        is_dated = prepared.dated and time_unit is None
        self.dates = Dates(timezone or "UTC", self.arrival_given) if is_dated else None
        self.bad_count = prepared.bad_count
        self.counted_lanes = prepared.counted_lanes
        self.numbered = prepared.numbered
        self._prepared = prepared
        self._folder = folder

    @property
    def log(self) -> Path:
        """Path of the arrival log.

        Raises:
            UserError: the input was closed.
        """
        self._folder.path  # noqa: B018 - raises if closed
        return self._prepared.directory

    @property
    def prepared(self) -> Prepared:
        """The input for a pass; a log that grows is read up to its current end.

        Raises:
            UserError: the input was closed.
        """
        self._folder.path  # noqa: B018 - as above
        return self._prepared.reopened()

    def __len__(self) -> int:
        """The number of events."""
        return describe(LogReader(self.log)).kinds["event"]

    @property
    def schema(self) -> pa.Schema:
        """The columns of ``to_arrow``: a trace's fields, then attributes as ``attrs.NAME``."""
        return self._tables()[0]

    @property
    def sources(self) -> list[str]:
        """The names of the sources, sorted."""
        sites = describe(LogReader(self.log)).sites.values()
        return sorted(set[str]().union(*(site.sources for site in sites)))

    def head(self, rows: int = 5) -> pa.Table:
        """The first ``rows`` records in order of arrival, in the form of ``to_arrow``."""
        schema, tables = self._tables()
        some, count = [schema.empty_table()], 0
        while count < rows and (table := next(tables, None)) is not None:
            some.append(table)
            count += table.num_rows
        return pa.concat_tables(some).slice(0, rows)

    def to_arrow(self) -> pa.Table:
        """All records in order of arrival, including syncs and punctuation; times in ``time_unit``.

        Raises:
            UserError: a time is no whole number of the unit, or an attribute has two types.
        """
        schema, tables = self._tables()
        return pa.concat_tables([schema.empty_table(), *tables])

    def _tables(self) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """The schema, and a table per frame of the log."""
        log = LogReader(self.log)
        schema = rows_schema(log, self.name)
        return schema, rows_of(log, schema, self.time_unit)

    def close(self) -> None:
        """Remove stored data; an arrival log that was the input stays."""
        self._folder.close()

    def __repr__(self) -> str:
        return f"<slackwater.Input of {self.name}, times in {self.time_unit}>"


@translate_options
def read(
    source: Source,
    *,
    time_unit: str | None = None,
    mapping: Mapping[str, str] | None = None,
    attrs: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: Sequence[str] | None = None,
    sort: str | None = None,
    timezone: str | None = None,
    seq_bits: int | Mapping[str, int] | None = None,
    source_from: str | None = None,
    stream_from: str | None = None,
    format: str | None = None,  # noqa: A002 - as the command line's
    skip_lines: int = 0,
    null: Sequence[str] = (),
    on_short: str = "bad",
    date: str | None = None,
    encoding: str | None = None,
    on_bad: str = "stop",
    dead_letter: str | os.PathLike[str] | None = None,
) -> Input:
    """Read ``source`` once, for any number of calls; the options are those of the command line.

    Args:
        source: path of a trace (``-``: standard input), CSV, a folder or file of Parquet, or an
            arrival log; a list of paths, a glob or a folder, whose rows are merged in order; or a
            table: Arrow, pandas, polars, a dict of columns, a list of dicts. Records must be in
            order of arrival; columns are named as a trace's fields, others become attributes.
        time_unit: unit of numeric times, of durations without one, and of results: ``ns us ms s min
            h d``; None: ns, but an input whose times are dates only in another unit is refused.
        mapping: record field, or ``attrs.NAME`` -> its column or key in the input.
        attrs: columns or keys that become attributes; None: all others.
        delimiter: of CSV; None: detected from the header.
        header: names of the columns of CSV without a header.
        sort: ``arrival`` or ``ts`` sorts the records of an unsorted input.
        timezone: of times that name none; None: UTC.
        seq_bits: numbers are counters of 8, 16 or 32 bits that wrap around; or a dict by stream.
        source_from: ``name``: the name of each file becomes the source of its rows.
        stream_from: the same for the stream.
        format: ``csv tsv jsonl json parquet line-protocol``; None: detected from the content.
        skip_lines: lines of CSV before its header; comments (``#``, ``//``) are always skipped.
        null: texts that mean null.
        on_short: rows of CSV with too few values are ``bad``, or are padded with ``null``.
        date: date of times without one; or ``month-first`` or ``day-first`` for ``3/1/2026``.
        encoding: of text that is not UTF-8, such as ``cp1252``.
        on_bad: ``stop`` at a bad line or row, or ``skip`` and count it.
        dead_letter: JSONL file for skipped lines.

    >>> read({"type": ["A", "B"], "t": [1, 3]}, time_unit="s", mapping={"ts": "t"})
    <slackwater.Input of table, times in s>

    Raises:
        UserError: it cannot be read, or a line or row is invalid; names the place.
    """
    unit_ns(time_unit or DEFAULT_UNIT)
    form = InputForm(
        time_unit, mapping or {}, attrs, delimiter, header, sort, timezone, read_seq_bits(seq_bits),
        named_by_file(source_from, stream_from), format, skip_lines, tuple(null), on_short,
        date, encoding,
    )  # fmt: skip
    paths = _paths(source)
    folder = Folder()
    try:
        data = as_arrow(source) if paths is None else paths
        prepared = prepare(data, folder.path, form, on_bad, _optional_path(dead_letter))
    except BaseException:
        folder.close()
        raise
    return Input(", ".join(paths or [str(InputKind.TABLE)]), prepared, time_unit, folder, timezone)


def _optional_path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)


def _paths(source: Source) -> list[str] | None:
    """The paths in ``source``; None: it is a table."""
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)]
    if not isinstance(source, Sequence) or not source:
        return None
    paths = [os.fspath(each) for each in source if isinstance(each, str | os.PathLike)]
    return paths if len(paths) == len(source) else None


@contextmanager
def opened(
    source: Source | Input,
    mapping: Mapping[str, str] | None = None,
    time_unit: str | None = None,
) -> Iterator[Input]:
    """``source`` itself if it is an ``Input``, else the result of ``read``, closed after the block.

    Raises:
        UserError: as ``read``; or ``mapping`` or ``time_unit`` given for an ``Input``.
    """
    if isinstance(source, Input):
        late = [name for name, it in (("mapping", mapping), ("time_unit", time_unit)) if it]
        if late:
            raise UserError(f"{late[0]} is for reading, and this was read: give it to read")
        yield source
        return
    with read(source, mapping=mapping, time_unit=time_unit) as found:
        yield found
