"""Records of a Parquet file, some at a time; pyarrow is loaded when there is one to read."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edge_agent.errors import AgentError
from edge_agent.inputs.record_batch import TableBatch

PARQUET: Final = "parquet"


def is_installed() -> bool:
    """Whether this device can read Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def batches(file: Path, rows: int) -> Iterator[TableBatch]:
    """The rows of a file, so many at a time.

    A column of timestamps with a zone gives ns since 1970; without one, it gives times that say no
    instant. Raises AgentError: the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra, and heavy
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(file) as found:
            for batch in found.iter_batches(rows):
                columns = [
                    column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
                    if pa.types.is_timestamp(column.type) and column.type.tz
                    else column
                    for column in batch.columns
                ]
                names = batch.schema.names
                lists = dict(zip(names, (column.to_pylist() for column in columns), strict=True))
                yield TableBatch(lists, batch.num_rows, _record_of(lists))
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise AgentError(f"{file}: {reason}") from error


def _record_of(lists: Mapping[str, Sequence[Any]]) -> Callable[[int], dict[str, Any]]:
    return lambda place: {name: values[place] for name, values in lists.items()}
