"""A table in memory as input: an Arrow table, or a frame of pandas, polars or any that has Arrow's
interface. One record a row, in order of arrival, as in row-wise Parquet.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.log.input.input_read import PLAIN_FORM, InputForm, InputKind
from slackwater.engine.log.input.lines import CHUNK_LINES
from slackwater.engine.log.input.parquet_import import ParquetRead, TableParts


def as_arrow(source: Any) -> pa.Table:
    """``source`` as an Arrow table, without a copy where the types allow it.

    Args:
        source: an Arrow table or batch, columns by name, rows as dicts (with ``attrs`` nested, or
            beside the fields), a DataFrame of pandas (its index is a column, unless it has no name
            and only counts) or polars, or another that has Arrow's PyCapsule interface.

    Raises:
        UserError: it is none of these, is an empty list, or a column of objects mixes types.
    """
    if isinstance(source, pa.Table):
        return source
    pandas = sys.modules.get("pandas")  # who has such a frame has imported it
    try:
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
            return pa.table(_columns_of(source))
        if pandas is not None and isinstance(source, pandas.DataFrame):
            index = source.index
            counts = index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"
            return pa.Table.from_pandas(source, preserve_index=False if counts else None)
        if hasattr(source, "to_arrow"):
            found: pa.Table = source.to_arrow()
            return found
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return _without_views(pa.table(source))
    except pa.ArrowException as error:
        raise UserError(f"{InputKind.TABLE}: Arrow cannot hold it: {error}") from error
    raise UserError(
        "an input is a path or several, a table (Arrow, pandas, polars), a dict of columns or a "
        f"list of dicts, not {'an empty list' if source == [] else type(source).__name__}"
    )


def _columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each key; None where a row lacks it.

    Raises:
        UserError: a row, or its ``attrs``, is no dict.
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


def _without_views(table: pa.Table) -> pa.Table:
    """Texts as what all of Arrow's functions take."""
    for place, each in enumerate(table.schema):
        if pa.types.is_string_view(each.type):
            texts = table.column(place).cast(pa.large_string())
            table = table.set_column(place, each.name, texts)
    return table


class TableRead(ParquetRead):
    """A table being read: as ``ParquetRead`` reads one from a file."""

    kind = InputKind.TABLE

    def __init__(
        self,
        table: pa.Table,
        form: InputForm | str = PLAIN_FORM,
        on_bad: str = "stop",
        dead_letter: str | Path | None = None,
    ) -> None:
        super().__init__(self.kind, form, on_bad, dead_letter)
        self._table = table

    def _opened(self) -> TableParts:
        return _HeldParts(self._table)


class _HeldParts:
    """A table in memory, read in parts without a copy."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.schema = table.schema

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=CHUNK_LINES)
