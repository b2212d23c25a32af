"""As much of psycopg as the sink uses, over ``psql``: for tests where psycopg is not installed.

Statements, transactions and errors are PostgreSQL's own; what is missing is psycopg itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_END = "-- end --"


class Error(Exception):
    """As psycopg's."""


class OperationalError(Error):
    """Also where psycopg tells more apart."""


class DataError(Error):
    """Class 22 of SQLSTATE."""


class IntegrityError(Error):
    """Class 23."""


def connect(url: str, *, autocommit: bool, connect_timeout: int, password: str = "") -> Connection:
    assert autocommit
    return Connection(url, connect_timeout, password)


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if "\0" in value:
        raise DataError("a text has NUL")
    return "'" + value.replace("'", "''") + "'"


class Connection:
    def __init__(self, url: str, timeout_s: int, password: str) -> None:
        self._psql = subprocess.Popen(
            ["psql", "-XAtq", "-F", "\x1f", "-v", "VERBOSITY=verbose", url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": "/usr/bin:/bin", "PGPASSWORD": password,
                 "PGCONNECT_TIMEOUT": str(timeout_s), "PGCLIENTENCODING": "UTF8"},
        )  # fmt: skip
        self._rows: list[list[str]] = []
        try:
            self.execute("SELECT 1")
        except Error:
            self.close()
            raise

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Connection:
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        text = statement % tuple(map(_literal, values)) if values else statement
        try:
            self._psql.stdin.write(f"{text.strip().rstrip(';')};\n\\echo '{_END}'\n")
            self._psql.stdin.flush()
        except BrokenPipeError as error:
            raise OperationalError("the connection is lost") from error
        said: list[str] = []
        for line in self._psql.stdout:
            if line.rstrip("\n") == _END:
                break
            said.append(line.rstrip("\n"))
        else:
            raise OperationalError(" ".join(said))
        for line in said:
            severity, _, rest = line.partition(":  ")
            if severity in ("ERROR", "FATAL"):
                kind = {"22": DataError, "23": IntegrityError}.get(rest[:2], OperationalError)
                raise kind(rest)
        self._rows = [line.split("\x1f") for line in said]
        return self

    def fetchone(self) -> tuple[Any, ...]:
        known = {"t": True, "f": False}
        return tuple(
            known.get(each, int(each) if each.isdigit() else each) for each in self._rows[0]
        )

    @contextmanager
    def cursor(self) -> Iterator[Connection]:
        yield self

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self.execute(statement, row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            if self._psql.poll() is None:
                self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def close(self) -> None:
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        try:
            self._psql.stdin.close()
        except BrokenPipeError:
            self._psql.kill()
        self._psql.wait(10)
        self._psql.stdout.close()
