"""Errors of an agent (bad bytes, bad settings, refusals of the system) and their text."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Iterable
from typing import Final, TextIO, cast

from slackwater.edge_agent.standard_streams import STANDARD_OUTPUT

# Hints about unknown words, for settings and queries.


def near_miss(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` if a known word is similar, else an empty text."""
    import difflib  # noqa: PLC0415 - only for errors

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` if a known word is similar, else the list of known words."""
    words = list(known)
    return near_miss(word, words) or f"; known are {', '.join(words)}"


# Untrusted text for people: it must not break lines, move a terminal's cursor, set its title or
# hide text. Messages print such characters as escapes, for example ``\x1b``.


_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of control and format characters (including those that change the direction of
writing), lone surrogates, and separators of lines and paragraphs."""


def visible(text: str, kept: str = "\n\t") -> str:
    r"""``text`` with escapes for all characters that affect a terminal, except those in ``kept``.

    >>> visible("a\x1b[2Jb\n")
    'a\\x1b[2Jb\n'
    """
    if text.isascii() and text.isprintable():
        return text
    import unicodedata  # noqa: PLC0415 - for few texts

    return "".join(
        sign.encode("unicode_escape", "surrogatepass").decode("ascii")
        if sign not in kept and unicodedata.category(sign) in _HARMFUL
        else sign
        for sign in text
    )


def one_line(text: str, most: int | None = None) -> str:
    r"""``text`` made ``visible``, including line feeds and tabs.

    Args:
        text: any text, possibly untrusted.
        most: number of characters to show; None: all.

    >>> one_line("d\nlistening at 0.0.0.0\x1b[2J"), one_line("abcdef", 3)
    ('d\\nlistening at 0.0.0.0\\x1b[2J', 'abc...')
    """
    cut = text if most is None or len(text) <= most else f"{text[:most]}..."
    return visible(cut, "")


def visible_json(text: str) -> str:
    r"""Equivalent JSON without characters that affect a terminal.

    >>> visible_json('"a\x9b2Jb"\n')
    '"a\\u009b2Jb"\n'
    """
    if text.isascii() and "\x7f" not in text:
        return text  # JSON allows control characters only between values
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    return sign if visible(sign) == sign else json.dumps(sign)[1:-1].replace("\x7f", "\\u007f")


def json_out() -> TextIO:
    """Standard output for JSON: unchanged for a pipe or a file, visible at a terminal."""
    return cast("TextIO", _Visible()) if sys.stdout.isatty() else sys.stdout


class _Visible(io.TextIOBase):
    """Standard output through ``visible_json``."""

    def write(self, text: str) -> int:
        sys.stdout.write(visible_json(text))
        return len(text)


def print_stderr(text: str) -> None:
    """Write ``text`` to standard error, visibly."""
    sys.stderr.write(visible(text))


# Refusals of the operating system: their messages, and exit codes, for ``slackwater agent`` and
# ``slackwater``.


FAILED: Final = 1
USER_ERROR: Final = 2
_SPACE: Final = "free some, or write to another disk (temporary files lie in TMPDIR, else in /tmp)"
_REMEDIES: Final = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "let files be larger (ulimit -f), or write to a disk that takes them",
    errno.EIO: "its disk or network share has failed, see dmesg; choose another one",
    errno.EMFILE: "let this process open more files: ulimit -n 4096",
    errno.ENFILE: "the machine has too many open files: end other programs, or raise fs.file-max",
    errno.ENOMEM: "end other programs, or ask for less at once",
    errno.EAGAIN: "let this user have more processes (ulimit -u), or end others",
}
"""Remedies for errors about missing resources of the machine; other errors concern the request."""
_ELSEWHERE: Final = "send it to a file on a disk with space"


def refused(error: OSError, doing: str) -> tuple[str, int]:
    """Message about ``error`` and exit code; ``doing``: the command, for example ``query``.

    A path of the user's that cannot be used is wrong input (exit code 2; a threshold that is not
    met has another code). If the machine lacks a resource, or standard output accepts nothing, the
    work has failed (exit code 1).

    >>> refused(FileNotFoundError(2, "No such file or directory", "/proc/out"), "query")
    ('/proc/out: No such file or directory', 2)
    >>> refused(OSError(24, "Too many open files"), "query")[0]
    'query: Too many open files; let this process open more files: ulimit -n 4096'

    Raises:
        OSError: ``error``, if it names no file and no resource: it may be a programming error.
    """
    remedy = _REMEDIES.get(error.errno or 0)
    if error.filename is None and remedy is None:
        raise error
    place = error.filename or (STANDARD_OUTPUT if _is_untaken() else doing)
    said = f"{place}: {error.strerror}"
    if place == STANDARD_OUTPUT:
        return f"{said}; {_ELSEWHERE}", FAILED
    return (said, USER_ERROR) if remedy is None else (f"{said}; {remedy}", FAILED)


def _is_untaken() -> bool:
    """Whether standard output still has data that it could not write."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


# Errors in the input of an agent: a peer's bytes, or its own settings.
#
# Errors of peers carry a short ``reason`` (a fixed word, for counting) and a ``detail`` for people.


SAMPLE_BYTES: Final = 256
"""Bytes of a refused message that are kept with the error, for the dead-letter file."""


class AgentError(Exception):
    """Base of every error that the agent raises on purpose."""


class WireError(AgentError):
    """A peer broke a rule of the wire protocol; its connection is closed."""

    def __init__(self, reason: str, detail: str = "", data: bytes = b"") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.sample = bytes(data[:SAMPLE_BYTES])


class NtpRefused(AgentError):  # noqa: N818 - a refusal is expected traffic, not an error
    """An NTP packet that must not be believed or answered; ``reason`` is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class SettingsError(AgentError):
    """A setting of the agent is out of range; the message names it and the range."""
