"""Read row-wise Parquet: one record a row, in order of arrival."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.columns import without_nan
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import STRING
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.input.csv_import import any_kind
from slackwater.engine.log.input.input_read import PLAIN_FORM, InputForm, InputKind
from slackwater.engine.log.input.lines import CHUNK_LINES, table_files
from slackwater.engine.log.input.row_import import (
    ColumnPlan,
    Converted,
    RowBatch,
    RowRead,
    as_attribute,
    column_faults,
    plan_columns,
)
from slackwater.engine.log.record.record_rules import TIME_FIELDS
from slackwater.engine.log.record.times import Faults
from slackwater.engine.log.record.trace_record import INT_FIELDS
from slackwater.engine.log.whole_file import BUFFER_BYTES, DAMAGED

# A Parquet file, or a folder of them, as one table, read in parts of bounded size.
#
# Arrow's dataset scanner reads ahead of a slow consumer, up to 1 GiB; this code reads parts on
# demand.


class TableParts(Protocol):
    """A table that can be read in parts."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def within(self) -> Collection[str]:
        """Columns that are fields of structs, such as ``header.stamp``."""
        ...

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, at most ``CHUNK_LINES`` at a time."""
        ...


class ParquetParts:
    """Files as one table with the columns of all, and those of their ``KEY=VALUE`` folders.

    A column that a file lacks is null in its rows. Columns are converted by ``plain_table``.

    Args:
        path: the file, or the folder of ``files``.
        files: paths of the files.

    Raises:
        UserError: a file is not Parquet, or the types of a column have no common type.
    """

    def __init__(self, path: str, files: Sequence[str]) -> None:
        options: dict[str, Any] = {"partitioning": ds.partitioning(flavor="hive")}
        if Path(path).is_dir():
            options["partition_base_dir"] = path
        try:
            found = ds.dataset(files, format="parquet", **options)
            schemas = [found.schema, *(pq.read_schema(file) for file in files[1:])]
            self.schema: pa.Schema = pa.unify_schemas(
                [_plain_schema(each) for each in schemas], promote_options="permissive"
            )
            self.within = set(self.schema.names).difference(*(each.names for each in schemas))
            self._files = ds.dataset(files, schema=self.schema, format="parquet", **options)
        except DAMAGED as error:
            raise UserError(f"{path}: not readable as Parquet: {error}") from error

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns``, at most ``CHUNK_LINES`` at a time, file by file.

        Raises:
            OSError, pa.ArrowException: a file is damaged (``DAMAGED``).
        """
        schema = pa.schema([self.schema.field(name) for name in columns])
        for fragment in self._files.get_fragments():
            partition_keys = ds.get_partition_keys(fragment.partition_expression)
            with pq.ParquetFile(fragment.path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
                file_columns = set(_plain_schema(file.schema_arrow).names) - set(partition_keys)
                columns_read = [name for name in columns if name in file_columns]
                for batch in file.iter_batches(CHUNK_LINES, columns=columns_read):
                    yield _with_all_columns(_plain_batch(batch), schema, partition_keys)


def plain_table(table: pa.Table) -> pa.Table:
    """Return ``table`` with fields of structs as columns (``header.stamp``), and with dictionaries
    decoded unless they are text.
    """
    while any(pa.types.is_struct(each.type) for each in table.schema):
        table = table.flatten()
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_dictionary(column.type) and not _is_text(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        if column.type != field.type:
            table = table.set_column(place, field.name, column)
    return table


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return plain_table(schema.empty_table()).schema


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    table = plain_table(pa.Table.from_batches([batch]))
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _with_all_columns(
    batch: pa.RecordBatch, schema: pa.Schema, constants: dict[str, Any]
) -> pa.RecordBatch:
    """Return ``batch`` with the columns of ``schema``: its own, else ``constants``, else null."""
    rows = batch.num_rows
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), rows) if field.name in constants
        else batch.column(field.name).cast(field.type) if field.name in batch.schema.names
        else pa.nulls(rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class ParquetRead(RowRead):
    """Row-wise Parquet, a file or a folder of files; each ``KEY=VALUE`` folder is a column too.

    NaN in an attribute counts as null. Faults count rows from 1.
    """

    kind = InputKind.PARQUET

    def _batches(self) -> Iterator[RowBatch]:
        table = self._opened()
        names, foreign = table.schema.names, self._foreign(table)
        plan = plan_columns(
            self.path, names, self.form.mapping, self.form.attrs, foreign, table.within
        )
        self._check_types(plan, table.schema)
        columns_read = list(dict.fromkeys([*plan.fields.values(), *plan.attrs.values()]))
        number = 1
        try:
            for batch in table.parts(columns_read):
                if batch.num_rows:
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    lines = np.arange(number, number + batch.num_rows)
                    yield self._typed(columns, plan, lines, [], partial(_text_of, batch, number))
                    number += batch.num_rows
        except DAMAGED as error:
            raise UserError(f"{self.path}: damaged file: {error}") from error

    def _opened(self) -> TableParts:
        return ParquetParts(self.path, table_files(self.path))

    def _foreign(self, table: TableParts) -> set[str]:
        """Return ``kind`` if it is a column but not the record field, else nothing."""
        if r.KIND not in table.schema.names or r.KIND in self.form.mapping:
            return set()
        type_ = table.schema.field(r.KIND).type
        if not _is_text(type_):
            return set() if pa.types.is_null(type_) else {r.KIND}
        try:
            parts = table.parts([r.KIND])
            is_ours = any(any_kind(pc.unique(each.column(0)).cast(pa.string())) for each in parts)
        except DAMAGED as error:
            raise UserError(f"{self.path}: damaged file: {error}") from error
        return set() if is_ours else {r.KIND}

    def _check_types(self, plan: ColumnPlan, schema: pa.Schema) -> None:
        """Refuse columns whose type does not fit their field."""
        for field, column in plan.fields.items():
            type_ = schema.field(column).type
            if field in TIME_FIELDS:
                fits = _is_number(type_) or _is_instant(type_) or _is_text(type_)
                fits = fits or pa.types.is_decimal(type_)
                expected = "numbers, timestamps or text"
            elif field in INT_FIELDS:
                fits, expected = _is_whole(type_), "integers"
            elif field == r.KIND:
                fits, expected = _is_text(type_), "text"
            else:
                fits, expected = _is_text(type_) or _is_integer(type_), "text or integers"
            if not fits and not pa.types.is_null(type_):
                raise UserError(
                    f'{self.path}: column "{column}" is {type_}, but {field} is {expected}; '
                    f"{as_attribute(column)}"
                )
        for column in plan.attrs.values():
            type_ = schema.field(column).type
            if not (
                _is_text(type_) or _is_number(type_) or _is_instant(type_)
                or pa.types.is_boolean(type_) or pa.types.is_decimal(type_)
                or pa.types.is_duration(type_)
            ):  # fmt: skip
                raise UserError(
                    f'{self.path}: column "{column}" is {type_}; attributes are numbers, text or '
                    f"truth values: leave it out with --attrs, or convert it"
                )

    def _time(self, field: str, column: pa.Array, lines: np.ndarray) -> tuple[pa.Array, Faults]:
        if _is_instant(column.type):
            return self._times.instants(field, column)
        if _is_text(column.type) or pa.types.is_decimal(column.type):
            return self._times.texts(field, column.cast(pa.string()), lines)
        return self._times.numbers(field, column, lines)

    def _whole(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        return _integers(column, lines, name)

    def _value(self, column: pa.Array, lines: np.ndarray, name: str) -> Converted:
        return typed_attribute(column, lines, name)


def _text_of(batch: pa.RecordBatch, first: int, line: int) -> str:
    return json.dumps(batch.slice(line - first, 1).to_pylist()[0], default=str)


class TableRead(ParquetRead):
    """A table in memory, read as ``ParquetRead`` reads a file."""

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
    """Parts of a table in memory, without a copy."""

    def __init__(self, table: pa.Table) -> None:
        self._table = plain_table(table)
        self.schema = self._table.schema
        self.within = set(self.schema.names).difference(table.schema.names)

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=CHUNK_LINES)


def _is_instant(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _is_integer(type_: pa.DataType) -> bool:
    """Whether it is integer or decimal without a fraction, as sums of integers in DuckDB are."""
    return bool(pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0))


def _is_whole(type_: pa.DataType) -> bool:
    """Whether it is integer, or float, as pandas stores integers with gaps."""
    return _is_integer(type_) or bool(pa.types.is_floating(type_))


def _is_text(type_: pa.DataType) -> bool:
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_null(type_)
    )


_DIGITS_OF_INT64: Final = 19


def _integers(column: pa.Array, lines: np.ndarray, name: str) -> Converted:
    if pa.types.is_floating(column.type):
        nothing = pa.scalar(None, column.type)
        wide = pc.if_else(pc.is_nan(column), nothing, column).cast(pa.float64())
        inexact = pc.or_(
            pc.not_equal(wide, pc.floor(wide)), pc.greater_equal(pc.abs(wide), 2.0**53)
        )
        rows = pc.fill_null(inexact, fill_value=False).to_numpy(zero_copy_only=False)
        kept = pc.if_else(pa.array(rows), pa.scalar(None, pa.float64()), wide).cast(pa.int64())
        return kept, column_faults(rows, lines, name, column, "is not an integer")
    if column.type == pa.uint64():
        column = column.cast(pa.decimal128(20))
    whole = column.cast(pa.int64(), safe=False)
    if not pa.types.is_decimal(column.type) or column.type.precision < _DIGITS_OF_INT64:
        return whole, []
    beyond = pc.fill_null(pc.not_equal(whole.cast(column.type), column), fill_value=False)
    kept = pc.if_else(beyond, pa.scalar(None, pa.int64()), whole)
    rows = beyond.to_numpy(zero_copy_only=False)
    return kept, column_faults(rows, lines, name, column, "is beyond 64 bits")


def _nanoseconds(column: pa.Array, lines: np.ndarray, name: str) -> Converted:
    """Convert instants (since 1970 UTC) and durations to ns."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    per = NS_PER[column.type.unit]
    number, most = column.cast(pa.int64()), INT64_MAX // per
    beyond = pc.or_(pc.greater(number, most), pc.less(number, -most))
    beyond = pc.fill_null(beyond, fill_value=False)
    kept = pc.if_else(beyond, pa.scalar(None, pa.int64()), number)
    rows = beyond.to_numpy(zero_copy_only=False)
    why = "is beyond 292 years in nanoseconds; leave it out with --attrs, or convert it to text"
    return pc.multiply(kept, per), column_faults(rows, lines, name, column.cast(pa.string()), why)


def typed_attribute(column: pa.Array, lines: np.ndarray, name: str) -> Converted:
    """Convert ``column`` to a type of attributes; values that it cannot hold are faults."""
    if _is_instant(column.type) or pa.types.is_duration(column.type):
        return _nanoseconds(column, lines, name)
    if _is_integer(column.type):
        return _integers(column, lines, name)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_floating(column.type):
        some, infinite = without_nan(column.cast(pa.float64()))
        return some, column_faults(infinite, lines, name, column, "is infinite")
    if pa.types.is_boolean(column.type):
        return column, []
    return column.cast(pa.string()).cast(STRING), []
