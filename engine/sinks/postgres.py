"""The kind of sink ``postgres``: a table with the results that hold at present, exactly once.

A ``+`` inserts a row, a ``-`` deletes one with its identity. The sink's position is written to the
same database in the same transaction, so repeated results after a kill change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import SplitResult

import psycopg

from slackwater.edge_agent.settings_file import Table
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem
from slackwater.engine.sinks.kinds import read_password, read_timeout_s, read_url

POSITIONS: Final = "slackwater_sinks"
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}")
_CREATE: Final = """
CREATE TABLE "{table}" (id text NOT NULL, key text NOT NULL, query text NOT NULL,
    site text NOT NULL, certainty text, known_at text, result jsonb NOT NULL);
CREATE INDEX "{table}_id" ON "{table}" (id);
"""
_CREATE_POSITIONS: Final = """
CREATE TABLE slackwater_sinks (sink text, into_table text, query text, run text, site text,
    lines bigint NOT NULL, PRIMARY KEY (sink, into_table, query, run, site))
"""
_COLUMNS: Final = ["id", "key", "query", "site", "certainty", "known_at", "result"]
_POSITION_COLUMNS: Final = ["sink", "into_table", "query", "run", "site", "lines"]
_COLUMNS_OF: Final = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_INSERT: Final = 'INSERT INTO "{table}" VALUES (%s, %s, %s, %s, %s, %s, %s)'
_DELETE: Final = """
DELETE FROM "{table}" WHERE ctid = (SELECT ctid FROM "{table}" WHERE id = %s LIMIT 1)
"""
_BEGIN: Final = """
INSERT INTO slackwater_sinks VALUES (%s, %s, %s, %s, %s, 0) ON CONFLICT DO NOTHING
"""
_POSITION: Final = """
SELECT lines FROM slackwater_sinks
WHERE sink = %s AND into_table = %s AND query = %s AND run = %s AND site = %s FOR UPDATE
"""
_MOVE: Final = """
UPDATE slackwater_sinks SET lines = %s
WHERE sink = %s AND into_table = %s AND query = %s AND run = %s AND site = %s
"""


class PostgresReceiver:
    """One table.

    Args:
        url: of the database, without a password.
        password: of its user.
        table: its name; created if it does not exist.
        name: of the sink; identifies its positions.
        timeout_s: for each statement.
    """

    def __init__(
        self, url: SplitResult, password: str, table: str, name: str, timeout_s: float
    ) -> None:
        self._url = url
        self._password = password
        self._table = table
        self._name = name
        self._timeout_s = timeout_s
        self._connection: Any = None

    def deliver(self, items: Sequence[SinkItem]) -> None:
        try:
            if self._connection is None:
                self._connect()
            with self._connection.transaction():
                self._write(self._not_written(items))
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            column = error.diag.column_name
            if isinstance(error, psycopg.errors.NotNullViolation) and column not in _COLUMNS:
                # The fault is not in the results; otherwise every one would be refused.
                more = f"; give {column} a default, or drop its NOT NULL"
                raise RetryError(self._said(error) + more) from error
            raise RefusedError(self._said(error)) from error
        except psycopg.Error as error:
            self.close()
            raise RetryError(self._said(error)) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _said(self, error: Exception) -> str:
        words = str(error).strip().partition("\n")[0] or type(error).__name__
        return f"{self._url.hostname}: {words}"

    def _connect(self) -> None:
        more = {"password": self._password} if self._password else {}
        connection = psycopg.connect(
            self._url.geturl(),
            autocommit=True,
            connect_timeout=max(int(self._timeout_s), 2),
            **more,
        )
        self._connection = connection
        connection.execute(f"SET statement_timeout = {max(round(self._timeout_s * 1000), 1)}")
        forget = f"DELETE FROM slackwater_sinks WHERE into_table = '{self._table}'"  # noqa: S608
        for table, columns, create in (
            (POSITIONS, _POSITION_COLUMNS, _CREATE_POSITIONS),
            (self._table, _COLUMNS, f"{_CREATE.format(table=self._table)}{forget}"),
        ):
            found = [name for (name,) in connection.execute(_COLUMNS_OF, (f'"{table}"',))]
            if not found:  # not run for a user who may not create tables
                connection.execute(create)
            elif found[: len(columns)] != columns:
                raise psycopg.ProgrammingError(
                    f"table {table} is of another program (its columns are {', '.join(found)}); "
                    "rename it, or give this sink another table"
                )

    def _not_written(self, items: Sequence[SinkItem]) -> list[SinkItem]:
        """The items after the stored positions, which are locked until the transaction ends."""
        lines: dict[tuple[str, str, str], int] = {}
        for file in sorted({(item.query, item.run, item.site) for item in items}):
            place = (self._name, self._table, *file)
            self._connection.execute(_BEGIN, place)
            (lines[file],) = self._connection.execute(_POSITION, place).fetchone()
        return [item for item in items if item.number >= lines[item.query, item.run, item.site]]

    def _write(self, items: Sequence[SinkItem]) -> None:
        with self._connection.cursor() as cursor:
            for op, some in groupby(items, lambda item: item.result.get("op", "+")):
                if op == "-":
                    statement = _DELETE.format(table=self._table)
                    cursor.executemany(statement, [(item.identity,) for item in some])
                else:
                    statement = _INSERT.format(table=self._table)
                    cursor.executemany(statement, [_row(item) for item in some])
        ends = {(item.query, item.run, item.site): item.number + 1 for item in items}
        for file, end in ends.items():
            self._connection.execute(_MOVE, (end, self._name, self._table, *file))


def _row(item: SinkItem) -> tuple[str | None, ...]:
    result = item.result
    known_at = result.get("known_at")
    return (
        item.identity, item.key, item.query, str(result.get("site", item.site)),
        result.get("certainty"), None if known_at is None else str(known_at), item.line.decode(),
    )  # fmt: skip


def postgres_sink(table: Table, name: str) -> PostgresReceiver:
    """Read the settings ``url``, ``password``, ``table`` and ``timeout``."""
    url = read_url(table, ("postgresql", "postgres"))
    password = read_password(table, url)
    into = table.text("table", "slackwater_results")
    if not _TABLE.fullmatch(into) or into == POSITIONS:
        raise table.wrong("table", "write a name of letters, digits and _ (up to 55)")
    if url.password is not None:
        user, _, host = url.netloc.rpartition("@")
        url = url._replace(netloc=f"{user.partition(':')[0]}@{host}")
    return PostgresReceiver(url, password, into, name, read_timeout_s(table))
