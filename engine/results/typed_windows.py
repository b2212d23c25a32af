"""Keys, values and bounds of windows as columns of a Parquet file, instead of as JSON texts.

What fields there are, and of which types, only the results show: so they are read twice, once for
the types and once to be written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from engine.errors import UserError
from engine.results.schema import POSITION, WINDOW_SCHEMA

TYPED: Final = ("key", "value", "low", "middle", "high", "bounds")


def typed_schema(tables: Iterable[pa.Table]) -> pa.Schema:
    """The schema of all ``tables`` (of ``WINDOW_SCHEMA``) as ``typed`` makes them.

    A column of objects without any field (``key`` of a query without GROUP BY) has no place in
    Parquet and is left out.

    Raises:
        UserError: a field has types that do not go together.
    """
    found: dict[str, pa.Schema] = {name: pa.schema([]) for name in TYPED}
    for table in tables:
        for name in TYPED:
            try:
                read = pa.schema(
                    [pa.field(each.name, _plain(each.type)) for each in _read(table[name]).schema]
                )
                found[name] = pa.unify_schemas([found[name], read], promote_options="permissive")
            except pa.ArrowException as error:
                raise UserError(
                    f"one table cannot hold {name} of all windows ({error}); write JSONL"
                ) from error
    fields = []
    for field in WINDOW_SCHEMA:
        if field.name not in TYPED and field.name != POSITION:
            fields.append(field)
        elif field.name in TYPED and len(found[field.name]):
            inner = [pa.field(each.name, _known(each.type)) for each in found[field.name]]
            fields.append(pa.field(field.name, pa.struct(inner)))
    return pa.schema(fields)


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The windows of ``table`` as rows of ``schema`` (of ``typed_schema``)."""
    columns = []
    for field in schema:
        column = table[field.name]
        if field.name in TYPED:
            within = pa.schema(list(field.type))
            read = _read(column, within).select(within.names).cast(within).combine_chunks()
            arrays = [read[name].combine_chunks() for name in within.names]
            absent = column.is_null().combine_chunks()
            column = pa.StructArray.from_arrays(arrays, fields=list(within), mask=absent)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _read(texts: pa.ChunkedArray, schema: pa.Schema | None = None) -> pa.Table:
    """JSON objects as a table; null is an object without fields."""
    lines = pc.binary_join(
        pa.array([pc.fill_null(texts, "{}").to_pylist()], pa.list_(pa.string())), "\n"
    )[0].as_py()
    content = lines.encode()
    whole = pyarrow.json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    parse = pyarrow.json.ParseOptions(explicit_schema=schema)
    return pyarrow.json.read_json(pa.BufferReader(content), whole, parse)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Texts that look like times are read as times, and are texts."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        return pa.string()
    return kind


def _known(kind: pa.DataType) -> pa.DataType:
    """What was null throughout is a number."""
    if pa.types.is_list(kind):
        return pa.list_(_known(kind.value_type))
    return pa.float64() if pa.types.is_null(kind) else kind
