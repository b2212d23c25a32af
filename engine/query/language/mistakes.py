"""Syntax errors of queries as messages with a line, a caret and a remedy."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from lark import Token

from slackwater.edge_agent.units import no_such_unit
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import unit_ns
from slackwater.engine.query.language.other_dialects import said_here

if TYPE_CHECKING:
    from slackwater.engine.query.language.syntax import Reference


Span = tuple[int, int]
"""Start and end of a part of the query's text, in characters."""

MAX_QUERY_CHARS: Final = 65_536
"""Limit of a text, with one statement or several."""
_SHOWN_CHARS: Final = 100


def check_length(text: str) -> None:
    """Refuse a text that is too long for a query.

    Raises:
        UserError: the message gives the limit.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise UserError(
            f"the query has {len(text)} characters; at most {MAX_QUERY_CHARS} are read. Give long "
            "lists of statements in several arguments"
        )


def refuse(text: str, at: Span, message: str, hint: str = "") -> UserError:
    """Return the error to raise for the part ``at`` of ``text``.

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


class QueryReader:
    """Base of classes that read a query; ``text`` is the whole query."""

    text: str

    def refuse(self, at: Span, message: str, hint: str = "") -> UserError:
        """Return the error to raise for the part ``at``."""
        return refuse(self.text, at, message, hint)

    def no_step(self, name: str, at: Span, steps: Collection[str]) -> UserError:
        """Return the error to raise if ``name`` is not in ``steps``."""
        there = "the steps are" if len(steps) > 1 else "the only step is"
        hint = or_meant(f"{there} {listed(steps)}", name, steps)
        return self.refuse(at, f"there is no step named {name!r}", hint)

    def which(self, noun: str, reference: Reference, owners: Collection[str]) -> UserError:
        """Return the error to raise if an attribute may belong to any of several ``owners``."""
        name = reference.parts[-1]
        written = self.text[reference.at[0] : reference.at[1]]
        hint = f"write {' or '.join(f'{owner}.{written}' for owner in list(owners)[:3])}"
        if name.quoted:
            text = "'" + name.text.replace("'", "''") + "'"
            hint = f"text goes in single quotes: {text}; as an attribute, {hint}"
        return self.refuse(reference.at, f"which {noun}'s {name.text!r} is meant?", hint)


def _picture(line: str, column: int, length: int) -> tuple[str, str]:
    """Return the line, shortened around the error if it is long, and the carets below it."""
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
    """Replace each character that is not printable by one character, so that the length is kept."""
    return "".join(
        sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in text
    )


def _width(text: str) -> int:
    """Return the number of columns of ``text`` on a terminal."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def closest(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the known word closest to ``word``, or an empty string."""
    by_key = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_key, n=1, cutoff=0.7)
    return f"did you mean {by_key[found[0]]!r}?" if found else ""


def or_meant(hint: str, word: str, known: Iterable[str]) -> str:
    """Return ``hint`` and, if one of ``known`` is close to ``word``, the question for it."""
    return "; ".join(filter(None, (hint, closest(word, known))))


def listed(words: Iterable[str], word: str = "and") -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    *head, last = words
    return f"{', '.join(head)} {word} {last}" if head else last


RESERVED: Final = frozenset({
    "event", "select", "from", "where", "within", "realtime", "return", "under", "group", "window",
    "and", "or", "not", "in", "as", "on", "true", "false", "null", "case", "when",
})  # fmt: skip
"""Words that are names only in quotes, as in ``"group"``."""

_NAMES: Final = {"NAME", "QUOTED", "MEMBER"}
_VALUE: Final = _NAMES | {"NUMBER", "STRING", "TRUE", "FALSE", "NULL", "CASE", "LPAR", "MINUS"}
_SIGNS: Final = {
    "COMMA": "','", "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'", "DOT": "'.'",
    "SEMICOLON": "", "BANG": "'!'", "ENDPOINT": "ts or te", "NUMBER": "a number",
    "STRING": "text in single quotes", "COMPARE": "a comparison (= != < <= > >=)",
    "RELATION": "a relation such as BEFORE", "BAR": "'|'", "AMPERSAND": "'&'",
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'",
    "QUESTION": "'?'", "LBRACE": "'{'", "RBRACE": "'}'",
    "GROUP_BY": "GROUP BY", "PARTITION_BY": "PARTITION BY", "ORDER_BY": "ORDER BY",
    "_AT_MOST": "AT MOST",
    "$END": "the end of the query",
}  # fmt: skip
_ARITHMETIC: Final = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"}
_KINDS_OF_JOIN: Final = {"INNER", "LEFT", "RIGHT", "FULL", "ANTI"}
# The order in which messages list what is expected.
_ORDER: Final = (
    "a name", "an alias", "a value", "a number", "text in single quotes", "','", "'.'", "'('",
    "')'", "'['", "']'", "'!'",
)  # fmt: skip
_CHAIN: Final = "write a < b < c as a < b AND b < c"


def syntax_error(text: str, token: Token, accepts: set[str]) -> UserError:
    """Return the error for ``token``; the parser ``accepts`` these terminals in its place."""
    words = _expected(accepts)
    expected = f"expected {listed(words, 'or')}" if words else ""
    if token.type == "$END":
        end = len(text.rstrip())
        hint = said_here(text[:end], "")
        return refuse(text, (end, end + 1), f"the query ends too early: {expected}", hint)
    assert token.start_pos is not None
    at = (token.start_pos, token.start_pos + len(token))
    unit = _wrong_unit(text[: at[0]])
    if unit is not None:
        word = text[unit[0] : unit[1]]
        near = closest(word, {word.upper() for word in RESERVED})
        message, instead = no_such_unit(word)
        return refuse(text, unit, message, near or instead)
    remedy = _remedied(text[: at[0]].rstrip(), token)
    if remedy is not None:
        return refuse(text, at, *remedy)
    said = said_here(text[: at[0]], text[at[0] :])
    special = "" if said else _special(text, at, token, accepts)
    if special:
        return refuse(text, at, special, expected)
    hint = ""
    if re.match(r"[^\W\d]", token):
        hint = closest(str(token), {word.strip("'") for word in words if word.isupper()})
    begins = f"'{token.upper()} " in hint  # GROUP, of GROUP BY
    if token.lower() in RESERVED and accepts & _NAMES and not begins:
        hint = f'{token.upper()} is a word of the language; as a name it is written "{token}"'
    if token.type == "COMPARE" and "COMPARE" not in accepts and "_AND" in accepts:
        hint = _CHAIN
    message = f"{printable(str(token))!r} is not understood here"
    return refuse(text, at, f"{message}; {expected}" if expected else message, said or hint)


def _wrong_unit(before: str) -> Span | None:
    """Return the place of the word before the error if it is no time unit but read as one."""
    found = re.search(r"(?<![\w.])[0-9.]+\s*([^\W\d]\w*)\s*$", before)
    if found is None or found.group(1).lower() in RESERVED or _is_unit(found.group(1)):
        return None
    return found.span(1)


def _is_unit(word: str) -> bool:
    try:
        unit_ns(word)
    except UserError:
        return False
    return True


def _remedied(before: str, token: Token) -> tuple[str, str] | None:
    """Return message and remedy of common mistakes; None for others."""
    if token.type == "BANG" and before.endswith("!"):
        return "this step is negated twice", "write one !"
    if token.type == "RPAR" and re.search(r"\bin\s*\($", before, re.IGNORECASE):
        return "IN () is never true", "name the values it may have, as in x IN (4, 8)"
    emits = re.search(r"\bemit$", before, re.IGNORECASE)
    if emits and re.match(r"\s*(explain\s+)?event\b", before, re.IGNORECASE):
        hint = (
            "EMIT AT MOST 1 EVERY 1 h bounds how many are shown; else leave EMIT out: REALTIME and "
            "--barrier say how long a match is held back"
        )
        return f"EMIT {token.upper()} is for windows; a match is emitted once it is known", hint
    kind = re.search(r"\bwindow\s+(session|rows)\b[^()]*$", before, re.IGNORECASE)
    if kind is not None and token.lower() == "drift":
        hint = "leave DRIFT out; certainty says what depends on the clocks"
        what = f"WINDOW {kind.group(1).upper()} goes by the events themselves"
        return f"{what}: to shift all of them alike changes nothing", hint
    of_rows = kind is not None and kind.group(1).lower() == "rows"
    if of_rows and token.type == "NAME" and not said_here(before, str(token)):
        return "ROWS counts events", "a window of time is TUMBLING, SLIDING or SESSION"
    return None


def _special(text: str, at: Span, token: Token, accepts: set[str]) -> str:
    """Return the message for unclosed quotes and invalid numbers; empty for other signs."""
    rest = text[at[0] :]
    if token.type:
        return ""
    if rest[0] in "'\"`":
        if len(rest) > 1 and rest[1] == rest[0] and rest[0] != "'":
            return "a name in quotes has at least one letter"
        return f"this {'text' if rest[0] == chr(39) else 'name'} has no closing quote"
    if rest[0] in "0123456789":
        number = re.match(r"[0-9.]+", rest)
        assert number is not None
        return f"{number.group()[:40]!r} is not a number" if accepts & {"NUMBER"} else ""
    return ""


def _expected(accepts: set[str]) -> list[str]:
    """Return sorted phrases for the names of terminals."""
    left = set(accepts)
    phrases: set[str] = set()
    if {"NUMBER", "STRING"} <= left:
        left -= _VALUE
        phrases.add("a value")
    elif left & _NAMES:
        phrases.add("a name")
        left -= _NAMES
    if "JOIN" in left:
        left -= _KINDS_OF_JOIN
    if left >= _ARITHMETIC or {"PLUS", "MINUS"} <= left:
        left -= _ARITHMETIC
        phrases.add("+ - * / %")
    phrases |= {_SIGNS.get(name, name.lstrip("_")) for name in left}
    phrases.discard("")
    return sorted(phrases, key=lambda word: (_rank(word), word))


def _rank(word: str) -> int:
    if word in _ORDER:
        return _ORDER.index(word)
    last = word == "the end of the query"
    return len(_ORDER) + (2 if last else 1 if word.isupper() else 0)
