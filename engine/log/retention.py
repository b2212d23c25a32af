"""The oldest files of a log are given up, by age and by size.

First what must be known of them is kept (``engine.log.files.retired``), then they are removed: a
crash between the two leaves files that no longer count. Whole files alone go, and the newest stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from engine.log.files.folder import LogFile, numbered_files
from engine.log.files.log_files import LAST_ARRIVAL, file_mark, read_file
from engine.log.files.reading import removing
from engine.log.files.retired import Retired, keep, retired
from engine.log.whole_file import sync_folder


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
