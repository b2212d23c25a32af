"""Kinds of results: their fields, their tables, their JSON lines. Adding one is one line.

Sinks, exports and hosts know kinds by this registry alone; an operator's columns name theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct

from engine.errors import ContractViolation
from engine.operator import Result
from engine.results.json_lines import (
    JsonTexts,
    alert_lines,
    columns_in_one,
    item_lines,
    item_rows,
    match_lines,
    window_lines,
    woven,
)
from engine.results.schema import (
    ALERT_SCHEMA,
    ALERTS,
    ITEM_SCHEMA,
    ITEMS,
    MATCH_SCHEMA,
    MATCHES,
    POSITION,
    SHARED_FIELDS,
    WINDOW_SCHEMA,
    WINDOWS,
    alert_rows,
    match_rows,
    table_of,
    window_rows,
)

_AT_ONCE: Final = 1 << 13
"""Rows: bounds the texts in memory."""


class ResultKind(Struct, frozen=True):
    """What is known of a kind.

    Attributes:
        name: of its folder, and of its columns (``engine.operator.ResultColumns.kind``).
        mark: the field that its results have and no other kind's.
        schema: of its tables; columns may have other types where the query decides.
        rows: (positions, results as dicts) -> a table of ``schema``.
        texts: (some rows of a table, unit [ns], labels of values that are times) -> their JSON
            lines with their ends.
    """

    name: str
    mark: str
    schema: pa.Schema
    rows: Callable[[Sequence[int], Sequence[Result]], pa.Table]
    texts: Callable[[pa.Table, int, Collection[str]], pa.Array]

    def lines(self, table: pa.Table, unit: int, times: Collection[str] = ()) -> Iterator[pa.Array]:
        """The JSON lines of a ``table``, some at a time."""
        for start in range(0, table.num_rows, _AT_ONCE):
            yield self.texts(table.slice(start, _AT_ONCE), unit, times)


def plain_kind(
    name: str, mark: str, fields: Mapping[str, pa.DataType], times: Collection[str] = ()
) -> ResultKind:
    """A kind with these ``fields`` after those that all results have (``op query site at``).

    Args:
        name: of its folder.
        mark: one of the fields, that no other kind has.
        fields: with Arrow's types; no lists or structs.
        times: those that are times [ns], shown in the unit asked for, rounded down.
    """
    schema = pa.schema({POSITION: pa.int64(), **SHARED_FIELDS, **fields})
    in_unit = frozenset({"at", *times})

    def rows(positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
        found = [
            {POSITION: position, **result}
            for position, result in zip(positions, results, strict=True)
        ]
        return table_of(found, schema)

    def texts(table: pa.Table, unit: int, _times: Collection[str]) -> pa.Array:
        columns = columns_in_one(table.select(schema.names[1:]))
        return woven("{", *JsonTexts(unit).fields(columns, in_unit), "}\n")

    return ResultKind(name, mark, schema, rows, texts)


KINDS: Final[dict[str, ResultKind]] = {
    kind.name: kind
    for kind in (
        ResultKind(MATCHES, "events", MATCH_SCHEMA, match_rows, match_lines),
        ResultKind(WINDOWS, "window", WINDOW_SCHEMA, window_rows, window_lines),
        ResultKind(ALERTS, "alert", ALERT_SCHEMA, alert_rows, alert_lines),
        ResultKind(ITEMS, "item", ITEM_SCHEMA, item_rows, item_lines),
    )
}


def kind_of(result: Result) -> ResultKind:
    """The kind of a result.

    Raises:
        ContractViolation: of none, or of more than one.
    """
    found = [kind for kind in KINDS.values() if kind.mark in result]
    if len(found) != 1:
        marks = ", ".join(kind.mark for kind in KINDS.values())
        raise ContractViolation(f"a result has one of {marks}, not {sorted(result)}")
    return found[0]
