"""Records of a Parquet file, some at a time; pyarrow is loaded when there is one to read."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from edge_agent.errors import AgentError

PARQUET: Final = "parquet"


def is_installed() -> bool:
    """Whether this device can read Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def records(file: Path, rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number (from 1) and record of each row, read ``rows`` at a time.

    A column of timestamps with a zone gives ns since 1970; without one, it gives times that say no
    instant. Raises AgentError: the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra, and heavy
    import pyarrow.parquet as pq  # noqa: PLC0415

    number = 0
    try:
        with pq.ParquetFile(file) as found:
            for batch in found.iter_batches(rows):
                columns = [
                    column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
                    if pa.types.is_timestamp(column.type) and column.type.tz
                    else column
                    for column in batch.columns
                ]
                table = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
                for record in table.to_pylist():
                    number += 1
                    yield number, record
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AgentError(f"{file}: {reason}") from error
