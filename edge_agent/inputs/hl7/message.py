"""An HL7 v2 message in its pieces: segments, fields, components (HL7 v2.5.1, chapter 2).

By hand, as splitting at five characters is all that it takes, and as the libraries for it take more
than 1 ms per KB (docs/decisions.md).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, NamedTuple

from edge_agent.errors import AgentError

SEGMENTS_MAX: Final = 5_000
HEADER: Final = "MSH"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_FREQUENT: Final = frozenset(("OBX", "OBR", "PID", "NTE"))
_DELIMITERS: Final = 5
_CHARSETS: Final = {
    "": "", "ASCII": "ascii", "UNICODE": "utf-8", "UNICODE UTF-8": "utf-8",
    **{f"8859/{part}": f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))},
}  # fmt: skip
"""HL7 table 0211, as far as Python and this sender's delimiters go with it."""


class Refused(AgentError):  # noqa: N818 - a refusal is expected traffic, not an error
    """A message that is not taken. ``code``: AE (its content), AR (not for us); ``number``: of HL7
    table 0357.
    """

    def __init__(self, code: str, number: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.number = number
        self.reason = reason


class Delimiters(NamedTuple):
    r"""As MSH-1 and MSH-2 have them: ``|^~\&`` as a rule."""

    field: str
    component: str
    repetition: str
    escape: str
    subcomponent: str


class Segment:
    """A line of a message. Its fields are counted from 1, as in the standard."""

    def __init__(self, name: str, fields: list[str], delimiters: Delimiters) -> None:
        self.name = name
        self._fields = fields
        self._delimiters = delimiters
        self._texts: dict[tuple[int, int], str] = {}

    def raw(self, field: int) -> str:
        """The text of a field as it stands; empty: it is not there."""
        return self._fields[field] if field < len(self._fields) else ""

    def text(self, field: int, component: int = 0) -> str:
        """A field, or a component of its first repetition, without escapes."""
        found = self._texts.get((field, component))
        if found is None:
            found = self._texts[field, component] = self._text(field, component)
        return found

    def repeats(self, field: int) -> bool:
        """Whether a field has more than one repetition."""
        return self._delimiters.repetition in self.raw(field)

    def _text(self, field: int, component: int) -> str:
        found = self.raw(field)
        if component and found:
            first = found.partition(self._delimiters.repetition)[0]
            parts = first.split(self._delimiters.component, component)
            found = parts[component - 1] if component <= len(parts) else ""
        return self._unescaped(found)

    def _unescaped(self, text: str) -> str:
        mark = self._delimiters.escape
        if mark not in text:
            return "" if text == '""' else text  # two quotes: the value is null
        pieces = text.split(mark)
        if len(pieces) % 2 == 0:
            pieces[-2:] = [mark.join(pieces[-2:])]  # one alone begins nothing
        for place in range(1, len(pieces), 2):
            pieces[place] = self._escaped(pieces[place])
        return "".join(pieces)

    def _escaped(self, code: str) -> str:
        named = {
            "F": self._delimiters.field, "S": self._delimiters.component,
            "R": self._delimiters.repetition, "E": self._delimiters.escape,
            "T": self._delimiters.subcomponent, ".br": "\n",
        }  # fmt: skip
        if code.startswith("X"):
            try:
                return bytes.fromhex(code[1:]).decode("latin-1")
            except ValueError:
                return ""
        return named.get(code, "")  # highlighting and formatting say nothing of the value


class Message:
    """A message whose first segment is MSH."""

    def __init__(self, header: Segment, lines: list[str], delimiters: Delimiters) -> None:
        self.header = header
        self.delimiters = delimiters
        self._lines = lines

    @property
    def control_id(self) -> str:
        """MSH-10, as it stands."""
        return self.header.raw(10)

    @property
    def after_header(self) -> str:
        """The segments behind MSH, as they stand."""
        return "\r".join(self._lines)

    @cached_property
    def segments(self) -> list[Segment]:
        """The segments behind MSH; raises Refused: one has no name of a segment."""
        found = []
        for number, line in enumerate(self._lines, 2):
            name, *fields = line.split(self.delimiters.field)
            if name not in _FREQUENT and not _NAME.fullmatch(name):
                raise Refused("AE", 100, f"line {number} is no segment: {name!r:.20}")
            found.append(Segment(name, [name, *fields], self.delimiters))
        return found


def read_message(content: bytes, charset: str) -> Message:
    r"""The message that ``content`` is.

    >>> read_message(b"MSH|^~\\&|MONITOR||||||ORU^R01|17|P|2.5\rOBX|1|NM|HR", "utf-8").control_id
    '17'

    Args:
        content: between MLLP's marks.
        charset: of messages that name none in MSH-18.

    Raises:
        Refused: it is none.
    """
    header = re.split(rb"[\r\n]", content, maxsplit=1)[0].decode("latin-1")
    text = _decoded(content, _charset_of(header) or charset)
    first, *lines = _lines(text) or [""]
    delimiters = _delimiters(first)
    if len(lines) > SEGMENTS_MAX:
        raise Refused("AE", 207, f"{len(lines)} segments: more than {SEGMENTS_MAX}")
    # MSH-1 is the delimiter itself, which the other fields are cut at.
    fields = first.split(delimiters.field)
    fields[1:1] = [delimiters.field]
    return Message(Segment(HEADER, fields, delimiters), lines, delimiters)


def _lines(text: str) -> list[str]:
    """Segments end in a carriage return, perhaps with a line feed behind it; any other line feed
    is of a value. Some senders end them in line feeds alone.
    """
    lines = text.replace("\r\n", "\r").split("\r") if "\r" in text else text.split("\n")
    return [line for line in lines if line]


def _delimiters(header: str) -> Delimiters:
    if not header.startswith(HEADER) or len(header) < len(HEADER) + _DELIMITERS:
        raise Refused("AR", 100, "a message begins with MSH and its delimiters")
    found = header[len(HEADER) : len(HEADER) + _DELIMITERS]
    if len(set(found)) != _DELIMITERS or any(sign.isalnum() or sign.isspace() for sign in found):
        raise Refused("AR", 100, f"{found!r} are no five delimiters")
    return Delimiters(*found)


def _charset_of(header: str) -> str:
    """Python's name of MSH-18's first repetition; empty: it names none."""
    fields = header.split(header[3:4] or "|")
    name = fields[17].partition("~")[0].strip().upper() if len(fields) > 17 else ""
    if name not in _CHARSETS:
        raise Refused("AR", 207, f"character set {name!r:.30} is not known here")
    return _CHARSETS[name]


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset)
    except UnicodeDecodeError as error:
        raise Refused("AE", 102, f"byte {error.start} is not of character set {charset}") from error
