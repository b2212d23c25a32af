"""Files that hold objects in other ways than one a line of JSON: JSON documents and InfluxDB's.

Each object becomes a record as a line of a trace does (``engine.log.input.flat``), and keeps the
number of the line on which it begins.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.input.input_read import InputKind
from slackwater.engine.log.input.lines import CHUNK_LINES, NOT_UTF8, open_bytes, read_chunks
from slackwater.engine.log.input.trace import ObjectPart, TraceRead
from slackwater.engine.log.record.record_rules import Fault
from slackwater.engine.log.record.trace_record import objects_of


class JsonRead(TraceRead):
    """A JSON document: an array of objects, one object with such an array, or objects in turn."""

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
        if (np.diff(lines) == 0).any():  # several on a line: counted instead
            lines = np.arange(1, len(found) + 1)
        values = [value for _, value in found]
        for start in range(0, len(values), CHUNK_LINES):
            part = slice(start, start + CHUNK_LINES)
            yield values[part], lines[part], [], _texts(lines[part], values[part])


def _texts(lines: Sequence[int] | np.ndarray, values: Sequence[Any]) -> Callable[[int], str]:
    """Gives the object of a line as text."""
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
    """Points of InfluxDB: the measurement is the type, tags and fields are attributes."""

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
    """A line of InfluxDB's protocol as an object.

    >>> point("mem,host=h1 used=64,n=3i 17")
    {'type': 'mem', 'host': 'h1', 'used': 64.0, 'n': 3, 'ts': 17}

    Raises:
        ValueError: what is wrong with it.
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
    name = "type" if "type" not in values else "measurement"
    return {name: _plain(measurement), **values, "ts": int(found["ts"])}


def is_point(text: str) -> bool:
    """Whether a line is a point with a time, which no line of CSV is likely to be."""
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


# InfluxDB's annotated CSV: tables one after the other, each with lines of its own about columns.


_TYPED: Final[dict[str, Callable[[str], Any]]] = {
    "double": float, "long": int, "unsignedLong": int, "boolean": lambda text: text == "true",
}  # fmt: skip
_ABOUT: Final = ("", "result", "table", "_start", "_stop")
"""Columns about the answer that a row is in, not about what was measured."""


class AnnotatedRead(TraceRead):
    """Annotated CSV; each row is an object with the columns of its table, and its ``_value`` has
    the name that its ``_field`` gives.
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
        """Line, values and what is wrong with them of each row."""
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
    """The row's values by name, and what is wrong with one of them."""
    if len(row) != len(names):
        return dict(zip(names, row, strict=False)), f"{len(row)} values for {len(names)} columns"
    nothing = [""] * len(names)
    types, defaults = about.get("#datatype", nothing), about.get("#default", nothing)
    values: dict[str, Any] = {}
    for name, text, type_, default in zip(names, row, types, defaults, strict=False):
        if name in _ABOUT:
            continue
        given = text or default
        try:
            values[name] = _TYPED.get(type_, str)(given) if given else None
        except ValueError:
            return {**values, name: given}, f'column "{name}": {given} is no {type_}'
    if "_field" in values and "_value" in values:
        values[values.pop("_field") or "_value"] = values.pop("_value")
    return values, ""
