"""Reader of JSONL traces: one record a line, in order of arrival (DESIGN "Trace").

Lines are parsed one by one and then processed as columns. A chunk whose columns have the right
types is accepted in bulk; otherwise ``trace_record.fault`` checks each record.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.input.input_read import InputKind, InputRead, Rows, agreeing
from slackwater.engine.log.input.lines import CHUNK_LINES, NOT_UTF8, Chunk, open_bytes, read_chunks
from slackwater.engine.log.input.row_import import Flat
from slackwater.engine.log.record.record_rules import TIME_FIELDS, Fault
from slackwater.engine.log.record.trace_record import (
    EXAMPLE,
    INT64_MIN,
    INT_FIELDS,
    TEXT_FIELDS,
    AttrTypes,
    fault,
    objects_of,
    parse,
    parse_all,
    time_fault,
)

_NONE: Final = type(None)
_BLANK: Final = " \t\r"
_FIELDS: Final = frozenset(r.RECORD_FIELDS)
_LONG_FRACTION: Final = re.compile(r"\.[0-9]{7}|[eE]")
_NO_ATTRS: Final[dict[str, Any]] = {}


ObjectPart = tuple[list[Any], np.ndarray, list[Fault], Callable[[int], str]]
"""Objects, their line numbers, faults of other lines, and a function that returns a line's text."""


class TraceRead(InputRead):
    """A trace, plain, gzip or zstd."""

    kind = InputKind.TRACE

    def _read(self) -> Iterator[Rows]:
        self._types = AttrTypes()
        self._flat = Flat(self.name, self.form.mapping, self.form.attrs, self.form.nulls)
        for part in self.parts():
            yield from self._rows(*part)

    def parts(self) -> Iterator[ObjectPart]:
        """Yield the objects in parts of bounded size."""
        for chunk in read_chunks(self.path, self.name, self.form.encoding):
            yield _parse(chunk)

    def _nothing(self) -> Exception:
        if self.bad_count:
            return UserError(f"{self.name}: none of its {self.bad_count} lines is a record")
        return UserError(f"{self.name}:1: the file is empty; write one record a line: {EXAMPLE}")

    def _rows(
        self, records: list[Any], lines: np.ndarray, faults: list[Fault],
        text_of: Callable[[int], str],
    ) -> list[Rows]:  # fmt: skip
        """Return the rows of a part; sites whose attributes differ in type get separate parts."""
        form = self.form
        if form.mapping or form.attrs is not None or form.nulls or not _only_fields(records):
            records = self._flat.records(records, lines)
        columns = _typed(records)
        if columns is None:
            bad = _shape_faults(records, lines)
            faults += bad
            records, lines, _ = _without(bad, records, lines, {})
            columns = _typed(records)
            assert columns is not None, "records without fault have typed columns"
        there = set[str]().union(*records)
        times, bad = self._time_columns(records, lines, there, text_of)
        faults += bad
        records, lines, columns = _without(bad, records, lines, columns | times)
        while r.ID in there:
            ids, bad = self._types.column(
                ("id",), [each.get(r.ID) for each in records], lines, '"id"'
            )
            faults += bad
            records, lines, columns = _without(bad, records, lines, columns)
            if ids is not None:
                columns[r.ID] = ids
            if not bad:
                break
        sorting = self._sorter is not None
        if len(lines):
            every = columns | (_holds_attrs(records) if r.ATTRS in there else {})
            bad = self._intake.check(every, lines, ordered=not sorting)
            faults += bad
            records, lines, columns = _without(bad, records, lines, columns)
        # Sorted input is one table, so an attribute has one type for all sites.
        by_site = r.SITE in there and not sorting
        parts = [(records, lines, columns)]
        if by_site:
            parts = agreeing(records, lines, columns, self._types.known)
        found: list[Rows] = []
        for part in parts:
            attrs, bad = self._attrs(*part[:2], by_site=by_site)
            faults += bad
            good, lines, columns = _without(bad, *part)
            if bad:
                attrs, _ = self._attrs(good, lines, by_site=by_site)
            found.append((columns, attrs, lines))
        if faults:
            self._bad.report(faults, text_of)
        return found

    def _time_columns(
        self,
        records: list[dict[str, Any]],
        lines: np.ndarray,
        there: set[str],
        text_of: Callable[[int], str],
    ) -> tuple[dict[str, pa.Array], list[Fault]]:
        """Return the time fields in ``there`` [ns], and the first fault of each line."""
        columns: dict[str, pa.Array] = {}
        faults: dict[int, Fault] = {}
        for name in TIME_FIELDS:
            if name in there:
                values = [record.get(name) for record in records]
                if float in map(type, values):
                    values = [
                        self._exact(name, value, text_of(int(line))) if type(value) is float
                        else value for value, line in zip(values, lines, strict=True)
                    ]  # fmt: skip
                columns[name], reasons = self._times.values(name, values, lines)
                for row, why in reasons.items():
                    said = time_fault(name, values[row], why)
                    faults.setdefault(row, Fault(int(lines[row]), said))
        return columns, list(faults.values())

    def _exact(self, name: str, value: float, text: str) -> float | str:
        """Return a time as text if a float may not represent its digits."""
        if not _LONG_FRACTION.search(text):
            return value
        line = json.loads(text, parse_float=str)
        if not isinstance(line, dict):
            return value
        found = self._flat.record(line, 0).get(name)
        return found if isinstance(found, str) else value

    def _attrs(
        self, records: list[dict[str, Any]], lines: np.ndarray, *, by_site: bool
    ) -> tuple[dict[str, pa.Array], list[Fault]]:
        """Return attribute columns in alphabetical order, and the first fault of each line."""
        each = [record.get(r.ATTRS) or _NO_ATTRS for record in records]
        sites = [record.get(r.SITE) or r.DEFAULT_SITE for record in records] if by_site else []
        columns: dict[str, pa.Array] = {}
        faults: dict[int, Fault] = {}
        for name in sorted(set[str]().union(*each)):
            values = [attrs.get(name) for attrs in each]
            keys = {(site, name) for site, value in zip(sites, values, strict=True)
                    if value is not None} if by_site else {(r.DEFAULT_SITE, name)}  # fmt: skip
            column, bad = self._types.column(keys, values, lines, f'attribute "{name}"')
            for one in bad:
                faults.setdefault(one.line, one)
            columns[name] = pa.nulls(len(each)) if column is None else column
        return columns, list(faults.values())


def _parse(chunk: Chunk) -> ObjectPart:
    """Parse the lines of a chunk; blank lines have no record."""

    def text_of(line: int) -> str:
        return chunk.texts[line - chunk.first]

    quick = None if chunk.faults else parse_all(chunk.texts)
    if quick is not None:
        return quick, np.arange(chunk.first, chunk.first + len(quick)), [], text_of
    records: list[Any] = []
    blank: list[int] = []
    faults = [Fault(chunk.first + index, why) for index, why in chunk.faults.items()]
    for index, text in enumerate(chunk.texts):
        try:
            records.append(parse(text))
        except ValueError as error:
            blank.append(index)
            if text.strip(_BLANK) and index not in chunk.faults:
                faults.append(Fault(chunk.first + index, str(error)))
        else:
            if index in chunk.faults:
                records.pop()
                blank.append(index)
    lines = np.delete(np.arange(chunk.first, chunk.first + len(chunk.texts)), blank)
    return records, lines, faults, text_of


def _only_fields(records: list[Any]) -> bool:
    """Whether every key is a field, so that records need no conversion."""
    return set[str]().union(*(each for each in records if type(each) is dict)) <= _FIELDS


def _shape_faults(records: list[Any], lines: np.ndarray) -> list[Fault]:
    return [
        Fault(int(line), reason)
        for record, line in zip(records, lines, strict=True)
        if (reason := fault(record)) is not None
    ]


def _typed(records: list[Any]) -> dict[str, pa.Array] | None:
    """Return typed columns if every record passes ``trace_record.fault``; else None."""
    if not set(map(type, records)) <= {dict}:
        return None
    fields = set[str]().union(*records)
    if not fields.issubset(r.RECORD_FIELDS):
        return None
    columns: dict[str, pa.Array] = {}
    try:
        for name in INT_FIELDS:
            if name in fields and name not in TIME_FIELDS:
                values = [record.get(name) for record in records]
                if not set(map(type, values)) <= {int, _NONE}:
                    return None
                columns[name] = pa.array(values, pa.int64())
        for name in TEXT_FIELDS:
            if name in fields:
                values = [record.get(name) for record in records]
                if not set(map(type, values)) <= {str, _NONE}:
                    return None
                if name != r.KIND:
                    columns[name] = pa.array(values, STRING)
                elif set(values) <= {*r.KIND_NAMES, None}:
                    codes = [None if word is None else r.KIND_NAMES[word] for word in values]
                    columns[name] = pa.array(codes, pa.int8())
                else:
                    return None
    except (OverflowError, UnicodeEncodeError):
        return None
    if r.ID in fields and not _ids_fit(records):
        return None
    return columns if r.ATTRS not in fields or _attrs_fit(records) else None


def _ids_fit(records: list[Any]) -> bool:
    ids = [record.get(r.ID) for record in records]
    return set(map(type, ids)) <= {int, str, _NONE} and _scalars_fit(ids)


def _attrs_fit(records: list[Any]) -> bool:
    attrs = [record[r.ATTRS] for record in records if record.get(r.ATTRS) is not None]
    if not set(map(type, attrs)) <= {dict}:
        return False
    values = [value for each in attrs for value in each.values()]
    if not set(map(type, values)) <= {int, float, bool, str, _NONE}:
        return False
    return _scalars_fit([*values, *set[str]().union(*attrs)])


def _scalars_fit(values: list[Any]) -> bool:
    """Whether integers fit in 64 bits, floats are finite, and text is valid UTF-8."""
    whole = [value for value in values if type(value) is int]
    if whole and not (min(whole) >= INT64_MIN and max(whole) <= INT64_MAX):
        return False
    if not all(map(math.isfinite, [value for value in values if type(value) is float])):
        return False
    try:
        "".join([value for value in values if type(value) is str]).encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_attrs(records: list[Any]) -> dict[str, pa.Array]:
    """Return a column that is null for records without attributes; some kinds may not have any."""
    some = [True if record.get(r.ATTRS) else None for record in records]
    return {r.ATTRS: pa.array(some, pa.bool_())}


def _without(
    faults: list[Fault], records: list[Any], lines: np.ndarray, columns: dict[str, pa.Array]
) -> tuple[list[Any], np.ndarray, dict[str, pa.Array]]:
    """Return records, lines and columns without the faulty lines."""
    if not faults:
        return records, lines, columns
    keep = ~np.isin(lines, [one.line for one in faults])
    kept = pa.array(keep)
    columns = {name: column.filter(kept) for name, column in columns.items()}
    good = [record for record, each in zip(records, keep, strict=True) if each]
    return good, lines[keep], columns


# Files with objects in other formats: JSON documents and formats of InfluxDB.
#
# Each object becomes a record as in a trace (``row_import.Flat``); its line is the one on which it
# begins.


class JsonRead(TraceRead):
    """A JSON document: an array of objects, an object with such an array, or several objects."""

    kind = InputKind.JSON

    def parts(self) -> Iterator[ObjectPart]:
        with open_bytes(self.path, self.form.encoding) as stream:
            try:
                text = stream.read().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{self.name}: not UTF-8 at byte {error.start + 1}; {NOT_UTF8}"
                ) from error
        try:
            found = list(objects_of(text))
        except json.JSONDecodeError as error:
            raise UserError(f"{self.name}:{error.lineno}: not JSON ({error.msg})") from error
        ends = np.flatnonzero(np.frombuffer(text.encode("utf-32-le"), np.uint32) == ord("\n"))
        lines = np.searchsorted(ends, np.array([place for place, _ in found], np.int64)) + 1
        if (np.diff(lines) == 0).any():  # several objects on a line: count them instead
            lines = np.arange(1, len(found) + 1)
        values = [value for _, value in found]
        for start in range(0, len(values), CHUNK_LINES):
            part = slice(start, start + CHUNK_LINES)
            yield values[part], lines[part], [], _texts(lines[part], values[part])


def _texts(lines: Sequence[int] | np.ndarray, values: Sequence[Any]) -> Callable[[int], str]:
    """Return a function that returns the object of a line as text."""
    by_line = dict(zip(map(int, lines), values, strict=True))
    return lambda line: json.dumps(by_line[line])


# InfluxDB's line protocol: MEASUREMENT,TAG=VALUE,... FIELD=VALUE,... TIME


_POINT: Final = re.compile(
    r'(?P<head>(?:\\.|[^\s\\])+) +(?P<fields>(?:"(?:\\.|[^"\\])*"|\\.|[^\s"\\])+)'
    r"(?: +(?P<ts>-?[0-9]+))?\s*"
)
_FIELD: Final = re.compile(r'((?:\\.|[^=,\\])+)=("(?:\\.|[^"\\])*"|[^,"]+)(?:,|$)')
_ESCAPED: Final = re.compile(r'\\([,= "\\])')
_TRUE: Final = ("t", "T", "true", "True", "TRUE")
_FALSE: Final = ("f", "F", "false", "False", "FALSE")
_POINT_EXAMPLE: Final = "mem,host=h1 used=64 1578737410000000000"


class LineProtocolRead(TraceRead):
    """Points of InfluxDB: the measurement is the type; tags and fields are attributes."""

    kind = InputKind.LINE_PROTOCOL

    def parts(self) -> Iterator[ObjectPart]:
        for chunk in read_chunks(self.path, self.name, self.form.encoding):
            points: list[Any] = []
            lines: list[int] = []
            faults = [Fault(chunk.first + index, why) for index, why in chunk.faults.items()]
            for index, text in enumerate(chunk.texts):
                if index in chunk.faults or not text.strip() or text.startswith("#"):
                    continue
                try:
                    points.append(point(text))
                    lines.append(chunk.first + index)
                except ValueError as error:
                    faults.append(Fault(chunk.first + index, str(error)))

            def text_of(line: int, texts: list[str] = chunk.texts, first: int = chunk.first) -> str:
                return texts[line - first]

            yield points, np.array(lines, np.int64), faults, text_of


def point(text: str) -> dict[str, Any]:
    """Return a line of InfluxDB's protocol as an object.

    >>> point("mem,host=h1 used=64,n=3i 17")
    {'type': 'mem', 'host': 'h1', 'used': 64.0, 'n': 3, 'ts': 17}

    Raises:
        ValueError: the line is invalid; the message says why.
    """
    found = _POINT.fullmatch(text)
    if found is None:
        raise ValueError(f"not line protocol; a point is written as {_POINT_EXAMPLE}")
    if found["ts"] is None:
        raise ValueError(f"the point has no time; write it at the end, as in {_POINT_EXAMPLE}")
    measurement, *tags = re.split(r"(?<!\\),", found["head"])
    values: dict[str, Any] = {}
    for tag in tags:
        name, equals, value = (
            re.split(r"(?<!\\)(=)", tag, maxsplit=1) if "=" in tag else (tag, "", "")
        )
        if not equals:
            raise ValueError(f'tag "{tag}" has no value')
        values[_plain(name)] = _plain(value)
    end = 0
    for field in _FIELD.finditer(found["fields"]):
        if field.start() != end:
            break
        values[_plain(field[1])] = _value(field[2])
        end = field.end()
    if end != len(found["fields"]):
        raise ValueError(f'the fields "{found["fields"][end:]}" are not written as NAME=VALUE')
    if "ts" in values:
        raise ValueError("ts is the point's time; give the tag or field with that name another one")
    name = "type" if "type" not in values else "measurement"
    return {name: _plain(measurement), **values, "ts": int(found["ts"])}


def is_point(text: str) -> bool:
    """Whether a line is a point with a time, which a line of CSV hardly ever is."""
    try:
        return "=" in text and bool(point(text))
    except ValueError:
        return False


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _value(text: str) -> Any:
    if text.startswith('"'):
        return _plain(text[1:-1])
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    try:
        return int(text[:-1]) if text[-1] in "iu" else float(text)
    except ValueError:
        raise ValueError(
            f'field value {text} is no number; text has quotes, as in "{text}"'
        ) from None


# InfluxDB's annotated CSV: several tables, each with annotation lines about its columns.


_TYPED: Final[dict[str, Callable[[str], Any]]] = {
    "double": float, "long": int, "unsignedLong": int, "boolean": lambda text: text == "true",
}  # fmt: skip
_ABOUT: Final = ("", "result", "table", "_start", "_stop")
"""Columns about the query result, not about the measurement."""


class AnnotatedRead(TraceRead):
    """Annotated CSV; each row is an object with the columns of its table, and its ``_value`` gets
    the name in ``_field``.
    """

    kind = InputKind.ANNOTATED

    def parts(self) -> Iterator[ObjectPart]:
        rows = self._objects()
        while part := list(islice(rows, CHUNK_LINES)):
            faults = [Fault(line, why) for line, _, why in part if why]
            good = [(line, value) for line, value, why in part if not why]
            text_of = _texts([line for line, _, _ in part], [value for _, value, _ in part])
            lines = np.array([line for line, _ in good], np.int64)
            yield [value for _, value in good], lines, faults, text_of

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], str]]:
        """Yield line number, values and fault (or "") of each row."""
        about: dict[str, list[str]] = {}
        names: list[str] = []
        for first, texts in ((chunk.first, chunk.texts) for chunk in self._chunks()):
            reader = csv.reader(texts)
            for row in reader:
                line = first + reader.line_num - 1
                if not any(row):
                    about, names = {}, []
                elif row[0].startswith("#"):
                    if names:
                        about, names = {}, []
                    about[row[0]] = row
                elif not names:
                    names = row
                else:
                    yield line, *_typed_row(names, row, about)

    def _chunks(self) -> Iterator[Any]:
        return read_chunks(self.path, self.name, self.form.encoding)


def _typed_row(
    names: list[str], row: list[str], about: dict[str, list[str]]
) -> tuple[dict[str, Any], str]:
    """Return the row's values by name, and the fault of a value, or ""."""
    if len(row) != len(names):
        return dict(zip(names, row, strict=False)), f"{len(row)} values for {len(names)} columns"
    nothing = [""] * len(names)
    types, defaults = about.get("#datatype", nothing), about.get("#default", nothing)
    values: dict[str, Any] = {}
    for name, text, type_, default in zip(names, row, types, defaults, strict=False):
        if name in _ABOUT:
            continue
        value = text or default
        try:
            values[name] = _TYPED.get(type_, str)(value) if value else None
        except ValueError:
            return {**values, name: value}, f'column "{name}": {value} is no {type_}'
    if "_field" in values and "_value" in values:
        values[values.pop("_field") or "_value"] = values.pop("_value")
    return values, ""
