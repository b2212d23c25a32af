"""What a host must know of a log before Spark's file source replays it.

Spark takes files in the order of their modification times (ms). A log that was copied may have lost
it; then the times are set again, in the order of the names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.arrival_log import ROWS, SITE, LogReader

_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Sites of a log and its number of records."""

    sites: tuple[str, ...]
    rows: int


def log_facts(log: LogReader) -> LogFacts:
    """Read from the frames' headers alone."""
    sites: set[str] = set()
    rows = 0
    for file in log.files:
        table = pq.read_table(file, columns=[SITE, ROWS])
        sites.update(table.column(SITE).unique().to_pylist())
        rows += sum(table.column(ROWS).to_pylist())
    return LogFacts(tuple(sorted(sites)), rows)


def order_by_time(log: LogReader) -> None:
    """Make the files' modification times increase with their names, by whole milliseconds.

    Raises:
        UserError: they do not, and may not be changed here.
    """
    last = -1
    times: list[tuple[Path, int]] = []
    wrong = False
    for file in log.files:
        at = file.stat().st_mtime_ns // _MS
        wrong |= at <= last
        last = max(at, last + 1)
        times.append((file, last))
    if not wrong:
        return
    try:
        for file, at in times:
            os.utime(file, ns=(at * _MS, at * _MS))
    except OSError as error:
        raise UserError(
            f"{log.directory}: its files' times do not follow their names (a copy?) and cannot be "
            f"set: {error.strerror}; copy the log with cp --preserve to a folder of yours"
        ) from error
