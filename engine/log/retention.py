"""Maintenance of a growing log: merges small files, and removes the oldest by age and size."""

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

# Removal of the newest start of a source from a log, so that the gateway forgets it.
#
# A start with a very large incarnation blocks all later ones, and its events disturb every order.
# So its records are removed; those of earlier starts and of other sources stay.


_FORMER: Final = ".before-forget"
_SOURCES: Final = "sources"


@dataclass(frozen=True, slots=True)
class ForgottenStart:
    """``records`` of start ``incarnation`` were removed; ``former``: the unchanged old log."""

    incarnation: int
    records: int
    former: Path


def forget(log: Path, site: str, source: str) -> ForgottenStart:
    """Rewrite ``log`` without the records of the newest start of ``source``.

    Raises:
        UserError: no log, a log with a writer, an unknown source, or an old backup is in the way.
        OSError: a disk error; the log is unchanged.
    """
    former = log.with_name(f"{log.name}{_FORMER}")
    if former.exists():
        raise UserError(f"{former}: a former log is still there; remove it, or move it away")
    if not log.is_dir() or not (log_files(log) or retired(log).upto):
        raise UserError(f"{log}: is no arrival log, or has nothing in it")
    with LogWriter(log), whole_folder(log) as made:  # locks out a server
        newest = _newest(log, site, source)
        records = _copied(log, made, (site, source), newest)
        log.rename(former)
        made.rename(log)
        sync_folder(log.parent)
    return ForgottenStart(newest, records, former)


def _newest(log: Path, site: str, source: str) -> int:
    """Return the largest incarnation of the source."""
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
    """Write the log without these records; return their number."""
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
    """Return names and incarnations of the frame's sources."""
    pairs = pa.table({"source": _sources(frame), "incarnation": _incarnations(frame)})
    found = pairs.group_by(["source", "incarnation"]).aggregate([]).to_pylist()
    return {(row["source"], row["incarnation"]) for row in found if row["source"] is not None}


def _others(frame: Frame, source: str, incarnation: int) -> Frame:
    """Return the frame without the records of that start."""
    mine = pc.fill_null(pc.equal(_sources(frame), source), fill_value=False)
    theirs = ~np.asarray(pc.and_(mine, pc.equal(_incarnations(frame), incarnation)))
    return frame if theirs.all() else Frame(frame.site, frame.batch.filter(pa.array(theirs)))


def _sources(frame: Frame) -> pa.Array:
    column = frame.batch.column(r.SOURCE)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _incarnations(frame: Frame) -> pa.Array:
    return pa.array(column_ints(frame.batch, r.INCARNATION, 0))


def _without(known: Mapping[str, Any], key: tuple[str, str], incarnation: int) -> dict[str, Any]:
    """Return the state of retired files without that start."""
    sources = [each for each in known.get(_SOURCES, ()) if tuple(each[:3]) != (*key, incarnation)]
    return {**known, _SOURCES: sources}


# Removal of the oldest files of a log, by age and size.
#
# The state to keep is written first (``engine.log.log_folder``), then the files are removed: a
# crash in between leaves files that are ignored. Only whole files are removed, and never the
# newest.


def unrepeated(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``tell`` without consecutive repetitions of a line, for repeated work."""
    last = ""

    def say(line: str) -> None:
        nonlocal last
        if line != last:
            last = line
            tell(line)

    return say


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a log; 0: none. ``unread``: files that an engine has not read may be removed."""

    age_ns: int = 0
    bytes: int = 0
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Beyond:
    """Files beyond the limits, oldest first: ``files`` may be removed, ``kept`` must wait."""

    files: list[LogFile]
    kept: list[LogFile]


def beyond(log: Path, limits: Limits, now_ns: int, read: int | None) -> Beyond:
    """Return the files beyond the limits at arrival ``now_ns``.

    Args:
        log: the folder.
        limits: the limits.
        now_ns: time on the arrival clock.
        read: an engine and its restart need no file up to this number; None: no engine.

    Raises:
        UserError: a file is damaged.
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
    """Remove ``files``, the oldest of the log; return the state of all retired files.

    Args:
        log: the folder.
        files: result of ``beyond``.
        known: what the gateway needs of all retired files, including these.
        read: as in ``beyond``.

    Returns:
        None: a reader has the lock, nothing was removed.

    Raises:
        OSError: the state cannot be written, or a file not removed.
        UserError: a file is damaged.
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
    """Return the last arrival in a file."""
    found: int = pc.max(read_file(file.path, [LAST_ARRIVAL]).column(LAST_ARRIVAL)).as_py()
    return found


# Merging of small files, while the log is written and read.
#
# A merged file has the unchanged rows of consecutive files and their row counts: every file number
# still names the same frames, and a reader that stopped at one continues there. It gets its name
# when it is complete and on disk; the files that it replaces are removed later, when no reader uses
# them (``engine.log.log_files``). A crash loses only work, never rows.
#
# ``FAN`` files are merged at a time, and merged files again, until they are full: each event is
# written at most three times, and there are at most ``3 * FAN`` files that are not full.

FAN: Final = 32
FULL_BYTES: Final = 64 << 20
"""Size in memory; it is a few times less on disk."""
FULL_FILES: Final = FAN**3
_GROUP_BYTES: Final = 4 << 20
"""Size of a merged file's row groups; a row group is in memory when it is written."""


def due(log: Path, sizes: dict[Path, int] | None = None) -> list[LogFile]:
    """Return consecutive files to merge next; empty: none are due.

    Args:
        log: the folder.
        sizes: cache of file sizes between calls; updated.

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
    """Merge consecutive ``files``, which stay, into one; None: they are from an old version.

    Raises:
        UserError: a file is damaged.
        OSError: the merged file cannot be written.
    """
    facts = [facts_in(file.path) for file in files]
    known = [each for each in facts if each is not None]
    if len(known) < len(files) or len({each.arrival_given for each in known}) > 1:
        return None
    rows = found = 0
    for file in files:  # verify all rows first, and compute the footer
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
    """Yield the rows of ``files``, with about ``_GROUP_BYTES`` in memory."""
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
    """Remove merged and retired files; False: a reader has the lock.

    Raises:
        UserError: the state of retired files is damaged.
        OSError: a file cannot be removed.
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
    """Remove leftovers of an interrupted merge; call it before the first merge.

    Raises:
        OSError: they cannot be removed.
    """
    for path in log.glob(temporary(log / "merged-*").name):
        path.unlink(missing_ok=True)


def _bytes_of(path: Path) -> int:
    """Return the size of a file's rows in memory; files never change."""
    try:
        with open_parquet(path) as opened:
            about = opened.metadata
    except DAMAGED as error:
        raise damaged(path, error) from error
    return sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))


def _count(file: LogFile) -> int:
    return file.last - file.first + 1


def _level(file: LogFile) -> int:
    """Return roughly how often the rows were merged."""
    return 0 if _count(file) == 1 else 1 if _count(file) <= FAN else 2
