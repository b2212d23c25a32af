"""A table in one file, Parquet or CSV by the ending of its name, which appears whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.csv

from engine.errors import UserError
from engine.log.whole_file import (
    DAMAGED,
    open_parquet,
    parquet_writer,
    text_columns,
    whole_file,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

CSV: Final = ".csv"
PARQUET: Final = ".parquet"


def write_table(out: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Writes ``tables``, all of ``schema``, one after another; gives the number of rows.

    In CSV the first line has the names. Text is in quotes; an empty field without them is a null.

    Raises:
        UserError: the file cannot be written.
    """
    count = 0
    try:
        with whole_file(out) as sink, _writer(out, sink, schema) as writer:
            for table in tables:
                writer.write_table(table)
                count += table.num_rows
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
    return count


def _writer(out: Path, sink: object, schema: pa.Schema) -> pa.csv.CSVWriter | pq.ParquetWriter:
    if out.suffix == CSV:
        return pyarrow.csv.CSVWriter(sink, schema)
    return parquet_writer(sink, schema, use_dictionary=text_columns(schema))


def is_whole(file: Path, rows: int) -> bool:
    """Whether a Parquet file can be read, its pages are as they were written, and has ``rows``."""
    try:
        with open_parquet(file) as opened:
            return sum(map(len, opened.iter_batches())) == rows
    except DAMAGED:
        return False
