"""A table in one file, Parquet or CSV by the ending of its name, which appears whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.errors import UserError
from engine.log.files.log_files import write_behind
from engine.log.whole_file import (
    DAMAGED,
    open_parquet,
    parquet_writer,
    text_columns,
    whole_file,
)

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

CSV: Final = ".csv"
PARQUET: Final = ".parquet"


def write_table(
    out: Path, schema: pa.Schema, tables: Iterable[pa.Table], *, ascends: bool = False
) -> int:
    """Writes ``tables``, all of ``schema``, one after another; gives the number of rows.

    In CSV the first line has the names. Text is in quotes; an empty field without them is a null.
    ``ascends``: rows go by time, so integers are mostly near those before them: Parquet keeps the
    differences, which takes less room and a third of the time less to write.

    A table is made while the one before it is written.

    Raises:
        UserError: the file cannot be written.
    """
    count = 0
    with opened_table(out, schema, ascends=ascends) as writes, write_behind(writes) as write:
        for table in tables:
            write(table)
            count += table.num_rows
    return count


@contextmanager
def opened_table(
    out: Path, schema: pa.Schema, *, ascends: bool = False
) -> Iterator[Callable[[pa.Table], object]]:
    """What writes a table after another into ``out``, which is there, whole, after the block."""
    try:
        with whole_file(out) as sink, _writer(out, sink, schema, ascends) as writer:
            yield writer.write_table
    except OSError as error:
        raise cannot_write(out, error) from error


def cannot_write(out: Path, error: OSError) -> UserError:
    """What to raise from ``error``."""
    return UserError(f"{out}: cannot be written: {error.strerror}")


def _writer(
    out: Path, sink: object, schema: pa.Schema, ascends: bool
) -> pacsv.CSVWriter | pq.ParquetWriter:
    if out.suffix == CSV:
        import pyarrow.csv as pacsv  # noqa: PLC0415 - for few runs

        return pacsv.CSVWriter(sink, schema)
    integers = [field.name for field in schema if ascends and pa.types.is_integer(field.type)]
    # Without Arrow's own schema beside Parquet's, readers see texts, not the dictionaries of them.
    return parquet_writer(
        sink, schema, store_schema=False, use_dictionary=text_columns(schema),
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
    )  # fmt: skip


def is_whole(file: Path, rows: int) -> bool:
    """Whether a Parquet file can be read, its pages are as they were written, and has ``rows``."""
    try:
        with open_parquet(file) as opened:
            return sum(map(len, opened.iter_batches())) == rows
    except DAMAGED:
        return False
