"""Parquet files of one micro-batch each, so that writing a batch again replaces it.

``batch-BBBBBBBBBBBB-K.parquet``: batch id and part (0 where one file is enough). Each row group
holds rows of one site, so that an export may go site by site without reading the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.whole_file import DAMAGED, parquet_files, sync_folder, write_parquet

SITE: Final = "site"
_NAME: Final = re.compile(r"batch-([0-9]{12,})-([0-9]+)\.parquet")


def replace_batch(folder: Path, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> list[Path]:
    """Makes ``parts`` the whole content of batch ``batch_id`` in ``folder``; gives its files.

    Args:
        folder: made if absent.
        batch_id: micro-batch, from 0.
        parts: one file each: tables of one schema, every one with rows of a single site. A part
            without tables is no file.

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
                write_parquet(path, tables, tables[0].schema)
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


class BatchFiles:
    """The complete files of ``folder``, and where each site's rows are; none if it is absent.

    Raises:
        UserError: a file that is not of a batch, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, dict[int, list[tuple[Path, int]]]] = {}
        for path in parquet_files(folder) if folder.is_dir() else []:
            self._index(path)

    def _index(self, path: Path) -> None:
        found = _NAME.fullmatch(path.name)
        if found is None:
            raise UserError(f"{path}: not a file of results; give the folder that a sink wrote")
        batch_id = int(found[1])
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    site = file.read_row_group(group, columns=[SITE]).column(SITE)[0].as_py()
                    batches = self._places.setdefault(site, {})
                    batches.setdefault(batch_id, []).append((path, group))
        except DAMAGED as error:
            raise UserError(f"{path}: damaged file: {error}") from error

    @property
    def sites(self) -> set[str]:
        return set(self._places)

    def batches(self, site: str) -> list[int]:
        """Batches with rows of ``site``, ascending."""
        return sorted(self._places.get(site, {}))

    def tables(
        self, site: str, batch_id: int, columns: list[str] | None = None
    ) -> Iterator[pa.Table]:
        """The rows of ``site`` in one batch, in the order of writing; ``columns`` None: all."""
        for path, group in self._places.get(site, {}).get(batch_id, []):
            try:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    yield file.read_row_group(group, columns=columns)
            except DAMAGED as error:
                raise UserError(f"{path}: damaged file: {error}") from error
