"""Files of a log as it grows: small ones merged, the oldest given up by age and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.files.folder import (
    FileFacts,
    LogFile,
    Parts,
    Retired,
    chosen,
    keep,
    merged_name,
    numbered,
    numbered_files,
    retired,
)
from engine.log.files.log_files import (
    LAST_ARRIVAL,
    LOG_SCHEMA,
    PAYLOAD,
    checked_pieces,
    checksum_with,
    damaged,
    facts_in,
    file_mark,
    pieces,
    read_file,
    removing,
)
from engine.log.whole_file import DAMAGED, parquet_files, sync_folder, temporary, write_parquet

# The oldest files of a log are given up, by age and by size.
#
# First what must be known of them is kept (``engine.log.files.folder``), then they are removed: a
# crash between the two leaves files that no longer count. Whole files alone go, and the newest
# stays.


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a log may keep; 0: all. ``unread``: also what an engine has not read goes then."""

    age_ns: int = 0
    bytes: int = 0
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Beyond:
    """Files that are beyond the limits, oldest first: ``files`` may go, ``kept`` must wait."""

    files: list[LogFile]
    kept: list[LogFile]


def beyond(log: Path, limits: Limits, now_ns: int, read: int | None) -> Beyond:
    """Which files are beyond the limits at arrival ``now_ns``.

    Args:
        log: the folder.
        limits: what it may keep.
        now_ns: of the arrival clock.
        read: an engine and its restart need no file up to this number; None: none needs any.

    Raises:
        UserError: a damaged file.
    """
    files = numbered_files(log)
    size = sum(file.path.stat().st_size for file in files)
    found: list[LogFile] = []
    for file in files[:-1]:
        if not (
            (limits.bytes and size > limits.bytes)
            or (limits.age_ns and _last_arrival(file) < now_ns - limits.age_ns)
        ):
            break
        found.append(file)
        size -= file.path.stat().st_size
    free = [file for file in found if limits.unread or read is None or file.last <= read]
    return Beyond(free, found[len(free) :])


def retire(
    log: Path, files: Sequence[LogFile], known: Mapping[str, Any], read: int | None
) -> Retired | None:
    """Removes ``files``, the oldest of the log; gives what is kept of all that were.

    Args:
        log: the folder.
        files: what ``beyond`` said may go.
        known: of all files that were retired, with these.
        read: as in ``beyond``.

    Returns:
        None: somebody reads, nothing was done.

    Raises:
        OSError: what is kept cannot be written, or a file not removed.
        UserError: a damaged file.
    """
    before, last = retired(log), files[-1].last
    first_mark = before.first_mark if before.upto else file_mark(log, 1)
    unread = 0 if read is None else max(0, last - max(read, before.upto))
    state = Retired(
        last,
        first_mark,
        file_mark(log, last),
        known,
        before.bytes + sum(file.path.stat().st_size for file in files),
        before.unread + unread,
    )
    with removing(log) as alone:
        if not alone:
            return None
        keep(log, state)
        for file in files:
            file.path.unlink(missing_ok=True)
        sync_folder(log)
    return state


def _last_arrival(file: LogFile) -> int:
    """Of the newest record in a file."""
    found: int = pc.max(read_file(file.path, [LAST_ARRIVAL]).column(LAST_ARRIVAL)).as_py()
    return found


# Small files of a log become large ones, while it is written and read.
#
# A merged file holds the rows of consecutive files unchanged, and how many rows each had: every
# file number still names the same frames, and a reader that stopped at one continues there. It gets
# its name once it is complete and on disk; the files that it replaces are removed later, when no
# reader uses them (``engine.log.files.log_files``). A crash loses only work, never rows.
#
# Files are merged ``FAN`` at a time, and the merged ones again, until they are full: each event is
# written three times at most, and there are never more than ``3 * FAN`` files that are not full.


FAN: Final = 32
FULL_BYTES: Final = 64 << 20
"""In memory; on disk they are a few times less."""
FULL_FILES: Final = FAN**3
_GROUP_BYTES: Final = 4 << 20
"""Of a merged file's row groups, each of which is in memory as a whole when it is written."""


def due(log: Path, sizes: dict[Path, int] | None = None) -> list[LogFile]:
    """Consecutive files that are to be merged next; none: there are no such.

    Args:
        log: the folder.
        sizes: what was found of its files, for who asks again and again; it is kept up.

    Raises:
        UserError: a file is damaged.
    """
    files = numbered_files(log)
    known = {} if sizes is None else sizes
    for gone in known.keys() - {file.path for file in files}:
        del known[gone]
    window: list[LogFile] = []
    size = 0
    for file in files:
        if file.path not in known:
            known[file.path] = _bytes_of(file.path)
        bytes_ = known[file.path]
        if bytes_ >= FULL_BYTES or _count(file) >= FULL_FILES:
            window, size = [], 0
            continue
        if window and _level(file) != _level(window[-1]):
            window, size = [], 0
        window.append(file)
        size += bytes_
        if len(window) == FAN or (size >= FULL_BYTES and len(window) > 1):
            return window
    return []


def merge(files: Sequence[LogFile]) -> Path | None:
    """One file for ``files``, which are consecutive and stay; None: they are of an old version.

    Raises:
        UserError: one is damaged.
        OSError: it cannot be written.
    """
    facts = [facts_in(file.path) for file in files]
    known = [each for each in facts if each is not None]
    if len(known) < len(files) or len({each.arrival_given for each in known}) > 1:
        return None
    rows = found = 0
    for file in files:  # first whether all is as it was written, and what the footer is to say
        for piece in checked_pieces(file.path):
            rows += piece.num_rows
            found = checksum_with(piece, found)
    pairs = np.concatenate([each.each.pairs for each in known])
    said = FileFacts(files[0].first, rows, known[0].arrival_given, found, Parts(pairs).text)
    schema = LOG_SCHEMA.with_metadata(said.as_metadata())
    path = files[0].path.with_name(merged_name(files[0].first, files[-1].last))
    try:
        write_parquet(path, _row_groups(files, schema), schema, plain_columns=(PAYLOAD,))
    except (UserError, OSError):
        temporary(path).unlink(missing_ok=True)  # the disk may be full
        raise
    return path


def _row_groups(files: Sequence[LogFile], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of ``files``, of which no more than ``_GROUP_BYTES`` or so are in memory."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for file in files:
        for piece in pieces(file.path):
            size += piece.nbytes
            waiting.append(piece.cast(schema))
            if size >= _GROUP_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def swept(log: Path) -> bool:
    """Removes files for which merged ones stand, and what was retired; False: somebody reads.

    Raises:
        UserError: what is known of retired files is damaged.
        OSError: one cannot be removed.
    """
    found = [file for path in parquet_files(log) if (file := numbered(path)) is not None]
    counts = set(chosen(found, retired(log).upto))
    rest = [file.path for file in found if file not in counts]
    if not rest:
        return True
    with removing(log) as alone:
        if alone:
            for path in rest:
                path.unlink(missing_ok=True)
            sync_folder(log)
    return alone


def clear(log: Path) -> None:
    """Removes what a merge that was cut off has left; call it before the first one.

    Raises:
        OSError: it cannot be removed.
    """
    for path in log.glob(temporary(log / "merged-*").name):
        path.unlink(missing_ok=True)


def _bytes_of(path: Path) -> int:
    """Of the rows of a file, which never changes, in memory."""
    try:
        about = pq.read_metadata(path)
    except DAMAGED as error:
        raise damaged(path, error) from error
    return sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))


def _count(file: LogFile) -> int:
    return file.last - file.first + 1


def _level(file: LogFile) -> int:
    """How often its rows were merged, about."""
    return 0 if _count(file) == 1 else 1 if _count(file) <= FAN else 2
