"""Columns as JSON texts, the same that ``json.dumps`` makes, without a Python object per row."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.results.lines.float_texts import float_texts
from engine.results.schema import BOUNDS

_NOTHING: Final = pa.scalar("null")


class Texts:
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
            told = in_unit(values, self.unit) if name in times else values
            parts += [f'{", " if parts else ""}"{name}": ', self.of(told)]
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
    """Whether arrays of one type are told alike; to Arrow 0.0 and -0.0 are equal."""
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
