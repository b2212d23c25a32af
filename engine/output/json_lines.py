"""Results and records as JSON lines, by column, with the same text as ``json.dumps``."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import without_nan
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.core.units import exact_units
from slackwater.engine.log.row_export import decimal_texts, record_columns
from slackwater.engine.output.schema import BOUNDS, JSON_FIELDS, MORE, POSITION, as_json

# Floats as texts, by column, in Python's and JSON's format.


_ALIKE: Final = (1e-4, 1e10)
"""In this range Arrow and Python format fractions equally, without an exponent."""
_EXACT: Final = 1e15
"""Below this Python formats whole numbers without an exponent."""


def float_texts(values: np.ndarray) -> pa.Array:
    """Return ``repr`` of float64 ``values``; Arrow formats 97.0 as 97 and exponents differently."""
    size = np.abs(values)
    whole = values == np.floor(values)
    fraction = ~whole & (size >= _ALIKE[0]) & (size < _ALIKE[1])
    whole &= (size < _EXACT) & ~np.signbit(values)
    text = pc.cast(pa.array(values), pa.string())
    if whole.any():
        numbers = pc.cast(pa.array(values[whole].astype(np.int64)), pa.string())
        texts = pc.binary_join_element_wise(numbers, ".0", "")
        text = pc.replace_with_mask(text, pa.array(whole), texts)
    other = ~(whole | fraction)
    if other.any():
        texts = pa.array([repr(value) for value in values[other].tolist()], pa.string())
        text = pc.replace_with_mask(text, pa.array(other), texts)
    return text


# Columns as JSON texts, equal to those of ``json.dumps``, without a Python object per row.


_NOTHING: Final = pa.scalar("null")


class Dates(Struct, frozen=True):
    """Times of results as dates in ``zone``, instead of numbers.

    ``arrives``: whether arrivals are instants; otherwise they are line numbers, which are no dates.
    """

    zone: str = "UTC"
    arrives: bool = True

    def known(self, name: str, times: pa.Array) -> pa.Array:
        """Return ``times`` of the field ``name``; null if they are not instants."""
        return (
            times if self.arrives or name not in _OF_ARRIVAL else pa.nulls(len(times), pa.int64())
        )

    def texts(self, times: pa.Array) -> pa.Array:
        """Return times [ns] in ISO 8601 with 0, 3, 6 or 9 digits of a second, as needed."""
        ns = times.fill_null(0).to_numpy(zero_copy_only=False)
        seconds, rest = np.divmod(ns, 10**9)
        instants = pa.array(seconds).cast(pa.timestamp("s", self.zone))
        zones = pc.strftime(instants, format="%z")
        offsets = pc.binary_join_element_wise(
            pc.utf8_slice_codeunits(zones, 0, 3), pc.utf8_slice_codeunits(zones, 3, 5), ":"
        )
        fraction = pc.utf8_lpad(pc.cast(pa.array(rest), pa.string()), 9, "0")
        fraction = pc.replace_substring_regex(fraction, "(000)+$", "")
        found = woven(
            pc.strftime(instants, format="%Y-%m-%dT%H:%M:%S"),
            pc.if_else(pc.equal(fraction, ""), "", around(".", fraction, "")),
            pc.if_else(pc.equal(offsets, "+00:00"), "Z", offsets),
        )
        return null_where(times.is_null(), found)


_OF_ARRIVAL: Final = ("at", "known_at")


class JsonTexts:
    """JSON texts of columns; equal columns, as LOW, MIDDLE, HIGH and bounds often are, share a
    text.

    Args:
        unit: unit of times that are numbers [ns].
        dates: format of other times; None: all are numbers.
    """

    def __init__(self, unit: int = 1, dates: Dates | None = None) -> None:
        self.unit = unit
        self.dates = dates
        self._made: dict[pa.DataType, list[tuple[pa.Array, pa.Array]]] = {}

    def of(self, values: pa.Array, make: Callable[[pa.Array], pa.Array] | None = None) -> pa.Array:
        """Return the texts of plain values (quoted, null as ``null``), or the result of
        ``make``.
        """
        made = self._made.setdefault(values.type, [])
        for known, text in made:
            if _same(values, known):
                return text
        made.append((values, (make or json_text)(values)))
        return made[-1][1]

    def objects(self, values: pa.Array) -> pa.Array:
        """Return structs as objects, ``BOUNDS`` as pairs, texts unchanged; null stays null."""
        if pa.types.is_dictionary(values.type):
            return values.dictionary_decode()
        return self.of(values, self._object) if pa.types.is_struct(values.type) else values

    def attributes(self, values: pa.Array) -> pa.Array:
        """Return objects without their null fields; null becomes an empty object."""
        if not pa.types.is_struct(values.type):
            return self.objects(values).fill_null("{}")
        columns = _inside(values)
        if not any(column.null_count for column in columns.values()):
            return self._object(values)
        return sparse_object({name: without(self.of(of), "null") for name, of in columns.items()})

    def _object(self, values: pa.StructArray) -> pa.Array:
        text = json_object({name: self._member(of) for name, of in _inside(values).items()})
        if values.null_count:
            text = pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
        return text

    def _member(self, values: pa.Array) -> pa.Array:
        if not pa.types.is_struct(values.type):
            return self.of(values)
        return json_pair(*(self.of(values.field(name)) for name in BOUNDS))


def _same(left: pa.Array, right: pa.Array) -> bool:
    """Whether arrays of one type have equal texts; Arrow itself equates 0.0 and -0.0."""
    if pa.types.is_struct(left.type):
        places = range(left.type.num_fields)
        return bool(left.is_null().equals(right.is_null())) and all(
            _same(left.field(place), right.field(place)) for place in places
        )
    if pa.types.is_floating(left.type):
        left, right = left.view(pa.int64()), right.view(pa.int64())
    return bool(left.equals(right))


def around(begin: str, texts: pa.Array, end: str) -> pa.Array:
    """Return each of ``texts`` between ``begin`` and ``end``."""
    return pc.binary_join_element_wise(begin, texts, end, "")


def woven(*parts: str | pa.Array) -> pa.Array:
    """Concatenate ``parts`` per row; a part is an array of texts, or one text for all rows."""
    together: list[str | pa.Array] = []
    for part in parts:
        if isinstance(part, str) and together and isinstance(together[-1], str):
            together[-1] += part
        else:
            together.append(part)
    return pc.binary_join_element_wise(*together, "")


def json_object(members: Mapping[str, pa.Array]) -> pa.Array:
    """Return an object per row from at least one member; values are JSON already."""
    parts: list[str | pa.Array] = []
    for name, text in members.items():
        parts += [", " if parts else "", json.dumps(name, ensure_ascii=False), ": ", text]
    return woven("{", *parts, "}")


def null_where(absent: pa.Array, column: pa.Array) -> pa.Array:
    """Return ``column`` with null where ``absent``."""
    return pc.if_else(absent, pa.scalar(None, column.type), column)


def without(texts: pa.Array, *left_out: str) -> pa.Array:
    """Return ``texts`` with null in place of each text in ``left_out``."""
    return null_where(pc.is_in(texts, pa.array(left_out)), texts)


def sparse_object(members: Mapping[str, pa.Array]) -> pa.Array:
    """Return an object per row of the members that are not null; values are JSON already."""
    parts: list[str | pa.Array] = []
    begun = False
    for name, texts in members.items():
        there = texts.is_valid()
        comma = pc.if_else(pc.and_(begun, there), ", ", "") if parts else ""
        member = around(f"{json.dumps(name, ensure_ascii=False)}: ", texts, "")
        parts += [comma, member.fill_null("")]
        begun = pc.or_(begun, there)
    return woven("{", *parts, "}")


def one_kind(parts: Sequence[Mapping[str, pa.Array]]) -> list[pa.Array]:
    """Return each part as objects: structs, or JSON texts if the parts differ in fields."""
    schemas = [[pa.field(name, values.type) for name, values in part.items()] for part in parts]
    try:
        fields = list(pa.unify_schemas(map(pa.schema, schemas)))
    except pa.ArrowTypeError:
        fields = []
    if any(len(each) != len(fields) for each in schemas):
        return [
            json_object({name: json_text(values) for name, values in part.items()})
            for part in parts
        ]
    return [
        pa.StructArray.from_arrays([part[f.name].cast(f.type) for f in fields], fields=fields)
        for part in parts
    ]


def json_pair(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return a list of two per row; both are JSON already."""
    return woven("[", first, ", ", second, "]")


def joined(texts: pa.Array, lists: pa.ListArray) -> pa.Array:
    """Join the texts of each list with commas."""
    offsets = lists.offsets.to_numpy()
    starts = pa.array(offsets - offsets[0], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(starts, texts), ", ")


def json_text(values: pa.Array) -> pa.Array:
    """Return values as JSON texts."""
    kind = values.type
    if pa.types.is_string(kind):
        values, kind = values.dictionary_encode(), pa.dictionary(pa.int32(), pa.string())
    if pa.types.is_dictionary(kind):
        known = [json.dumps(text, ensure_ascii=False) for text in values.dictionary.to_pylist()]
        texts = pa.array(known, pa.string()).take(values.indices)
    elif pa.types.is_floating(kind):
        texts = float_texts(values.fill_null(0.0).to_numpy(zero_copy_only=False))
        if values.null_count:
            texts = pc.if_else(values.is_valid(), texts, _NOTHING)
    elif pa.types.is_decimal(kind):
        texts = decimal_texts(values)
    else:
        texts = pc.cast(values, pa.string())
    return texts.fill_null("null") if texts.null_count else texts


def fraction_type(unit: int) -> pa.Decimal128Type:
    """Return the type of times in units of this many ns, with enough digits to restore each ns."""
    return pa.decimal128(38, len(str(unit - 1)))


def in_unit(times: pa.Array, unit: int, rows: np.ndarray | None = None) -> pa.Array:
    """Convert times [ns] to units of this many ns; floats stay floats.

    Integers become int64 if all are whole in the unit, else exact values of ``fraction_type``.
    ``rows``: bool, the rows that are times; others are unchanged. None: all.
    """
    units = unit if rows is None else np.where(rows, unit, 1)
    if pa.types.is_floating(times.type):
        return pc.divide(times, pa.scalar(float(unit)) if rows is None else pa.array(units * 1.0))
    if unit == 1 or not pa.types.is_integer(times.type):
        return times
    absent = np.asarray(times.is_null().to_numpy(zero_copy_only=False))
    whole, rest = np.divmod(times.fill_null(0).to_numpy(zero_copy_only=False), units)
    found = pa.array(whole, mask=absent)
    if not rest.any():
        return found
    kind = fraction_type(unit)
    if 10**kind.scale == unit:
        digits = rest
    else:
        digits = np.zeros_like(rest)
        for _ in range(kind.scale):
            more, rest = np.divmod(rest * 10, units)
            digits = digits * 10 + more
        digits += 2 * rest + (whole >= 0) > units  # half is rounded away from 0
    # A decimal is a 128-bit integer, lower half first.
    halves = np.stack([digits, np.zeros_like(digits)], axis=1)
    part = pa.decimal128(kind.scale, kind.scale)
    fractions = pa.Array.from_buffers(part, len(times), [None, pa.py_buffer(halves)])
    return pc.add(found.cast(pa.decimal128(37, kind.scale)), fractions)


def in_one_text(lines: pa.Array) -> str:
    """Concatenate texts without nulls."""
    _, offsets, data = lines.buffers()
    wide = pa.types.is_large_string(lines.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[lines.offset :]
    return str(data[int(ends[0]) : int(ends[len(lines)])].to_pybytes(), "utf-8")


def rest(more: pa.Array) -> pa.Array | str:
    """Return ``, `` and the further fields without braces; empty if there are none."""
    if more.null_count == len(more):
        return ""
    there = pc.fill_null(pc.greater(pc.binary_length(more), 2), False)
    inner = pc.utf8_slice_codeunits(pc.fill_null(more, "{}"), 1, -1)
    return pc.if_else(there, pc.binary_join_element_wise(", ", inner, ""), "")


def where_there(values: pa.Array, texts: pa.Array) -> pa.Array:
    """Return ``texts`` where ``values`` are not null, else an empty text."""
    return pc.if_else(values.is_valid(), texts, "") if values.null_count else texts


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array that begins its buffers; copied only if necessary."""
    chunks = column.chunks or [pa.nulls(0, column.type)]
    return chunks[0] if len(chunks) == 1 and not chunks[0].offset else pa.concat_arrays(chunks)


# Results as JSON lines, equal to those of ``json.dumps``, without a Python object per row.


_NUMBERS: Final = ("value", "low", "middle", "high", "bounds")
_ATTRS: Final = "attrs"


def result_lines(
    table: pa.Table, schema: pa.Schema, times: Collection[str], optional: Collection[str],
    unit: int, dates: Dates | None = None,
) -> pa.Array:  # fmt: skip
    """Return a line, with its end, for each row of a table.

    Args:
        table: rows of ``schema``; columns in ``JSON_FIELDS`` may be structs.
        schema: defines the fields and their order.
        times: fields that are times, also within lists.
        optional: fields that are omitted if null.
        unit: unit of times [ns].
        dates: see ``JsonTexts``.
    """
    names = [name for name in schema.names if name != POSITION]
    columns = {name: pa.concat_arrays(table[name].chunks) for name in names}
    fields = [schema.field(name) for name in names]
    return woven("{", *_members(columns, fields, times, optional, JsonTexts(unit, dates)), "}\n")


def _members(
    columns: Mapping[str, pa.Array], fields: Iterable[pa.Field], times: Collection[str],
    optional: Collection[str], texts: JsonTexts,
) -> list[str | pa.Array]:  # fmt: skip
    """Return the fields of objects without braces, for ``woven``."""
    parts: list[str | pa.Array] = []
    for field in fields:
        name, values = field.name, columns[field.name]
        begin = f'{", " if parts else ""}"{name}": '
        if name == MORE:
            parts.append(rest(values))
        elif pa.types.is_list(field.type):
            inner = field.type.value_type
            each = _members(_inside(values.flatten()), inner, times, (), texts)
            parts += [begin, "[", joined(woven("{", *each, "}"), values), "]"]
        elif pa.types.is_struct(field.type):
            parts += [begin, "{", *_members(_inside(values), field.type, times, (), texts), "}"]
        elif name == _ATTRS:
            parts += [begin, texts.attributes(values)]
        elif name in optional and values.null_count == len(values):
            continue
        else:
            column, dates = values, texts.dates
            if name in times and dates is None:
                column = in_unit(values, texts.unit)
            elif name in times and dates is not None:
                column = dates.texts(dates.known(name, values))
            text = texts.objects(values) if name in JSON_FIELDS else texts.of(column)
            if name in optional:
                parts.append(where_there(values, around(begin, text, "")))
            else:
                parts += [begin, text.fill_null("null") if text.null_count else text]
    return parts


def _inside(structs: pa.StructArray) -> dict[str, pa.Array]:
    return {field.name: structs.field(place) for place, field in enumerate(structs.type)}


def in_units(table: pa.Table, unit: int, times: Mapping[str, Collection[str]]) -> pa.Table:
    """Convert the values in ``times`` (labels, by query) to ``unit`` ns as ``in_unit`` does; ``at``
    is unchanged.
    """
    if unit == 1 or not times:
        return table
    queries = table.column("query").to_pylist()
    labels = {query: frozenset(times.get(query, ())) for query in dict.fromkeys(queries)}
    for name in [name for name in _NUMBERS if name in table.column_names]:
        values = in_one(table.column(name))
        if pa.types.is_struct(values.type):
            divided = _fields_in_unit(values, unit, queries, labels)
        else:
            texts = zip(values.to_pylist(), queries, strict=True)
            divided = pa.array(
                [text and _text_in_unit(json.loads(text), unit, labels[q]) for text, q in texts],
                pa.string(),
            )
        table = table.set_column(table.schema.get_field_index(name), name, divided)
    return table


def _fields_in_unit(
    values: pa.StructArray, unit: int, queries: Sequence[str], labels: Mapping[str, Collection[str]]
) -> pa.Array:
    """Convert fields of structs; ``labels``: the fields that are times, by query."""
    rows = {
        label: None if all(label in of for of in labels.values())
        else np.array([label in labels[query] for query in queries], bool)
        for label in set[str]().union(*labels.values())
    }  # fmt: skip
    names = [field.name for field in values.type]
    fields = [
        _member_in_unit(of, unit, rows[name]) if name in rows else of
        for name, of in zip(names, values.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())


def _member_in_unit(values: pa.Array, unit: int, rows: np.ndarray | None) -> pa.Array:
    if not pa.types.is_struct(values.type):
        return in_unit(values, unit, rows)
    names = [field.name for field in values.type]
    ends = [in_unit(of, unit, rows) for of in values.flatten()]
    return pa.StructArray.from_arrays(ends, names=names, mask=values.is_null())


def _text_in_unit(values: dict[str, Any], unit: int, times: Collection[str]) -> str:
    """Return an object as JSON in Python's format; the fields in ``times`` are in ``unit``."""

    def number(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(number, value))}]"
        return exact_units(value, unit) if isinstance(value, int) else as_json(value / unit)

    members = (
        f"{as_json(label)}: "
        f"{number(value) if label in times and value is not None else as_json(value)}"
        for label, value in values.items()
    )
    return f"{{{', '.join(members)}}}"


# Records as JSON lines.


RECORDS_AT_ONCE: Final = 1 << 16
_FIELDS: Final = (*(name for name in r.RECORD_FIELDS if name != r.SITE), r.SITE)
DEFAULTS: Final = {
    r.KIND: '"event"', r.SITE: f'"{r.DEFAULT_SITE}"', r.STREAM: f'"{r.DEFAULT_STREAM}"',
}  # fmt: skip


def record_lines(
    site: str, columns: Mapping[str, pa.Array], defaults: Mapping[str, str] = DEFAULTS
) -> str:
    """Return a line for each row, without fields that are null, NaN or their default.

    Args:
        site: site of the records.
        columns: by field, in the order of the lines; attributes form one field, the last.
        defaults: defaults of fields, as JSON.

    Raises:
        UserError: an attribute is infinite, which JSON does not support.
    """
    members: dict[str, pa.Array] = {}
    attrs: dict[str, pa.Array] = {}
    for name, column in columns.items():
        finite = column
        if pa.types.is_floating(column.type):
            finite, infinite = without_nan(column)
            if infinite.any():
                raise UserError(
                    f"site {site!r}: {name} is infinite in the record of arrival "
                    f"{columns[r.ARRIVAL][int(infinite.argmax())]}, which JSON cannot say; "
                    "write Parquet"
                )
        of = attrs if name.startswith(ATTR_PREFIX) else members
        texts = without(json_text(finite), "null", defaults.get(name, "null"))
        of[name.removeprefix(ATTR_PREFIX)] = texts
    if attrs:
        members[r.ATTRS] = without(sparse_object(attrs), "{}")
    return in_one_text(around("", sparse_object(members), "\n"))


def write_trace(frames: Iterable[Frame], out: TextIO, time_unit: str = "ns") -> int:
    """Write ``frames`` to ``out`` as a JSONL trace; return the number of records.

    Fields with their default are omitted: kind, site, stream, te. The incarnation is written from
    the first frame on in which one is not 0, as its default varies from there.

    Raises:
        UserError: a time is not a whole number of the unit, or an attribute is infinite.
    """
    count, incarnations = 0, False
    for frame in frames:
        batch = frame.batch
        if r.INCARNATION not in batch.schema.names:
            batch = batch.append_column(r.INCARNATION, pa.repeat(0, frame.rows))
        incarnations = incarnations or pc.any(pc.not_equal(batch[r.INCARNATION], 0)).as_py()
        if not incarnations:
            batch = batch.drop_columns([r.INCARNATION])
        for start in range(0, frame.rows, RECORDS_AT_ONCE):
            rows = Frame(frame.site, batch.slice(start, RECORDS_AT_ONCE))
            found = record_columns(rows, time_unit)
            found[r.SITE] = pa.repeat(frame.site, rows.rows)
            if r.TE in found:
                found[r.TE] = null_where(pc.equal(found[r.TE], found[r.TS]), found[r.TE])
            fields = {name: found.pop(name) for name in _FIELDS if name in found}
            out.write(record_lines(frame.site, fields | found))  # attributes remain
        count += frame.rows
    return count
