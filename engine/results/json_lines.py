"""Results as JSON lines, made column by column: the same text as ``json.dumps`` makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.operator import Result
from engine.results.schema import (
    ALERT_FIELDS,
    BOUNDS,
    EVENT_FIELDS,
    ITEM_SCHEMA,
    JSON_FIELDS,
    MORE,
    POSITION,
    SHARED_FIELDS,
    SO_FAR,
    SO_FAR_FIELDS,
    WINDOW_EXTRAS,
    WINDOW_FIELDS,
    as_json,
    table_of,
)

# Floats as texts by columns, as Python and so JSON writes them.


_ALIKE: Final = (1e-4, 1e10)
"""Between these Arrow writes a fraction as Python does: without an exponent."""
_EXACT: Final = 1e15
"""Below it Python writes whole numbers without an exponent."""


def float_texts(values: np.ndarray) -> pa.Array:
    """``repr`` of each of float64 ``values``; Arrow says 97 for 97.0 and has other exponents."""
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


# Columns as JSON texts, the same that ``json.dumps`` makes, without a Python object per row.


_NOTHING: Final = pa.scalar("null")


class JsonTexts:
    """JSON texts of columns; of equal ones, as LOW, MIDDLE, HIGH and bounds mostly are, made once.

    Args:
        unit: of times [ns].
    """

    def __init__(self, unit: int = 1) -> None:
        self.unit = unit
        self._made: dict[pa.DataType, list[tuple[pa.Array, pa.Array]]] = {}

    def of(self, values: pa.Array, make: Callable[[pa.Array], pa.Array] | None = None) -> pa.Array:
        """Plain values; texts get quotes, nulls are ``null``. Or what ``make`` makes of them."""
        made = self._made.setdefault(values.type, [])
        for known, text in made:
            if _same(values, known):
                return text
        made.append((values, (make or json_text)(values)))
        return made[-1][1]

    def objects(self, values: pa.Array) -> pa.Array:
        """Structs as objects, of ``BOUNDS`` as pairs; texts are JSON already. Nulls stay."""
        if pa.types.is_dictionary(values.type):
            return values.dictionary_decode()
        return self.of(values, self._object) if pa.types.is_struct(values.type) else values

    def attributes(self, values: pa.Array) -> pa.Array:
        """As ``objects``, but a field that is null is left out, and no object is an empty one."""
        if not pa.types.is_struct(values.type):
            return self.objects(values).fill_null("{}")
        columns = {field.name: values.field(place) for place, field in enumerate(values.type)}
        if not any(column.null_count for column in columns.values()):
            return self._object(values)
        parts: list[str | pa.Array] = []
        begun = pa.array(np.zeros(len(values), np.bool_))
        for name, column in columns.items():
            text = around(f"{json.dumps(name, ensure_ascii=False)}: ", self.of(column), "")
            there = column.is_valid()
            comma = pc.if_else(pc.and_(begun, there), ", ", "") if parts else ""
            parts += [comma, pc.if_else(there, text, "")]
            begun = pc.or_(begun, there)
        return woven("{", *parts, "}")

    def fields(
        self, columns: Mapping[str, pa.Array], times: Collection[str]
    ) -> list[str | pa.Array]:
        """The fields of objects without their braces, to be ``woven``; ``times`` in the unit."""
        parts: list[str | pa.Array] = []
        for name, values in columns.items():
            shown = in_unit(values, self.unit) if name in times else values
            parts += [f'{", " if parts else ""}"{name}": ', self.of(shown)]
        return parts

    def _object(self, values: pa.StructArray) -> pa.Array:
        text = json_object(
            {field.name: self._member(values.field(i)) for i, field in enumerate(values.type)}
        )
        if values.null_count:
            text = pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
        return text

    def _member(self, values: pa.Array) -> pa.Array:
        if not pa.types.is_struct(values.type):
            return self.of(values)
        return json_pair(*(self.of(values.field(name)) for name in BOUNDS))


def _same(left: pa.Array, right: pa.Array) -> bool:
    """Whether arrays of one type have the same text; to Arrow 0.0 and -0.0 are equal."""
    if pa.types.is_struct(left.type):
        places = range(left.type.num_fields)
        return bool(left.is_null().equals(right.is_null())) and all(
            _same(left.field(place), right.field(place)) for place in places
        )
    if pa.types.is_floating(left.type):
        left, right = left.view(pa.int64()), right.view(pa.int64())
    return bool(left.equals(right))


def around(begin: str, texts: pa.Array, end: str) -> pa.Array:
    """Each of ``texts`` between ``begin`` and ``end``."""
    return pc.binary_join_element_wise(begin, texts, end, "")


def woven(*parts: str | pa.Array) -> pa.Array:
    """Per row all ``parts`` one after another: its texts, and those that are the same for all."""
    together: list[str | pa.Array] = []
    for part in parts:
        if isinstance(part, str) and together and isinstance(together[-1], str):
            together[-1] += part
        else:
            together.append(part)
    return pc.binary_join_element_wise(*together, "")


def json_object(members: Mapping[str, pa.Array]) -> pa.Array:
    """Per row an object of at least one member, whose values are JSON already."""
    parts: list[str | pa.Array] = []
    for name, text in members.items():
        parts += [", " if parts else "", json.dumps(name, ensure_ascii=False), ": ", text]
    return woven("{", *parts, "}")


def one_kind(parts: Sequence[Mapping[str, pa.Array]]) -> list[pa.Array]:
    """The columns of each part as objects: structs, or JSON texts where parts differ in fields."""
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
    """Per row a list of two, which are JSON already."""
    return woven("[", first, ", ", second, "]")


def joined(texts: pa.Array, lists: pa.ListArray) -> pa.Array:
    """The texts of each list, with commas."""
    offsets = lists.offsets.to_numpy()
    starts = pa.array(offsets - offsets[0], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(starts, texts), ", ")


def json_text(values: pa.Array) -> pa.Array:
    """Values as JSON."""
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
    else:
        texts = pc.cast(values, pa.string())
    return texts.fill_null("null") if texts.null_count else texts


def in_unit(times: pa.Array, unit: int) -> pa.Array:
    """Times [ns] in whole units, rounded down; what is no whole number stays."""
    if unit == 1 or not pa.types.is_integer(times.type):
        return times
    absent = np.asarray(times.is_null().to_numpy(zero_copy_only=False))
    return pa.array(times.fill_null(0).to_numpy(zero_copy_only=False) // unit, mask=absent)


def in_one_text(lines: pa.Array) -> str:
    """Texts, none of them null, one after another."""
    _, offsets, data = lines.buffers()
    wide = pa.types.is_large_string(lines.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[lines.offset :]
    return str(data[int(ends[0]) : int(ends[len(lines)])].to_pybytes(), "utf-8")


def rest(more: pa.Array) -> pa.Array | str:
    """``, `` and the further fields, without their braces; nothing where there are none."""
    if more.null_count == len(more):
        return ""
    there = pc.fill_null(pc.greater(pc.binary_length(more), 2), False)
    inner = pc.utf8_slice_codeunits(pc.fill_null(more, "{}"), 1, -1)
    return pc.if_else(there, pc.binary_join_element_wise(", ", inner, ""), "")


def where_there(values: pa.Array, texts: pa.Array) -> pa.Array:
    """``texts`` where ``values`` are; nothing where they are null."""
    return pc.if_else(values.is_valid(), texts, "") if values.null_count else texts


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece that begins its buffers; copied only if it is not one already."""
    chunks = column.chunks or [pa.nulls(0, column.type)]
    return chunks[0] if len(chunks) == 1 and not chunks[0].offset else pa.concat_arrays(chunks)


def columns_in_one(table: pa.Table) -> dict[str, pa.Array]:
    """Every column of ``table``, in one piece of its own."""
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: pa.concat_arrays(column.chunks) for name, column in columns}


# Matches as JSON lines without a Python object per row: the same text as ``json.dumps`` makes.


_MATCH_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref"})
_FACTS: Final = ("op", "query", "site", "at", "known_at", "certainty", "probability")
_ATTRS: Final = "attrs"


def match_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of matches.

    Args:
        table: the matches.
        unit: of the times [ns]; they are rounded down.
    """
    columns, texts = columns_in_one(table), JsonTexts(unit)
    lists = columns["events"]
    events = lists.flatten()
    of_event = {field.name: events.field(place) for place, field in enumerate(events.type)}
    plain = texts.fields({n: of_event[n] for n in EVENT_FIELDS if n != _ATTRS}, _MATCH_TIMES)
    attrs = texts.attributes(of_event[_ATTRS])
    each = woven("{", *plain, ', "attrs": ', attrs, rest(of_event[MORE]), "}")
    facts = texts.fields({name: columns[name] for name in _FACTS}, _MATCH_TIMES)
    parts = ["{", *facts, ', "events": [', joined(each, lists), "]"]
    value = columns["value"]
    if value.null_count < len(value):
        parts.append(where_there(value, around(', "value": ', texts.objects(value), "")))
    return woven(*parts, rest(columns[MORE]), "}\n")


# Alerts as JSON lines without a Python object per row: the same text as ``json.dumps`` makes.


_TIMES: Final = frozenset({"at", "ts"})


def alert_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of alerts.

    Args:
        table: the alerts.
        unit: of the times [ns]; they are rounded down.
    """
    columns = columns_in_one(table)
    texts = JsonTexts(unit)
    lists = columns[SO_FAR]
    events = lists.flatten()
    each = {name: events.field(place) for place, name in enumerate(SO_FAR_FIELDS)}
    prefix = joined(woven("{", *texts.fields(each, _TIMES), "}"), lists)
    names = [name for name in (*SHARED_FIELDS, *ALERT_FIELDS) if name != SO_FAR]
    facts = texts.fields({name: columns[name] for name in names}, _TIMES)
    return woven("{", *facts, f', "{SO_FAR}": [', prefix, "]}\n")


# Results of dataflows as rows and as JSON lines: of each an item, which is any JSON value.


def item_rows(positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
    """Items as rows of ``ITEM_SCHEMA``."""
    rows = [
        {POSITION: position, **result, "item": as_json(result["item"])}
        for position, result in zip(positions, results, strict=True)
    ]
    return table_of(rows, ITEM_SCHEMA)


def item_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of items; times in ``unit`` ns."""
    texts, columns = JsonTexts(unit), columns_in_one(table.drop_columns(POSITION))
    item, certainty = texts.objects(columns.pop("item")), columns.pop("certainty")
    more = where_there(certainty, around(', "certainty": ', texts.of(certainty), ""))
    return woven("{", *texts.fields(columns, _TIMES), ', "item": ', item, more, "}\n")


# Results of windows as JSON lines, as ``json.dumps`` writes them, without an object per row.


_NUMBERS: Final = ("value", "low", "middle", "high", "bounds")


def window_lines(table: pa.Table, unit: int, times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of windows.

    Args:
        table: the results.
        unit: of ``at`` and of the windows' ends [ns]; they are rounded down.
        times: labels of aggregates that are times, too.
    """
    if times:
        queries = table.column("query").unique().to_pylist()
        table = in_units(table, unit, dict.fromkeys(queries, times))
    columns = columns_in_one(table)
    texts = JsonTexts(unit)
    parts: list[str | pa.Array] = []
    for name in WINDOW_FIELDS:
        values = columns[name]
        if name == "window":
            start, end = (texts.of(in_unit(values.field(n), unit)) for n in ("start", "end"))
            text_parts = ['{"start": ', start, ', "end": ', end, "}"]
        elif name in JSON_FIELDS:
            text = texts.objects(values)
            text_parts = [text.fill_null("null") if text.null_count else text]
        else:
            text_parts = [texts.of(in_unit(values, unit) if name == "at" else values)]
        parts += [f', "{name}": ', *text_parts]
    parts[0] = "{" + str(parts[0]).removeprefix(", ")
    for name in WINDOW_EXTRAS:
        values = columns[name]
        if values.null_count < len(values):
            text = texts.objects(values) if name in JSON_FIELDS else texts.of(values)
            parts.append(where_there(values, around(f', "{name}": ', text, "")))
    return woven(*parts, rest(columns[MORE]), "}\n")


def in_units(table: pa.Table, unit: int, times: Mapping[str, Collection[str]]) -> pa.Table:
    """Windows whose aggregates ``times`` (labels, by query) are in ``unit`` ns.

    Whole numbers are rounded down, as all times are. Instants (``at``) stay.
    """
    if unit == 1 or not times:
        return table
    asked = table.column("query").to_pylist()
    labels = {query: frozenset(times.get(query, ())) for query in dict.fromkeys(asked)}
    for name in _NUMBERS:
        values = in_one(table.column(name))
        if not pa.types.is_struct(values.type):
            texts = zip(values.to_pylist(), asked, strict=True)
            divided = pa.array(
                [
                    text and as_json(_divided(json.loads(text), unit, labels[q]))
                    for text, q in texts
                ],
                pa.string(),
            )
        else:
            divided = values
            for chosen in set(labels.values()):
                mine = pa.array([labels[query] == chosen for query in asked])
                divided = pc.if_else(mine, _quotients(values, unit, chosen), divided)
        table = table.set_column(table.schema.get_field_index(name), name, divided)
    return table


def _quotients(values: pa.StructArray, unit: int, times: Collection[str]) -> pa.Array:
    """Structs whose fields ``times`` are divided."""
    names = [field.name for field in values.type]
    fields = [
        _column_quotient(values.field(place), unit) if name in times else values.field(place)
        for place, name in enumerate(names)
    ]
    return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())


def _column_quotient(values: pa.Array, unit: int) -> pa.Array:
    if pa.types.is_struct(values.type):
        ends = [_column_quotient(values.field(place), unit) for place in range(len(values.type))]
        return pa.StructArray.from_arrays(ends, fields=list(values.type))
    return (
        pc.divide(values, float(unit))
        if pa.types.is_floating(values.type)
        else in_unit(values, unit)
    )


def _divided(values: dict[str, Any], unit: int, times: Collection[str]) -> dict[str, Any]:
    return {
        label: _quotient(value, unit) if label in times else value
        for label, value in values.items()
    }


def _quotient(value: Any, unit: int) -> Any:
    if isinstance(value, list):
        return [_quotient(one, unit) for one in value]
    if value is None:
        return None
    return value // unit if isinstance(value, int) else value / unit
