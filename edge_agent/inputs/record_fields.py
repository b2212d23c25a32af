"""The mapping of an input's records (JSON objects, CSV rows) to events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import SettingsError, did_you_mean
from slackwater.edge_agent.messages import NAME_MAX, StreamSchema
from slackwater.edge_agent.packing import BadRecord, Row, check_characters, checked_row
from slackwater.edge_agent.records import ATTRS
from slackwater.edge_agent.sequence import DeviceCounters
from slackwater.edge_agent.settings_file import Table, quantity
from slackwater.edge_agent.units import NS_PER

if TYPE_CHECKING:
    from slackwater.edge_agent.inputs.base import Surroundings

# The mapping of a record (a JSON object, a CSV row) to an event.
#
# Fields have the names of a trace: ``stream ts te id type`` and ``attrs`` with the attributes; an
# attribute of the stream may also be a top-level field. ``map`` gives other names of fields. A
# record without ``ts`` has the time of reading by this device's clock. In other records ``clock``
# names the device that stamped them, if the input uses it.


FIELDS: Final = (r.STREAM, r.TS, r.TE, r.ID, r.TYPE, r.CLOCK, r.SEQ)
SEQ_BITS: Final = (8, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """How an input's records are read. ``map``: field or attribute -> its name in the record."""

    schemas: Mapping[str, StreamSchema]
    stream: str
    """Stream of records that name none."""
    time_unit: str = "ns"
    map: Mapping[str, str] = field(default_factory=dict)
    texts: bool = False
    """Whether values are texts (CSV) from which numbers and bools are parsed."""
    devices: bool = False
    """Whether the event's clock is the device that stamped it."""
    counters: DeviceCounters | None = None
    """Counters that ``seq`` updates; None: ``seq`` is ignored."""

    def event(
        self, record: Mapping[str, Any], now_ns: int, device: str = ""
    ) -> tuple[str, Row] | None:
        """Return stream and event of ``record``; None: a copy of a record sent before.
        ``now_ns``: when it was read; ``device``: the device of a record that names none.

        Raises:
            BadRecord: the record is invalid; names what is wrong.
        """
        stream = self._field(record, r.STREAM) or self.stream
        schema = self.schemas.get(stream) if type(stream) is str else None
        if schema is None:
            raise BadRecord(f"no stream {stream!r:.50}{did_you_mean(str(stream), self.schemas)}")
        inner = record.get(r.ATTRS, record)
        if not isinstance(inner, Mapping):
            raise BadRecord("attrs is no table")
        names = {name: self.map.get(name, name) for name in schema.attrs}
        attrs = {name: inner.get(key, record.get(key)) for name, key in names.items()}
        start, until, id_ = (self._field(record, name) for name in (r.TS, r.TE, r.ID))
        if self.texts:
            attrs = {
                name: read_text(attrs[name], kind, name) for name, kind in schema.attrs.items()
            }
            id_ = read_text(id_, "int", r.ID)
        row = checked_row(
            schema,
            now_ns if start is None else self._ns(start, r.TS),
            None if until is None else self._ns(until, r.TE),
            id_,
            self._field(record, r.TYPE),
            attrs,
            None if start is None else self.device_of(record, device),
        )
        if self.counters is not None:
            number = self._number(record, self.counters.bits)
            content = row if start is not None else row._replace(ts=0, te=0)
            name = f"{stream} {self._field(record, r.CLOCK) or device}"
            if self.counters.is_copy(name, number, row.ts, content):
                return None
        return stream, row

    def _number(self, record: Mapping[str, Any], bits: int) -> int | None:
        number = self._field(record, r.SEQ)
        if self.texts:
            number = read_text(number, "int", r.SEQ)
        if number is not None and (type(number) is not int or not 0 <= number < 1 << bits):
            raise BadRecord(f"seq {number!r:.50} is no number of {bits} bits, as seq_bits says")
        return number

    def count_in(self, counts: Counter[str], around: Surroundings | None = None) -> None:
        """Count findings about the devices' numbers in ``counts``; with ``around``, register the
        counters so that they survive a restart.
        """
        if self.counters is not None:
            self.counters.counts = counts
            if around is not None:
                around.counters.append(self.counters)

    def device_of(self, record: Mapping[str, Any], device: str) -> str | None:
        """The device that stamped a record; raises BadRecord if its ``clock`` is no name."""
        if not self.devices:
            return None
        found = self._field(record, r.CLOCK)
        if found is None:
            return device
        if type(found) is not str or not 1 <= len(found) <= NAME_MAX:
            raise BadRecord(f"clock {found!r:.50} is not a text of 1 to {NAME_MAX} characters")
        check_characters(found, "clock")
        return found

    def _field(self, record: Mapping[str, Any], name: str) -> Any:
        value = record.get(self.map.get(name, name))
        return None if self.texts and value == "" else value

    def _ns(self, value: Any, name: str) -> int:
        try:
            return instant_ns(value, self.time_unit)
        except (ValueError, SettingsError, OverflowError) as error:
            raise BadRecord(f"{name}: {value!r:.50} is not an instant: {error}") from error


def read_fields(
    table: Table, schemas: Mapping[str, StreamSchema], *, texts: bool = False,
    devices: bool = False,
) -> RecordFields:  # fmt: skip
    """Read the settings ``stream time_unit map seq_bits`` of an input."""
    stream = table.text("stream", next(iter(schemas)), among=list(schemas))
    unit = table.text("time_unit", "ns", among=list(NS_PER))
    inner = table.table("map")
    names = [*FIELDS, *{attr for schema in schemas.values() for attr in schema.attrs}]
    found = {}
    for name in inner.keys():  # noqa: SIM118 - a Table is no dict
        if name not in names:
            raise inner.wrong(name, f"no such field{did_you_mean(name, names)}")
        found[name] = inner.text(name)
    bits = table.integer("seq_bits", 0)
    if bits and bits not in SEQ_BITS:
        raise table.wrong("seq_bits", f"a counter has {', '.join(map(str, SEQ_BITS))} bits")
    if r.SEQ in found and not bits:
        raise inner.wrong(r.SEQ, "needs seq_bits in [[input]]: of how many bits the counter is")
    return RecordFields(
        schemas=schemas, stream=stream, time_unit=unit, map=found, texts=texts, devices=devices,
        counters=DeviceCounters(bits) if bits else None,
    )  # fmt: skip


def instant_ns(value: Any, unit: str) -> int:
    """Convert an instant to ns since 1970: a number in ``unit``, or ISO 8601 text with its zone.

    >>> instant_ns(12, "ms"), instant_ns("1.5", "s"), instant_ns("1970-01-01T00:00:01.5Z", "ns")
    (12000000, 1500000000, 1500000000)

    Raises:
        ValueError, SettingsError: it is no instant. Fractions of a second must be texts: a float
            cannot hold ns since 1970.
    """
    if type(value) is int:
        return value * NS_PER[unit]
    if type(value) is not str:
        raise ValueError(f"write a whole number of {unit}, or a text")
    sign, digits = (-1, value[1:]) if value.startswith("-") else (1, value)
    if digits.replace(".", "", 1).isdecimal():
        return sign * quantity(f"{digits} {unit}", NS_PER, "an instant")
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("it names no zone (Z, +01:00)")
    whole = int(found.replace(microsecond=0).timestamp())
    return whole * NS_PER["s"] + found.microsecond * NS_PER["us"]


def read_text(text: Any, kind: str, name: str) -> Any:
    """Parse a text as a value of type ``kind``; an empty text is null. Raises BadRecord."""
    if text is None or text == "":
        return None
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError as error:
        raise BadRecord(f"{name}: {text!r:.50} is not of type {kind}") from error
    if kind == "bool":
        if text.lower() not in ("true", "false", "1", "0"):
            raise BadRecord(f"{name}: {text!r:.50} is not true or false")
        return text.lower() in ("true", "1")
    return text


# Records that were read together: access by column and by record.


_scan: Final[Callable[[str, int], tuple[Any, int]]] = vars(json.JSONDecoder())["scan_once"]
"""``json.loads`` without its work around each text."""


class ParsedRecords(Protocol):
    """A batch of records of one input."""

    def __len__(self) -> int: ...

    def field(self, name: str) -> Sequence[Any]:
        """The value of the field in each record; None: the record has none."""

    def attribute(self, name: str) -> Sequence[Any]:
        """As ``field``, for attributes: a value in ``attrs`` takes precedence."""

    @property
    def regular(self) -> bool:
        """Whether all are records, so that columns can be read."""

    def record(self, place: int) -> Mapping[str, Any]:
        """The record at ``place``; raises BadRecord if it is none."""

    def sorts(self, name: str) -> Sequence[str | None]:
        """The text of the field in each record: "" if it has none, None for what is no record."""

    def part(self, places: Sequence[int]) -> ParsedRecords:
        """The batch of the records at ``places``."""


class JsonBatch:
    """Lines of JSON, one record each."""

    def __init__(
        self, lines: Sequence[str | bytes], records: Sequence[dict[str, Any] | None] | None = None
    ) -> None:
        """``lines``: bytes if they are not UTF-8 as a whole; ``records``: the parsed lines."""
        self._lines = lines
        found: Sequence[Any] = list(map(_object, lines)) if records is None else records
        self._records = found
        self._inner = found
        self._has_inner = False
        self.regular = None not in self._records
        if self.regular:
            self._inner = [record.get(ATTRS, record) for record in self._records]
            self._has_inner = any(map(_is_not, self._inner, self._records))
            self.regular = not self._has_inner or set(map(type, self._inner)) == {dict}

    def __len__(self) -> int:
        return len(self._lines)

    def field(self, name: str) -> Sequence[Any]:
        return [record.get(name) for record in self._records]

    def attribute(self, name: str) -> Sequence[Any]:
        found = [inner.get(name) for inner in self._inner]
        if self._has_inner and None in found:
            both = zip(self._inner, self._records, strict=True)
            return [inner.get(name, record.get(name)) for inner, record in both]
        return found

    def record(self, place: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = self._records[place]
        if found is None:
            raise BadRecord(_fault(self._lines[place]))
        return found

    def sorts(self, name: str) -> Sequence[str | None]:
        return [None if each is None else _text(each.get(name)) for each in self._records]

    def part(self, places: Sequence[int]) -> JsonBatch:
        return JsonBatch(
            [self._lines[place] for place in places], [self._records[place] for place in places]
        )


class TableBatch:
    """Rows of a table as columns; ``record_of`` returns a row as a record."""

    def __init__(
        self, columns: Mapping[str, Sequence[Any]] | None, rows: int,
        record_of: Callable[[int], Mapping[str, Any]],
    ) -> None:  # fmt: skip
        """``columns`` None: the rows do not all have the same columns."""
        self._known = columns
        self._columns = columns or {}
        self._rows = rows
        self.record = record_of
        self._none = (None,) * rows
        self.regular = columns is not None and ATTRS not in columns

    def __len__(self) -> int:
        return self._rows

    def field(self, name: str) -> Sequence[Any]:
        return self._columns.get(name, self._none)

    attribute = field

    def sorts(self, name: str) -> Sequence[str | None]:
        return [_text(value) for value in self.field(name)]

    def part(self, places: Sequence[int]) -> TableBatch:
        some = self._known and {
            name: [column[place] for place in places] for name, column in self._known.items()
        }
        return TableBatch(some, len(places), lambda place: self.record(places[place]))


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _is_not(one: object, other: object) -> bool:
    return one is not other


def _object(line: str | bytes) -> Any:
    """Parse a line; None: it is no JSON object."""
    if isinstance(line, str):
        try:
            found, end = _scan(line, 0)
        except (StopIteration, ValueError, RecursionError):
            end = -1
        if end == len(line) or (end > 0 and line[end:].isspace()):
            return found if type(found) is dict else None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def _fault(line: str | bytes) -> str:
    try:
        json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return "not an object of JSON"
