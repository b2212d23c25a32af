"""The store of the parts of a pass: files of batches, or memory."""

from __future__ import annotations

import fcntl
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.whole_file import (
    DAMAGED,
    open_parquet,
    parquet_files,
    sync_folder,
    write_parquet,
)
from slackwater.engine.output.spark_parts import BY_SPARK, SparkParts

# A folder has one writing pass at a time.


_LOCK: Final = ".lock"
_LOOK_S: Final = 0.05
_QUIET_LOOKS: Final = 40


class FolderInUseError(UserError):
    """Another pass uses a folder."""


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Lock ``folder``, created if absent, for this pass within the block; a crash releases it.

    Raises:
        FolderInUseError: another pass uses it.
        UserError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FolderInUseError(
            f"{folder}: another run is at work in this folder; wait for it, or choose another"
        ) from None
    try:
        yield
    finally:
        os.close(lock)


def wait_for_sole_use(
    folder: Path,
    until: ExitStack,
    over_within: Callable[[float], bool],
    tell: Callable[[str], None],
    user: str = "the engine",
) -> bool:
    """Wait for ``sole_use`` of the folder, without a limit.

    Its user may be stopped, wait for a slow disk, or compile; it releases the folder when it ends.

    Args:
        folder: folder of the pass.
        until: the lock is released when it is closed.
        over_within: waits for the given seconds; True: the folder is no longer needed.
        tell: takes a line for the user.
        user: the process of an earlier server that may use the folder.

    Returns:
        whether the lock is held; False: the folder is no longer needed.

    Raises:
        UserError: it cannot be written.
    """
    looks = 0
    while True:
        try:
            until.enter_context(sole_use(folder))
        except FolderInUseError:
            looks += 1
            if looks == _QUIET_LOOKS:
                tell(f"{folder} is in use by {user} of an earlier server: waits for it to end")
            if over_within(_LOOK_S):
                return False
        else:
            return True


# Parquet files of one micro-batch each, so that a batch written again replaces itself.
#
# ``batch-BBBBBBBBBBBB-K.parquet``: batch id and part (0 if one file is enough). Rows are sorted by
# site. A row group has one site, or several small ones, so that ten thousand sites are not ten
# thousand row groups; an export processes groups of sites and reads their row groups.


SITE: Final = "site"
_NAME: Final = re.compile(r"batch-([0-9]{12,})-([0-9]+)\.parquet")
_GROUP_ROWS: Final = 1024
"""Least rows of a row group that small sites share."""


def replace_batch(folder: Path, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> None:
    """Make ``parts`` the whole content of batch ``batch_id`` in ``folder``.

    Args:
        folder: created if absent.
        batch_id: micro-batch, from 0.
        parts: one file each: tables of one schema, each with rows of one site, by name of site.
            A part without tables gives no file.

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
    """Batches of one name for an export; see ``BatchFiles``."""

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
    """A file's runs of rows of one site: name of the site, row group, and place in it."""

    path: Path
    batch_id: int
    sites: list[str]
    group: np.ndarray
    start: np.ndarray
    stop: np.ndarray


class BatchFiles:
    """The complete files of ``folder``, with the places of each site's rows; it may be absent.

    Raises:
        UserError: a file does not belong to a batch, or is damaged.
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
        """Yield (batch id, rows) of ``sites``, neighbours by name: by batch, in order of writing.

        A table has rows of one or more sites, by site; ``columns`` None: all. ``batch_id``: only
        this batch.
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
    """Return the texts of a column's runs, and the start of each run, with the final end."""
    if not len(column):
        return [], np.zeros(1, np.int64)
    coded = pc.run_end_encode(column.cast(pa.string()).combine_chunks(), run_end_type=pa.int64())
    ends = coded.run_ends.to_numpy()
    return coded.values.to_pylist(), np.concatenate(([0], ends))


# The place of a pass's parts: Parquet files or, if they are small, memory.
#
# A pass whose results are shown by the same process needs no files; they are written only if the
# parts exceed a limit of memory.


HELD_BYTES: Final = 256 << 20
"""Limit of parts in memory, before files are written [bytes]."""
_TABLE_BYTES: Final = 1 << 15
"""Size of a table without its rows: some hundred objects [bytes]."""
_ROWS_AT_ONCE: Final = 1 << 16
_ROWS_PER_FILE: Final = 256
"""Least rows per file for a group of sites; otherwise each file is read often for few rows."""


class PartStore:
    """The batches of a pass, by name.

    Args:
        directory: has a folder of files for each name.
        hold: limit of tables in memory before any file is written [bytes]; 0: write at once.
    """

    def __init__(self, directory: str | Path, hold: int = 0) -> None:
        self.directory = Path(directory)
        self.is_lasting = hold == 0
        """Whether the files stay for a later pass."""
        self._room = hold
        self._buffer: dict[str, dict[int, list[list[pa.Table]]]] = {}

    def replace(self, name: str, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> None:
        """Replace a batch by ``parts``, as ``replace_batch`` does.

        Raises:
            UserError: the folder cannot be written.
        """
        if self._room <= 0:
            replace_batch(self.directory / name, batch_id, parts)
            return
        self._buffer.setdefault(name, {})[batch_id] = [list(part) for part in parts]
        self._room -= sum(table.nbytes + _TABLE_BYTES for part in parts for table in part)
        if self._room <= 0:
            for of, batches in self._buffer.items():
                for number, tables in batches.items():
                    replace_batch(self.directory / of, number, tables)
            self._buffer = {}

    def open(self, name: str) -> Batches:
        """Return the batches of ``name``; empty if nothing was written.

        Raises:
            UserError: the directory does not exist, or a file in it is foreign or damaged.
        """
        if self._room <= 0:
            if not self.directory.is_dir():
                raise UserError(f"{self.directory}: no such folder of results")
            if (self.directory / BY_SPARK).is_dir():
                return SparkParts(self.directory).open(name)
            return BatchFiles(self.directory / name)
        return _MemoryBatches(self._buffer.get(name, {}))


def store_of(place: str | Path | PartStore) -> PartStore:
    """Return ``place`` if it is a store, else the store of this folder."""
    return place if isinstance(place, PartStore) else PartStore(place)


class _MemoryBatches:
    """Batches in memory; each table has rows of one site."""

    def __init__(self, batches: dict[int, list[list[pa.Table]]]) -> None:
        self.batches = sorted(batches)
        self.count = sum(map(len, batches.values()))
        self._of_site: dict[str, list[tuple[int, int, pa.Table]]] = {}
        for batch_id in self.batches:
            for number, part in enumerate(batches[batch_id]):
                for table in part:
                    if table.num_rows:
                        site = table.column(SITE)[0].as_py()
                        self._of_site.setdefault(site, []).append((batch_id, number, table))

    @property
    def sites(self) -> set[str]:
        return set(self._of_site)

    def rows(self) -> dict[str, int]:
        return {
            site: sum(table.num_rows for *_, table in found)
            for site, found in self._of_site.items()
        }

    def tables(
        self, sites: Sequence[str], columns: list[str] | None = None, batch_id: int | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        together: dict[tuple[int, int], list[pa.Table]] = {}
        for site in sites:
            for batch, number, table in self._of_site.get(site, ()):
                if batch_id in (None, batch):
                    together.setdefault((batch, number), []).append(table)
        for (batch, _), tables in sorted(together.items(), key=itemgetter(0)):
            table = pa.concat_tables(tables)
            selection = {name.partition(".")[0] for name in columns or ()}
            yield batch, table.select(sorted(selection)) if selection else table


def site_groups(kinds: Sequence[Batches]) -> Iterator[list[str]]:
    """Yield groups of the sites of ``kinds``, by name; the rows of a group fit into memory.

    A site with more rows is a group by itself.
    """
    rows: dict[str, int] = {}
    for files in kinds:
        for site, count in files.rows().items():
            rows[site] = rows.get(site, 0) + count
    limit = max(_ROWS_AT_ONCE, _ROWS_PER_FILE * sum(files.count for files in kinds))
    together: list[str] = []
    room = limit
    for site in sorted(rows):
        if together and rows[site] > room:
            yield together
            together, room = [], limit
        together.append(site)
        room -= rows[site]
    if together:
        yield together
