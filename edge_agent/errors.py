"""Errors of an agent: bad bytes, bad settings, refusals of the system, and how they read."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Iterable
from typing import Final, TextIO, cast

from slackwater.edge_agent.standard_streams import STANDARD_OUTPUT

# Hints about unknown words, in the settings and in queries alike.


def near_miss(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` when a known word is near, else nothing."""
    import difflib  # noqa: PLC0415 - only for errors

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean "x"?`` when a known word is near, else all the known words."""
    words = list(known)
    return near_miss(word, words) or f"; known are {', '.join(words)}"


# Foreign text for people: it breaks no line, and cannot move a terminal's cursor, set its title or
# hide. A message that quotes such a name prints the codes as ``\x1b``.


_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control and format characters (those that turn the direction of writing
among them), lone surrogates, and separators of lines and paragraphs."""


def visible(text: str, kept: str = "\n\t") -> str:
    r"""``text`` with what a terminal would act upon written out, but for signs that are ``kept``.

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
    r"""``text`` made ``visible``, line feeds and tabs too.

    Args:
        text: of anybody.
        most: so many characters of it are shown; None: all.

    >>> one_line("d\nlistening at 0.0.0.0\x1b[2J"), one_line("abcdef", 3)
    ('d\\nlistening at 0.0.0.0\\x1b[2J', 'abc...')
    """
    cut = text if most is None or len(text) <= most else f"{text[:most]}..."
    return visible(cut, "")


def visible_json(text: str) -> str:
    r"""JSON that says the same as the JSON ``text``, of which a terminal acts upon nothing.

    >>> visible_json('"a\x9b2Jb"\n')
    '"a\\u009b2Jb"\n'
    """
    if text.isascii() and "\x7f" not in text:
        return text  # below the blank, JSON has no sign but between values
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    return sign if visible(sign) == sign else json.dumps(sign)[1:-1].replace("\x7f", "\\u007f")


def json_out() -> TextIO:
    """Standard output for JSON: as it is for a pipe or a file, visible at a terminal."""
    return cast("TextIO", _Visible()) if sys.stdout.isatty() else sys.stdout


class _Visible(io.TextIOBase):
    """Standard output, made visible."""

    def write(self, text: str) -> int:
        sys.stdout.write(visible_json(text))
        return len(text)


def print_stderr(text: str) -> None:
    """Writes ``text`` to standard error, visibly."""
    sys.stderr.write(visible(text))


# Refusals of the operating system: their messages, and the exit code of ``slackwater agent`` and
# of ``slackwater`` alike.


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
"""Errors about missing resources of the machine, not about the request."""
_ELSEWHERE: Final = "send it to a file on a disk with space"


def refused(error: OSError, doing: str) -> tuple[str, int]:
    """What to say of ``error``, and the exit code; ``doing``: the command, such as ``query``.

    A place of the user's that cannot be used is an input at fault: a threshold that does not hold
    ends with another code. Where the machine lacks something, or standard output takes nothing,
    the work has failed.

    >>> refused(FileNotFoundError(2, "No such file or directory", "/proc/out"), "query")
    ('/proc/out: No such file or directory', 2)
    >>> refused(OSError(24, "Too many open files"), "query")[0]
    'query: Too many open files; let this process open more files: ulimit -n 4096'

    Raises:
        OSError: ``error``, where it names no file and the machine lacks nothing: it may be ours.
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
    """Whether standard output still has what it could not write."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return False


# Errors in the input of an agent: a peer's bytes, or its own settings.
#
# Peers' errors carry a short ``reason`` (a fixed word, for counting) and a ``detail`` (for people).


SAMPLE_BYTES: Final = 256
"""So much of a refused message is kept with the error, for the dead-letter file."""


class AgentError(Exception):
    """Base of every error that the agent raises on purpose."""


class WireError(AgentError):
    """A peer sent what breaks a rule of the wire. The peer is refused, nobody crashes."""

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
    """A setting of the agent is out of its range; the message names it and the range."""
