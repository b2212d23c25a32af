"""Tables of results: integrity checks of files, conversion to bytes, grouping into files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.log.whole_file import DAMAGED, open_parquet


def is_whole(file: Path, rows: int) -> bool:
    """Whether a Parquet file is readable, its checksums are correct, and it has ``rows``."""
    try:
        with open_parquet(file) as opened:
            return sum(map(len, opened.iter_batches())) == rows
    except DAMAGED:
        return False


# A table as bytes, for another process or the saved state.


_WORTH_PACKING: Final = 1 << 16
"""Least size of a table for which compression pays [bytes]."""


def table_bytes(table: pa.Table) -> bytes:
    """Return the table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    # Repeated texts take most of the bytes, and a JVM that passes them on has several copies.
    codec = "lz4" if table.nbytes >= _WORTH_PACKING else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table_of_bytes(content: bytes, columns: Collection[str] = ()) -> pa.Table:
    """Return the table of ``table_bytes``; ``columns``: read only these."""
    stream = pa.ipc.open_stream(content)
    if not columns:
        return stream.read_all()
    fields = [place for place, name in enumerate(stream.schema.names) if name in columns]
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    return pa.ipc.open_stream(content, options=options).read_all()


def by_schema(tables: Iterable[pa.Table]) -> list[list[pa.Table]]:
    """Group tables by schema, as files have them, in order."""
    files: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        files.setdefault(table.schema, []).append(table)
    return list(files.values())


def event_tables(tables: Sequence[pa.Table]) -> list[list[pa.Table]]:
    """Return events as files of tables of one schema, a table for each site, by site.

    Args:
        tables: results of ``ordered_stream.released_table``, each site's in release order; sites
            may be mixed.

    Raises:
        ContractViolation: an attribute of one site has two incompatible types.
    """
    sites: dict[str, list[pa.Table]] = {}
    for table in tables:
        if table.num_rows:
            sites.setdefault(table.column(r.SITE)[0].as_py(), []).append(table)
    # Sites with other attributes have other columns, so they get other files.
    return by_schema(_joined(site, sites[site]) for site in sorted(sites))


def _joined(site: str, tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ContractViolation(f"site {site!r}: released events do not agree: {error}") from error
