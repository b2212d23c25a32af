"""Results of windows as JSON lines, as ``json.dumps`` writes them, without an object per row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.results.json_texts import around, in_one, json_text, rest, woven
from engine.results.schema import (
    JSON_FIELDS,
    MORE,
    WINDOW_EXTRAS,
    WINDOW_FIELDS,
    as_json,
)

_AT_ONCE: Final = 1 << 14
"""Rows: bounds the texts in memory."""


def window_lines(table: pa.Table, unit: int, times: Collection[str] = ()) -> Iterator[str]:
    """The lines of ``window_pieces``, one by one."""
    for piece in window_pieces(table, unit, times):
        yield from piece.to_pylist()


def window_pieces(table: pa.Table, unit: int, times: Collection[str] = ()) -> Iterator[pa.Array]:
    """A line, with its end, for each row of a table of ``WINDOW_SCHEMA``; some rows at a time.

    Args:
        table: the results.
        unit: of ``at`` and of the windows' ends [ns]; they are rounded down.
        times: labels of aggregates that are times, too.
    """
    if times:
        queries = table.column("query").unique().to_pylist()
        table = in_units(table, unit, dict.fromkeys(queries, times))
    for start in range(0, table.num_rows, _AT_ONCE):
        yield _lines(table.slice(start, _AT_ONCE), unit)


def in_units(table: pa.Table, unit: int, times: Mapping[str, Collection[str]]) -> pa.Table:
    """Windows whose aggregates ``times`` (labels, by query) are in ``unit`` ns.

    Whole numbers are rounded down, as all times are. Instants (``at``) stay.
    """
    if unit == 1 or not times:
        return table
    labels = [times.get(query, ()) for query in table.column("query").to_pylist()]
    for name in ("value", "low", "middle", "high", "bounds"):
        texts = [
            as_json(_divided(json.loads(text), unit, mine)) if mine and text is not None else text
            for text, mine in zip(table.column(name).to_pylist(), labels, strict=True)
        ]
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(texts, pa.string()))
    return table


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


def _lines(table: pa.Table, unit: int) -> pa.Array:
    columns = {name: in_one(table.column(name)) for name in table.column_names}
    columns["window"] = _ends(columns["window"], unit)
    given = {*JSON_FIELDS, "window"}  # texts that are JSON already

    def one(name: str) -> pa.Array:
        values = columns[name]
        if name in given:
            return values.fill_null("null")
        return json_text(values, unit if name == "at" else 1)

    fields = [part for name in WINDOW_FIELDS for part in (f', "{name}": ', one(name))]
    fields[0] = "{" + fields[0].removeprefix(", ")
    extras = [
        _if_there(columns[name], name, json_text(columns[name], 1) if name == "drift" else None)
        for name in WINDOW_EXTRAS
    ]
    return woven(*fields, *extras, rest(columns[MORE]), "}\n")


def _ends(windows: pa.StructArray, unit: int) -> pa.Array:
    start, end = (json_text(windows.field(name), unit) for name in ("start", "end"))
    return woven('{"start": ', start, ', "end": ', end, "}")


def _if_there(values: pa.Array, name: str, text: pa.Array | None) -> pa.Array:
    """``, `` and the field, where there is one; ``text``: as JSON, if ``values`` is not."""
    told = around(f', "{name}": ', (values if text is None else text).fill_null(""), "")
    return pc.if_else(values.is_valid(), told, "")
