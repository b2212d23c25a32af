r"""Text for a terminal: names out of data cannot move its cursor, set its title or hide.

A site, source, type or file may be named with escape codes; a message that quotes
such a name prints the codes as ``\x1b``.
"""

from __future__ import annotations

import io
import json
import sys
from typing import TextIO, cast

from slackwater.edge_agent.errors import visible

__all__ = ["json_out", "print_stderr", "visible", "visible_json"]


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
