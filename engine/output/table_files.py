"""Tables of results in files: whole, or a Parquet table written while the next rows are computed.

Which columns it has, and how its rows are sorted, shows only when all results are there. What is
written ahead is kept if all results are of one site and each batch has the columns of the first, as
usual; otherwise it is deleted, and the caller writes the table from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.log.row_export import cannot_write, opened_table
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


# A Parquet table of results that is written while the next ones are worked out.


Made = Callable[[int, Sequence[pa.Table]], pa.Table]
"""Of a batch's number and its tables, those rows of the table that is wanted."""


class _DroppedError(Exception):
    """What is written is not the table."""


class TableAhead:
    """The table; to be closed. Without ``finish`` before, no file is left.

    Args:
        out: the file.
        made: as if there were only the batch that it is given.
        ascends: see ``write_table``.
    """

    def __init__(self, out: Path, made: Made, *, ascends: bool) -> None:
        self._out, self._made, self._ascends = out, made, ascends
        self._pool: Final = ThreadPoolExecutor(1, thread_name_prefix="table-ahead")
        self._last: Future[None] | None = None
        self._open = ExitStack()
        self._site: str | None = None
        self._schema: pa.Schema | None = None
        self._write: Callable[[pa.Table], object]
        self._rows = 0
        self._dropped = False

    def take(self, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> None:
        """The next batch, as ``PartStore.replace`` takes it. Waits until the last one is written,
        so that no more than two are held.

        Raises:
            UserError: the file cannot be written, or the results do not go into one table.
        """
        self._settle()
        tables = [table for part in parts for table in part if table.num_rows]
        if self._dropped or not tables:
            return
        sites = {str(table.column(r.SITE)[0].as_py()) for table in tables}
        if self._site is None:
            self._site = min(sites)
        if sites == {self._site}:
            together = [pa.concat_tables(part) for part in parts if part]
            self._last = self._pool.submit(self._add, batch_id, together)
        else:
            self._drop()

    def finish(self) -> int | None:
        """The number of rows; the file is whole. None: what was written was not the table, or
        there was nothing, and no file is left.

        Raises:
            UserError: the file cannot be written.
        """
        self._settle()
        if self._dropped or self._schema is None:
            return None
        self._open.close()
        return self._rows

    def close(self) -> None:
        """What is not finished goes."""
        self._pool.shutdown(cancel_futures=True)
        self._drop()

    def _settle(self) -> None:
        last, self._last = self._last, None
        try:
            if last is not None:
                last.result()
        except OSError as error:
            raise cannot_write(self._out, error) from error

    def _add(self, batch_id: int, tables: list[pa.Table]) -> None:
        table = self._made(batch_id, tables)
        if self._schema is None:
            self._schema = table.schema
            opened = opened_table(self._out, table.schema, ascends=self._ascends)
            self._write = self._open.enter_context(opened)
        if table.schema == self._schema:
            self._write(table)
            self._rows += table.num_rows
        else:
            self._drop()

    def _drop(self) -> None:
        self._dropped = True
        self._open.__exit__(_DroppedError, _DroppedError(), None)
