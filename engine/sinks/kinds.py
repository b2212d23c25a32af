"""Built-in kinds of sink: each reads its settings and delivers results."""

from __future__ import annotations

import os
import re
import signal
import ssl
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile
from time import time
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from slackwater.edge_agent.listening import TlsFiles, read_tls
from slackwater.edge_agent.settings_file import HIDDEN, Table
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem

# ``http``: a POST of a JSON array.


_REFUSES: Final = frozenset({400, 413, 415, 422})
"""Statuses about the content. Others may be temporary, or faults of the settings (a wrong token, a
wrong path): they make no result a dead letter.
"""
_TEXT_MAX: Final = 200
_HEADER: Final = re.compile(r"[!#-'*+.^_`|~0-9A-Za-z-]+")
"""Name of a header (RFC 9110, 5.1)."""
_ANSWER_MAX: Final = 1 << 16
"""Bytes of an answer that are read; a longer one ends its connection."""
_AFTER_MAX_S: Final = 3600.0


class HttpReceiver:
    """Posts to one URL over one persistent connection.

    Args:
        url: ``http`` or ``https``.
        headers: sent with every request.
        timeout_s: for each answer.
        tls: for ``https``.
    """

    def __init__(
        self, url: SplitResult, headers: Mapping[str, str], timeout_s: float, tls: TlsFiles | None
    ) -> None:
        self._url = url
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout_s = timeout_s
        self._tls = tls
        self._connection: HTTPConnection | None = None

    def deliver(self, items: Sequence[SinkItem]) -> None:
        body = b"[" + b",\n".join(item.json() for item in items) + b"]\n"
        keys = "\n".join(item.key for item in items).encode()
        headers = {
            **self._headers, "Idempotency-Key": blake2b(keys, digest_size=16).hexdigest()
        }  # fmt: skip
        is_kept = self._connection is not None
        try:
            status, text, after_s = self._post(body, headers)
        except (OSError, HTTPException) as error:
            self.close()
            if is_kept:  # the receiver may just have closed the idle connection
                self.deliver(items)
                return
            raise RetryError(f"{self._url.netloc}: {error or type(error).__name__}") from error
        if 200 <= status < 300:
            return
        why = f"{self._url.netloc} answers {status}: {text}".rstrip(": ")
        raise RefusedError(why) if status in _REFUSES else RetryError(why, after_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, float]:
        """Post; return status, beginning and Retry-After [s] of the answer."""
        if self._connection is None:
            self._connection = self._open()
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read(_ANSWER_MAX)
        if not answer.isclosed():
            self.close()
        return (
            answer.status,
            content[:_TEXT_MAX].decode(errors="replace").strip(),
            _retry_after_s(answer),
        )

    def _open(self) -> HTTPConnection:
        assert self._url.hostname is not None
        if self._url.scheme == "http":
            return HTTPConnection(self._url.hostname, self._url.port, timeout=self._timeout_s)
        context = ssl.create_default_context() if self._tls is None else self._tls.context()
        return HTTPSConnection(
            self._url.hostname, self._url.port, timeout=self._timeout_s, context=context
        )


def _retry_after_s(answer: HTTPResponse) -> float:
    """Value of Retry-After [s]; 0: missing or invalid."""
    text = (answer.getheader("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        wait = float(text[:9])
    else:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time()
        except ValueError:
            return 0.0
    return min(max(wait, 0.0), _AFTER_MAX_S)


def http_sink(table: Table, name: str) -> HttpReceiver:
    """Read the settings ``url``, ``headers``, ``token``, ``timeout`` and ``tls``."""
    del name
    url = read_url(table, ("http", "https"))
    if url.username is not None or url.password is not None:
        raise table.wrong("url", "without user and password: write them as a header, or token")
    headers_table = table.table("headers")
    headers = {key: headers_table.text(key, secret=True) for key in headers_table.keys()}  # noqa: SIM118 - a Table
    for key, value in headers.items():
        if not _HEADER.fullmatch(key):
            raise headers_table.wrong(key, "is no name of a header: letters, digits and -")
        if not (value.isascii() and value.isprintable()):
            raise headers_table.wrong(key, "must be of printable ASCII")
    if token := table.secret("token", Path(table.file).parent):
        if not (token.isascii() and token.isprintable()):
            raise table.wrong("token", "must be of printable ASCII")
        headers["Authorization"] = f"Bearer {token}"
    tls = read_tls(table.table("tls"), Path(table.file).parent)
    if tls is not None and url.scheme == "http":
        raise table.wrong("tls", "an http address has no TLS; write https")
    return HttpReceiver(url, headers, read_timeout_s(table), tls)


# ``exec``: a program that is started for each batch.


_STDERR: Final = 200
"""Characters at the end of standard error that messages quote."""


class ProgramReceiver:
    """A program that reads JSON lines from standard input and ends with 0 when all are safe.

    It is started for each batch: if a running program died, an unknown number of lines in its pipe
    would be lost.

    Args:
        command: the program and its arguments.
        timeout_s: after this time it is killed, with its children.
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command = list(command)
        self._timeout_s = timeout_s

    def deliver(self, items: Sequence[SinkItem]) -> None:
        lines = b"".join(item.json() + b"\n" for item in items)
        with TemporaryFile() as said:
            try:
                program = Popen(  # noqa: S603 - the command is the user's
                    self._command, stdin=PIPE, stdout=DEVNULL, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise RetryError(f"{self._command[0]}: {error.strerror}") from error
            try:
                program.communicate(lines, self._timeout_s)
            except TimeoutExpired as error:
                os.killpg(program.pid, signal.SIGKILL)
                program.communicate()
                raise RetryError(f"{self._command[0]} took over {self._timeout_s:g} s") from error
            said.seek(max(said.seek(0, os.SEEK_END) - _STDERR, 0))
            words = said.read().decode(errors="replace").strip()
        if program.returncode:
            why = f"{self._command[0]} ended with {program.returncode}: {words}".rstrip(": ")
            raise RefusedError(why) if program.returncode == os.EX_DATAERR else RetryError(why)

    def close(self) -> None:
        """Do nothing: no program runs between batches."""


def exec_sink(table: Table, name: str) -> ProgramReceiver:
    """Read the settings ``command`` and ``timeout``."""
    del name
    command = table.texts("command")
    if not command:
        raise table.wrong("command", 'write the program and its arguments: ["./store.py", "-v"]')
    return ProgramReceiver(command, read_timeout_s(table))


# Settings that several kinds share.


def read_timeout_s(table: Table) -> float:
    """Read the setting ``timeout`` [s]."""
    return table.duration_ns("timeout", 30 * NS_PER["s"], low=NS_PER["ms"]) / 1e9


def read_password(table: Table, url: SplitResult) -> str:
    """The password in ``url``, or the setting ``password`` or ``password_file``.

    Raises:
        SettingsError: both are given.
    """
    password = table.secret("password", Path(table.file).parent)
    if password and url.password:
        raise table.wrong("password", "there is one in url, too")
    return password or unquote(url.password or "")


def read_url(table: Table, schemes: Sequence[str]) -> SplitResult:
    """Read the setting ``url``, whose password is not printed.

    Raises:
        SettingsError: the scheme is not in ``schemes``, or there is no host.
    """
    text = table.text("url")
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
        (host or "").encode("idna")  # as sockets do
    except ValueError as error:
        raise table.wrong("url", str(error)) from error
    if url.scheme not in schemes or not host or not text.isascii() or not text.isprintable():
        example = f"{schemes[0]}://HOST/..."
        raise table.wrong("url", f'write "{example}" ({" or ".join(schemes)})')
    if url.password:
        table.effective["url"] = text.replace(f":{url.password}@", f":{HIDDEN}@")
    return url
