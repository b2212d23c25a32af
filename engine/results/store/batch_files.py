"""Parquet files of one micro-batch each, so that writing a batch again replaces it.

``batch-BBBBBBBBBBBB-K.parquet``: batch id and part (0 where one file is enough). Rows are sorted by
site. A row group holds one site, or several small ones, so that ten thousand sites are not ten
thousand row groups; an export goes through groups of sites, and reads what lies near them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from engine.errors import UserError
from engine.log.whole_file import DAMAGED, open_parquet, parquet_files, sync_folder, write_parquet

SITE: Final = "site"
_NAME: Final = re.compile(r"batch-([0-9]{12,})-([0-9]+)\.parquet")
_GROUP_ROWS: Final = 1024
"""Small sites share a row group of at least so many rows."""


def replace_batch(folder: Path, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> list[Path]:
    """Makes ``parts`` the whole content of batch ``batch_id`` in ``folder``; gives its files.

    Args:
        folder: made if absent.
        batch_id: micro-batch, from 0.
        parts: one file each: tables of one schema, every one with rows of a single site, in order
            of the sites' names. A part without tables is no file.

    Raises:
        UserError: the folder cannot be written.
    """
    assert batch_id >= 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for number, tables in enumerate(parts):
            if tables:
                path = folder / f"batch-{batch_id:012d}-{number}.parquet"
                write_parquet(path, _row_groups(tables), tables[0].schema)
                written.append(path)
        stale = [
            path for path in folder.glob(f"batch-{batch_id:012d}-*.parquet") if path not in written
        ]
        for path in stale:
            path.unlink()
        if stale:
            sync_folder(folder)
    except OSError as error:
        raise UserError(f"{folder}: results cannot be written: {error.strerror}") from error
    return written


def _row_groups(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


class Batches(Protocol):
    """Batches of one name, as an export reads them; see ``BatchFiles``."""

    @property
    def sites(self) -> set[str]: ...
    @property
    def batches(self) -> list[int]: ...
    @property
    def count(self) -> int: ...
    def rows(self) -> dict[str, int]: ...
    def tables(
        self, sites: Sequence[str], columns: list[str] | None = None, batch_id: int | None = None
    ) -> Iterator[tuple[int, pa.Table]]: ...


class _File(Struct, frozen=True):
    """A file's runs of rows of one site: the site's name, row group, and place in it."""

    path: Path
    batch_id: int
    sites: list[str]
    group: np.ndarray
    start: np.ndarray
    stop: np.ndarray


class BatchFiles:
    """The complete files of ``folder``, and where each site's rows are; none if it is absent.

    Raises:
        UserError: a file that is not of a batch, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = parquet_files(folder) if folder.is_dir() else []
        self._files = sorted(map(_indexed, paths), key=lambda file: file.batch_id)

    @property
    def sites(self) -> set[str]:
        return set[str]().union(*(file.sites for file in self._files))

    @property
    def batches(self) -> list[int]:
        """Ids of the batches that have files, ascending."""
        return sorted({file.batch_id for file in self._files})

    @property
    def count(self) -> int:
        """Number of files."""
        return len(self._files)

    def rows(self) -> dict[str, int]:
        """Rows by site, over all batches."""
        found: dict[str, int] = {}
        for file in self._files:
            for site, rows in zip(file.sites, (file.stop - file.start).tolist(), strict=True):
                found[site] = found.get(site, 0) + rows
        return found

    def tables(
        self, sites: Sequence[str], columns: list[str] | None = None, batch_id: int | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """(batch id, rows) of ``sites``, neighbours by name: by batch, in the order of writing.

        A table has rows of one site or of several, by site; ``columns`` None: all. ``batch_id``:
        of that one alone.
        """
        for file in self._files:
            begin, end = bisect_left(file.sites, sites[0]), bisect_right(file.sites, sites[-1])
            if begin == end or batch_id not in (None, file.batch_id):
                continue
            try:
                with open_parquet(file.path) as opened:
                    groups, first = np.unique(file.group[begin:end], return_index=True)
                    last = np.append(first[1:], end - begin) - 1
                    starts, stops = file.start[begin + first], file.stop[begin + last]
                    for group, start, stop in zip(groups, starts, stops, strict=True):
                        table = opened.read_row_group(int(group), columns=columns)
                        yield file.batch_id, table.slice(int(start), int(stop - start))
            except DAMAGED as error:
                raise UserError(f"{file.path}: damaged file: {error}") from error


def _indexed(path: Path) -> _File:
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise UserError(f"{path}: not a file of results; give the folder that a sink wrote")
    sites: list[str] = []
    groups, starts, stops = ([np.empty(0, np.int64)] for _ in range(3))
    try:
        with open_parquet(path) as file:
            for group in range(file.num_row_groups):
                column = file.read_row_group(group, columns=[SITE]).column(SITE)
                names, ends = runs(column)
                sites += names
                groups.append(np.full(len(names), group))
                starts.append(ends[:-1])
                stops.append(ends[1:])
    except DAMAGED as error:
        raise UserError(f"{path}: damaged file: {error}") from error
    return _File(
        path, int(found[1]), sites, np.concatenate(groups), np.concatenate(starts),
        np.concatenate(stops),
    )  # fmt: skip


def runs(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The texts of a column's runs of equal ones, and where each begins, with the end."""
    if not len(column):
        return [], np.zeros(1, np.int64)
    coded = pc.run_end_encode(column.cast(pa.string()).combine_chunks(), run_end_type=pa.int64())
    ends = coded.run_ends.to_numpy()
    return coded.values.to_pylist(), np.concatenate(([0], ends))
