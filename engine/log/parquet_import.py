"""Row-wise Parquet as input: one record a row, in order of arrival."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from edge_agent import records as r
from engine.errors import UserError
from engine.frame import STRING
from engine.log.bad_lines import Fault
from engine.log.lines import CHUNK_LINES
from engine.log.record_rules import TIME_FIELDS
from engine.log.row_import import (
    FIELDS,
    ColumnPlan,
    RowBatch,
    RowRead,
    column_faults,
    kind_codes,
    plan_columns,
)
from engine.log.trace_record import INT_FIELDS
from engine.log.whole_file import DAMAGED

_INSTANT: Final = pa.timestamp("ns")


def read_parquet(
    path: str | Path,
    time_unit: str = "ns",
    on_bad: str = "stop",
    dead_letter: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    attrs: Sequence[str] | None = None,
) -> ParquetRead:
    """A row-wise Parquet file as frames.

    Args:
        path: the file.
        time_unit: unit of its integer times; columns of Parquet timestamps have their own.
        on_bad: ``stop`` or ``skip``.
        dead_letter: JSONL file for skipped rows.
        mapping: record field -> column; columns named like a field need none.
        attrs: columns that become attributes; None = all that are no record field. NaN in one
            counts as "no such attribute".

    Raises:
        UserError: while iterating: ``FILE:ROW: column "C": ...``; the first row is row 1.
    """
    letters = None if dead_letter is None else Path(dead_letter)
    return ParquetRead(str(path), time_unit, on_bad, letters, mapping or {}, attrs)


class ParquetRead(RowRead):
    """See ``read_parquet``."""

    def _batches(self) -> Iterator[RowBatch]:
        try:
            file = pq.ParquetFile(self.path)
        except DAMAGED as error:
            raise UserError(f"{self.path}: not readable as Parquet: {error}") from error
        plan = plan_columns(self.path, file.schema_arrow.names, self.mapping, self.attrs)
        self._check_types(plan, file.schema_arrow)
        columns = [*plan.fields.values(), *plan.attrs.values()]
        number = 1
        try:
            for batch in file.iter_batches(CHUNK_LINES, columns=columns):
                lines = np.arange(number, number + batch.num_rows)
                yield self._typed(batch, lines, plan)
                number += batch.num_rows
        except DAMAGED as error:
            raise UserError(f"{self.path}: damaged file: {error}") from error

    def _check_types(self, plan: ColumnPlan, schema: pa.Schema) -> None:
        """Refuses columns whose type can never be the field's."""
        for field, column in plan.fields.items():
            type_ = schema.field(column).type
            instant = field in TIME_FIELDS and pa.types.is_timestamp(type_)
            if field in INT_FIELDS:
                fits, wanted = pa.types.is_integer(type_) or instant, "integers"
            elif field == r.KIND:
                fits, wanted = _is_text(type_), "text"
            else:
                fits, wanted = _is_text(type_) or pa.types.is_integer(type_), "text or integers"
            if not fits and not pa.types.is_null(type_):
                raise UserError(
                    f'{self.path}: column "{column}" is {type_}, but {field} is {wanted}'
                )
            if instant and self._unit_ns != 1:
                raise UserError(
                    f'{self.path}: column "{column}" holds timestamps; import with --time-unit ns'
                )
        for column in plan.attrs.values():
            type_ = schema.field(column).type
            if not (_is_text(type_) or _is_number(type_) or pa.types.is_boolean(type_)):
                raise UserError(
                    f'{self.path}: column "{column}" is {type_}; attributes are numbers, text or '
                    f"truth values: leave it out with --attrs, or convert it"
                )

    def _typed(self, batch: pa.RecordBatch, lines: np.ndarray, plan: ColumnPlan) -> RowBatch:
        fields: dict[str, pa.Array] = {}
        attrs: dict[str, pa.Array] = {}
        faults: list[Fault] = []
        for field in (name for name in FIELDS if name in plan.fields):
            name = plan.fields[field]
            column = batch.column(name)
            if field == r.KIND:
                fields[field], unknown = kind_codes(column.cast(pa.string()))
                why = f"is no kind of record; known are {', '.join(r.KIND_NAMES)}"
                faults += column_faults(unknown, lines, name, column, why)
            elif field in INT_FIELDS or (field == r.ID and pa.types.is_integer(column.type)):
                fields[field], bad = _integers(column, lines, name)
                faults += bad
            elif field == r.ID:
                fields[field] = column.cast(STRING)
            else:
                fields[field] = column.cast(pa.string())
        for attribute, name in plan.attrs.items():
            attrs[attribute], bad = _attribute(batch.column(name), lines, name)
            faults += bad

        def text_of(line: int) -> str:
            return json.dumps(batch.slice(line - int(lines[0]), 1).to_pylist()[0], default=str)

        return RowBatch(lines, fields, attrs, faults, text_of)


def _is_text(type_: pa.DataType) -> bool:
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_null(type_)
    )


def _integers(column: pa.Array, lines: np.ndarray, name: str) -> tuple[pa.Array, list[Fault]]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    if column.type != pa.uint64():
        return column.cast(pa.int64()), []
    beyond = pc.fill_null(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64())), fill_value=False)
    rows = beyond.to_numpy(zero_copy_only=False)
    kept = pc.if_else(beyond, pa.scalar(None, pa.uint64()), column)
    return kept.cast(pa.int64()), column_faults(rows, lines, name, column, "is beyond 64 bits")


def _attribute(column: pa.Array, lines: np.ndarray, name: str) -> tuple[pa.Array, list[Fault]]:
    if pa.types.is_integer(column.type):
        return _integers(column, lines, name)
    if pa.types.is_floating(column.type):
        wide = column.cast(pa.float64())
        rows = pc.fill_null(pc.is_inf(wide), fill_value=False).to_numpy(zero_copy_only=False)
        some = pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
        return some, column_faults(rows, lines, name, column, "is infinite")
    if pa.types.is_boolean(column.type):
        return column, []
    return column.cast(pa.string()).cast(STRING), []
