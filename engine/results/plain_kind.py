"""Kinds of results whose fields are plain values: numbers, texts, truth values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from engine.errors import ContractViolation
from engine.operator import Result
from engine.results.json_texts import Texts, in_one, woven
from engine.results.kinds import ResultKind
from engine.results.schema import POSITION, SHARED_FIELDS

_AT_ONCE: Final = 1 << 14
"""Rows: bounds the texts in memory."""


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
        try:
            return pa.Table.from_pylist(found, schema=schema)
        except (pa.ArrowException, OverflowError) as error:
            raise ContractViolation(f"a result does not fit its fields: {error}") from error

    def lines(table: pa.Table, unit: int, _times: Collection[str]) -> Iterator[pa.Array]:
        for start in range(0, table.num_rows, _AT_ONCE):
            some, texts = table.slice(start, _AT_ONCE), Texts(unit)
            parts: list[str | pa.Array] = []
            for field in schema.names[1:]:
                values = in_one(some.column(field))
                told = texts.times(values) if field in in_unit else texts.of(values)
                parts += [f'{", " if parts else "{"}"{field}": ', told]
            yield woven(*parts, "}\n")

    return ResultKind(name, mark, schema, rows, lines)
