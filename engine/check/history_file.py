"""The history of results in a file (SQLite), so that a run begins with what runs before it knew.

A run reads what was known before its log begins, and writes what it knew itself in one transaction
at its end: broken off before that, it has changed nothing; done again over the same log, also one
that has grown since, it gives the same results and leaves the same file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from engine.errors import UserError
from engine.kernels.records import INT_MAX

_FORMAT: Final = 1
_OURS: Final = int.from_bytes(b"slwh", "big")
"""SQLite's application_id of a history: other programs' files are left alone."""
_HEADER: Final = 100
_BEGINS: Final = b"SQLite format 3\0"
_VERSION_AT: Final = 60
_OURS_AT: Final = 68
"""Where a header has user_version and application_id (SQLite's file format, 1.3)."""
_TABLES: Final = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_OURS};
PRAGMA user_version = {_FORMAT};
CREATE TABLE IF NOT EXISTS spans (
  site TEXT PRIMARY KEY, since INTEGER NOT NULL, until INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS results (
  site TEXT NOT NULL, query TEXT NOT NULL, key TEXT NOT NULL, identity INTEGER NOT NULL,
  at INTEGER NOT NULL, gone INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_query ON results (site, query, at);
COMMIT;
"""


class LogOverlapsError(UserError):
    """The log begins in the middle of the last one of this history."""


class PastResults(NamedTuple):
    """Results of one query at a site, in the order told.

    ``key``: a JSON list of what shares a history. ``identity``, ``at``, ``gone``: as of
    ``engine.check.history.Known`` [ns].
    """

    key: list[str]
    identity: np.ndarray
    at: np.ndarray
    gone: np.ndarray


class KnownToRun(NamedTuple):
    """What a run knew of a query at its end: all ``results`` of the last ``horizon_ns``."""

    results: PastResults
    horizon_ns: int


class KnownOfSite(NamedTuple):
    """What a run knew of a site by query, and from when to when its log came [ns]."""

    since_ns: int
    until_ns: int
    queries: Mapping[str, KnownToRun]


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """The file at ``path``, which need not exist yet."""

    path: Path

    def before(self, site: str, since_ns: int) -> dict[str, PastResults]:
        """By query, what was known of ``site`` before its log, which begins at ``since_ns``.

        Raises:
            LogOverlapsError: the log neither is the last run's nor follows it.
            UserError: no such file can be.
        """
        found: dict[str, list[tuple[str, int, int, int]]] = {}
        with self._to_write() as base:
            span = base.execute("SELECT since, until FROM spans WHERE site = ?", (site,)).fetchone()
            if span is not None and since_ns != span[0] and since_ns < span[1]:
                raise LogOverlapsError(
                    f"{self.path}: the last run with it read what arrived at {site!r} from "
                    f"{span[0]} to {span[1]} ns; this log begins at {since_ns} ns: give the same "
                    "log again, one that begins later, or another file"
                )
            rows = base.execute(
                "SELECT query, key, identity, at, gone FROM results WHERE site = ? AND at < ? "
                "ORDER BY at, rowid", (site, since_ns),
            )  # fmt: skip
            for query, *row in rows:
                found.setdefault(query, []).append(tuple(row))
        return {query: _past(each, since_ns) for query, each in found.items()}

    def keep(self, sites: Mapping[str, KnownOfSite]) -> None:
        """What a run knew at its end."""
        with self._to_write() as base, base:
            for site, (since_ns, until_ns, queries) in sites.items():
                base.execute(
                    "INSERT OR REPLACE INTO spans VALUES (?, ?, ?)", (site, since_ns, until_ns)
                )
                for query, (results, horizon_ns) in queries.items():
                    first = min(since_ns, until_ns - horizon_ns)
                    base.execute(
                        "DELETE FROM results WHERE site = ? AND query = ? AND (at >= ? OR at < ?)",
                        (site, query, first, since_ns - horizon_ns),
                    )
                    new = np.flatnonzero(results.at >= first)
                    columns = (results.identity, results.at, results.gone)
                    base.executemany(
                        "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)",
                        zip(
                            repeat(site), repeat(query), [results.key[row] for row in new],
                            *(column[new].tolist() for column in columns),
                        ),
                    )  # fmt: skip

    def rows(self) -> Iterator[tuple[str, str, str, int, int, int]]:
        """(site, query, key, how many, when the first was known and the last [ns]) of each key.

        Raises:
            UserError: there is no such file, or it is no history.
        """
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file; slackwater query --history writes one")
        if not self._has_begun():
            return
        # What a kill left half written is put right by whoever opens the file next.
        cut_off = self.path.with_name(f"{self.path.name}-journal").exists()
        with self._opened("rw" if cut_off else "ro") as base:
            yield from base.execute(
                "SELECT site, query, key, count(*), min(at), max(at) FROM results WHERE gone = ? "
                "GROUP BY site, query, key ORDER BY site, query, key", (INT_MAX,),
            )  # fmt: skip

    @contextmanager
    def _to_write(self) -> Iterator[sqlite3.Connection]:
        """Made if absent; refused now, not at the end of a run, where it cannot be written."""
        if self.path.exists():
            self._has_begun()
        with self._opened("rwc") as base:
            base.executescript(_TABLES)
            yield base

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, uri=True)) as base:
                yield base
        except sqlite3.Error as error:
            raise UserError(f"{self.path}: not a history that can be used: {error}") from error

    def _has_begun(self) -> bool:
        """Whether anything is in the file. Its bytes say whose it is: to open the file of another
        program may already write beside it.

        Raises:
            UserError: it is another program's, or of another version.
        """
        try:
            with self.path.open("rb") as file:
                header = file.read(_HEADER)
        except OSError as error:
            raise UserError(f"{self.path}: not a history that can be read: {error}") from error
        if not header:
            return False
        numbers = (header[at : at + 4] for at in (_OURS_AT, _VERSION_AT))
        whose, version = (int.from_bytes(number, "big") for number in numbers)
        if not header.startswith(_BEGINS) or whose != _OURS:
            raise UserError(
                f"{self.path}: not a history of slackwater, so it stays as it is; name another "
                "file, or one that is not there yet"
            )
        if version != _FORMAT:
            raise UserError(
                f"{self.path}: a history of format {version}; this program reads {_FORMAT}: name "
                "another file"
            )
        return True


def _past(rows: list[tuple[str, int, int, int]], since_ns: int) -> PastResults:
    """What was taken back by the run that is done again is there again."""
    identity, at, gone = (
        np.array(column, np.int64) for column in list(zip(*rows, strict=True))[1:]
    )
    return PastResults(
        [key for key, *_ in rows], identity, at, np.where(gone < since_ns, gone, INT_MAX)
    )
