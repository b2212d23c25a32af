"""The arrival log: a folder of Parquet files, one row per frame (DESIGN "Arrival log").

Files are written whole and never changed. Their names and mtimes sort in the order of writing, as
Spark's file source reads files in order of mtime (in ms).
"""

from __future__ import annotations

import fcntl
import os
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import pyarrow as pa
from msgspec import Struct

from slackwater.engine.core.columns import joined_type
from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.log_files import (
    FIRST_ARRIVAL,
    KEPT,
    LAST_ARRIVAL,
    LOCK,
    LOG_SCHEMA,
    PAYLOAD,
    ROWS,
    SITE,
    arrivals_given,
    check_files,
    checked_pieces,
    damaged,
    entries_of,
    facts_in,
    found_instead,
    frame_of,
    is_log_file,
    lock_for_reading,
    log_files,
    pieces,
    read_ahead,
    read_file,
    reading_lock,
)
from slackwater.engine.log.log_folder import (
    MARK,
    RETIRED,
    FileFacts,
    checksum,
    covering,
    file_name,
    numbered,
    retired,
)
from slackwater.engine.log.record.record_rules import attribute_types
from slackwater.engine.log.whole_file import (
    NS_PER_MS,
    write_parquet,
)

__all__ = [
    "FIRST_ARRIVAL", "LAST_ARRIVAL", "LOG_SCHEMA", "PAYLOAD", "ROWS", "SITE", "LogReader",
    "LogWriter", "frames_at", "frames_in", "is_log_file", "streamed_frames",
]  # fmt: skip
ROWS_PER_FILE: Final = 524_288
BYTES_PER_FILE: Final = 256 << 20
FRAMES_PER_FILE: Final = 4_096
"""A file is closed at the first frame that reaches one of these limits. The last two bound the
memory of the writer and of readers, which hold all frames of a file (at least 10 kB each)."""
_LOCK: Final = ".lock"
_OURS: Final = (_LOCK, LOCK, RETIRED)


class _Entry(NamedTuple):
    """A row of ``LOG_SCHEMA``; the frame itself would take ten times the memory if small."""

    site: str
    first: int
    last: int
    rows: int
    payload: bytes


class LogWriter:
    """Appends frames to the log in ``directory``, created if absent; continues it after a crash.

    Frames are in memory until ``rows_per_file`` records (or ``BYTES_PER_FILE``, or
    ``FRAMES_PER_FILE``) are collected or ``flush`` is called; only then are they on disk. A log has
    one writer at a time.

    ``arrival_given`` is False if the arrivals are line numbers of a trace; readers check it, as
    such arrivals carry no information about clocks. ``called``: the name of the folder in messages,
    if it is renamed later; None: ``directory``.

    Raises:
        UserError: the folder cannot be created, has other content, or has a writer already.
    """

    def __init__(
        self, directory: str | Path, rows_per_file: int = ROWS_PER_FILE, called: Path | None = None
    ) -> None:
        assert rows_per_file > 0
        self.directory = Path(directory)
        self._called = called or self.directory
        self.rows_per_file = rows_per_file
        self.arrival_given = True
        self._waiting: list[_Entry] = []
        self._rows = 0
        self._bytes = 0
        self._lock = self._open()
        try:
            self._continue()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> int:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"{self._called}: cannot be written: {error.strerror}") from error
        (self.directory / LOCK).touch()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UserError(
                f"{self.directory}: another process is writing this log; choose another folder"
            ) from error
        return lock

    def _continue(self) -> None:
        """Continue numbers, mtimes and arrival clocks from the existing files."""
        files = log_files(self.directory)
        self._number = retired(self.directory).upto
        self._mtime_ms = 0
        self._arrived: dict[str, int] = {}
        for file in files:
            found = numbered(file)
            self._number = max(self._number, found.last if found else 0)
            self._mtime_ms = max(self._mtime_ms, file.stat().st_mtime_ns // NS_PER_MS)
            index = read_file(file, [SITE, LAST_ARRIVAL])
            for site, last in zip(*(column.to_pylist() for column in index.columns), strict=True):
                self._arrived[site] = max(last, self._arrived.get(site, last))

    @property
    def files(self) -> int:
        """The number of the last file written."""
        return self._number

    def append(self, frame: Frame) -> None:
        """Add ``frame``; the arrival clock of its site must not go backwards.

        Raises:
            ContractViolation: an empty frame, or one that arrived before its site's last.
            OSError: a file that was due could not be written; ``frame`` was not added.
        """
        if frame.rows == 0:
            raise ContractViolation(f"site {frame.site!r}: an empty frame")
        first, last = frame.first_arrival, self._arrived.get(frame.site)
        if last is not None and first < last:
            raise ContractViolation(f"site {frame.site!r}: frame of arrival {first} after {last}")
        payload = Frame(frame.site, frame.batch.replace_schema_metadata(MARK)).to_bytes()
        entry = _Entry(frame.site, first, frame.last_arrival, frame.rows, payload)
        self._arrived[frame.site] = entry.last
        self._waiting.append(entry)
        self._rows += entry.rows
        self._bytes += len(payload)
        large = self._bytes >= BYTES_PER_FILE or len(self._waiting) >= FRAMES_PER_FILE
        if large or self._rows >= self.rows_per_file:
            try:
                self.flush()
            except OSError:
                self._give_back(last)
                raise

    def _give_back(self, arrived: int | None) -> None:
        """Remove the frame appended last, so that its owner can append it again.

        ``arrived``: the last arrival of its site before it.
        """
        entry = self._waiting.pop()
        self._rows -= entry.rows
        self._bytes -= len(entry.payload)
        if arrived is None:
            del self._arrived[entry.site]
        else:
            self._arrived[entry.site] = arrived

    def flush(self) -> Path | None:
        """Write the frames in memory as one file; return its path, or None without frames."""
        if not self._waiting:
            return None
        frames = self._waiting
        facts = FileFacts(self._number + 1, len(frames), self.arrival_given, checksum(frames))
        columns = zip(*frames, strict=True)
        schema = LOG_SCHEMA.with_metadata(facts.as_metadata())
        table = pa.Table.from_arrays(
            [pa.array(values, of.type) for values, of in zip(columns, schema, strict=True)],
            schema=schema,
        )
        path = self.directory / file_name(self._number + 1)
        self._mtime_ms = write_parquet(
            path, [table], schema, plain_columns=(PAYLOAD,), after_ms=self._mtime_ms
        )
        self._number += 1
        self._waiting.clear()
        self._rows = self._bytes = 0
        return path

    def close(self) -> None:
        """Flush and release the lock; the writer is unusable afterwards."""
        self.flush()
        os.close(self._lock)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:  # flushed frames are complete; the others are lost, as after a crash
            os.close(self._lock)


class LogReader:
    """The frames of the log in ``directory``, in order; it can be iterated repeatedly.

    Only complete files are read, not the temporary file of a crashed writer. The list of files is
    that of the time of creation; they are not removed during the life of the reader.
    ``arrival_given`` is False if the arrivals are the line numbers of an imported trace.

    Raises:
        UserError: not an arrival log; the message says what the folder has instead.
    """

    kind: Final = "log"
    bad_count: Final = 0
    counted_lanes: Final = ()

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            what, how = "no such folder", ""
            if self.directory.exists():
                what, how = "is a file, not a folder", ", which slackwater log import makes of it"
            raise UserError(f"{self.directory}: {what}; an arrival log is a folder{how}")
        lock = lock_for_reading(self.directory)
        if lock is not None:
            weakref.finalize(self, os.close, lock)
        self.files = log_files(self.directory)
        if not self.files:
            found = found_instead(self.directory, _OURS)
            raise UserError(f"{self.directory}: not an arrival log: {found}")
        facts = check_files(self.files, retired(self.directory).upto)
        self.arrival_given = arrivals_given(self.files[-1], facts[-1])

    def __iter__(self) -> Iterator[Frame]:
        return self.of_sites(None)

    def rows(self) -> dict[str, int]:
        """Return the number of records by site; reads only the headers of the frames."""
        found: Counter[str] = Counter()
        for file in self.files:
            headers = read_file(file, [SITE, ROWS])
            for site, rows in zip(*(column.to_pylist() for column in headers.columns), strict=True):
                found[site] += rows
        return dict(sorted(found.items()))

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Yield (site, first arrival, last arrival) of each frame, in order, from the headers."""
        for file in self.files:
            headers = read_file(file, [SITE, FIRST_ARRIVAL, LAST_ARRIVAL])
            yield from zip(*(column.to_pylist() for column in headers.columns), strict=True)

    def of_sites(self, sites: Collection[str] | None) -> Iterator[Frame]:
        """Yield the frames of ``sites`` (None: all), in order."""
        arrived: dict[str, tuple[int, Path]] = {}
        types: dict[tuple[str, str], str] = {}
        read = read_ahead(partial(_frames_of, file, sites) for file in self.files)
        for file, of_file in zip(self.files, read, strict=True):
            for row, frame in of_file:
                last, where = arrived.get(frame.site, (frame.first_arrival, file))
                if frame.first_arrival < last:
                    raise UserError(
                        f"{file}: row {row}: site {frame.site!r} goes back to arrival "
                        f"{frame.first_arrival} after {last} of {where.name}; files of two logs?"
                    )
                arrived[frame.site] = (frame.last_arrival, file)
                _join_types(types, file, row, frame)
                yield frame

    def one_by_one(self) -> Iterator[Frame]:
        """Yield the frames, each read on demand, for callers that may stop early."""
        for file in self.files:
            entries = (entry for piece in pieces(file) for entry in entries_of(piece))
            for row, entry in enumerate(entries):
                yield frame_of(file, row, entry)


def frames_in(file: Path) -> list[Frame]:
    """Return the frames of one file of a log, in order.

    Raises:
        UserError: the file is damaged.
    """
    return [frame for _, frame in _frames_of(file, None)]


def streamed_frames(file: Path) -> Iterator[Frame]:
    """Yield the frames of ``frames_in``, a few at a time; damage may be found only at the end.

    Raises:
        UserError: the file is damaged.
    """
    has_facts = facts_in(file) is not None
    entries = (entry for piece in checked_pieces(file) for entry in entries_of(piece))
    for row, entry in enumerate(entries):
        yield frame_of(file, row, entry, has_facts=has_facts)


def frames_at(directory: Path, places: Mapping[str, Sequence[int]]) -> Iterator[list[Frame]]:
    """Yield the frames in rows ``places[name]`` of the log's files, one list per file, in order.

    Raises:
        UserError: a file is damaged.
    """
    with reading_lock(directory):
        found: dict[Path, list[int]] = {}
        for name, rows in places.items():  # files may have been merged since
            path, before = _place_of(directory, name)
            found.setdefault(path, []).extend(before + row for row in rows)
        in_order = sorted(found, key=lambda path: _in_order(path.name))
        jobs = [partial(_frames, path, sorted(found[path])) for path in in_order]
        if all(map(KEPT.has, found)):
            yield from (job() for job in jobs)  # a thread would take longer to start
        else:
            yield from read_ahead(jobs)


def _in_order(name: str) -> tuple[bool, int, str]:
    """Return a sort key for the order of ``log_files``: numbered files first, then others by
    name.
    """
    file = numbered(Path(name))
    return file is None, (0 if file is None else file.first), name


def _place_of(directory: Path, name: str) -> tuple[Path, int]:
    """Return the file that has the rows of file ``name`` of the log, and the rows before them.

    Raises:
        UserError: there is no such file, or it is damaged.
    """
    path, named = directory / name, numbered(Path(name))
    if named is None or path.exists():
        return path, 0
    file = covering(directory, named.first, named.last)
    facts = None if file is None else facts_in(file.path)
    if file is None or facts is None:
        raise damaged(path, FileNotFoundError("it is gone"))
    return file.path, facts.each.rows_before(named.first - file.first)


def _frames_of(file: Path, sites: Collection[str] | None) -> list[tuple[int, Frame]]:
    """Return (row, frame) of each frame of ``sites`` in a file, and verify the file's checksum.

    Reads a few rows at a time, as allocation of fresh memory is slower than the read.
    """
    has_facts = facts_in(file) is not None
    entries = (entry for piece in checked_pieces(file) for entry in entries_of(piece))
    mine = [
        (row, entry) for row, entry in enumerate(entries) if sites is None or entry[SITE] in sites
    ]
    return [(row, frame_of(file, row, entry, has_facts=has_facts)) for row, entry in mine]


def _frames(file: Path, places: Sequence[int]) -> list[Frame]:
    """Return the frames in rows ``places`` of a file."""
    table = KEPT.rows(file, list(places), partial(read_file, columns=LOG_SCHEMA.names))
    entries = zip(places, entries_of(table), strict=True)
    return [frame_of(file, row, entry, has_facts=True) for row, entry in entries]


def _join_types(types: dict[tuple[str, str], str], file: Path, row: int, frame: Frame) -> None:
    """Check that an attribute has one type per site; integers and floats may mix."""
    for name, found in attribute_types(frame.batch).items():
        known = types.get((frame.site, name))
        joined = joined_type(known, found)
        if joined is None:
            raise UserError(
                f"{file}: row {row}: site {frame.site!r}: {name} is {found} here and was {known} "
                "before; give one of them another name"
            )
        types[frame.site, name] = joined


# Reads a growing log file by file, from the file after the last one read.
#
# Files are identified by number: a file may have been merged into a larger one
# (``engine.log.retention``), and a reader may have stopped anywhere in that one.


class Piece(NamedTuple):
    """The rows of a file from ``start``; the last of them are those of the log's file ``last``."""

    path: Path
    start: int
    last: int


def piece_after(log: Path, done: int) -> Piece:
    """Return the next piece after the log's files up to number ``done``; call it as a reader.

    Raises:
        UserError: the file is missing or damaged.
    """
    file = covering(log, done + 1, done + 1)
    if file is None:
        raise UserError(f"{log / file_name(done + 1)}: is missing; restore it")
    if file.first == done + 1:
        return Piece(file.path, 0, file.last)
    facts = facts_in(file.path)
    assert facts is not None
    return Piece(file.path, facts.each.rows_before(done + 1 - file.first), file.last)


def frames_after(log: Path, done: int, number: int) -> Iterator[tuple[list[Frame], int]]:
    """Yield the frames after file ``done`` up to file ``number``, or further if files were merged.

    Each list of frames comes with the number of its last file.

    Raises:
        UserError: a file is missing or damaged.
    """
    while done < number:
        with reading_lock(
            log
        ):  # released while the caller processes the frames, which may take long
            piece = piece_after(log, done)
            frames = frames_in(piece.path)[piece.start :]
        done = piece.last
        yield frames, done


# The input of one run, in memory or, if it is too large, in a log on disk.
#
# A log that is deleted after its run only costs time: frames would be packed, written, read,
# checked and unpacked. Small frames of one site are combined, as sites that take turns give frames
# of a few rows, and a frame costs as much as some hundred rows to write, read and process.


HELD_BYTES: Final = 128 << 20
"""Largest size of an input that stays in memory."""
SMALL: Final = 4096
"""Rows; larger frames are not combined."""
_FRAMES_HELD: Final = 1 << 15
"""Bounds the memory as ``ROWS_PER_FILE`` does: a frame of few rows takes 5 KB."""


class HeldLog(Struct, frozen=True):
    """Frames of one input, in order, with one type per attribute and site; see ``LogReader``."""

    frames: list[Frame]
    arrival_given: bool

    def rows(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for frame in self.frames:
            found[frame.site] += frame.batch.num_rows
        return dict(sorted(found.items()))

    def of_sites(self, sites: Collection[str] | None) -> Iterator[Frame]:
        return (frame for frame in self.frames if sites is None or frame.site in sites)

    def one_by_one(self) -> Iterator[Frame]:
        return iter(self.frames)


Log = LogReader | HeldLog


def opened(log: Path | Log) -> Log:
    """Return the log, opened if it is a folder.

    Raises:
        UserError: the folder is not an arrival log.
    """
    return log if isinstance(log, HeldLog | LogReader) else LogReader(log)


def held_frames(frames: Iterable[Frame]) -> tuple[list[Frame] | None, Iterator[Frame]]:
    """Return the frames as a list, or None if they exceed ``HELD_BYTES``; and an iterator of
    all.
    """
    found: list[Frame] = []
    more = iter(frames)
    room = HELD_BYTES
    for frame in more:
        found.append(frame)
        room -= frame.batch.nbytes
        if room < 0:
            return None, chain(found, more)
    return found, iter(found)


def gathered(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yield the same records in fewer frames; the order within each site stays."""
    waiting: dict[str, list[Frame]] = {}
    rows = parts = 0
    for frame in frames:
        many = frame.batch.num_rows
        if many >= SMALL and frame.site not in waiting:
            yield frame
            continue
        waiting.setdefault(frame.site, []).append(frame)
        rows, parts = rows + many, parts + 1
        if rows >= ROWS_PER_FILE or parts >= _FRAMES_HELD:
            yield from _joined(waiting)
            waiting, rows, parts = {}, 0, 0
    yield from _joined(waiting)


def _joined(waiting: dict[str, list[Frame]]) -> Iterator[Frame]:
    """Yield a frame per site and per run of frames with the same columns."""
    for site, frames in waiting.items():
        for _, alike in groupby(frames, key=attrgetter("batch.schema")):
            batches = [frame.batch for frame in alike]
            if len(batches) == 1:
                yield Frame(site, batches[0])
                continue
            table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
            yield Frame(site, table.to_batches()[0])
