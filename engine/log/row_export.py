"""Frames as row-wise tables: CSV and Parquet, one record a row, every default written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from edge_agent.records import Kind
from engine.errors import UserError
from engine.log.record.record_rules import FIELDS_OF_KIND, TIME_FIELDS
from engine.log.whole_file import parquet_writer, whole_file
from engine.stream.frame import ATTR_PREFIX, FIXED_TYPES, STRING, Frame
from engine.units import unit_ns

_ORDER: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)
_REMEDY: Final = (
    "write JSONL instead (.jsonl, or --format jsonl), which holds each site's own types"
)
_KIND_WORDS: Final = pa.array([kind.name.lower() for kind in Kind])


def write_csv(frames: Iterable[Frame], path: str | Path, time_unit: str = "ns") -> int:
    """Writes ``frames``, which are iterated twice, as CSV with a header; gives the rows written.

    Text is quoted and what is absent is empty, so that ``""`` and nothing stay apart.

    Raises:
        UserError: an attribute of two types, a time that is no whole number of the unit, or a
            file that cannot be written.
    """
    import pyarrow.csv as pacsv  # noqa: PLC0415 - for few runs

    schema = _schema(frames, path)
    rows = 0
    with _writable(path), whole_file(Path(path)) as sink, pacsv.CSVWriter(sink, schema) as writer:
        for table in _tables(frames, schema, time_unit):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def write_parquet_rows(frames: Iterable[Frame], path: str | Path, time_unit: str = "ns") -> int:
    """Writes ``frames``, which are iterated twice, as row-wise Parquet; gives the rows written.

    Raises:
        UserError: as ``write_csv``.
    """
    schema = _schema(frames, path)
    rows = 0
    with (
        _writable(path),
        whole_file(Path(path)) as sink,
        parquet_writer(sink, schema) as writer,
    ):
        for table in _tables(frames, schema, time_unit):
            writer.write_table(table)
            rows += table.num_rows
    return rows


@contextmanager
def _writable(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def _schema(frames: Iterable[Frame], path: str | Path) -> pa.Schema:
    """The columns that some frame has: record fields in their order, then attributes."""
    found: dict[str, pa.DataType] = {}
    where: dict[str, str] = {}
    for frame in frames:
        for field in frame.batch.schema:
            type_ = pa.string() if pa.types.is_dictionary(field.type) else field.type
            known = found.setdefault(field.name, type_)
            site = where.setdefault(field.name, frame.site)
            if known == type_:
                continue
            if {known, type_} != {pa.int64(), pa.float64()} or field.name == r.ID:
                raise UserError(
                    f"{path}: {field.name} is {known} at site {site!r} and {type_} at site "
                    f"{frame.site!r}, which one column cannot hold; {_REMEDY}"
                )
            found[field.name] = pa.float64()
    fields = {
        **dict.fromkeys(_ORDER),
        **dict.fromkeys(sorted(name for name in found if name.startswith(ATTR_PREFIX))),
    }
    found |= {r.KIND: pa.string(), r.SITE: pa.string(), r.STREAM: pa.string()}
    return pa.schema({name: found[name] for name in fields if name in found})


def _tables(frames: Iterable[Frame], schema: pa.Schema, time_unit: str) -> Iterator[pa.Table]:
    unit = unit_ns(time_unit)
    for frame in frames:
        batch, rows = frame.batch, frame.rows
        kinds = batch.column(r.KIND) if r.KIND in batch.schema.names else None
        columns = []
        for field in schema:
            name = field.name
            if name == r.SITE:
                column = pa.repeat(frame.site, rows)
            elif name not in batch.schema.names:
                column = _default(name, batch, rows, field.type)
            else:
                column = batch.column(name)
            if name == r.KIND:
                column = _KIND_WORDS.take(column)
            elif name in TIME_FIELDS:
                column = in_unit(column, unit, f'site {frame.site!r}: "{name}"', time_unit)
            elif name == r.SEQ:
                column = pc.if_else(pc.less(column, 0), pa.scalar(None, pa.int64()), column)
            column = _cast(column, field, frame.site)
            if kinds is not None:
                column = _where_allowed(column, name, kinds)
            columns.append(column)
        yield pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field, site: str) -> pa.Array:
    """``column`` as the type of all sites.

    Raises:
        UserError: a whole number that no fraction is, where others are fractions.
    """
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UserError(
            f"site {site!r}: {field.name} has whole numbers beyond 2**53 (9007199254740992), and "
            f"fractions in other records, which one column cannot hold exactly; {_REMEDY}"
        ) from error


def _where_allowed(column: pa.Array, name: str, kinds: pa.Array) -> pa.Array:
    """``column``, empty in records of a kind that has no such field, as the readers demand."""
    field = r.ATTRS if name.startswith(ATTR_PREFIX) else name
    allowed = [int(kind) for kind, fields in FIELDS_OF_KIND.items() if field in fields]
    having = pc.is_in(kinds, pa.array(allowed, pa.int8()))
    return pc.if_else(having, column, pa.scalar(None, column.type))


def _default(name: str, batch: pa.RecordBatch, rows: int, type_: pa.DataType) -> pa.Array:
    """What a column means that a frame leaves out (table in ``engine.stream.frame``)."""
    if name == r.TE:
        return batch.column(r.TS)
    if name == r.KIND:
        return pa.repeat(pa.scalar(int(Kind.EVENT), FIXED_TYPES[r.KIND]), rows)
    if name == r.STREAM:
        return pa.repeat(r.DEFAULT_STREAM, rows).cast(STRING)
    if name == r.INCARNATION:
        return pa.repeat(pa.scalar(0, pa.int64()), rows)
    return pa.nulls(rows, type_)


def in_unit(column: pa.Array, unit: int, what: str, time_unit: str) -> pa.Array:
    """Times [ns] as whole numbers of ``unit`` ns.

    Raises:
        UserError: one is no whole number of the unit.
    """
    if unit == 1:
        return column
    divided = pc.divide(column, unit)
    exact = pc.equal(pc.multiply(divided, unit), column)
    row = pc.index(exact, value=False).as_py()
    if row >= 0:
        raise UserError(
            f"{what} {column[row].as_py()} ns is not a whole number of {time_unit}; "
            f"write with a finer --time-unit"
        )
    return divided
