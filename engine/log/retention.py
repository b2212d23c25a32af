"""Files of a log as it grows: small ones merged, the oldest given up by age and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from slackwater.edge_agent import records as r
from slackwater.edge_agent.errors import did_you_mean
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame, column_ints
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.log_files import (
    LAST_ARRIVAL,
    LOG_SCHEMA,
    PAYLOAD,
    checked_pieces,
    checksum_with,
    damaged,
    facts_in,
    file_mark,
    log_files,
    pieces,
    read_file,
    removal_lock,
)
from slackwater.engine.log.log_folder import (
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
from slackwater.engine.log.whole_file import (
    DAMAGED,
    open_parquet,
    parquet_files,
    sync_folder,
    temporary,
    whole_folder,
    write_parquet,
)

# The newest start of a source is taken out of a log: its gateway then knows nothing of it.
#
# A start with a very large incarnation keeps every later one out, and what it sent is in the way of
# their events in every order. So its records go; those of earlier starts, and of others, stay.


_FORMER: Final = ".before-forget"
_SOURCES: Final = "sources"


@dataclass(frozen=True, slots=True)
class ForgottenStart:
    """``records`` of start ``incarnation`` were left out; ``former``: the log as it was."""

    incarnation: int
    records: int
    former: Path


def forget(log: Path, site: str, source: str) -> ForgottenStart:
    """Rewrites ``log`` without the records of the newest start of ``source``.

    Raises:
        UserError: no log, one that is being written, no such source, or no place for the former.
        OSError: the disk does not do what it should; the log is as it was.
    """
    former = log.with_name(f"{log.name}{_FORMER}")
    if former.exists():
        raise UserError(f"{former}: a former log is still there; remove it, or move it away")
    if not log.is_dir() or not (log_files(log) or retired(log).upto):
        raise UserError(f"{log}: is no arrival log, or has nothing in it")
    with LogWriter(log), whole_folder(log) as made:  # no server may write meanwhile
        newest = _newest(log, site, source)
        records = _copied(log, made, (site, source), newest)
        log.rename(former)
        made.rename(log)
        sync_folder(log.parent)
    return ForgottenStart(newest, records, former)


def _newest(log: Path, site: str, source: str) -> int:
    """The largest incarnation of the source."""
    known: dict[tuple[str, str], int] = {
        (of_site, name): incarnation
        for of_site, name, incarnation, _ in retired(log).known.get(_SOURCES, ())
    }
    for frame in _frames(log):
        for name, incarnation in _starts(frame):
            key = (frame.site, name)
            known[key] = max(incarnation, known.get(key, 0))
    if (site, source) not in known:
        names = sorted("/".join(key) for key in known)
        hint = did_you_mean(f"{site}/{source}", names)
        raise UserError(
            f"{log}: has no source {site}/{source}{hint}; slackwater log show lists them"
        )
    return known[site, source]


def _copied(log: Path, made: Path, key: tuple[str, str], incarnation: int) -> int:
    """Writes the log but for those records; gives how many they are."""
    before, left_out = retired(log), 0
    made.mkdir()
    if before.upto:
        keep(made, structs.replace(before, known=_without(before.known, key, incarnation)))
    reader = LogReader(log) if log_files(log) else None
    with LogWriter(made, called=log) as writer:
        for frame in reader.one_by_one() if reader is not None else ():
            writer.arrival_given = reader.arrival_given if reader is not None else True
            kept = frame if frame.site != key[0] else _others(frame, key[1], incarnation)
            left_out += frame.rows - kept.rows
            if kept.rows:
                writer.append(kept)
    return left_out


def _frames(log: Path) -> Iterator[Frame]:
    if log_files(log):
        yield from LogReader(log).one_by_one()


def _starts(frame: Frame) -> set[tuple[str, int]]:
    """Names and incarnations of the frame's sources."""
    pairs = pa.table({"source": _sources(frame), "incarnation": _incarnations(frame)})
    found = pairs.group_by(["source", "incarnation"]).aggregate([]).to_pylist()
    return {(row["source"], row["incarnation"]) for row in found if row["source"] is not None}


def _others(frame: Frame, source: str, incarnation: int) -> Frame:
    """The records that are not of that start."""
    mine = pc.fill_null(pc.equal(_sources(frame), source), fill_value=False)
    theirs = ~np.asarray(pc.and_(mine, pc.equal(_incarnations(frame), incarnation)))
    return frame if theirs.all() else Frame(frame.site, frame.batch.filter(pa.array(theirs)))


def _sources(frame: Frame) -> pa.Array:
    column = frame.batch.column(r.SOURCE)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _incarnations(frame: Frame) -> pa.Array:
    return pa.array(column_ints(frame.batch, r.INCARNATION, 0))


def _without(known: Mapping[str, Any], key: tuple[str, str], incarnation: int) -> dict[str, Any]:
    """What is known of retired files, but for that start."""
    sources = [each for each in known.get(_SOURCES, ()) if tuple(each[:3]) != (*key, incarnation)]
    return {**known, _SOURCES: sources}


# The oldest files of a log are given up, by age and by size.
#
# First what must be known of them is kept (``engine.log.log_folder``), then they are removed: a
# crash between the two leaves files that no longer count. Whole files alone go, and the newest
# stays.


def unrepeated(tell: Callable[[str], None]) -> Callable[[str], None]:
    """``tell`` for work that is done again and again: the last line is not repeated."""
    last = ""

    def say(line: str) -> None:
        nonlocal last
        if line != last:
            last = line
            tell(line)

    return say


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
    with removal_lock(log) as alone:
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
# reader uses them (``engine.log.log_files``). A crash loses only work, never rows.
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
    with removal_lock(log) as alone:
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
        with open_parquet(path) as opened:
            about = opened.metadata
    except DAMAGED as error:
        raise damaged(path, error) from error
    return sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))


def _count(file: LogFile) -> int:
    return file.last - file.first + 1


def _level(file: LogFile) -> int:
    """How often its rows were merged, about."""
    return 0 if _count(file) == 1 else 1 if _count(file) <= FAN else 2
