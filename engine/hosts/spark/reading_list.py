"""The input of a run on Spark: a list of the log's frames, one file for each micro-batch."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.arrival_log import ROWS, SITE, LogReader, Piece
from slackwater.engine.log.log_files import facts_in, read_file
from slackwater.engine.log.log_folder import is_merged, numbered
from slackwater.engine.log.whole_file import DAMAGED, NS_PER_MS, parquet_files, write_parquet

# The reading list of a run without end: pages follow the log's files, and are removed when done.
#
# Unlike ``ReadingList``, it keeps no state of finished pages: the run saves its progress, and Spark
# removes pages, so that the folder stays small for weeks.


_NAME: Final = re.compile(r"page-([0-9]{12,})\.parquet")
_DONE: Final = b"slackwater.done"
BYTES_PER_PAGE: Final = 64 << 20
FILES_PER_PAGE: Final = 1000
"""Files of the log on one page; a micro-batch reads one page."""


class LiveList:
    """The pages in ``folder``, created if absent. Micro-batch and page have the same number.

    Args:
        folder: folder of this run only.
        first: number of the next page if the folder has none.
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
        """By page, the number of the log's last file on it or on an earlier one."""
        self.sites: set[str] = set()
        """Sites seen so far, including those known from before a restart."""
        for path in parquet_files(folder):
            found = _NAME.fullmatch(path.name)
            if found is not None and int(found[1]) >= first:
                schema = pq.read_schema(path)
                self.next, self.listed = int(found[1]) + 1, int(schema.metadata[_DONE])
                self.done_of[self.next - 1] = self.listed
                self._after_ms = path.stat().st_mtime_ns // NS_PER_MS

    def add(self, pieces: Sequence[Piece], done: int, *, ends: bool = False) -> None:
        """Write a page with ``pieces`` of the log, up to file ``done``.

        Args:
            pieces: in order.
            done: number of the log's last file so far.
            ends: the input of each site ends after them.

        Raises:
            OSError: the page cannot be written.
        """
        page = rows_of(pieces, self.sites, self.next, last=ends)
        schema = page.schema.with_metadata({_DONE: str(done).encode()})
        path = self._folder / f"page-{self.next:012d}.parquet"
        self.done_of[self.next] = done  # set before Spark can read the page
        page = page.replace_schema_metadata(schema.metadata)
        self._after_ms = write_parquet(path, [page], schema, after_ms=self._after_ms)
        self.next, self.listed = self.next + 1, done


# Spark's file source reads the list, each file exactly once, and workers read the frames it names.
# So the run determines what it reads, in which order, and when the input ends: other files in the
# log's folder, file times, and files added during the run have no effect. A later run continues
# with the files added since.


LIST_COLUMNS: Final = "site string, batch long, file string, place long, rows long"
_SCHEMA: Final = pa.schema(
    {
        SITE: pa.string(),
        "batch": pa.int64(),
        "file": pa.string(),
        "place": pa.int64(),
        ROWS: pa.int64(),
    }
)
_FILES: Final = b"slackwater.files"
_ENDS: Final = b"slackwater.ends"
_YES: Final = b"yes"
_FOOTER: Final = 1 << 16
_BESIDE: Final = " in "


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The number of records, sites and micro-batches on the list."""

    rows: int
    sites: int
    batches: int


class ReadingList:
    """The list in ``folder``, created if absent.

    A row says that the frame in row ``place`` of the log's ``file`` is due, with ``rows`` records;
    a row with 0 records ends the input of ``site``.

    Args:
        folder: folder of this run; existing content is kept.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def extend(self, log: LogReader, files_per_batch: int, done: int = 0) -> LogFacts:
        """Add the files of ``log`` that are not on the list, and then the end of every site.

        Args:
            log: a reader; files added later are left to a later run.
            files_per_batch: most files of the log per micro-batch.
            done: number of finished micro-batches; files of later ones may have been restored
                since.

        Raises:
            UserError: a file on the list is missing or has changed, or a new one precedes those on
                it.
        """
        pages = [_page(path) for path in parquet_files(self._folder)]
        there = {path.name: path for path in log.files}
        marks_now = _Marks(log.files)
        sites: set[str] = set()
        restored = False
        for number, page in enumerate(pages):
            marks = _marks(page)
            if number >= done and marks.keys() <= there.keys() and not any(map(is_merged, marks)):
                # Spark reads files in order of time: after a new one all must be new.
                restored = restored or marks_now.differ(marks)
                if restored:
                    ends = page.schema.metadata[_ENDS] == _YES
                    pages[number] = page_of(
                        [Piece(there[name], 0, 0) for name in marks], sites, number, last=ends
                    )
                    self._write(number, pages[number])
            sites.update(_sites(pages[number]))
        listed = {name: mark for page in pages for name, mark in _marks(page).items()}
        self._check(log, listed, marks_now)
        new = _unread(log.files, listed)
        if new or not pages or pages[-1].schema.metadata[_ENDS] != _YES:
            for files in _chunks(new, files_per_batch):
                last = not files or files[-1] is new[-1]
                pages.append(page_of(files, sites, len(pages), last=last))
                self._write(len(pages) - 1, pages[-1])
        rows = sum(pc.sum(page[ROWS]).as_py() for page in pages)
        return LogFacts(rows, len(sites), len(pages))

    def _write(self, number: int, page: pa.Table) -> None:
        before = self._path(number - 1)
        after_ms = before.stat().st_mtime_ns // NS_PER_MS if number else 0
        write_parquet(self._path(number), [page], page.schema, after_ms=after_ms)

    def _path(self, number: int) -> Path:
        return self._folder / f"batch-{number:012d}.parquet"

    def _check(self, log: LogReader, listed: dict[str, str], now: _Marks) -> None:
        """Check that the log begins with the files on the list."""
        there = {path.name for path in log.files}
        for name, mark in listed.items():
            if now.differ({name: mark}):
                what = "has changed since" if name in there else "is gone, but"
                raise UserError(
                    f"{log.directory / name}: {what} this run has read it: restore it, or start "
                    "the run from scratch in another folder"
                )
        early = [name for name in sorted(there)[: len(listed)] if name not in listed]
        if early and not all(map(numbered, log.files)):
            raise UserError(
                f"{log.directory / early[0]}: is new, but comes before files that this run has "
                "read: start the run from scratch in another folder"
            )


def _unread(files: Sequence[Path], listed: Collection[str]) -> list[Piece]:
    """Return the files of the log that are not on the list; numbered files go by number."""
    ours = [numbered(path) for path in files]
    if None in ours:
        return [Piece(path, 0, 0) for path in files[len(listed) :]]
    read = [file.last for name in listed if (file := numbered(Path(name))) is not None]
    done = max(read, default=0)
    pieces = []
    for file in ours:
        if file is not None and file.last > done:
            facts = facts_in(file.path) if file.first <= done else None
            start = facts.each.rows_before(done + 1 - file.first) if facts is not None else 0
            pieces.append(Piece(file.path, start, file.last))
    return pieces


def _chunks(files: Sequence[Piece], size: int) -> Iterator[list[Piece]]:
    """Yield the files, ``size`` at a time; one empty chunk, for the end, if there are none."""
    left = iter(files)
    chunk = list(islice(left, size))
    yield chunk
    while chunk := list(islice(left, size)):
        yield chunk


def page_of(pieces: Iterable[Piece], sites: set[str], batch: int, *, last: bool) -> pa.Table:
    """Return ``rows_of`` with marks that identify the log's files later."""
    files = list(pieces)
    marks = {file.path.name: _mark(file.path) for file in files}
    metadata = {_FILES: json.dumps(marks).encode(), _ENDS: _YES if last else b"no"}
    return rows_of(files, sites, batch, last=last).replace_schema_metadata(metadata)


def rows_of(pieces: Iterable[Piece], sites: set[str], batch: int, *, last: bool) -> pa.Table:
    """Return the rows of a file of the list; adds the sites of ``pieces`` to ``sites``.

    Args:
        pieces: pieces of the log.
        sites: sites seen before.
        batch: number of the micro-batch.
        last: the input of every site ends after them.
    """
    tables = [_SCHEMA.empty_table()]
    for file, start, _ in pieces:
        headers = read_file(file, [SITE, ROWS]).slice(start)
        places = pa.array(np.arange(start, start + headers.num_rows))
        names = pa.repeat(pa.scalar(file.name, pa.string()), headers.num_rows)
        batches = pa.repeat(batch, headers.num_rows)
        columns = [headers[SITE], batches, names, places, headers[ROWS]]
        tables.append(pa.Table.from_arrays(columns, schema=_SCHEMA))
        sites.update(_sites(headers))
    if last:
        zeros = pa.array(np.zeros(len(sites), np.int64))
        names = pa.repeat(pa.scalar("", pa.string()), len(sites))
        batches = pa.repeat(batch, len(sites))
        ends = [pa.array(sorted(sites), pa.string()), batches, names, zeros, zeros]
        tables.append(pa.Table.from_arrays(ends, schema=_SCHEMA))
    return pa.concat_tables(tables)


def _page(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except DAMAGED as error:
        raise UserError(
            f"{path}: damaged file: {error}; start the run from scratch elsewhere"
        ) from error


def _sites(table: pa.Table) -> list[str]:
    return list(table.column(SITE).unique().to_pylist())


def _marks(page: pa.Table) -> dict[str, str]:
    """Return the marks of the files on a page, by name."""
    return dict(json.loads(page.schema.metadata[_FILES]))


class _Marks:
    """The current marks of the files of a log, by the names that they had when they were read."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._named = {path.name: path for path in files}
        self._ours = [file for path in files if (file := numbered(path)) is not None]
        self._firsts = [file.first for file in self._ours]

    def differ(self, marks: Mapping[str, str]) -> bool:
        """Whether one of these files is missing or has changed."""
        return any(self._differs(name, mark) for name, mark in marks.items())

    def _differs(self, name: str, mark: str) -> bool:
        if name in self._named:
            return _mark(self._named[name]) != mark
        return self._within(name) != mark.partition(_BESIDE)[0]

    def _within(self, name: str) -> str | None:
        """Return the mark of the rows of that file within a merged one; None: not found."""
        old_file = numbered(Path(name))
        at = bisect_right(self._firsts, old_file.first) - 1 if old_file is not None else -1
        if old_file is None or at < 0 or self._ours[at].last < old_file.last:
            return None
        file = self._ours[at]
        facts = facts_in(file.path)
        if facts is None:
            return None
        return _parts_mark(
            facts.each.pairs[old_file.first - file.first :][: old_file.last - old_file.first + 1]
        )


def _mark(path: Path) -> str:
    """Return a mark that identifies a file of the log: facts about its rows, size, and a digest of
    its end, which has the Parquet footer.
    """
    facts = facts_in(path)
    rows = "" if facts is None else _parts_mark(facts.each.pairs)
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _FOOTER))
        return f"{rows}{_BESIDE}{size} {blake2b(stream.read(), digest_size=16).hexdigest()}"


def _parts_mark(pairs: np.ndarray) -> str:
    """Return a mark from numbers of rows and checksums of files."""
    return f"{pairs[:, 0].sum()} {blake2b(pairs.tobytes(), digest_size=16).hexdigest()}"
