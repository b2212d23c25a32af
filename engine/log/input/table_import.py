"""Tables in memory as input, from Arrow, pandas, polars or Arrow's PyCapsule interface; and small
reference tables, in memory or in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, STRING
from slackwater.engine.log.input.csv_import import read_form, typed_columns
from slackwater.engine.log.input.input_log import input_kind, open_input
from slackwater.engine.log.input.input_read import PLAIN_FORM, InputKind
from slackwater.engine.log.input.lines import STDIN, table_files
from slackwater.engine.log.input.parquet_import import (
    ParquetParts,
    plain_table,
    typed_attribute,
)
from slackwater.engine.log.input.row_import import values_by_path
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.whole_file import DAMAGED


def as_arrow(source: Any) -> pa.Table:
    """Return ``source`` as an Arrow table, without a copy if the types allow it.

    Args:
        source: an Arrow table or batch, columns by name, a list or generator of dicts (with
            ``attrs`` nested or flat), a DataFrame of pandas (its index becomes a column unless it
            is an unnamed integer index) or polars, or another object with Arrow's PyCapsule
            interface.

    Raises:
        UserError: another type, an empty list, or a column or name that Arrow cannot represent.
    """
    if isinstance(source, pa.Table):
        return source
    pandas = sys.modules.get("pandas")  # a caller with such a frame has imported pandas
    try:
        if isinstance(source, Iterator):
            source = list(source)
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
            return pa.table(_columns_of(source))
        if pandas is not None and isinstance(source, pandas.DataFrame):
            index = source.index
            counts = index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"
            return pa.Table.from_pandas(source, preserve_index=False if counts else None)
        if hasattr(source, "to_arrow"):
            source = source.to_arrow()  # a series of polars is not a table
            if isinstance(source, pa.Table):
                return source
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = f"Arrow cannot hold it: {error}; cast such columns first, as to Int64 or Float64"
        raise UserError(f"{InputKind.TABLE}: {said}") from error
    empty = isinstance(source, list) and not source
    hint = "; collect() it first" if hasattr(source, "collect") else ""
    raise UserError(
        "an input is a path or several, a table (Arrow, pandas, polars), a dict of columns, a "
        "generator or a list of dicts, not "
        f"{'an empty list' if empty else type(source).__name__}{hint}"
    )


def _columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of each key; None for rows without it.

    Raises:
        UserError: a row, or its ``attrs``, is not a dict.
    """
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not isinstance(row.get(r.ATTRS) or {}, Mapping):
            what = "attrs" if isinstance(row, Mapping) else "each row"
            raise UserError(f"{InputKind.TABLE}: row {number}: {what} must be a dict: {row!r}")
    flat = [
        {name: value for name, value in row.items() if name != r.ATTRS}
        | {f"{ATTR_PREFIX}{name}": value for name, value in (row.get(r.ATTRS) or {}).items()}
        for row in rows
    ]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


class TableRows(NamedTuple):
    """A small table: columns in the types of attributes, text not dictionary-encoded; ``lines``: of
    its rows; ``unit``: what a message calls them.
    """

    columns: dict[str, pa.Array]
    lines: np.ndarray
    unit: str


def read_rows(source: Any, name: str, most: int) -> TableRows:
    """Return all rows of a CSV, JSON, JSONL or Parquet file, or of a source for ``as_arrow``.

    Args:
        source: a path, or a table in memory.
        name: name of the table, for messages.
        most: largest number of rows.

    Raises:
        UserError: the table cannot be read, is too large, or has values that no attribute can have.
    """
    if isinstance(source, str | Path):
        name = str(source)
        columns, lines, unit = _rows_of_file(name)
    else:
        columns, lines, unit = _numbered(plain_table(as_arrow(source)))
    if len(lines) > most:
        raise UserError(
            f"{name}: a table has at most {most:,} rows, as all of it is in memory; this one has "
            f"{len(lines):,}: leave out those that no event names"
        )
    found: dict[str, pa.Array] = {}
    for column, values in columns.items():
        try:
            some = values.cast(pa.int64()) if pa.types.is_null(values.type) else values
            typed, faults = typed_attribute(some, lines, column)
            found[column] = typed.cast(pa.string()) if typed.type == STRING else typed
        except pa.ArrowException as error:
            raise UserError(
                f'{name}: column "{column}" is {values.type}; a table has numbers, text and truth '
                "values: leave it out"
            ) from error
        for fault in faults:
            raise UserError(f"{name}:{fault.line}: {fault.reason}")
    return TableRows(found, lines, unit)


def _rows_of_file(path: str) -> TableRows:
    kind = None if path == STDIN or (Path(path).is_dir() and not table_files(path)) else (
        input_kind(path)
    )  # fmt: skip
    if kind is InputKind.CSV:
        return TableRows(*typed_columns(path, read_form(path, PLAIN_FORM)), "line")
    if kind is InputKind.PARQUET:
        parts = ParquetParts(path, table_files(path))
        try:
            batches = list(parts.parts(parts.schema.names))
        except DAMAGED as error:
            raise UserError(f"{path}: damaged file: {error}") from error
        return _numbered(pa.Table.from_batches(batches, parts.schema))
    if kind not in (InputKind.TRACE, InputKind.JSON):
        raise UserError(f"{path}: a table is a CSV, JSON, JSONL or Parquet file; name such a file")
    reader = open_input(path)
    assert isinstance(reader, TraceRead)
    rows: list[dict[str, Any]] = []
    numbers: list[np.ndarray] = []
    for objects, lines, faults, _ in reader.parts():
        for fault in faults:
            raise UserError(f"{path}:{fault.line}: {fault.reason}")
        for line, one in zip(lines, objects, strict=True):
            if not isinstance(one, dict):
                raise UserError(f'{path}:{line}: is no object; write {{"tag": 1, "room": "icu"}}')
        rows += [dict(values_by_path(one)) for one in objects]
        numbers.append(lines)
    if not rows:
        raise UserError(f"{path}: the file is empty; write one object a line")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowException, OverflowError) as error:
            raise UserError(f'{path}: column "{name}" mixes types: {error}') from error
    return TableRows(columns, np.concatenate(numbers), "line")


def _numbered(table: pa.Table) -> TableRows:
    columns = {
        name: table.column(name).combine_chunks() if table.num_rows
        else pa.array([], table.schema.field(name).type)
        for name in table.column_names
    }  # fmt: skip
    return TableRows(columns, np.arange(1, table.num_rows + 1), "row")
