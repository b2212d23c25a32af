"""CSV as input: two passes over the file, one to learn the columns' types, one to read them.

An attribute column is int, float, bool or text, whichever all of its values allow. Text comes
through pyarrow's CSV reader unconverted, so that a bad value is found by its row and column.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from edge_agent import records as r
from engine.errors import UserError
from engine.frame import STRING
from engine.log.bad_lines import Fault
from engine.log.lines import UNREADABLE, open_bytes
from engine.log.row_import import (
    FIELDS,
    ColumnPlan,
    RowBatch,
    RowRead,
    column_faults,
    kind_codes,
    plan_columns,
)
from engine.log.trace_record import INT64_MIN, INT_FIELDS
from engine.units import INT64_MAX

DELIMITERS: Final = (",", ";", "\t", "|")
_BLOCK_BYTES: Final = 4 << 20
_INT: Final = r"^-?(0|[1-9][0-9]*)$"
_INT_FIELD: Final = r"^-?[0-9]+$"
_FLOAT: Final = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""Numbers without leading zeros: 007 is a name."""
_MARK: Final = "\uffff"
"""Not a character: text does not hold it."""
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
_DIGITS_SHOWN: Final = 40
_LONG_INT: Final = r"^[+-]?[0-9]{17,}$"
"""Whole numbers that a float may not hold exactly."""
_BOOL: Final = r"^(true|false|True|False|TRUE|FALSE)$"
_FITS: Final[dict[str, Callable[[pa.Array], bool]]] = {
    "int": lambda text: _all_match(text, _INT) and _whole(text) is not None,
    "float": lambda text: (
        _all_match(text, _FLOAT) and not pc.any(pc.match_substring_regex(text, _LONG_INT)).as_py()
    ),
    "bool": lambda text: _all_match(text, _BOOL),
    "text": lambda _: True,
}


def read_csv(
    path: str | Path,
    time_unit: str = "ns",
    on_bad: str = "stop",
    dead_letter: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    attrs: Sequence[str] | None = None,
    delimiter: str | None = None,
) -> CsvRead:
    """A CSV file with a header, plain or gzip, as frames.

    Args:
        path: the file; it is read twice, so it cannot be standard input.
        time_unit: unit of every time in it.
        on_bad: ``stop`` or ``skip``.
        dead_letter: JSONL file for skipped rows.
        mapping: record field -> column; columns named like a field need none.
        attrs: columns that become attributes; None = all that are no record field.
        delimiter: None = the one of ``DELIMITERS`` that is most frequent in the header.

    Raises:
        UserError: while iterating: ``FILE:ROW: column "C": ...``; the header is row 1.
    """
    letters = None if dead_letter is None else Path(dead_letter)
    read = CsvRead(str(path), time_unit, on_bad, letters, mapping or {}, attrs)
    read.delimiter = delimiter
    return read


class CsvRead(RowRead):
    """See ``read_csv``."""

    delimiter: str | None = None

    def _batches(self) -> Iterator[RowBatch]:
        names, delimiter = _header(self.path, self.delimiter)
        plan = plan_columns(self.path, names, self.mapping, self.attrs)
        types = self._types(names, delimiter, plan)
        for text in _text_batches(self.path, names, delimiter):
            yield _typed(text, plan, types)

    def _types(self, names: list[str], delimiter: str, plan: ColumnPlan) -> dict[str, str]:
        """Type of each attribute column, and of the one with interval ids."""
        open_types = {column: list(_FITS) for column in plan.attrs.values()}
        if r.ID in plan.fields:
            open_types[plan.fields[r.ID]] = ["int", "text"]
        for text in _text_batches(self.path, names, delimiter):
            for column, left in open_types.items():
                values = text.columns[column]
                open_types[column] = [each for each in left if _FITS[each](values)]
        return {column: left[0] for column, left in open_types.items()}


def _header(path: str, delimiter: str | None) -> tuple[list[str], str]:
    with open_bytes(path) as stream:
        try:
            first = stream.readline(_BLOCK_BYTES)
        except UNREADABLE as error:
            raise UserError(f"{path}: damaged file: {error}") from error
    try:
        line = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:1: not UTF-8 at byte {error.start + 1}") from error
    if not line.strip():
        raise UserError(f"{path}:1: the file is empty; its first line must name the columns")
    sign = delimiter or max(DELIMITERS, key=line.count)
    try:
        return next(csv.reader(io.StringIO(line), delimiter=sign)), sign
    except csv.Error as error:
        raise UserError(f"{path}:1: the line that must name the columns: {error}") from error


class _Marked:
    """Bytes of ``stream`` as UTF-8, with ``_MARK`` in place of those that are none.

    pyarrow can hand over an invalid row only as text.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.found = False
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._waiting = b""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        while len(self._waiting) < size:
            block = self._stream.read(size)
            text = self._decoder.decode(block, final=not block)
            try:
                self._waiting += text.encode()
            except UnicodeEncodeError:
                self.found = True
                self._waiting += _ESCAPED.sub(_MARK, text).encode()
            if not block:
                break
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        return taken


class _Numbered:
    """Row numbers of what pyarrow's reader gives, which leaves out the rows of a wrong length."""

    def __init__(self) -> None:
        self.next = 2  # the header is row 1
        self.invalid: dict[int, tuple[str, str]] = {}  # row -> (reason, text), not yet reported

    def on_invalid(self, row: pacsv.InvalidRow) -> str:
        why = f"{row.actual_columns} values for {row.expected_columns} columns"
        self.invalid[int(row.number)] = (why, row.text)
        return "skip"

    def take(self, rows: int) -> np.ndarray:
        """The numbers of the next ``rows`` good rows."""
        numbers = np.arange(self.next, self.next + rows + len(self.invalid))
        lines = numbers[~np.isin(numbers, list(self.invalid))][:rows]
        self.next = int(lines[-1]) + 1 if rows else self.next
        return lines

    def passed(self, *, ended: bool = False) -> dict[int, tuple[str, str]]:
        """The invalid rows before ``next`` (``ended``: all), each told once."""
        told = {row: said for row, said in self.invalid.items() if ended or row < self.next}
        self.invalid = {row: said for row, said in self.invalid.items() if row not in told}
        return told


@dataclass(frozen=True, slots=True)
class _Text:
    """Rows as text columns; ``broken``: reason and text of rows that gave none, by number."""

    columns: dict[str, pa.Array]
    lines: np.ndarray
    broken: dict[int, tuple[str, str]]


def _text_batches(path: str, names: list[str], delimiter: str) -> Iterator[_Text]:
    """The file block by block; rows without any value are left out."""
    numbered = _Numbered()
    empty = {name: pa.array([], pa.string()) for name in names}
    with ExitStack() as stack:
        stream = _Marked(stack.enter_context(open_bytes(path)))
        try:
            reader = _open_reader(stream, names, delimiter, numbered.on_invalid)
            if reader.schema.names != names:
                raise UserError(f"{path}:1: the names of the columns must stand on one line")
            for batch in stack.enter_context(reader):
                text = _decoded(batch, numbered.take(batch.num_rows), marked=stream.found)
                yield _Text(text.columns, text.lines, text.broken | numbered.passed())
        except pa.ArrowInvalid as error:
            raise UserError(f"{path}: not readable as CSV: {error}") from error
        except UNREADABLE as error:
            raise UserError(f"{path}: damaged file: {error}") from error
    yield _Text(empty, np.empty(0, np.int64), numbered.passed(ended=True))


def _open_reader(
    stream: Any, names: list[str], delimiter: str, on_invalid: Callable[[Any], str]
) -> pacsv.CSVStreamingReader:
    return pacsv.open_csv(
        pa.PythonFile(stream, mode="r"),
        # With threads, pyarrow does not know the numbers of invalid rows.
        read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=on_invalid,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _decoded(batch: pa.RecordBatch, lines: np.ndarray, *, marked: bool) -> _Text:
    """The batch without empty rows and, when some bytes were ``marked``, those that hold any."""
    keep = np.zeros(batch.num_rows, bool)
    for column in batch.columns:
        keep |= column.is_valid().to_numpy(zero_copy_only=False)
    broken: dict[int, tuple[str, str]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True) if marked else ():
        holds = pc.fill_null(pc.match_substring(column, _MARK), fill_value=False)
        for row in np.flatnonzero(holds.to_numpy(zero_copy_only=False)):
            keep[row] = False
            why = f'column "{name}": not UTF-8; save the file as UTF-8'
            broken[int(lines[row])] = (why, column[int(row)].as_py().replace(_MARK, "\ufffd"))
    kept = pa.array(keep)
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return _Text({name: each.filter(kept) for name, each in columns}, lines[keep], broken)


def _typed(text: _Text, plan: ColumnPlan, types: dict[str, str]) -> RowBatch:
    columns, lines = text.columns, text.lines
    fields: dict[str, pa.Array] = {}
    attrs: dict[str, pa.Array] = {}
    faults = [Fault(row, why) for row, (why, _) in text.broken.items()]
    for field in (name for name in FIELDS if name in plan.fields):
        column = plan.fields[field]
        if field in INT_FIELDS:
            fields[field], bad = _int_field(columns[column], lines, column)
            faults += bad
        elif field == r.KIND:
            fields[field], unknown = kind_codes(columns[column])
            why = f"is no kind of record; known are {', '.join(r.KIND_NAMES)}"
            faults += column_faults(unknown, lines, column, columns[column], why)
        elif field == r.ID:
            fields[field] = _converted(columns[column], types[column])
        else:
            fields[field] = columns[column]
    for name, column in plan.attrs.items():
        attrs[name] = _converted(columns[column], types[column])
        if types[column] == "float":
            infinite = pc.fill_null(pc.is_inf(attrs[name]), fill_value=False)
            rows = infinite.to_numpy(zero_copy_only=False)
            why = "is beyond what a float holds"
            faults += column_faults(rows, lines, column, columns[column], why)
    place = {int(line): row for row, line in enumerate(lines)} if faults else {}

    def text_of(line: int) -> str:
        if line in text.broken:
            return text.broken[line][1]
        row = place[line] if place else int(np.searchsorted(lines, line))
        return json.dumps({name: column[row].as_py() for name, column in columns.items()})

    return RowBatch(lines, fields, attrs, faults, text_of)


def _int_field(text: pa.Array, lines: np.ndarray, column: str) -> tuple[pa.Array, list[Fault]]:
    """An integer field; faults where the text is no integer of 64 bits."""
    whole = _whole(text) if _all_match(text, _INT_FIELD) else None
    if whole is not None:
        return whole, []
    values: list[int | None] = []
    faults: list[Fault] = []
    for value, line in zip(text.to_pylist(), lines, strict=True):
        whole = value is not None and re.search(_INT_FIELD, value) is not None
        # Python refuses to convert thousands of digits, so they are cut: still beyond 64 bits.
        number = int(value.lstrip("0")[:_DIGITS_SHOWN] or "0") if whole else None
        if number is not None and not INT64_MIN <= number <= INT64_MAX:
            shown = value if len(value) <= _DIGITS_SHOWN else value[:_DIGITS_SHOWN] + "..."
            faults.append(Fault(int(line), f'column "{column}": {shown} is beyond 64 bits'))
            number = None
        elif value is not None and number is None:
            remedy = (
                "; write whole numbers in a finer --time-unit" if re.search(_FLOAT, value) else ""
            )
            faults.append(
                Fault(int(line), f'column "{column}": "{value[:40]}" is not an integer{remedy}')
            )
        values.append(number)
    return pa.array(values, pa.int64()), faults


def _all_match(text: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False


def _whole(text: pa.Array) -> pa.Array | None:
    """``text``, which matches an integer pattern, as int64; None when one is beyond it."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _converted(text: pa.Array, type_: str) -> pa.Array:
    if type_ == "bool":
        return pc.equal(pc.utf8_lower(text), "true")
    return text.cast({"int": pa.int64(), "float": pa.float64(), "text": STRING}[type_])
