"""Tables in one file, CSV or Parquet; frames as such rows, and as lines of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from edge_agent import records as r
from edge_agent.records import Kind
from engine.core.errors import UserError
from engine.core.frame import ATTR_PREFIX, FIXED_TYPES, STRING, Frame
from engine.core.units import unit_ns
from engine.log.files.log_files import write_behind
from engine.log.record.record_rules import FIELDS_OF_KIND, TIME_FIELDS
from engine.log.whole_file import parquet_writer, text_columns, whole_file

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

# A table in one file, Parquet or CSV by the ending of its name, which appears whole.


CSV: Final = ".csv"
PARQUET: Final = ".parquet"


def write_table(
    out: Path, schema: pa.Schema, tables: Iterable[pa.Table], *, ascends: bool = False,
    csv: bool | None = None,
) -> int:  # fmt: skip
    """Writes ``tables``, all of ``schema``, one after another; gives the number of rows.

    In CSV the first line has the names. Text is in quotes; an empty field without them is a null.
    ``ascends``: rows go by time, so integers are mostly near those before them: Parquet keeps the
    differences, which takes less room and a third of the time less to write. ``csv`` None: by the
    ending of the name.

    A table is made while the one before it is written.

    Raises:
        UserError: the file cannot be written.
    """
    count = 0
    with (
        opened_table(out, schema, ascends=ascends, csv=csv) as writes,
        write_behind(writes) as write,
    ):
        for table in tables:
            write(table)
            count += table.num_rows
    return count


@contextmanager
def opened_table(
    out: Path, schema: pa.Schema, *, ascends: bool = False, csv: bool | None = None
) -> Iterator[Callable[[pa.Table], object]]:
    """What writes a table after another into ``out``, which is there, whole, after the block."""
    ending = out.suffix if csv is None else CSV if csv else PARQUET
    try:
        with whole_file(out) as sink, _writer(sink, schema, ascends, ending) as writer:
            yield writer.write_table
    except OSError as error:
        raise cannot_write(out, error) from error


def cannot_write(out: Path, error: OSError) -> UserError:
    """What to raise from ``error``."""
    return UserError(f"{out}: cannot be written: {error.strerror}")


def _writer(
    sink: object, schema: pa.Schema, ascends: bool, ending: str
) -> pacsv.CSVWriter | pq.ParquetWriter:
    if ending == CSV:
        import pyarrow.csv as pacsv  # noqa: PLC0415 - for few runs

        return pacsv.CSVWriter(sink, schema)
    integers = [field.name for field in schema if ascends and pa.types.is_integer(field.type)]
    # Without Arrow's own schema beside Parquet's, readers see texts, not the dictionaries of them.
    return parquet_writer(
        sink, schema, store_schema=False, use_dictionary=text_columns(schema),
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    )  # fmt: skip


# Frames as row-wise tables: one record a row, every default written out.


_ORDER: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)
_REMEDY: Final = (
    "write JSONL instead (.jsonl, or --format jsonl), which holds each site's own types"
)
_KIND_WORDS: Final = pa.array([kind.name.lower() for kind in Kind])


def write_rows(
    frames: Iterable[Frame], path: str | Path, time_unit: str = "ns", *, csv: bool | None = None
) -> int:
    """Writes ``frames``, which are iterated twice, as CSV or Parquet; gives the rows written.

    ``csv`` None: by the ending of the name.

    Raises:
        UserError: an attribute of two types, a time that is no whole number of the unit, or a
            file that cannot be written.
    """
    schema = _schema(frames, path)
    return write_table(Path(path), schema, _tables(frames, schema, time_unit), csv=csv)


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
    """What a column means that a frame leaves out (table in ``engine.core.frame``)."""
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


# Writer of JSONL traces: frames as DESIGN "Trace" records, one a line.


FIELD_ORDER: Final = tuple(name for name in r.RECORD_FIELDS if name not in (r.SITE, r.ATTRS))
_DEFAULTS: Final = {r.KIND: "event", r.SITE: r.DEFAULT_SITE, r.STREAM: r.DEFAULT_STREAM}


class TraceWriter:
    """Writes frames to ``out`` with times in ``time_unit``; ``records`` counts the lines.

    Fields that say their default are left out: kind, site, stream, te. The incarnation is written
    from the first one on that is not 0, as from there its default varies.
    """

    def __init__(self, out: TextIO, time_unit: str = "ns") -> None:
        self._out = out
        self._unit = time_unit
        self._unit_ns = unit_ns(time_unit)
        self._incarnations = False
        self.records = 0

    def write(self, frame: Frame) -> None:
        """Appends the records of ``frame``.

        Raises:
            UserError: a time that is no whole number of the unit, or an infinite attribute.
        """
        batch = frame.batch
        if r.INCARNATION in batch.schema.names:
            self._incarnations = self._incarnations or bool(
                pc.any(pc.not_equal(batch.column(r.INCARNATION), 0)).as_py()
            )
        present = [name for name in FIELD_ORDER if name in batch.schema.names]
        columns = {name: batch.column(name).to_pylist() for name in present}
        for name in TIME_FIELDS:
            if name in columns:
                what = f'site {frame.site!r}: "{name}"'
                exact = in_unit(batch.column(name), self._unit_ns, what, self._unit)
                columns[name] = exact.to_pylist()
        kinds = columns.get(r.KIND, [0] * frame.rows)
        columns[r.KIND] = [Kind(kind).name.lower() for kind in kinds]
        if self._incarnations:
            columns.setdefault(r.INCARNATION, [0] * frame.rows)
        else:
            columns.pop(r.INCARNATION, None)
        columns[r.SEQ] = [None if seq is None or seq < 0 else seq for seq in columns[r.SEQ]]
        if r.TE in columns:
            pairs = zip(columns[r.TE], columns[r.TS], strict=True)
            columns[r.TE] = [None if te == ts else te for te, ts in pairs]
        attrs = attr_dicts(batch, frame.site)
        self._lines(frame.site, columns, attrs)
        self.records += frame.rows

    def _lines(
        self, site: str, columns: dict[str, list[Any]], attrs: list[dict[str, Any]] | None
    ) -> None:
        names = [name for name in FIELD_ORDER if name in columns]
        place = {} if site == r.DEFAULT_SITE else {r.SITE: site}
        encode = json.JSONEncoder(ensure_ascii=False).encode
        lines = []
        for row, values in enumerate(zip(*(columns[name] for name in names), strict=True)):
            allowed = FIELDS_OF_KIND[r.KIND_NAMES[values[0]]]
            record = {
                name: value
                for name, value in zip(names, values, strict=True)
                if value is not None and value != _DEFAULTS.get(name) and name in allowed
            } | place
            if attrs is not None and attrs[row] and r.ATTRS in allowed:
                record[r.ATTRS] = attrs[row]
            lines.append(encode(record))
        if lines:
            self._out.write("\n".join(lines) + "\n")


def attr_dicts(batch: pa.RecordBatch, site: str) -> list[dict[str, Any]] | None:
    """The attributes of each row as a dict without nulls; None when there are no attributes.

    NaN, which JSON does not have, counts as "no such attribute".

    Raises:
        UserError: an infinite value, which JSON cannot say.
    """
    names = [name for name in batch.schema.names if name.startswith(ATTR_PREFIX)]
    if not names:
        return None
    columns = []
    for name in names:
        column = batch.column(name)
        if pa.types.is_floating(column.type):
            if pc.any(pc.is_inf(column)).as_py():
                row = pc.index(pc.is_inf(column), value=True).as_py()
                raise UserError(
                    f"site {site!r}: {name} is infinite in the record of arrival "
                    f"{batch.column(r.ARRIVAL)[row].as_py()}, which JSON cannot say; write Parquet"
                )
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        columns.append(column.to_pylist())
    short = [name.removeprefix(ATTR_PREFIX) for name in names]
    return [
        {name: value for name, value in zip(short, values, strict=True) if value is not None}
        for values in zip(*columns, strict=True)
    ]


def write_trace(frames: Iterable[Frame], out: TextIO, time_unit: str = "ns") -> int:
    """Writes ``frames`` to ``out`` as a JSONL trace; gives the number of records.

    Raises:
        UserError: as ``TraceWriter.write``.
    """
    writer = TraceWriter(out, time_unit)
    for frame in frames:
        writer.write(frame)
    return writer.records
