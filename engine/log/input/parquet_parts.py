"""A Parquet file, or a folder of them, as one table that is read in parts of bounded size.

Arrow's own scanner of datasets reads ahead of a slow reader until it fills 1 GiB; here a
part is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.input.lines import CHUNK_LINES
from engine.log.whole_file import BUFFER_BYTES, DAMAGED


class TableParts(Protocol):
    """A table that is read in parts."""

    @property
    def schema(self) -> pa.Schema: ...

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, at most ``CHUNK_LINES`` at a time, in order."""
        ...


class ParquetParts:
    """The files as one table with the columns of all, and those of their ``KEY=VALUE`` folders.

    A column that a file lacks is null in its rows.

    Args:
        path: the file, or the folder of ``files``.
        files: their paths.

    Raises:
        UserError: a file is no Parquet, or a column has types that no other type holds both of.
    """

    def __init__(self, path: str, files: Sequence[str]) -> None:
        options: dict[str, Any] = {"partitioning": ds.partitioning(flavor="hive")}
        if Path(path).is_dir():
            options["partition_base_dir"] = path
        try:
            found = ds.dataset(files, format="parquet", **options)
            self.schema: pa.Schema = pa.unify_schemas(
                [found.schema, *(pq.read_schema(file) for file in files[1:])],
                promote_options="permissive",
            )
            self._files = ds.dataset(files, schema=self.schema, format="parquet", **options)
        except DAMAGED as error:
            raise UserError(f"{path}: not readable as Parquet: {error}") from error

    def parts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of ``columns``, at most ``CHUNK_LINES`` at a time, file after file.

        Raises:
            OSError, pa.ArrowException: a damaged file (``DAMAGED``).
        """
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for fragment in self._files.get_fragments():
            given = ds.get_partition_keys(fragment.partition_expression)
            with pq.ParquetFile(fragment.path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
                own = set(file.schema_arrow.names).difference(given)
                there = [name for name in columns if name in own]
                for batch in file.iter_batches(CHUNK_LINES, columns=there):
                    yield _completed(batch, wanted, given)


def _completed(
    batch: pa.RecordBatch, wanted: pa.Schema, given: dict[str, Any]
) -> pa.RecordBatch:  # fmt: skip
    """``batch`` with the columns of ``wanted``: its own, those ``given`` for all rows, nulls."""
    rows = batch.num_rows
    arrays = [
        pa.repeat(pa.scalar(given[field.name], field.type), rows) if field.name in given
        else batch.column(field.name).cast(field.type) if field.name in batch.schema.names
        else pa.nulls(rows, field.type)
        for field in wanted
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
