r"""Text for a terminal: names out of data cannot move its cursor, set its title or hide.

A site, source, type or file may be named with escape codes; whoever prints a message that quotes
such a name prints the codes as ``\x1b``.
"""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from typing import Final, TextIO, cast

_KEPT: Final = "\n\t"
_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control and format characters (those that turn the direction of writing
among them), lone surrogates, and separators of lines and paragraphs."""


def visible(text: str) -> str:
    r"""``text`` with what a terminal would act upon written out; lines and tabs stay.

    >>> visible("a\x1b[2Jb\n")
    'a\\x1b[2Jb\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign in _KEPT or unicodedata.category(sign) not in _HARMFUL:
        return sign
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible_json(text: str) -> str:
    r"""JSON that says the same as the JSON ``text``, of which a terminal acts upon nothing.

    >>> visible_json('"a\x9b2Jb"\n')
    '"a\\u009b2Jb"\n'
    """
    if text.isascii() and "\x7f" not in text:
        return text  # below the blank, JSON has no sign but between values
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    return sign if _shown(sign) == sign else json.dumps(sign)[1:-1].replace("\x7f", "\\u007f")


def json_out() -> TextIO:
    """Standard output for JSON: as it is for a pipe or a file, visible at a terminal."""
    return cast("TextIO", _Visible()) if sys.stdout.isatty() else sys.stdout


class _Visible(io.TextIOBase):
    """Standard output, made visible."""

    def write(self, text: str) -> int:
        sys.stdout.write(visible_json(text))
        return len(text)


def tell(text: str) -> None:
    """Writes ``text`` to standard error, visibly."""
    sys.stderr.write(visible(text))
