"""The reading list of a run without end: pages come with the log's files, and go when done.

As ``engine.spark.reading_list``, but nothing is kept of what is done: the run keeps how far it is,
and Spark removes pages, so that a run of weeks has a folder of few files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from engine.log.following import Piece
from engine.log.whole_file import NS_PER_MS, parquet_files, write_parquet
from engine.spark.reading_list import rows_of

_NAME: Final = re.compile(r"page-([0-9]{12,})\.parquet")
_DONE: Final = b"slackwater.done"
BYTES_PER_PAGE: Final = 64 << 20
FILES_PER_PAGE: Final = 1000
"""Of the log; a micro-batch reads a page."""


class LiveList:
    """The pages in ``folder``, made if absent. Micro-batch and page have the same number.

    Args:
        folder: of this run alone.
        first: number of the next page, if there is none in the folder.
        done: number of the log's last file before that page.
    """

    def __init__(self, folder: Path, first: int, done: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._after_ms = 0
        self.next = first
        self.listed = done
        """Number of the log's last file on a page."""
        self.done_of: dict[int, int] = {}
        """By a page, the number of the log's last file up to its end."""
        self.sites: set[str] = set()
        """Seen so far, in this life and, as far as was said, before."""
        for path in parquet_files(folder):
            found = _NAME.fullmatch(path.name)
            if found is not None and int(found[1]) >= first:
                schema = pq.read_schema(path)
                self.next, self.listed = int(found[1]) + 1, int(schema.metadata[_DONE])
                self.done_of[self.next - 1] = self.listed
                self._after_ms = path.stat().st_mtime_ns // NS_PER_MS

    def add(self, pieces: Sequence[Piece], done: int, *, ends: bool = False) -> None:
        """A page of ``pieces`` of the log, which go to file ``done``.

        Args:
            pieces: in order.
            done: number of the last one of the log so far.
            ends: behind them, the end of each site's input.

        Raises:
            OSError: it cannot be written.
        """
        page = rows_of(pieces, self.sites, last=ends)
        schema = page.schema.with_metadata({_DONE: str(done).encode()})
        path = self._folder / f"page-{self.next:012d}.parquet"
        self.done_of[self.next] = done  # before Spark can have read the page
        page = page.replace_schema_metadata(schema.metadata)
        self._after_ms = write_parquet(path, [page], schema, after_ms=self._after_ms)
        self.next, self.listed = self.next + 1, done
