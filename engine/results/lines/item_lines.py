"""Results of dataflows as rows and as JSON lines: of each an item, which is any JSON value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa

from engine.operator import Result
from engine.results.lines.json_texts import Texts, columns_in_one, woven
from engine.results.schema import ITEM_SCHEMA, POSITION, as_json, table_of

_TIMES: Final = frozenset({"at", "ts"})


def item_rows(positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
    """Items as rows of ``ITEM_SCHEMA``."""
    rows = [
        {POSITION: position, **result, "item": as_json(result["item"])}
        for position, result in zip(positions, results, strict=True)
    ]
    return table_of(rows, ITEM_SCHEMA)


def item_lines(table: pa.Table, unit: int, _times: Collection[str] = ()) -> pa.Array:
    """A line, with its end, for each row of a table of items; times in ``unit`` ns."""
    texts, columns = Texts(unit), columns_in_one(table.drop_columns(POSITION))
    item = texts.objects(columns.pop("item"))
    return woven("{", *texts.fields(columns, _TIMES), ', "item": ', item, "}\n")
