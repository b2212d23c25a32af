"""Errors that point: the line of the query, and a caret under the offending place."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from typing import Final

from engine.errors import UserError

Span = tuple[int, int]
"""Start and end of a piece of the query's text, in characters."""

MAX_QUERY_CHARS: Final = 65_536
"""Of a text, whether it is one statement or several."""
_SHOWN_CHARS: Final = 100


def check_length(text: str) -> None:
    """Refuses what is too long to be a query.

    Raises:
        UserError: says how long one may be.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise UserError(
            f"the query has {len(text)} characters; at most {MAX_QUERY_CHARS} are read. Give long "
            "lists of statements in several arguments"
        )


def refuse(text: str, at: Span, message: str, hint: str = "") -> UserError:
    """The error to raise for the piece ``at`` of ``text``.

    >>> print(refuse("SELECT x", (7, 8), "x is unknown", "there is y"))
    query line 1, column 8: x is unknown
      SELECT x
             ^
      there is y
    """
    start = min(at[0], len(text))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first:] if last < 0 else text[first:last]
    column = start - first
    length = max(1, min(at[1], first + len(line)) - start)
    where = f"query line {text.count(chr(10), 0, start) + 1}, column {column + 1}"
    lines = [f"{where}: {message}", *_picture(line, column, length)]
    if hint:
        lines.append(f"  {hint}")
    return UserError("\n".join(lines))


def _picture(line: str, column: int, length: int) -> tuple[str, str]:
    """The line, cut around the place when it is long, and the carets below it."""
    start = 0
    if len(line) > _SHOWN_CHARS:
        start = max(0, min(column - _SHOWN_CHARS // 2, len(line) - _SHOWN_CHARS))
    end = min(len(line), start + _SHOWN_CHARS)
    head = "..." if start > 0 else ""
    tail = "..." if end < len(line) else ""
    before = printable(line[start:column])
    marked = printable(line[column : min(end, column + length)])
    after = printable(line[column + len(marked) : end])
    caret = " " * (2 + len(head) + _width(before)) + "^" * max(1, _width(marked))
    return f"  {head}{before}{marked}{after}{tail}".rstrip(), caret


def printable(text: str) -> str:
    """``text`` with what a terminal would not show as one sign replaced, length kept."""
    return "".join(
        sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in text
    )


def _width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def closest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` for the known word most like ``word``, else the empty string."""
    by_key = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_key, n=1, cutoff=0.7)
    return f"did you mean {by_key[found[0]]!r}?" if found else ""


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last
