"""Results of windows as JSON lines, as ``json.dumps`` writes them, without an object per row."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.results.lines.json_texts import (
    Texts,
    around,
    columns_in_one,
    in_one,
    in_unit,
    rest,
    where_there,
    woven,
)
from engine.results.schema import JSON_FIELDS, MORE, WINDOW_EXTRAS, WINDOW_FIELDS, as_json

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
    texts = Texts(unit)
    parts: list[str | pa.Array] = []
    for name in WINDOW_FIELDS:
        values = columns[name]
        if name == "window":
            start, end = (texts.of(in_unit(values.field(n), unit)) for n in ("start", "end"))
            told = ['{"start": ', start, ', "end": ', end, "}"]
        elif name in JSON_FIELDS:
            text = texts.objects(values)
            told = [text.fill_null("null") if text.null_count else text]
        else:
            told = [texts.of(in_unit(values, unit) if name == "at" else values)]
        parts += [f', "{name}": ', *told]
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
