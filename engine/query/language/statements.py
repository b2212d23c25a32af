"""A text of several statements, and the name that ``CREATE STREAM name AS`` gives to one.

Statements follow one another, separated by ``;``. Each is a query; the grammar does not depend on
what comes before or after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.query.language import syntax as s
from slackwater.engine.query.language.mistakes import Span, check_length, closest, refuse
from slackwater.engine.query.language.parse import parse

# A file of constraints has one or more ``CONSTRAINT name FOR TRACE BY attribute AS expression;``.
# ``UNDER CONSTRAINT name`` in a query includes the constraint with that name.


_NAMED: Final = re.compile(
    r"--[^\n]*|'(?:[^']|'')*'"
    r"|(?P<under>\bUNDER\s+CONSTRAINT\s+(?P<name>[^\W\d]\w*|\"(?:[^\"]|\"\")+\"|`(?:[^`]|``)+`))"
    r"(?!\s*\w)(?!\s+FOR\b)",
    re.IGNORECASE,
)
_BEFORE: Final = "EVENT SEQ(a a1, b b1) UNDER\n"
"""The parser reads a constraint only within a query, so this precedes it, one line above."""


class Definition(Struct, frozen=True):
    """``text``: from CONSTRAINT on, without a semicolon; ``query``: a query with the constraint."""

    name: str
    text: str
    query: str


def definitions(text: str, where: str) -> dict[str, Definition]:
    """Return the constraints of a file, by name.

    Args:
        text: the content of the file.
        where: the name of the file, for messages.

    Raises:
        UserError: there is no constraint, a name occurs twice, or a constraint does not parse.
    """
    found: dict[str, Definition] = {}
    for start, end in _pieces(text):
        whole = _PIECE.sub(_without_comment, text[start:end])
        piece = whole.strip()
        if not piece:
            continue
        lines = text.count("\n", 0, start + whole.index(piece))
        body = "\n" * lines + piece
        try:
            parsed = parse(_BEFORE + body)
        except UserError as error:
            raise _placed(error, where) from error
        assert isinstance(parsed, s.EventQuery)
        under = parsed.clauses[0]
        if not isinstance(under, s.Under) or len(parsed.clauses) > 1:
            raise UserError(f"{where}:{lines + 1}: one constraint ends with a semicolon")
        name = under.name.text
        if name in found:
            raise UserError(f"{where}:{lines + 1}: there are two constraints {name!r}; rename one")
        found[name] = Definition(name, piece, _BEFORE + body)
    if not found:
        raise UserError(f"{where}: there is no constraint; write CONSTRAINT name FOR TRACE BY ...")
    return found


def _without_comment(piece: re.Match[str]) -> str:
    return " " * len(piece[0]) if piece[0].startswith("--") else piece[0]


def _placed(error: UserError, where: str) -> UserError:
    """Return the error with the file's line instead of the query's."""

    def line(found: re.Match[str]) -> str:
        return f"{where}:{int(found[1]) - 1}: column {found[2]}"

    return UserError(re.sub(r"query line (\d+), column (\d+)", line, str(error), count=1))


def expanded(text: str, known: Mapping[str, Definition]) -> str:
    """Return the query with the named constraint written out; unchanged if it names none.

    Raises:
        UserError: no constraint has this name; the message has the place.
    """
    for found in _NAMED.finditer(text):
        if found["under"] is None:
            continue
        name = _unquoted(found["name"])
        if name not in known:
            hint = closest(name, known) or "write FOR TRACE BY ... AS ..., or name a file of them"
            raise refuse(text, found.span("name"), f"no constraint {name!r} is known", hint)
        return f"{text[: found.start('under')]}UNDER {known[name].text}{text[found.end('under') :]}"
    return text


_PIECE: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|;", re.DOTALL
)
"""Quoted text and comments, whose semicolons end nothing, or a semicolon."""
_SPACE: Final = r"(?:\s|--[^\n]*(?:\n|$))"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*|\"(?:[^\"]|\"\")+\"|`(?:[^`]|``)+`"
_BLANK: Final = re.compile(rf"{_SPACE}*\Z")
_EXPLAIN: Final = re.compile(rf"{_SPACE}*(EXPLAIN)\b", re.IGNORECASE)
_CREATE: Final = re.compile(rf"{_SPACE}*(CREATE)\b", re.IGNORECASE)
_HEAD: Final = re.compile(
    rf"{_SPACE}*CREATE{_SPACE}+STREAM{_SPACE}+(?P<name>{_NAME}){_SPACE}+AS\b", re.IGNORECASE
)


class Statement(Struct, frozen=True):
    """One statement of a text.

    ``text``: the query; what precedes it in the whole text is replaced by blanks, so that line
    numbers in errors are those of the file. ``stream``: the name by which other statements read
    its results; None: they cannot. ``named_at``: the place of that name in the whole text.
    """

    text: str
    stream: str | None
    named_at: Span
    explained: bool = False


def statements(text: str) -> list[Statement]:
    """Return the statements of ``text``; EXPLAIN before the first one applies to all.

    >>> [(s.stream, s.text.strip()) for s in statements("CREATE STREAM a AS SELECT 1; SELECT ';'")]
    [('a', 'SELECT 1'), (None, "SELECT ';'")]

    Raises:
        UserError: CREATE without STREAM, a name and AS; or the text is too long.
    """
    check_length(text)
    found: list[Statement] = []
    for start, end in _pieces(text):
        found.append(_statement(text, start, end))
    if len(found) > 1:
        for one in found[1:]:
            if one.explained:
                at = one.text.upper().index("EXPLAIN")
                hint = "EXPLAIN goes before the first statement and covers all of them"
                raise refuse(text, (at, at + 7), "EXPLAIN is in the middle", hint)
    return found


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each statement; a text without statements is one piece."""
    start, some = 0, False
    for piece in _PIECE.finditer(text):
        if piece.group() == ";":
            if not _BLANK.match(text[start : piece.start()]):
                yield start, piece.start()
                some = True
            start = piece.end()
    if not some or not _BLANK.match(text[start:]):
        yield start, len(text)


def _statement(text: str, start: int, end: int) -> Statement:
    body = text[start:end]
    explains = _EXPLAIN.match(body)
    offset = explains.end() if explains else 0
    head = _HEAD.match(body, offset)
    if head is None:
        create = _CREATE.match(body, offset)
        if create is not None:
            at = start + create.start(1), start + create.end(1)
            hint = "as in CREATE STREAM fast AS SELECT avg(v) AS v FROM s WINDOW TUMBLING 10 s"
            raise refuse(text, at, "CREATE needs STREAM, a name and AS", hint)
        return Statement(_blank(text[:start]) + body, None, (start, start), explains is not None)
    name = _unquoted(head.group("name"))
    at = start + head.start("name"), start + head.end("name")
    query_text = _blank(text[:start] + body[: head.end()]) + body[head.end() :]
    return Statement(query_text, name, at, explains is not None)


def _unquoted(word: str) -> str:
    return word if word[0] not in '"`' else word[1:-1].replace(word[0] * 2, word[0])


def _blank(text: str) -> str:
    """Replace every character by a blank, except line feeds."""
    return re.sub(r"[^\n]", " ", text)


def check_name(name: str, text: str, at: Span) -> None:
    """Refuse a name that cannot be the name of a folder.

    Raises:
        UserError: the message says which names are valid.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
        hint = "a stream's name has letters, digits and _, as its results are kept under it"
        raise refuse(text, at, f"{name[:40]!r} is no name for a stream", hint)


def is_cascade(text: str) -> bool:
    """Whether ``text`` has several statements or a CREATE STREAM."""
    return several(statements(text))


def several(found: list[Statement]) -> bool:
    """Whether ``found`` has several statements or a CREATE STREAM."""
    return len(found) > 1 or any(one.stream is not None for one in found)
