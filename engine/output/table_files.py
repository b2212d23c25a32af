"""Tables of results: whether their files are whole, as bytes, and as files have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.log.whole_file import DAMAGED, open_parquet


def is_whole(file: Path, rows: int) -> bool:
    """Whether a Parquet file can be read, its pages are as they were written, and has ``rows``."""
    try:
        with open_parquet(file) as opened:
            return sum(map(len, opened.iter_batches())) == rows
    except DAMAGED:
        return False


# A table as bytes, for another process or the next life.


_WORTH_PACKING: Final = 1 << 16
"""Bytes of a table from which on compression pays."""


def table_bytes(table: pa.Table) -> bytes:
    """An Arrow stream."""
    sink = pa.BufferOutputStream()
    # Texts that repeat take most of the bytes, and a JVM that hands them on holds several copies.
    codec = "lz4" if table.nbytes >= _WORTH_PACKING else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table_of_bytes(content: bytes, columns: Collection[str] = ()) -> pa.Table:
    """Inverse of ``table_bytes``; ``columns``: these alone are unpacked."""
    stream = pa.ipc.open_stream(content)
    if not columns:
        return stream.read_all()
    fields = [place for place, name in enumerate(stream.schema.names) if name in columns]
    options = pa.ipc.IpcReadOptions(included_fields=fields)
    return pa.ipc.open_stream(content, options=options).read_all()


def by_schema(tables: Iterable[pa.Table]) -> list[list[pa.Table]]:
    """Tables as files have them: those of one schema together, in their order."""
    files: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        files.setdefault(table.schema, []).append(table)
    return list(files.values())


def event_tables(tables: Sequence[pa.Table]) -> list[list[pa.Table]]:
    """Events as files of tables of one schema, a table for each site, by site.

    Args:
        tables: of ``ordered.released_table``, each site's in release order; sites may be mixed.

    Raises:
        ContractViolation: an attribute of one site has two types that do not mix.
    """
    sites: dict[str, list[pa.Table]] = {}
    for table in tables:
        if table.num_rows:
            sites.setdefault(table.column(r.SITE)[0].as_py(), []).append(table)
    # Sites with other attributes have other columns, hence other files.
    return by_schema(_joined(site, sites[site]) for site in sorted(sites))


def _joined(site: str, tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ContractViolation(f"site {site!r}: released events do not agree: {error}") from error
