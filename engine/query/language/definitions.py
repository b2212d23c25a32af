"""Constraints from a file: ``CONSTRAINT name FOR TRACE BY attribute AS expression;`` as many as one
likes. A query names one, ``UNDER CONSTRAINT name``, and is read as if it had all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from engine.errors import UserError
from engine.query.language import syntax as s
from engine.query.language.parse import parse
from engine.query.language.place import closest, refuse
from engine.query.language.syntax import Under

_PIECES: Final = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|;")
_NAMED: Final = re.compile(
    r"--[^\n]*|'(?:[^']|'')*'"
    r"|(?P<under>\bUNDER\s+CONSTRAINT\s+(?P<name>[^\W\d]\w*|\"(?:[^\"]|\"\")+\"|`(?:[^`]|``)+`))"
    r"(?!\s*\w)(?!\s+FOR\b)",
    re.IGNORECASE,
)
_BEFORE: Final = "EVENT SEQ(a a1, b b1) UNDER\n"
"""A constraint alone is no query; it is read as one's, a line further down."""


class Definition(Struct, frozen=True):
    """``text``: from CONSTRAINT on, without a semicolon. ``query``: one under it."""

    name: str
    text: str
    query: str


def definitions(text: str, where: str) -> dict[str, Definition]:
    """The constraints of a file, by name.

    Args:
        text: its content.
        where: its name, for messages.

    Raises:
        UserError: no constraint, two of one name, or one that cannot be read, with its line.
    """
    found: dict[str, Definition] = {}
    for start, piece in _statements(text):
        lines = text.count("\n", 0, start)
        body = "\n" * lines + piece
        try:
            parsed = parse(_BEFORE + body)
        except UserError as error:
            raise _placed(error, where) from error
        assert isinstance(parsed, s.EventQuery)
        under = parsed.clauses[0]
        if not isinstance(under, Under) or len(parsed.clauses) > 1:
            raise UserError(f"{where}:{lines + 1}: one constraint ends with a semicolon")
        name = under.name.text
        if name in found:
            raise UserError(f"{where}:{lines + 1}: there are two constraints {name!r}; rename one")
        found[name] = Definition(name, piece.strip(), _BEFORE + body)
    if not found:
        raise UserError(f"{where}: there is no constraint; write CONSTRAINT name FOR TRACE BY ...")
    return found


def _statements(text: str) -> list[tuple[int, str]]:
    """Where each begins, and its text, comments blank."""
    bare = _PIECES.sub(
        lambda found: " " * len(found[0]) if found[0].startswith("--") else found[0], text
    )
    pieces, start = [], 0
    ends = [found.start() for found in _PIECES.finditer(bare) if found[0] == ";"]
    for end in [*ends, len(bare)]:
        piece = bare[start:end]
        if piece.strip():
            pieces.append((start + len(piece) - len(piece.lstrip()), piece.strip()))
        start = end + 1
    return pieces


def _placed(error: UserError, where: str) -> UserError:
    """The same, with the file's line instead of the query's."""

    def line(found: re.Match[str]) -> str:
        return f"{where}:{int(found[1]) - 1}: column {found[2]}"

    return UserError(re.sub(r"query line (\d+), column (\d+)", line, str(error), count=1))


def expanded(text: str, known: Mapping[str, Definition]) -> str:
    """A query with its constraint written out, if it only names one.

    Raises:
        UserError: there is none of this name, with the place.
    """
    for found in _NAMED.finditer(text):
        if found["under"] is None:
            continue
        word = found["name"]
        name = word if word[0] not in '"`' else word[1:-1].replace(word[0] * 2, word[0])
        if name not in known:
            hint = closest(name, known) or "write FOR TRACE BY ... AS ..., or name a file of them"
            raise refuse(text, found.span("name"), f"no constraint {name!r} is known", hint)
        return f"{text[: found.start('under')]}UNDER {known[name].text}{text[found.end('under') :]}"
    return text
