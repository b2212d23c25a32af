"""Read CSV in two passes: the first determines the types of columns, the second reads the rows.

An attribute column is int, float, bool or text, by all of its values. pyarrow's CSV reader leaves
text unconverted, so that a bad value can be reported by row and column.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.input.input_read import InputForm, InputKind
from slackwater.engine.log.input.lines import NOT_UTF8, open_bytes
from slackwater.engine.log.input.row_import import (
    ColumnPlan,
    Converted,
    RowBatch,
    RowRead,
    as_attribute,
    column_faults,
    plan_columns,
)
from slackwater.engine.log.record.record_rules import Fault
from slackwater.engine.log.record.times import Faults, instants_of, is_date
from slackwater.engine.log.record.trace_record import INT64_MIN, LINES_OF_CR

# Types of CSV columns, from all of their values.

_INT: Final = r"^-?(0|[1-9][0-9]*)$"
_INT_FIELD: Final = r"^-?[0-9]+$"
_FLOAT: Final = (
    r"^[+-]?(((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))$"
)
"""Numbers without leading zeros; 007 is text."""
_COMMA: Final = (
    r"^[+-]?(((0|[1-9][0-9]*)(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?"
    r"|[1-9][0-9]{0,2}(\.[0-9]{3})+,[0-9]+)$"
)
_GROUPED: Final = (
    r"^[+-]?((0|[1-9][0-9]{0,2}(,[0-9]{3})*)\.[0-9]+|0|[1-9][0-9]{0,2}(,[0-9]{3}){0,4})$"
)
"""1,000.5 and 1,000,000; 1,200 alone is ambiguous, as the comma may be a decimal comma."""
_SURELY_GROUPED: Final = r"\.[0-9]|,[0-9]{3},|^[+-]?[1-9][0-9]{2}$"
"""Values like 950, in a column with 12,300: decimals would have a constant number of digits."""
FRACTIONS: Final = ("float", "comma", "grouped")
"""Types of numbers: with a decimal point, a decimal comma, or commas between thousands."""
_NEAR: Final = 0.75
_DIGITS_SHOWN: Final = 40
_LONG_INT: Final = r"^[+-]?[0-9]{17,}$"
"""Whole numbers that a float may not represent exactly."""
_BOOL: Final = r"^(true|false|True|False|TRUE|FALSE)$"
_FITS: Final[dict[str, Callable[[pa.Array], bool]]] = {
    "int": lambda text: _all_match(text, _INT) and _whole(text) is not None,
    "float": lambda text: (
        _all_match(text, _FLOAT) and not pc.any(pc.match_substring_regex(text, _LONG_INT)).as_py()
    ),
    "comma": lambda text: _all_match(text, _COMMA),
    "grouped": lambda text: _all_match(text, _GROUPED),
    "bool": lambda text: _all_match(text, _BOOL),
    "text": lambda _: True,
}


@dataclass(frozen=True, slots=True)
class Text:
    """Rows as text columns; ``broken``: reason and text of unreadable rows, by row number."""

    columns: dict[str, pa.Array]
    lines: np.ndarray
    broken: dict[int, tuple[str, str]]

    def row(self, line: int) -> str:
        """Return the row with this number as text."""
        if line in self.broken:
            return self.broken[line][1]
        row = int(np.searchsorted(self.lines, line))
        return json.dumps({name: column[row].as_py() for name, column in self.columns.items()})


class ColumnTypes:
    """Narrows down the types of ``columns`` and of ``id_column``, the column of interval ids.

    ``comma``: a decimal comma is possible, as the comma is not the delimiter. ``grouped``: other
    columns show that commas separate thousands.
    """

    def __init__(
        self, columns: Iterable[str], id_column: str | None, *, comma: bool, grouped: bool = False
    ) -> None:
        types = [each for each in _FITS if comma or each != "comma"]
        self._open = {column: list(types) for column in columns}
        self._grouped, self._surely = grouped, set[str]()
        if id_column is not None:
            self._open[id_column] = ["int", "text"]

    def learn(self, columns: dict[str, pa.Array]) -> None:
        """Narrow down the types by more rows."""
        for column, left in self._open.items():
            if len(left) > 1:
                self._open[column] = [each for each in left if _FITS[each](columns[column])]
                if pc.any(pc.match_substring_regex(columns[column], _SURELY_GROUPED)).as_py():
                    self._surely.add(column)

    @property
    def grouped(self) -> bool:
        """Whether the commas of some column can only separate thousands."""
        return self._grouped or any(self._open[column][0] == "grouped" for column in self._surely)

    @property
    def found(self) -> dict[str, str]:
        """The narrowest type of each column that fits all values."""
        types = {column: left[0] for column, left in self._open.items()}
        unsure = [column for column, each in types.items() if each == "grouped"]
        return types | dict.fromkeys(unsure, "grouped" if self.grouped else "text")


def any_kind(column: pa.Array) -> bool:
    """Whether some text is the name of a record kind, or close to one."""
    words = [word for word in pc.unique(column).to_pylist() if word is not None]
    return any(difflib.get_close_matches(word, r.KIND_NAMES, n=1, cutoff=_NEAR) for word in words)


def _int_field(text: pa.Array, lines: np.ndarray, column: str) -> Converted:
    """Convert to int64; texts that are not 64-bit integers are faults."""
    text = pc.replace_substring_regex(text, r"^(-?[0-9]+)\.0*$", r"\1")  # as pandas writes 7.0
    whole = _whole(text) if _all_match(text, _INT_FIELD) else None
    if whole is not None:
        return whole, []
    values: list[int | None] = []
    faults: list[Fault] = []
    for value, line in zip(text.to_pylist(), lines, strict=True):
        whole = value is not None and re.search(_INT_FIELD, value) is not None
        # Python limits the digits that it converts, so the text is cut; it stays beyond 64 bits.
        number = int(value.lstrip("0")[:_DIGITS_SHOWN] or "0") if whole else None
        if number is not None and not INT64_MIN <= number <= INT64_MAX:
            excerpt = value if len(value) <= _DIGITS_SHOWN else value[:_DIGITS_SHOWN] + "..."
            faults.append(Fault(int(line), f'column "{column}": {excerpt} is beyond 64 bits'))
            number = None
        elif value is not None and number is None:
            reason = f'column "{column}": "{value[:40]}" is not an integer'
            faults.append(Fault(int(line), f"{reason}; {as_attribute(column)}"))
        values.append(number)
    return pa.array(values, pa.int64()), faults


def _all_match(text: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False


def _whole(text: pa.Array) -> pa.Array | None:
    """Cast ``text``, which matches an integer pattern, to int64; None if a value is too large."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def converted(text: pa.Array, type_: str) -> pa.Array:
    """Convert ``text`` to a type that ``ColumnTypes`` found."""
    if type_ == "bool":
        return pc.equal(pc.utf8_lower(text), "true")
    if type_ in ("comma", "grouped"):
        thousands, point = ".," if type_ == "comma" else ",."
        plain = pc.replace_substring(text, thousands, "")
        return pc.replace_substring(plain, point, ".").cast(pa.float64())
    return text.cast({"int": pa.int64(), "float": pa.float64(), "text": STRING}[type_])


# The form of a file, and its rows.


_NUMBER: Final = re.compile(r"[+-]?[0-9.,:TZ -]*[0-9][0-9.,:TZ eE+-]*|")
_COMMENTS_MAX: Final = 1_000
_QUOTED: Final = re.compile('"[^"]*"')
_PASSED_OVER: Final = ("#", "//", "sep=")
"""Prefixes of lines before the header that are skipped."""
DELIMITERS: Final = (",", ";", "\t", "|")
_BLOCK_BYTES: Final = 4 << 20
_NULLS: Final = pacsv.ConvertOptions().null_values
_MARK: Final = "\uffff"
"""Not a valid character, so it does not occur in text."""
_DAMAGED: Final = rf"\x00|{_MARK}"
_ZERO_BYTE: Final = (
    "it has a zero byte, as of a damaged file; without them: tr -d '\\000' < FILE > NEW"
)
_ESCAPED: Final = re.compile("[\udc80-\udcff]")


class CsvRead(RowRead):
    """A CSV file, plain, gzip or zstd; it is read twice, so it cannot be standard input.

    ``form.delimiter`` None: the most frequent one of ``DELIMITERS`` in the header. Faults count
    rows from the header, row 1.
    """

    kind = InputKind.CSV

    def _batches(self) -> Iterator[RowBatch]:
        form = read_form(self.path, self.form)
        plan, self._types = self._learn(form)
        for text in text_batches(self.path, form):
            for column in plan.fields.values():
                if column not in text.columns:
                    text.columns[column] = _joined(text.columns, column)
            faults = [Fault(row, why) for row, (why, _) in text.broken.items()]
            rows = self._typed(text.columns, plan, text.lines, faults, text.row)
            for name, values in rows.attrs.items():
                if self._types[plan.attrs[name]] in ("int", *FRACTIONS):
                    self.nulls[name] += values.null_count
            yield rows

    def _time(self, field: str, column: pa.Array, lines: np.ndarray) -> tuple[pa.Array, Faults]:
        return self._times.texts(field, column, lines)

    def _whole(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        return _int_field(column, lines, name)

    def _value(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        values = converted(column, self._types[name])
        if self._types[name] not in FRACTIONS:
            return values, []
        infinite = pc.fill_null(pc.is_inf(values), fill_value=False)
        rows = infinite.to_numpy(zero_copy_only=False)
        why = "is beyond what a float holds"
        return values, column_faults(rows, lines, name, column, why)

    def _learn(self, form: Form) -> tuple[ColumnPlan, dict[str, str]]:
        """Return the roles of the columns, and the types of attributes and interval ids."""
        plan = plan_columns(self.path, form.names, self.form.mapping, self.form.attrs)
        foreign = plan_columns(self.path, form.names, self.form.mapping, self.form.attrs, {r.KIND})
        by_name = plan.fields.get(r.KIND) == r.KIND and r.KIND not in self.form.mapping
        columns = ColumnTypes(
            {*plan.attrs.values(), *foreign.attrs.values()}, plan.fields.get(r.ID),
            comma=form.delimiter != ",",
        )  # fmt: skip
        ours = not by_name
        for text in text_batches(self.path, form):
            columns.learn(text.columns)
            ours = ours or any_kind(text.columns[r.KIND])
        return plan if ours else foreign, columns.found


def typed_columns(path: str, form: Form) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return a small file as typed columns, and the line numbers of its rows.

    Raises:
        UserError: a row cannot be read; the message has its line.
    """
    parts = list(text_batches(path, form))
    for line, (why, _) in sorted(each for text in parts for each in text.broken.items()):
        raise UserError(f"{path}:{line}: {why}")
    named = [(name, key) for name, key in zip(form.names, form.keys, strict=True) if name]
    columns = {name: pa.concat_arrays([text.columns[key] for text in parts]) for name, key in named}
    types = ColumnTypes(columns, None, comma=form.delimiter != ",")
    types.learn(columns)
    typed = {name: converted(column, types.found[name]) for name, column in columns.items()}
    return typed, np.concatenate([text.lines for text in parts])


def _joined(columns: dict[str, pa.Array], name: str) -> pa.Array:
    """Join the texts of columns that a mapping combines with +, separated by blanks."""
    parts = [columns[each] for each in name.split("+")]
    return pc.binary_join_element_wise(*parts, " ")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a CSV file.

    ``names``: of its columns, "" if unnamed; ``keys``: unique names; ``first``: number of the first
    data row (a header is row 1); ``padded``: blanks follow the delimiter; ``skipped``: lines before
    the header or the first data row; ``nulls``: texts that mean null; ``fills``: short rows are
    filled with nulls; ``encoding``: None: UTF-8.
    """

    names: list[str]
    keys: list[str]
    delimiter: str
    first: int
    padded: bool
    skipped: int = 0
    nulls: tuple[str, ...] = ()
    fills: bool = False
    encoding: str | None = None


def read_form(path: str, options: InputForm) -> Form:
    """Determine the form of a file from its first lines.

    Raises:
        UserError: the first line is missing or does not name the columns.
    """
    top = _top_of(path, options)
    header, first = options.header, top.skipped + (2 if options.header is None else 1)
    guessed = _names_of(top.cells) if header is None else None
    if guessed is not None and len(top.comment) == len(top.cells):
        header, guessed, first = top.comment, None, top.skipped + 1
    if guessed is not None:
        raise UserError(
            f"{path}:{top.skipped + 1}: the first line names no columns; name them, as in --header "
            f"{','.join(guessed)}"
        )
    if header is not None and len(header) != len(top.cells):
        raise UserError(
            f"{path}:{top.skipped + 1}: --header names {len(header)} columns, there are "
            f"{len(top.cells)}"
        )
    names = [name.strip() if top.padded else name for name in header or top.cells]
    keys = [name or f"{_MARK}{number}" for number, name in enumerate(names)]
    return Form(
        names, keys, top.delimiter, first, top.padded, top.skipped, tuple(options.nulls),
        options.on_short == "null", options.encoding,
    )  # fmt: skip


def header_names(path: str, options: InputForm) -> list[str] | None:
    """Return names for the columns of a file without a header; None if it has one.

    Raises:
        UserError: as for ``read_form``.
    """
    top = _top_of(path, options)
    return None if len(top.comment) == len(top.cells) else _names_of(top.cells)


def lines_before(path: str, encoding: str | None) -> int:
    """Return the number of lines before the table; lines of the table have equally many values."""
    with open_bytes(path, encoding) as stream:
        lines = [stream.readline(_BLOCK_BYTES).decode("utf-8-sig", "replace") for _ in range(20)]
    lines = [_QUOTED.sub("", line) for line in lines]
    sign = max(DELIMITERS, key="".join(lines).count)
    counts = [line.count(sign) for line in lines]
    most = max(counts)
    first = next(place for place, count in enumerate(counts) if 2 * count >= most)
    above = [line for line in lines[:first] if not line.startswith(_PASSED_OVER)]
    return first if above else 0


@dataclass(frozen=True, slots=True)
class _Top:
    """The header line: its cells, the delimiter, and whether blanks follow delimiters.

    ``skipped``: number of lines before it; ``comment``: cells of the last one, if it is a comment.
    """

    cells: list[str]
    delimiter: str
    padded: bool
    skipped: int
    comment: list[str]


def _top_of(path: str, options: InputForm) -> _Top:
    """Skip ``options.skip_lines``, ``sep=;`` and comments (``#``, ``//``), then read the header."""
    delimiter = options.delimiter or ("\t" if options.format == "tsv" else None)
    comment, skipped = "", options.skip_lines
    with open_bytes(path, options.encoding) as stream:
        for _ in range(skipped):
            stream.readline(_BLOCK_BYTES)
        line = _line_of(path, stream.readline(_BLOCK_BYTES), skipped)
        while skipped < _COMMENTS_MAX and line.startswith(_PASSED_OVER):
            if line.startswith("sep="):
                delimiter = delimiter or line[4:5]
            else:
                comment = line
            skipped += 1
            line = _line_of(path, stream.readline(_BLOCK_BYTES), skipped)
    if not line.strip():
        raise UserError(
            f"{path}:{skipped + 1}: the file is empty; its first line must name the columns"
        )
    sign = delimiter or max(DELIMITERS, key=_QUOTED.sub("", line).count)
    padded = f"{sign} " in line and sign != "\t"
    try:
        cells, above = (
            next(csv.reader(io.StringIO(each), delimiter=sign, skipinitialspace=padded), [])
            for each in (line, comment.lstrip("#/ "))
        )
    except csv.Error as error:
        said = f"the line that must name the columns: {error}"
        if "\r" in line:
            said = f"the line that must name the columns: {LINES_OF_CR}"
        raise UserError(f"{path}:{skipped + 1}: {said}") from error
    return _Top(cells, sign, padded, skipped, above)


def _line_of(path: str, line: bytes, before: int) -> str:
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        said = f"not UTF-8 at byte {error.start + 1}; {NOT_UTF8}"
        raise UserError(f"{path}:{before + 1}: {said}") from error


def _names_of(cells: Sequence[str]) -> list[str] | None:
    """Return names for ``cells`` if they are values: all numbers, or some time; else None."""
    texts = pa.array([cell.strip() for cell in cells], pa.string())
    _, no_time = instants_of(texts, None)
    numbers = [bool(_NUMBER.fullmatch(cell.strip())) for cell in cells]
    times = [
        place for place, cell in enumerate(cells)
        if cell.strip() and (place not in no_time or (numbers[place] and is_date(cell)))
    ]  # fmt: skip
    if not times and not (len(cells) > 1 and all(numbers)):
        return None
    names = [f"c{number}" for number in range(1, len(cells) + 1)]
    names[times[0] if times else 0] = r.TS
    words = [place for place, each in enumerate(numbers) if not each and place not in times]
    if words:
        names[words[0]] = r.SOURCE
    return names


class _Marked:
    """Bytes of ``stream`` as UTF-8, with ``_MARK`` in place of invalid bytes.

    pyarrow passes invalid rows as text only. ``found``: there are invalid or zero bytes.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.found = False
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._waiting = b""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; empty at the end."""
        while len(self._waiting) < size:
            block = self._stream.read(size)
            self.found = self.found or b"\0" in block
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
    """Row numbers for pyarrow's reader, which omits rows with a wrong number of values."""

    def __init__(self, first: int, skipped: int) -> None:
        self.next = first
        self.skipped = skipped
        self.invalid: dict[int, tuple[str, str]] = {}  # row -> (reason, text), not yet reported

    def on_invalid(self, row: pacsv.InvalidRow) -> str:
        why = f"{row.actual_columns} values for {row.expected_columns} columns"
        if row.actual_columns < row.expected_columns:
            why += "; --on-short null takes those that lack for nulls"
        self.invalid[int(row.number) + self.skipped] = (why, row.text)
        return "skip"

    def take(self, rows: int) -> np.ndarray:
        """Return the numbers of the next ``rows`` valid rows."""
        numbers = np.arange(self.next, self.next + rows + len(self.invalid))
        lines = numbers[~np.isin(numbers, list(self.invalid))][:rows]
        self.next = int(lines[-1]) + 1 if rows else self.next
        return lines

    def passed(self, *, ended: bool = False) -> dict[int, tuple[str, str]]:
        """Return the invalid rows before ``next`` (``ended``: all), each once."""
        rows = {row: said for row, said in self.invalid.items() if ended or row < self.next}
        self.invalid = {row: said for row, said in self.invalid.items() if row not in rows}
        return rows


def text_batches(path: str, form: Form) -> Iterator[Text]:
    """Yield the file block by block, without empty rows."""
    numbered = _Numbered(form.first, form.skipped)
    empty = {name: pa.array([], pa.string()) for name in form.keys}
    with ExitStack() as stack:
        plain = stack.enter_context(open_bytes(path, form.encoding))
        for _ in range(form.skipped):
            plain.readline(_BLOCK_BYTES)
        stream = _Marked(plain)
        try:
            reader = _open_reader(stream, form, numbered.on_invalid)
            if reader.schema.names != form.keys:
                raise UserError(
                    f"{path}:{form.skipped + 1}: the names of the columns must be on one line"
                )
            for batch in stack.enter_context(reader):
                if form.padded:
                    columns = [_trimmed(column, form.nulls) for column in batch.columns]
                    batch = pa.RecordBatch.from_arrays(columns, form.keys)  # noqa: PLW2901
                text = _decoded(batch, numbered.take(batch.num_rows), marked=stream.found)
                yield _filled(text, numbered.passed(), form)
        except pa.ArrowInvalid as error:
            raise UserError(f"{path}: not readable as CSV: {error}") from error
    nothing = Text(empty, np.empty(0, np.int64), {})
    yield _filled(nothing, numbered.passed(ended=True), form)


def _trimmed(column: pa.Array, nulls: Sequence[str]) -> pa.Array:
    """Trim blanks; texts that mean null then become null."""
    plain = pc.utf8_trim_whitespace(column)
    none = pc.is_in(plain, value_set=pa.array([*_NULLS, *nulls], pa.string()))
    return pc.if_else(none, pa.scalar(None, pa.string()), plain)


def _filled(text: Text, broken: dict[int, tuple[str, str]], form: Form) -> Text:
    """Add rows with a wrong number of values to ``text``; fill short ones if ``form`` says so."""
    if not form.fills or not broken:
        return Text(text.columns, text.lines, text.broken | broken)
    nulls, rows, left = {*_NULLS, *form.nulls}, {}, dict(text.broken)
    for line, (why, said) in broken.items():
        cells = next(csv.reader([said], delimiter=form.delimiter, skipinitialspace=form.padded), [])
        if len(cells) < len(form.keys):
            rows[line] = [None if each in nulls else each for each in cells]
        else:
            left[line] = (why, said)
    lines = np.concatenate([text.lines, np.array(list(rows), np.int64)])
    order = np.argsort(lines, kind="stable")
    columns = {}
    for place, name in enumerate(form.keys):
        texts = [cells[place] if place < len(cells) else None for cells in rows.values()]
        whole = pa.concat_arrays([text.columns[name], pa.array(texts, pa.string())])
        columns[name] = whole.take(pa.array(order))
    return Text(columns, lines[order], left)


def _open_reader(
    stream: Any, form: Form, on_invalid: Callable[[Any], str]
) -> pacsv.CSVStreamingReader:
    unnamed = form.first == form.skipped + 1
    renamed = unnamed or form.padded or "" in form.names
    return pacsv.open_csv(
        pa.PythonFile(stream, mode="r"),
        # With threads, pyarrow does not report the numbers of invalid rows.
        read_options=pacsv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            column_names=form.keys if renamed else None,
            skip_rows=1 if renamed and not unnamed else 0,
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=form.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,
            invalid_row_handler=on_invalid,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(form.keys, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[*_NULLS, *form.nulls],
        ),
    )


def _decoded(batch: pa.RecordBatch, lines: np.ndarray, *, marked: bool) -> Text:
    """Return the batch without empty rows and, if ``marked``, without rows with invalid bytes."""
    keep = np.zeros(batch.num_rows, bool)
    for column in batch.columns:
        keep |= column.is_valid().to_numpy(zero_copy_only=False)
    broken: dict[int, tuple[str, str]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True) if marked else ():
        holds = pc.fill_null(pc.match_substring_regex(column, _DAMAGED), fill_value=False)
        for row in np.flatnonzero(holds.to_numpy(zero_copy_only=False)):
            keep[row] = False
            cell = column[int(row)].as_py()
            why = f'column "{name}": {f"not UTF-8; {NOT_UTF8}" if _MARK in cell else _ZERO_BYTE}'
            broken[int(lines[row])] = (why, cell.replace(_MARK, "\ufffd"))
    kept = pa.array(keep)
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return Text({name: each.filter(kept) for name, each in columns}, lines[keep], broken)
