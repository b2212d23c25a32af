"""Write tables to one file, CSV or Parquet, and frames as such rows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX, Frame
from slackwater.engine.core.units import unit_ns
from slackwater.engine.log.log_files import write_behind
from slackwater.engine.log.record.record_rules import FIELDS_OF_KIND, TIME_FIELDS
from slackwater.engine.log.whole_file import parquet_writer, text_columns, whole_file

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

# A table in one file, Parquet or CSV by suffix, written atomically.


CSV: Final = ".csv"
PARQUET: Final = ".parquet"
_LINES_AT_ONCE: Final = 1 << 13


def write_table(
    out: Path, schema: pa.Schema, tables: Iterable[pa.Table], *, ascends: bool = False,
    csv: bool | None = None,
) -> int:  # fmt: skip
    """Write ``tables``, all of ``schema``, one after another; return the number of rows.

    CSV begins with a line of names. Text is quoted; an empty field without quotes is null.
    ``ascends``: rows are in order of time, so Parquet stores differences of integers, which takes
    less space and a third less time. ``csv`` None: by the suffix.

    A table is computed while the one before it is written.

    Raises:
        UserError: the file cannot be written.
    """
    count = 0
    ending = out.suffix if csv is None else CSV if csv else PARQUET
    try:
        with (
            whole_file(out) as sink,
            _writer(sink, schema, ascends, ending) as writer,
            write_behind(writer.write_table) as write,
        ):
            for table in tables:
                write(table)
                count += table.num_rows
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
    return count


def _writer(
    sink: BinaryIO, schema: pa.Schema, ascends: bool, ending: str
) -> pacsv.CSVWriter | pq.ParquetWriter | _DecimalCsv:
    if ending == CSV:
        import pyarrow.csv as pacsv  # noqa: PLC0415 - rarely needed

        if any(pa.types.is_decimal(field.type) for field in schema):
            return _DecimalCsv(sink, schema)
        return pacsv.CSVWriter(sink, schema)
    integers = [field.name for field in schema if ascends and pa.types.is_integer(field.type)]
    # Without Arrow's schema in the file, readers see plain text instead of dictionaries.
    made = parquet_writer(
        sink, schema, store_schema=False, use_dictionary=text_columns(schema),
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    )  # fmt: skip
    plain = pa.schema([pa.field(each.name, retyped(each.type, _decoded)) for each in schema])
    # Parquet has no durations and only the zone UTC, so a schema with texts is added for these.
    if any(kind in str(plain) for kind in ("duration", "tz=")):
        content = b64encode(plain.serialize().to_pybytes()).decode()
        made.add_key_value_metadata({"ARROW:schema": content})
    return made


class _DecimalCsv(AbstractContextManager["_DecimalCsv"]):
    """Like Arrow's ``CSVWriter``, but writes 1.25 for the decimal 1.250, and 0 for 0E-9."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._sink = sink
        self._write([pa.array([name]) for name in schema.names])

    def write_table(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=_LINES_AT_ONCE):
            self._write(batch.columns)

    def __exit__(self, *_: object) -> None:
        """Leave the sink open."""

    def _write(self, columns: Iterable[pa.Array]) -> None:
        texts = pc.binary_join_element_wise(*map(_csv_texts, columns), ",").to_pylist()
        self._sink.write("".join(f"{text}\n" for text in texts).encode())


def _csv_texts(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        quoted = pc.replace_substring(values, '"', '""')
        texts = pc.binary_join_element_wise('"', quoted, '"', "")
    elif pa.types.is_decimal(values.type):
        texts = decimal_texts(values)
    else:
        texts = pc.cast(values, pa.string())
    return texts.fill_null("")


def decimal_texts(values: pa.Array) -> pa.Array:
    """Format decimals without exponents (Arrow writes 1E-9) and without trailing zeros."""
    text = pc.cast(values, pa.string())
    tiny = pc.fill_null(pc.match_substring(text, "E"), fill_value=False)
    if pc.any(tiny).as_py():
        texts = [f"{value:f}" for value in values.filter(tiny).to_pylist()]
        text = pc.replace_with_mask(text, tiny, pa.array(texts, pa.string()))
    return pc.replace_substring_regex(text, r"\.?0+$", "")


def retyped(kind: pa.DataType, other: Callable[[pa.DataType], pa.DataType | None]) -> pa.DataType:
    """Return ``kind`` with types replaced by ``other``, also nested ones; None: keep the type."""
    if (found := other(kind)) is not None:
        return found
    if pa.types.is_list(kind):
        return pa.list_(retyped(kind.value_type, other))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, retyped(each.type, other)) for each in kind])
    return kind


def _decoded(kind: pa.DataType) -> pa.DataType | None:
    return kind.value_type if pa.types.is_dictionary(kind) else None


# Frames as row-wise tables: one record a row, with explicit defaults.


_ORDER: Final = tuple(name for name in r.RECORD_FIELDS if name != r.ATTRS)
_REMEDY: Final = (
    "write JSONL instead (.jsonl, or --format jsonl), which holds each site's own types"
)
_KIND_WORDS: Final = pa.array([kind.name.lower() for kind in Kind])


def write_rows(
    frames: Iterable[Frame], path: str | Path, time_unit: str = "ns", *, csv: bool | None = None
) -> int:
    """Write ``frames``, iterated twice, as CSV or Parquet; return the number of rows.

    ``csv`` None: by the suffix.

    Raises:
        UserError: an attribute has two types, a time is not a whole number of the unit, or the
            file cannot be written.
    """
    schema = rows_schema(frames, path)
    return write_table(Path(path), schema, rows_of(frames, schema, time_unit), csv=csv)


def rows_schema(frames: Iterable[Frame], path: str | Path) -> pa.Schema:
    """Return the columns of all frames: record fields in their order, then attributes.

    Raises:
        UserError: an attribute has two types; the message names ``path``.
    """
    found: dict[str, pa.DataType] = {}
    where: dict[str, str] = {}
    for frame in frames:
        for field in frame.batch.schema:
            type_ = pa.string() if pa.types.is_dictionary(field.type) else field.type
            known = found.setdefault(field.name, type_)
            if pa.types.is_null(known):  # null is not a type
                known = found[field.name] = type_
            if pa.types.is_null(type_):
                continue
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


def rows_of(frames: Iterable[Frame], schema: pa.Schema, time_unit: str) -> Iterator[pa.Table]:
    """Yield a table of ``schema`` for each frame, times in ``time_unit``.

    Raises:
        UserError: a time is not a whole number of the unit.
    """
    for frame in frames:
        found = record_columns(frame, time_unit)
        columns = []
        for field in schema:
            column = found.get(field.name)
            if column is None:
                column = _where_allowed(_default(field, frame, found), field.name, frame.batch)
            columns.append(_cast(column, field, frame.site))
        yield pa.Table.from_arrays(columns, schema=schema)


def record_columns(frame: Frame, time_unit: str) -> dict[str, pa.Array]:
    """Return the columns of a frame as in records: kinds are words, times in ``time_unit``.

    Raises:
        UserError: a time is not a whole number of the unit.
    """
    batch = frame.batch
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, column in found.items():
        if name == r.KIND:
            found[name] = _KIND_WORDS.take(column)
        elif name in TIME_FIELDS:
            what = f'site {frame.site!r}: "{name}"'
            found[name] = in_unit(column, unit_ns(time_unit), what, time_unit)
        elif name == r.SEQ:
            found[name] = pc.if_else(pc.less(column, 0), pa.scalar(None, pa.int64()), column)
        elif pa.types.is_dictionary(column.type):
            found[name] = column.dictionary_decode()
    return {name: _where_allowed(column, name, batch) for name, column in found.items()}


def _cast(column: pa.Array, field: pa.Field, site: str) -> pa.Array:
    """Cast ``column`` to the common type of all sites.

    Raises:
        UserError: a float column cannot represent an integer.
    """
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UserError(
            f"site {site!r}: {field.name} has whole numbers beyond 2**53 (9007199254740992), and "
            f"fractions in other records, which one column cannot hold exactly; {_REMEDY}"
        ) from error


def _where_allowed(column: pa.Array, name: str, batch: pa.RecordBatch) -> pa.Array:
    """Return ``column`` with null in records whose kind does not have the field."""
    if r.KIND not in batch.schema.names:
        return column
    field = r.ATTRS if name.startswith(ATTR_PREFIX) else name
    allowed = [int(kind) for kind, fields in FIELDS_OF_KIND.items() if field in fields]
    having = pc.is_in(batch[r.KIND], pa.array(allowed, pa.int8()))
    return pc.if_else(having, column, pa.scalar(None, column.type))


def _default(field: pa.Field, frame: Frame, found: dict[str, pa.Array]) -> pa.Array:
    """Return the default of a column that a frame omits (table in ``engine.core.frame``)."""
    if field.name == r.TE:
        return found[r.TS]
    said = {r.SITE: frame.site, r.KIND: "event", r.STREAM: r.DEFAULT_STREAM, r.INCARNATION: 0}
    return pa.repeat(pa.scalar(said.get(field.name), field.type), frame.rows)


def in_unit(column: pa.Array, unit: int, what: str, time_unit: str) -> pa.Array:
    """Convert times [ns] to whole numbers of ``unit`` ns.

    Raises:
        UserError: a time is not a whole number of the unit.
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
