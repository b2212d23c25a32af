"""Where the parts of a pass are: Parquet files, or, while they are few, this process's memory.

A pass of one process whose results the same process shows needs no files, so they are written
only when they take more memory than they may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.errors import UserError
from engine.results.store.batch_files import SITE, Batches, BatchFiles, replace_batch

HELD_BYTES: Final = 256 << 20
"""What a pass may hold instead of writing it."""
_ROWS_AT_ONCE: Final = 1 << 16
_ROWS_PER_FILE: Final = 256
"""With more files, groups of sites grow: else each would be read again and again for few rows."""


class PartStore:
    """The batches of a pass, by name.

    Args:
        directory: of the files, a folder for each name.
        hold: bytes of tables to keep in memory before any file is written; 0: write at once.
    """

    def __init__(self, directory: str | Path, hold: int = 0) -> None:
        self.directory = Path(directory)
        self.is_lasting = hold == 0
        """Whether the files are there for a later pass, too."""
        self._room = hold
        self._held: dict[str, dict[int, list[list[pa.Table]]]] = {}
        self._followers: dict[str, Callable[[int, Sequence[Sequence[pa.Table]]], None]] = {}

    def follow(self, name: str, take: Callable[[int, Sequence[Sequence[pa.Table]]], None]) -> None:
        """``take`` is given each batch of ``name`` from now on, as ``replace`` is."""
        self._followers[name] = take

    def replace(self, name: str, batch_id: int, parts: Sequence[Sequence[pa.Table]]) -> list[Path]:
        """Makes ``parts`` the whole of a batch, as ``replace_batch``; gives its files, if any.

        Raises:
            UserError: the folder cannot be written.
        """
        if name in self._followers:
            self._followers[name](batch_id, parts)
        if self._room <= 0:
            return replace_batch(self.directory / name, batch_id, parts)
        self._held.setdefault(name, {})[batch_id] = [list(part) for part in parts]
        self._room -= sum(table.nbytes for part in parts for table in part)
        if self._room <= 0:
            for of, batches in self._held.items():
                for number, held in batches.items():
                    replace_batch(self.directory / of, number, held)
            self._held = {}
        return []

    def open(self, name: str) -> Batches:
        """The batches of ``name``; none if nothing was written.

        Raises:
            UserError: no such directory, or a file in it that is not of a batch, or is damaged.
        """
        if self._room <= 0:
            if not self.directory.is_dir():
                raise UserError(f"{self.directory}: no such folder of results")
            return BatchFiles(self.directory / name)
        return _Held(self._held.get(name, {}))


def store_of(given: str | Path | PartStore) -> PartStore:
    """A store itself, or that of a folder of files."""
    return given if isinstance(given, PartStore) else PartStore(given)


class _Held:
    """Batches in memory; each table in them has one site's rows."""

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
            wanted = {name.partition(".")[0] for name in columns or ()}
            yield batch, table.select(sorted(wanted)) if wanted else table


def site_groups(kinds: Sequence[Batches]) -> Iterator[list[str]]:
    """The sites of ``kinds`` by name, some at a time: so many that memory holds their rows.

    A site with more rows than that is alone.
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
