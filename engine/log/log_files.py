"""The files of an arrival log: integrity, locks and rows."""

from __future__ import annotations

import fcntl
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.log_folder import (
    FactsError,
    FileFacts,
    checksum,
    chosen,
    covering,
    earlier_arrival_given,
    facts_of,
    file_name,
    is_marked,
    numbered,
    retired,
)
from slackwater.engine.log.record.record_rules import FrameError, checked
from slackwater.engine.log.whole_file import (
    BUFFER_BYTES,
    DAMAGED,
    TEMPORARY_SUFFIX,
    open_parquet,
    parquet_files,
    parquet_schema,
)

# Read the next item during the work on the current one.


T = TypeVar("T")


def read_ahead(jobs: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the result of each job, in order; one job runs ahead in a thread.

    It pays for jobs that release the interpreter lock, such as reading Parquet. An error of a job
    is raised in place of its result.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        before: Future[T] | None = None
        for following in (pool.submit(job) for job in jobs):
            if before is not None:
                yield before.result()
            before = following
        if before is not None:
            yield before.result()


# Produce the next item while the last one is written.


@contextmanager
def write_behind(write: Callable[[T], object]) -> Iterator[Callable[[T], None]]:
    """Yield a function that passes items to ``write``, in order, in a thread.

    It pays if ``write`` releases the interpreter lock, as writing Parquet does. One item is written
    while the next is produced, so two are in memory. All are written at the end of the block, even
    after an error; an error of ``write`` is raised by the next call or at the end.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="write-behind") as pool:
        last: Future[object] | None = None

        def take(thing: T) -> None:
            nonlocal last
            if last is not None:
                last.result()
            last = pool.submit(write, thing)

        yield take
        if last is not None:
            last.result()


# Readers share a file lock (flock) that excludes the removal of files.
#
# The writer takes the lock exclusively to remove files, and skips the removal while a reader has
# it, so the files that a reader has listed exist until it ends. The kernel releases the lock of a
# process that is killed.


LOCK: Final = ".reading"


def lock_for_reading(directory: Path) -> int | None:
    """Take the shared lock and return its descriptor; closing it releases the lock.

    None: the folder has no lock file, so no writer removes files there.
    """
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # from an earlier version, or a copy: it has no writer
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


@contextmanager
def reading_lock(directory: Path) -> Iterator[None]:
    """Hold the shared lock: no file of the log is removed within the block."""
    descriptor = lock_for_reading(directory)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def removal_lock(directory: Path) -> Iterator[bool]:
    """Take the exclusive lock if no reader has one; yield whether it is held.

    Raises:
        OSError: the lock file cannot be created.
    """
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


# A cache of files of a log. A file has frames of many sites, and a worker processes one site after
# another: without the cache it would read a file with ten thousand sites ten thousand times.


_BYTES: Final = 1 << 28
_Key = tuple[Path, int, int]


class KeptTables:
    """The tables read last.

    Args:
        limit: total size [bytes]; larger tables are not cached.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._tables: OrderedDict[_Key, pa.Table] = OrderedDict()

    def has(self, file: Path) -> bool:
        """Whether ``rows`` finds ``file`` in the cache."""
        return file.exists() and _key(file) in self._tables

    def rows(self, file: Path, places: list[int], read: Callable[[Path], pa.Table]) -> pa.Table:
        """Return the rows ``places`` of ``file``; ``read`` returns all rows."""
        if not file.exists():
            return read(file).take(places)  # it raises the error
        key = _key(file)
        table = self._tables.pop(key, None)
        if table is None:
            table = read(file)
        # A reader of nearly all rows leaves nothing for a second one.
        if 2 * len(places) < table.num_rows and table.nbytes <= self._limit:
            self._tables[key] = table
            while sum(each.nbytes for each in self._tables.values()) > self._limit:
                self._tables.popitem(last=False)
        return table.take(places)


def _key(file: Path) -> _Key:
    facts = file.stat()
    return file, facts.st_mtime_ns, facts.st_size


KEPT: Final = KeptTables()
"""The cache of this process."""


# The files of an arrival log: list, checks and rows.


SITE: Final = "site"
FIRST_ARRIVAL: Final = "first_arrival"
LAST_ARRIVAL: Final = "last_arrival"
ROWS: Final = "rows"
PAYLOAD: Final = "payload"
LOG_SCHEMA: Final = pa.schema(
    {
        SITE: pa.string(),
        FIRST_ARRIVAL: pa.int64(),
        LAST_ARRIVAL: pa.int64(),
        ROWS: pa.int64(),
        PAYLOAD: pa.binary(),
    }
)
_PIECE_BYTES: Final = 1 << 20


def log_files(directory: Path) -> list[Path]:
    """Return the complete files of the log in use, in order (``engine.log.log_folder``).

    Raises:
        UserError: a Parquet file is damaged, not part of an arrival log, or not a file.
    """
    for path in sorted(directory.iterdir()):
        if numbered(path) and not path.is_file():
            what = (
                "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else None
            )
            raise UserError(f"{path}: is {what or 'no file'} in a log's file's place; restore it")
    files = parquet_files(directory)
    named = [each for path in files if (each := numbered(path)) is not None]
    files = [path for path in files if numbered(path) is None]
    files = [each.path for each in chosen(named, retired(directory).upto)] + files
    for file in files:
        try:
            schema = parquet_schema(file)
        except DAMAGED as error:
            raise damaged(file, error) from error
        if any(
            name not in schema.names or schema.field(name).type != LOG_SCHEMA.field(name).type
            for name in LOG_SCHEMA.names
        ):
            raise UserError(
                f"{directory}: not an arrival log: {file.name} has the columns "
                f"{', '.join(schema.names[:8])}; make a log of it with slackwater log import"
            )
    return files


def check_files(files: Sequence[Path], upto: int = 0) -> list[FileFacts | None]:
    """Return the facts of each file; files up to number ``upto`` were retired.

    Raises:
        UserError: a footer is damaged, or a file is missing, a duplicate, or renamed.
    """
    found: list[FileFacts | None] = []
    last = upto
    seen: dict[FileFacts, Path] = {}
    for path in files:
        facts = facts_in(path)
        found.append(facts)
        file = numbered(path)
        if facts is not None:
            if facts in seen:
                raise UserError(
                    f"{path}: is a copy of {seen[facts].name} in the same log; move one away"
                )
            seen[facts] = path
            if file is not None and (facts.number, len(facts.each)) != (
                file.first, file.last - file.first + 1
            ):  # fmt: skip
                raise UserError(f"{path}: was written as file {facts.number} of its log; "
                                "give it its name again")  # fmt: skip
        if file is not None:
            if file.first != last + 1:
                lost = file_name(last + 1)
                raise UserError(
                    f"{path.parent}: file {lost} of the log is missing; restore it, or move the "
                    "files after it away, which cannot be read without it"
                )
            last = file.last
    return found


def facts_in(file: Path) -> FileFacts | None:
    """Return the facts in a file's footer; None for a file of an earlier version.

    Raises:
        UserError: the footer is damaged.
    """
    try:
        with open_parquet(file) as opened:
            about = opened.metadata
            facts = facts_of(opened.schema_arrow.metadata)
    except (FactsError, *DAMAGED) as error:
        raise damaged(file, error) from error
    groups = [about.row_group(n).num_rows for n in range(about.num_row_groups)]
    if sum(groups) != about.num_rows or (facts is not None and facts.frames != about.num_rows):
        raise damaged(file, FactsError("it has not the rows that it was written with"))
    return facts


def file_mark(log: Path, number: int) -> int | None:
    """Return a mark that identifies file ``number`` of a log; None: there is no such file.

    Raises:
        UserError: the file is damaged.
    """
    file = covering(log, number, number)
    if file is None:
        gone = retired(log)
        return {gone.upto: gone.last_mark, 1: gone.first_mark}.get(number) if gone.upto else None
    facts = facts_in(file.path)
    return -1 if facts is None else facts.each.mark(number - file.first)


def arrivals_given(file: Path, facts: FileFacts | None) -> bool:
    """Whether arrivals are instants, according to the log's last file."""
    if facts is not None:
        return facts.arrival_given
    for piece in pieces(file):  # the first frame is enough, as payloads have checksums
        for entry in entries_of(piece.slice(0, 1)):
            frame_of(file, 0, entry, has_facts=False)
        break
    return earlier_arrival_given(parquet_schema(file).metadata)


def checked_pieces(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield ``pieces``, checked against the file's facts, if any.

    Raises:
        UserError: the rows differ from those written; possibly only after the last piece.
    """
    facts = facts_in(file)
    yield from pieces(file) if facts is None else _checked(file, pieces(file), facts)


def _checked(
    file: Path, pieces_: Iterable[pa.RecordBatch], facts: FileFacts
) -> Iterator[pa.RecordBatch]:
    found = 0
    for piece in pieces_:
        if any(column.null_count for column in piece.columns):
            raise damaged(file, FactsError("a row has no site or no payload"))
        found = checksum_with(piece, found)
        yield piece
    if found != facts.checksum:
        raise damaged(file, FactsError("its rows are not as they were written"))


def checksum_with(piece: pa.RecordBatch, before: int) -> int:
    """Return the checksum of the rows of ``piece`` that follow rows with the checksum
    ``before``.
    """
    return checksum((tuple(entry.values()) for entry in entries_of(piece)), before)


def entries_of(rows: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows as dicts in the order of ``LOG_SCHEMA``; payloads are buffers."""
    *columns, payloads = (rows.column(name) for name in LOG_SCHEMA.names)
    payload_buffers = (each.as_buffer() for each in payloads)
    for row in zip(*(column.to_pylist() for column in columns), payload_buffers, strict=True):
        yield dict(zip(LOG_SCHEMA.names, row, strict=True))


def _refuse_marked(frame: Frame) -> None:
    if is_marked(frame.batch.schema):
        raise FactsError("its footer has lost what it said of the file")


def frame_of(file: Path, row: int, entry: dict[str, object], *, has_facts: bool = True) -> Frame:
    """Return the frame of a row; in a file without facts its payload must have no mark.

    Raises:
        UserError: the row is damaged.
    """
    site, payload = entry[SITE], entry[PAYLOAD]
    if not isinstance(site, str) or not isinstance(payload, pa.Buffer):
        raise UserError(f"{file}: damaged file: row {row} has no site or no payload")
    try:
        frame = Frame.from_bytes(site, payload)
        if not has_facts:
            _refuse_marked(frame)
        frame = checked(Frame(site, frame.batch.replace_schema_metadata(None)))
    except (ContractViolation, FactsError, FrameError, *DAMAGED) as error:
        raise damaged(file, error) from error
    said = (entry[ROWS], entry[FIRST_ARRIVAL], entry[LAST_ARRIVAL])
    if frame.rows == 0 or said != (frame.rows, frame.first_arrival, frame.last_arrival):
        raise UserError(f"{file}: damaged file: row {row} does not describe its payload")
    return frame


def is_log_file(schema: pa.Schema) -> bool:
    """Whether a Parquet file with this schema is a file of an arrival log."""
    return set(LOG_SCHEMA.names) <= set(schema.names)


def read_file(file: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a file.

    Raises:
        UserError: the file is damaged.
    """
    try:
        # One column has nearly all bytes, so threads for the others would cost more than they save.
        return open_parquet(file).read(columns, use_threads=False)
    except DAMAGED as error:
        raise damaged(file, error) from error


def pieces(file: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, about ``_PIECE_BYTES`` at a time, in bounded memory."""
    try:
        with open_parquet(file, buffer_size=BUFFER_BYTES) as opened:
            about = opened.metadata
            size = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
            rows = max(1, _PIECE_BYTES * about.num_rows // max(1, size))
            yield from opened.iter_batches(rows, columns=LOG_SCHEMA.names, use_threads=False)
    except DAMAGED as error:
        raise damaged(file, error) from error


def found_instead(directory: Path, ours: Collection[str]) -> str:
    """Return a text about a folder without files of a log; ``ours``: names to ignore."""
    names = sorted(path.name for path in directory.iterdir() if path.name not in ours)
    unfinished = [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
    if not names:
        return "the folder is empty"
    if unfinished == names:
        return (
            f"nothing but unfinished files ({', '.join(unfinished[:3])}); was the writer cut off?"
        )
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"it holds {', '.join(names[:3])}{more}"


def damaged(file: Path, error: Exception) -> UserError:
    """Return the error for a damaged file."""
    said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    rest = "it and all after it" if numbered(file) is not None else "it"
    remedy = f"restore it, or move {rest} away to read the rest"
    return UserError(f"{file}: damaged file: {said}; {remedy}")
