"""Results as rows of one schema with typed columns, for Parquet and CSV."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.row_export import retyped
from slackwater.engine.output.json_lines import Dates, fraction_type, in_one, in_unit, in_units
from slackwater.engine.output.schema import BOUNDS, JSON_FIELDS, MORE, POSITION

# Typed results as plain columns, for CSV.
#
# Names of nested fields are joined with dots: ``window.start``, ``key.sid``, ``value.avg(v)``;
# bounds are ``bounds.avg(v).least`` and ``.most``. A match is one row: its first event is
# ``event1.site``, ``event1.ts``, ``event1.attrs.tag`` and so on, in the order of its JSON line;
# likewise ``so_far1.type`` for an alert.


_EVENTS: Final = "events"
_EVENT: Final = "event"


def most_listed(table: pa.Table) -> int:
    """Return the largest number of events in a row of ``table``; 0 without lists of events."""
    listed = [table[field.name] for field in table.schema if _lists_events(field.type)]
    return max((pc.max(pc.list_value_length(of)).as_py() or 0 for of in listed), default=0)


def flat(table: pa.Table, events: int) -> pa.Table:
    """Return ``table`` (of ``TypedColumns``) with plain columns only, at most ``events`` per
    row.
    """
    columns = [
        each for name in table.column_names for each in _flat(name, in_one(table[name]), events)
    ]
    return pa.table([values for _, values in columns], names=[name for name, _ in columns])


def _lists_events(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


def _flat(name: str, values: pa.Array, events: int) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(values.type):
        for field, inner in zip(values.type, values.flatten(), strict=True):
            yield from _flat(f"{name}.{field.name}", inner, events)
    elif pa.types.is_dictionary(values.type):
        yield name, values.dictionary_decode()
    elif not pa.types.is_list(values.type):
        yield name, values
    elif _lists_events(values.type):
        one = _EVENT if name == _EVENTS else name
        for place in range(events):
            yield from _flat(f"{one}{place + 1}", _element(values, place), events)
    else:
        for place, end in enumerate(BOUNDS):
            yield f"{name}.{end}", _element(values, place)


def _element(lists: pa.ListArray, place: int) -> pa.Array:
    """Return the element at ``place`` of each list; null in shorter lists."""
    starts = lists.offsets.to_numpy()[:-1]
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0))
    return lists.values.take(pa.array(starts + place, mask=lengths <= place))


# Results as rows of one schema, for Parquet and CSV.
#
# Objects (keys, values, bounds, an event's attributes) are structs, also if tables have them as
# JSON texts; fields beyond DESIGN's (``more``) are separate columns, such as ``value`` of a match
# with RETURN. Fields and types are known only from the results, so these are read twice: once for
# the types and once to be written.
#
# Texts that many rows share (sources, types) stay dictionaries, which Parquet writes directly;
# decoding them costs a third of the time, as the writer would build the same dictionary again.


_OBJECTS: Final = frozenset({*JSON_FIELDS, MORE})
_TIMES: Final = frozenset({"at", "known_at", "ts", "te", "ref"})
_SPAN: Final = "window"
_OF_VALUES: Final = ("value", "low", "middle", "high")
"""Objects of aggregates, or of values computed by RETURN."""
_AT_ONCE: Final = 1 << 16
"""Rows whose texts are read at once: Arrow's string type is limited to 2 GB."""


class DateColumns(Struct, frozen=True):
    """``dates`` in columns of ``type``: texts, or timestamps."""

    dates: Dates
    type: pa.DataType

    def of(self, name: str, times: pa.Array) -> pa.Array:
        """Convert times [ns] of the field ``name``."""
        known = self.dates.known(name, times)
        return self.dates.texts(known) if pa.types.is_string(self.type) else known.cast(self.type)


class TypedColumns:
    """The typed columns of tables of results, after ``learn`` has seen all of them.

    A column of objects without fields (``key`` of a query without GROUP BY) cannot be in Parquet
    and is omitted.

    Args:
        fields: of the tables, ``MATCH_SCHEMA`` or ``WINDOW_SCHEMA``; or of elements of their lists.
        what: name of the results, for messages.
        unit_ns: unit of the times in the rows [ns].
        times: by query, the labels of aggregates that are times, too.
        dates: format of other times; None: numbers.
        values: types of computed values and aggregates that are times [ns], by name.
        open_ended: more tables may follow, so times in units have a fraction type from the start.
    """

    def __init__(
        self, fields: Iterable[pa.Field], what: str, unit_ns: int = 1,
        times: Mapping[str, Collection[str]] | None = None, dates: DateColumns | None = None,
        values: Mapping[str, pa.DataType] | None = None, *, open_ended: bool = False,
    ) -> None:  # fmt: skip
        self._dates, self._value_types = dates, values or {}
        self._fields = [field for field in fields if field.name != POSITION]
        self._what, self._unit = what, unit_ns
        self.longest = 0
        """Length of the longest list."""
        self._times = {name: labels for name, labels in (times or {}).items() if labels}
        self._objects = {f.name: pa.schema([]) for f in self._fields if f.name in _OBJECTS}
        self._numeric_times = [
            field.name for field in self._fields
            if dates is None and unit_ns > 1 and field.name in (*_TIMES, _SPAN)
        ]  # fmt: skip
        """Times that are numbers in another unit than ns."""
        kind = fraction_type(unit_ns)
        self._fractions = dict.fromkeys(self._numeric_times if open_ended else (), kind)
        self._lists = {
            field.name: TypedColumns(
                field.type.value_type, what, unit_ns, None, dates, open_ended=open_ended
            )
            for field in self._fields
            if pa.types.is_list(field.type)
        }

    @property
    def needed(self) -> list[str]:
        """Parquet's paths of the columns that ``learn`` reads; at least one, as elements of lists
        are counted by any column.
        """
        within = [
            f"{name}.list.element.{path}"
            for name, inner in self._lists.items()
            for path in inner.needed
        ]
        query = ["query"] if self._times else []
        return [*query, *self._numeric_times, *self._objects, *within] or [self._fields[0].name]

    def learn(self, table: pa.Table) -> None:
        """Note the fields of objects in ``table`` (the columns ``needed`` are enough).

        Raises:
            UserError: the types of a field are incompatible.
        """
        table = self._in_units(table)
        kind = fraction_type(self._unit)
        for name in self._numeric_times:
            if name not in self._fractions:
                values = in_one(table[name])
                ends = values.flatten() if name == _SPAN else [values]
                if any(in_unit(each, self._unit).type == kind for each in ends):
                    self._fractions[name] = kind
        for name, known in self._objects.items():
            try:
                for fields in _fields_of(table[name]):
                    kinds = [pa.field(each.name, retyped(each.type, _plain)) for each in fields]
                    known = pa.unify_schemas(  # noqa: PLW2901 - grows
                        [known, pa.schema(kinds)], promote_options="permissive"
                    )
            except pa.ArrowException as error:
                raise UserError(
                    f"one table cannot hold {name} of all {self._what} ({error}); write JSONL"
                ) from error
            self._objects[name] = known
        for name, inner in self._lists.items():
            self.longest = max(self.longest, pc.max(pc.list_value_length(table[name])).as_py() or 0)
            inner.learn(_elements(table[name]))

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the tables from ``typed``; it must not be read before ``learn`` is finished."""
        fields: list[pa.Field] = []
        for field in self._fields:
            if field.name in self._lists:
                inner = pa.struct(list(self._lists[field.name].schema))
                fields.append(pa.field(field.name, pa.list_(inner)))
            elif field.name not in _OBJECTS:
                fields.append(self._dated(field))
            elif field.name == MORE:
                fields += self._known(MORE)
            elif self._known(field.name):
                fields.append(pa.field(field.name, pa.struct(self._known(field.name))))
        return pa.schema(map(self._with_times, fields))

    def _with_times(self, field: pa.Field) -> pa.Field:
        """Return ``field`` with the types of computed values that are times."""
        if field.name not in _OF_VALUES or not pa.types.is_struct(field.type):
            return field
        inner = [
            each if pa.types.is_list(each.type) or pa.types.is_string(each.type)
            else pa.field(each.name, self._value_types.get(each.name, each.type))
            for each in field.type
        ]  # fmt: skip
        return pa.field(field.name, pa.struct(inner))

    def _timed(self, values: pa.Array, field: pa.Field) -> pa.Array:
        """Convert ``values`` to the type of ``field``; computed instants are rounded to ns."""
        if values.type == field.type or field.name not in _OF_VALUES:
            return values
        members = []
        for each, of in zip(values.flatten(), field.type, strict=True):
            if each.type == of.type:
                members.append(each)
                continue
            ns = pc.round(each).cast(pa.int64()) if pa.types.is_floating(each.type) else each
            if self._dates is not None and pa.types.is_string(of.type):
                members.append(self._dates.dates.texts(ns))
            else:
                members.append(ns.cast(of.type))
        return pa.StructArray.from_arrays(members, fields=list(field.type), mask=values.is_null())

    def _dated(self, field: pa.Field) -> pa.Field:
        """Return ``field`` with the type of times."""
        kind = self._fractions.get(field.name)
        if self._dates is not None and field.name in (*_TIMES, _SPAN):
            kind = self._dates.type
        if kind is None:
            return field
        if field.name == _SPAN:
            kind = pa.struct([pa.field(end.name, kind) for end in field.type])
        return pa.field(field.name, kind)

    def _time(self, name: str, values: pa.Array) -> pa.Array:
        return in_unit(values, self._unit) if self._dates is None else self._dates.of(name, values)

    def _known(self, name: str) -> list[pa.Field]:
        """Return the fields; sorted by name if events differ in them, independent of the first
        rows.
        """
        fields = [pa.field(each.name, retyped(each.type, _known)) for each in self._objects[name]]
        return sorted(fields, key=lambda f: f.name) if name in ("attrs", MORE) else fields

    def typed(self, table: pa.Table) -> pa.Table:
        """Return ``table`` as rows of ``schema``."""
        columns: dict[str, pa.ChunkedArray | pa.Array] = {}
        table = self._in_units(table)
        for field in self._fields:
            name, column = field.name, table[field.name]
            if name in self._lists:
                columns[name] = self._list(name, in_one(column))
            elif name == MORE:
                columns |= self._values(column, self._known(MORE))
            elif name in _OBJECTS:
                fields = self._known(name)
                if fields:
                    arrays = list(self._values(column, fields).values())
                    absent = in_one(column).is_null()
                    columns[name] = pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)
            elif name == _SPAN:
                inner = list(self._dated(field).type)
                found = zip(inner, in_one(column).flatten(), strict=True)
                ends = [self._time(name, end).cast(of.type) for of, end in found]
                columns[name] = pa.StructArray.from_arrays(ends, fields=inner)
            else:
                values = in_one(column)
                values = self._time(name, values) if name in _TIMES else values
                columns[name] = _fitted(values.cast(self._dated(field).type))
        arrays = [self._timed(columns[field.name], field) for field in self.schema]
        return pa.table(arrays, schema=self.schema)

    def _in_units(self, table: pa.Table) -> pa.Table:
        return in_units(table, self._unit, self._times) if self._times else table

    def _list(self, name: str, lists: pa.ListArray) -> pa.ListArray:
        made = self._lists[name].typed(_elements(lists)).to_struct_array()
        offsets = lists.offsets.to_numpy()
        return pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), in_one(made))

    def _values(self, texts: pa.ChunkedArray, fields: list[pa.Field]) -> dict[str, pa.Array]:
        """Return the values of each field in the objects ``texts``."""
        if not fields:
            return {}
        within = pa.schema(fields)
        if pa.types.is_struct(texts.type):
            return _members(in_one(texts), within)
        if not len(texts):
            read = within.empty_table()
        else:
            read = pa.concat_tables(
                part.select(within.names).cast(within) for part in _read(texts, within)
            )
        return {name: in_one(read[name]) for name in within.names}


def _fitted(values: pa.Array) -> pa.Array:
    """Return ``values``; a dictionary is rebuilt if it has more texts than rows, as each row group
    would store it, or a null, which Parquet's may not have.
    """
    if pa.types.is_dictionary(values.type):
        known = values.dictionary
        if len(known) > len(values) or known.null_count:
            return values.dictionary_decode().dictionary_encode()
    return values


def _elements(lists: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return the elements of lists of structs, concatenated."""
    found = pc.list_flatten(lists)
    structs = in_one(found) if isinstance(found, pa.ChunkedArray) else found
    return pa.table(structs.flatten(), names=[field.name for field in structs.type])


def _fields_of(objects: pa.ChunkedArray) -> Iterable[Iterable[pa.Field]]:
    """Yield the fields of ``objects``, in pieces."""
    if pa.types.is_struct(objects.type):
        yield list(objects.type)
    else:
        for read in _read(objects.drop_null()):  # a null has no field
            yield list(read.schema)


def _members(objects: pa.StructArray, within: pa.Schema) -> dict[str, pa.Array]:
    """Return the fields ``within`` of structs; null for missing ones."""
    found = {field.name: place for place, field in enumerate(objects.type)}
    members = dict(zip(found, objects.flatten(), strict=True))
    made = {}
    for field in within:
        values = members.get(field.name, pa.nulls(len(objects), field.type))
        if pa.types.is_struct(values.type):
            values = _pairs(values)
        value_type = field.type.value_type if pa.types.is_list(field.type) else field.type
        # As JSON readers do: a long integer among fractions is rounded.
        made[field.name] = values.cast(field.type, safe=not pa.types.is_floating(value_type))
    return made


def _pairs(bounds: pa.StructArray) -> pa.ListArray:
    """Return ``BOUNDS`` as lists of two."""
    ends = pa.concat_arrays([bounds.field(name) for name in BOUNDS])
    turns = np.arange(2 * len(bounds)).reshape(2, -1).T.reshape(-1)
    starts = pa.array(np.arange(0, 2 * len(bounds) + 1, 2, dtype=np.int32))
    return pa.ListArray.from_arrays(starts, ends.take(pa.array(turns)), mask=bounds.is_null())


def _read(texts: pa.ChunkedArray, schema: pa.Schema | None = None) -> Iterable[pa.Table]:
    """Read JSON objects as tables; null is an object without fields."""
    import pyarrow.json as pajson  # noqa: PLC0415 - for types that only the results know

    parse = pajson.ParseOptions(explicit_schema=schema)
    for start in range(0, len(texts), _AT_ONCE):
        some = pc.fill_null(in_one(texts.slice(start, _AT_ONCE)).cast(pa.string()), "{}")
        _, ends, content = pc.binary_join_element_wise(some, "\n", "").buffers()
        content = content.slice(0, int(np.frombuffer(ends, np.int32)[len(some)]))
        whole = pajson.ReadOptions(use_threads=False, block_size=content.size + 1)
        yield pajson.read_json(pa.BufferReader(content), whole, parse)


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """Return text for types of times that were detected in texts; ``BOUNDS`` become lists."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind) and tuple(field.name for field in kind) == BOUNDS:
        return pa.list_(retyped(kind.field(0).type, _plain))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        return pa.string()
    return None


def _known(kind: pa.DataType) -> pa.DataType | None:
    """Return a number type for fields that were always null."""
    return pa.float64() if pa.types.is_null(kind) else None
