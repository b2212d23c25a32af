"""Conversion of an application's columns or records to ``Data`` messages."""

from __future__ import annotations

import math
import re
import struct
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.errors import AgentError, SettingsError, WireError
from slackwater.edge_agent.messages import NAME_MAX, NAMES_MAX, TEXT_MAX, StreamSchema
from slackwater.edge_agent.records import TIME_MAX_NS

# Columns that an application passes to ``emit``: any object with a buffer, never element by
# element.
#
# ``array('q')``, ``array('d')``, NumPy arrays and memoryviews of them are accepted directly. On the
# wire a column is its elements in little-endian order: int64, float64, int32 codes or bytes.


class Buffer(Protocol):
    """Any object that supports memoryview (``collections.abc.Buffer`` from 3.12 on)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


FORMATS: Final[dict[str, tuple[int, str]]] = {
    "int": (8, "ql"),
    "float": (8, "d"),
    "bool": (1, "?bB"),
    "code": (4, "il"),
}
"""Per kind of element: its bytes, and the ``struct`` formats that a buffer may have."""
_AS_THEY_ARE: Final = {
    (kind, order + form)
    for kind, (size, forms) in FORMATS.items()
    for order in ("", "@", "=")
    for form in forms
    if struct.calcsize(order + form) == size
}
"""Pairs of kind and buffer format that need no conversion on this machine."""
_INFINITE: Final = re.compile(6 * b"\x00" + b"\xf0[\x7f\xff]")
"""The bytes of an infinite float, little-endian."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A column of strings: ``codes[i]`` (int32) is an index into ``names``, or -1 for null."""

    names: Sequence[str]
    codes: Buffer


@dataclass(frozen=True, slots=True)
class MaskedColumn:
    """A column of numbers with nulls: ``valid[i]`` (one byte) is 0 for null."""

    values: Buffer
    valid: Buffer


Column = Buffer | Codes | MaskedColumn


def may_be_infinite(columns: Iterable[bytes]) -> bool:
    """False: no element of these packed columns is an infinite float, masked or not.

    A search for the bytes of an infinite float in all columns at once, much faster than a test of
    each number. Other numbers may contain these bytes, also across elements, so a column must be
    tested if this is True.
    """
    return _INFINITE.search(b"".join(columns)) is not None


def check_finite(values: bytes, name: str, valid: bytes | None = None) -> None:
    """Refuse infinite elements of a packed float column; NaN is allowed and means "no value".

    ``valid``: one byte per element, 0 for elements to ignore; None: test all.

    Raises:
        ValueError: an element is infinite.
    """
    numbers = array("d")
    numbers.frombytes(values)
    if sys.byteorder == "big":
        numbers.byteswap()
    if math.inf not in numbers and -math.inf not in numbers:
        return
    counts = valid or bytes([1]) * len(numbers)
    if any(one and math.isinf(number) for one, number in zip(counts, numbers, strict=True)):
        raise ValueError(f"{name}: an infinite value; leave it out, or give NaN for no value")


def packed(values: Buffer, kind: str, rows: int, name: str) -> bytes:
    """Return the elements of ``values`` as little-endian bytes.

    Raises:
        ValueError: not ``rows`` elements of ``kind`` (``int float bool code``) in one dimension.
    """
    size, formats = FORMATS[kind]
    try:
        view = memoryview(values)
    except TypeError as error:
        raise ValueError(f"{name}: give an array, not {type(values).__name__}") from error
    if (kind, view.format) not in _AS_THEY_ARE or view.ndim != 1:
        raise ValueError(
            f"{name}: a column of {kind} has {size}-byte elements ({formats}) in one dimension,"
            f" this has {view.itemsize}-byte {view.format!r} in {view.ndim}"
        )
    if len(view) != rows:
        raise ValueError(f"{name}: {len(view)} elements for {rows} rows")
    if sys.byteorder == "big" and size > 1:
        swapped = array({"int": "q", "float": "d", "code": "i"}[kind])
        swapped.frombytes(view.tobytes())
        swapped.byteswap()
        return swapped.tobytes()
    return view.tobytes()


# Conversion of a program's or file's records, one by one, to the columns that ``emit`` takes.
#
# Bad records are the input's fault: they are counted and reported, and the others are sent.


INT64_MAX: Final = 2**63 - 1
FLOAT_WHOLE_MAX: Final = 2**1023
"""Whole numbers from here on may not fit into a float."""
_PYTHON: Final = {"int": int, "float": float, "bool": bool, "str": str}
_CODES: Final = {"int": "q", "float": "d", "bool": "B"}


class BadRecord(AgentError):  # noqa: N818 - the input's fault, not the program's
    """A record that is not an event of its stream; the message says why."""


class Row(NamedTuple):
    """One event. ``ts te`` in ns at the source's clock; ``attrs`` in the schema's order."""

    ts: int
    te: int
    id: int | None
    type: str | None
    attrs: tuple[int | float | bool | str | None, ...]
    clock: str | None = None
    """The clock that stamped it; None: the agent's own."""


class EventColumns(NamedTuple):
    """The arguments of ``emit`` for a batch."""

    ts: array[int]
    te: array[int] | None
    ids: array[int] | None
    types: Codes | None
    attrs: dict[str, Column]
    clocks: Codes | None


def checked_row(
    schema: StreamSchema, ts: int, te: int | None, id_: object, type_: object,
    attrs: Mapping[str, Any], clock: str | None = None,
) -> Row:  # fmt: skip
    """Make an event from its parts; attributes that are missing or None in ``attrs`` are null.

    Raises:
        BadRecord: names what is wrong.
    """
    end = ts if te is None else te
    if not -TIME_MAX_NS <= ts <= TIME_MAX_NS or not -TIME_MAX_NS <= end <= TIME_MAX_NS:
        raise BadRecord("a time beyond the years 1823 to 2116")
    if end < ts:
        raise BadRecord("te lies before ts")
    if id_ is not None and (type(id_) is not int or not -INT64_MAX - 1 <= id_ <= INT64_MAX):
        raise BadRecord(f"id {id_!r:.50} is not a whole number of 64 bits")
    if type_ is not None and (type(type_) is not str or not 1 <= len(type_) <= NAME_MAX):
        raise BadRecord(f"type {type_!r:.50} is not a text of 1 to {NAME_MAX} characters")
    check_characters(type_ or "", "type")
    values = tuple([_value(attrs.get(name), name, kind) for name, kind in schema.attrs.items()])
    return Row(ts, end, id_, type_, values, clock)


def check_characters(text: str, what: str) -> None:
    """Raises BadRecord if ``text`` holds half a surrogate pair, which JSON escapes can produce."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"{what}: {text!r:.50} holds half of a surrogate pair, which is no character"
            raise BadRecord(half) from error


def columns_of(schema: StreamSchema, rows: Sequence[Row]) -> EventColumns:
    """The columns of at least one row."""
    ts, te, ids, types, of_each, clocks = zip(*rows, strict=True)
    attrs: dict[str, Column] = {}
    for (name, kind), values in zip(schema.attrs.items(), zip(*of_each, strict=True), strict=False):
        if any(value is not None for value in values):
            attrs[name] = _column(values, kind)
    return EventColumns(
        array("q", ts),
        None if te == ts else array("q", te),
        array("q", [id_ or 0 for id_ in ids]) if ids[0] is not None else None,
        _codes(types) if any(types) else None,
        attrs,
        _codes(clocks) if any(clocks) else None,
    )


def fits(rows: Sequence[Row], row: Row) -> bool:
    """Whether ``row`` fits into one batch with ``rows``: either all events have ids or none, and
    the size of a column's dictionary is bounded.
    """
    return not rows or ((rows[0].id is None) == (row.id is None) and len(rows) < NAMES_MAX)


def _value(value: Any, name: str, kind: str) -> Any:
    if value is None:
        return None
    if kind == "float" and type(value) is int:
        value = float(value) if abs(value) < FLOAT_WHOLE_MAX else math.inf
    found = type(value)  # bool is an int for isinstance
    if found is not _PYTHON[kind]:
        raise BadRecord(f"attribute {name}: {value!r:.50} is not of type {kind}")
    if kind == "int" and not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise BadRecord(f"attribute {name}: {value} does not fit into 64 bits")
    if kind == "float" and math.isinf(value):
        raise BadRecord(f"attribute {name}: an infinite value")
    if kind == "str":
        if len(value) > TEXT_MAX:
            raise BadRecord(f"attribute {name}: a text of {len(value)} characters")
        check_characters(value, f"attribute {name}")
    return value


def _column(values: Sequence[Any], kind: str) -> Column:
    if kind == "str":
        return _codes(values)
    if None not in values:
        return array(_CODES[kind], values)
    valid = array("B", [value is not None for value in values])
    return MaskedColumn(array(_CODES[kind], [value or 0 for value in values]), valid)


def _codes(values: Sequence[str | None]) -> Codes:
    names = [name for name in dict.fromkeys(values) if name is not None]
    places: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    places[None] = -1
    return Codes(names, array("i", map(places.__getitem__, values)))


# Conversion of an application's columns to ``Data`` messages, or a ValueError that names the
# column.
#
# A wrong column is an error of the calling program: it is raised at once, and nothing is sent.


def check_schemas(streams: Sequence[m.StreamSchema]) -> None:
    """Refuse schemas that the gateway would refuse.

    Raises:
        SettingsError: no stream, too many, a duplicate name, or a name or type out of range.
    """
    names = [stream.name for stream in streams]
    if not 1 <= len(names) <= m.STREAMS_MAX or len(set(names)) < len(names):
        raise SettingsError(f"give 1 to {m.STREAMS_MAX} streams of different names, not {names}")
    for stream in streams:
        check_name(stream.name, "stream")
        if len(stream.attrs) > m.ATTRS_MAX:
            raise SettingsError(f"stream {stream.name}: more than {m.ATTRS_MAX} attributes")
        for attr, kind in stream.attrs.items():
            check_name(attr, f"stream {stream.name}: attribute")
            if kind not in m.ATTR_TYPES:
                raise SettingsError(
                    f"stream {stream.name}: attribute {attr} is of type {kind!r},"
                    f" not one of {', '.join(m.ATTR_TYPES)}"
                )


def check_name(name: str, what: str) -> None:
    """Raises SettingsError if ``name`` is empty or longer than NAME_MAX characters."""
    if not 1 <= len(name) <= m.NAME_MAX:
        raise SettingsError(f"{what}: a name has 1 to {m.NAME_MAX} characters, not {len(name)}")


def data_message(
    index: int,
    schema: m.StreamSchema,
    *,
    ts: Buffer,
    te: Buffer | None,
    ids: Buffer | None,
    types: str | Codes | None,
    attrs: Mapping[str, Column] | None,
    clocks: str | Codes | None = None,
) -> m.Data:
    """The columns, checked and copied, as one ``Data`` with first_seq 0.

    It may be longer than a message may be: ``cut`` returns parts of it.

    Raises:
        ValueError: no rows, columns of different lengths or wrong elements, an attribute that the
            schema lacks, too many or too long strings.
    """
    rows = len(memoryview(ts))
    if not rows:
        raise ValueError(f"stream {schema.name}: emit 1 to {m.ROWS_MAX} rows at once, not 0")
    attr_columns = attrs or {}
    columns = [
        None if name not in attr_columns else _attr(attr_columns[name], kind, rows, name)
        for name, kind in schema.attrs.items()
    ]
    if may_be_infinite([each.values for each in columns if isinstance(each, m.Values)]):
        for (name, kind), column in zip(schema.attrs.items(), columns, strict=True):
            if kind == "float" and isinstance(column, m.Values):
                check_finite(column.values, name, column.valid)
    if not schema.attrs.keys() >= attr_columns.keys():
        unknown, known = min(attr_columns.keys() - schema.attrs), ", ".join(schema.attrs) or "none"
        raise ValueError(f"stream {schema.name} has no attribute {unknown}; it has: {known}")
    return m.Data(
        index,
        0,
        rows,
        packed(ts, "int", rows, "ts"),
        None if te is None else packed(te, "int", rows, "te"),
        None if ids is None else packed(ids, "int", rows, "ids"),
        _types(types, rows, "types"),
        tuple(columns),
        _types(clocks, rows, "clocks"),
    )


def cut(data: m.Data, start: int, end: int, first_seq: int) -> m.Data:
    """Rows [start, end) of ``data``, numbered from ``first_seq``."""

    def texts(column: m.Texts) -> m.Texts:
        if column.codes is None:
            return column
        return m.Texts(column.names, column.codes[4 * start : 4 * end])

    attrs: list[m.Values | m.Texts | None] = []
    for column in data.attrs:
        if isinstance(column, m.Values):
            size = len(column.values) // data.rows
            valid = None if column.valid is None else column.valid[start:end]
            attrs.append(m.Values(column.values[size * start : size * end], valid))
        else:
            attrs.append(None if column is None else texts(column))
    begin, stop = 8 * start, 8 * end
    return m.Data(
        data.stream,
        first_seq,
        end - start,
        data.ts[begin:stop],
        None if data.te is None else data.te[begin:stop],
        None if data.ids is None else data.ids[begin:stop],
        None if data.types is None else texts(data.types),
        tuple(attrs),
        None if data.clocks is None else texts(data.clocks),
    )


def encoded_data(message: m.Data, first_seq: int, name: str) -> bytes:
    """Encode ``message`` of stream ``name``, whose first event gets number ``first_seq``.

    Raises:
        ValueError: more than MESSAGE_MAX bytes, or too many rows or values.
    """
    rows, attr_count = message.rows, len(message.attrs) - message.attrs.count(None)
    if rows > m.ROWS_MAX:
        raise ValueError(f"stream {name}: emit 1 to {m.ROWS_MAX} rows at once, not {rows}")
    if rows * attr_count > m.CELLS_MAX:
        raise ValueError(
            f"stream {name}: {rows} rows of {attr_count} attributes at once; emit fewer rows: "
            f"at most {m.CELLS_MAX} values"
        )
    try:
        return wire.encode(message._replace(first_seq=first_seq))
    except WireError as error:
        raise ValueError(f"stream {name}: {error.detail}; emit fewer rows") from error


def _types(types: str | Codes | None, rows: int, what: str) -> m.Texts | None:
    if types is None:
        return None
    if isinstance(types, str):
        return m.Texts(_names([types], 1, m.NAME_MAX, what), None)
    return _texts(types, rows, what, 1, m.NAME_MAX)


def _names(names: Sequence[str], shortest: int, longest: int, name: str) -> list[str]:
    if len(names) > m.NAMES_MAX:
        raise ValueError(f"{name}: {len(names)} different strings, {m.NAMES_MAX} are allowed")
    if not all(shortest <= len(each) <= longest for each in names):
        raise ValueError(f"{name}: a string has {shortest} to {longest} characters")
    return list(names)


def _texts(column: Codes, rows: int, name: str, shortest: int, longest: int) -> m.Texts:
    names = _names(column.names, shortest, longest, name)
    return m.Texts(names, packed(column.codes, "code", rows, name))


def _attr(column: Column, kind: str, rows: int, name: str) -> m.Values | m.Texts:
    if isinstance(column, Codes) != (kind == "str"):
        raise ValueError(f"attribute {name} is of type {kind}; only strings are given as Codes")
    if isinstance(column, Codes):
        return _texts(column, rows, name, 0, m.TEXT_MAX)
    if isinstance(column, MaskedColumn):
        valid = packed(column.valid, "bool", rows, f"{name} (valid)")
        return m.Values(packed(column.values, kind, rows, name), valid)
    return m.Values(packed(column, kind, rows, name), None)
