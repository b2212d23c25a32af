"""HL7 v2: MLLP framing, message structure, times, and acknowledgements."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.units import NS_PER

# MLLP frame: ``0B``, message, ``1C 0D`` (HL7 v2.x Transport Specification, Release 1, section 2).


START: Final = b"\x0b"
END: Final = b"\x1c"
_RETURN: Final = b"\r"
_MARKS: Final = re.compile(b"([\x0b\x1c])")


class MllpFrame(NamedTuple):
    """Bytes of a message. ``whole`` False: it was too long, and these are its first bytes."""

    content: bytes
    whole: bool = True


class Framing:
    """Splits the bytes of one connection into messages; buffers ``message_max`` bytes at most."""

    def __init__(self, message_max: int) -> None:
        self.counts: Counter[str] = Counter()
        """``garbage_bytes`` between messages; ``broken_off``: messages that another one cut short.
        """
        self._max = message_max
        self._part: bytearray | None = None

    @property
    def partial(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._part is not None

    def feed(self, data: bytes) -> list[MllpFrame]:
        r"""Return the messages that ``data`` completes. The final carriage return may be missing.

        >>> Framing(100).feed(b"\x0bMSH|1\x1c\r\x0bMSH|2\x1c\r")
        [MllpFrame(content=b'MSH|1', whole=True), MllpFrame(content=b'MSH|2', whole=True)]
        """
        found: list[MllpFrame] = []
        for piece in _MARKS.split(data):
            if piece == START:
                self.counts["broken_off"] += self._part is not None
                self._part = bytearray()
            elif self._part is None:
                self.counts["garbage_bytes"] += len(piece.replace(_RETURN, b""))
            elif piece == END:
                whole = len(self._part) <= self._max
                found.append(MllpFrame(bytes(self._part[: self._max]), whole))
                self._part = None
            else:
                # One byte more than allowed marks the message as too long; the rest is dropped.
                self._part += piece[: self._max + 1 - len(self._part)]
        return found


# Times of HL7 v2 (data types TS and DTM): ``YYYYMMDDHHMM[SS[.S...]][+/-ZZZZ]``.


LOCAL: Final = "local"
_TIME: Final = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})"
    r"(?:([0-9]{2})(?:\.([0-9]{1,9}))?)?([+-][0-9]{4})?"
)
_ZONE: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


_LEAP: Final = 60


def instant_of(text: str, zone: tzinfo | None) -> int:
    """Convert a time to ns since 1970; ``zone``: for times that name none (None: this device's).

    Second 60 is the start of the next second.

    >>> instant_of("19700101010000.25+0100", UTC)
    250000000

    Raises:
        Hl7Refusal: no time, less precise than a minute, or ambiguous or nonexistent because of
            a change of the zone's offset.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise Hl7Refusal("AE", 102, f"{text!r:.40} is no time to the minute (YYYYMMDDHHMM...)")
    *date, fraction, offset = found.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in date)
    if is_leap(text):
        second, fraction = _LEAP - 1, None
    try:
        there = datetime(year, month, day, hour, minute, second, tzinfo=zone_of(offset) or zone)
        seconds = int(there.timestamp())
        again = int(there.replace(fold=1).timestamp())
    except (ValueError, OverflowError) as error:
        raise Hl7Refusal("AE", 102, f"{text!r:.40} is no time: {error}") from error
    if again != seconds:
        often = "twice" if seconds < again else "never"
        raise Hl7Refusal(
            "AE",
            102,
            f"{text!r:.40} is there {often}, as clocks are turned: name its offset, as +0100",
        )
    seconds += is_leap(text)
    return seconds * NS_PER["s"] + int((fraction or "").ljust(9, "0"))


def resolution_of(text: str) -> int:
    """Resolution of a time [ns]; 0: it is no time.

    >>> resolution_of("20260101120000.25"), resolution_of("202601011200")
    (10000000, 60000000000)
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return 0
    if found[7]:
        return int(NS_PER["s"] // 10 ** len(found[7]))
    return int(NS_PER["s" if found[6] else "min"])


def is_leap(text: str) -> bool:
    """Whether the time has second 60."""
    found = _TIME.fullmatch(text)
    return found is not None and found[6] == str(_LEAP)


def zone_of(text: str | None) -> tzinfo | None:
    """The zone of an offset such as ``+0100``; None: the text is no offset.

    Raises:
        ValueError: the offset is a day or more.
    """
    found = _ZONE.fullmatch(text or "")
    if found is None:
        return None
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    if offset >= timedelta(days=1):
        raise ValueError(f"the offset {text} is a day or more")
    return timezone(-offset if found[1] == "-" else offset)


def offset_of(time: str) -> tzinfo | None:
    """The zone that a time names; None: it names none, or is no time."""
    found = _TIME.fullmatch(time)
    try:
        return None if found is None else zone_of(found[8])
    except ValueError:
        return None  # ``instant_of`` will refuse it


def named_zone(name: str) -> tzinfo | None:
    """The zone of a setting: ``local`` (None), ``Z``, ``+01:00``, or a name (``Europe/Berlin``).

    Raises:
        KeyError, ValueError, OSError: this device knows no such zone.
    """
    if name == LOCAL:
        return None
    if name in ("Z", "UTC"):
        return UTC
    return zone_of(name) or ZoneInfo(name)


def hl7_time(ns: int) -> str:
    """Format an instant as an HL7 time in UTC, with milliseconds.

    >>> hl7_time(250_000_000)
    '19700101000000.250+0000'
    """
    seconds, rest = divmod(ns, NS_PER["s"])
    there = datetime.fromtimestamp(seconds, UTC)
    return f"{there:%Y%m%d%H%M%S}.{rest // NS_PER['ms']:03d}+0000"


# The structure of an HL7 v2 message: segments, fields, components (HL7 v2.5.1, chapter 2).
#
# Parsed here, because splitting at five characters is all that is needed and the HL7 libraries take
# more than 1 ms per KB (docs/design.md).


SEGMENTS_MAX: Final = 5_000
HEADER: Final = "MSH"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_FREQUENT: Final = frozenset(("OBX", "OBR", "PID", "NTE"))
_DELIMITERS: Final = 5
_CHARSETS: Final = {
    "": "", "ASCII": "ascii", "UNICODE": "utf-8", "UNICODE UTF-8": "utf-8",
    **{f"8859/{part}": f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))},
}  # fmt: skip
"""HL7 table 0211, without the charsets that Python lacks or that move the delimiters."""


class Hl7Refusal(AgentError):  # noqa: N818 - a refusal is expected traffic, not an error
    """A refused message. ``code``: AE (bad content) or AR (not for this receiver); ``number``: an
    error code of HL7 table 0357.
    """

    def __init__(self, code: str, number: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.number = number
        self.reason = reason


class Delimiters(NamedTuple):
    r"""Delimiters of MSH-1 and MSH-2, usually ``|^~\&``."""

    field: str
    component: str
    repetition: str
    escape: str
    subcomponent: str


class Hl7Segment:
    """A line of a message. Its fields are numbered from 1, as in the standard."""

    def __init__(self, name: str, fields: list[str], delimiters: Delimiters) -> None:
        self.name = name
        self._fields = fields
        self._delimiters = delimiters
        self._texts: dict[tuple[int, int], str] = {}

    def raw(self, field: int) -> str:
        """The text of a field as received; empty: it is missing."""
        return self._fields[field] if field < len(self._fields) else ""

    def text(self, field: int, component: int = 0) -> str:
        """A field, or a component of its first repetition, with escapes resolved."""
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
            pieces[-2:] = [mark.join(pieces[-2:])]  # a single mark is literal
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
        return named.get(code, "")  # highlighting and formatting do not change the value


class Hl7Message:
    """A message whose first segment is MSH."""

    def __init__(self, header: Hl7Segment, lines: list[str], delimiters: Delimiters) -> None:
        self.header = header
        self.delimiters = delimiters
        self._lines = lines

    @property
    def control_id(self) -> str:
        """MSH-10, as received."""
        return self.header.raw(10)

    @property
    def after_header(self) -> str:
        """The segments after MSH, as received."""
        return "\r".join(self._lines)

    @cached_property
    def segments(self) -> list[Hl7Segment]:
        """The segments after MSH; raises Hl7Refusal if one has no valid name."""
        found = []
        for number, line in enumerate(self._lines, 2):
            name, *fields = line.split(self.delimiters.field)
            if name not in _FREQUENT and not _NAME.fullmatch(name):
                raise Hl7Refusal("AE", 100, f"line {number} is no segment: {name!r:.20}")
            found.append(Hl7Segment(name, [name, *fields], self.delimiters))
        return found


def read_message(content: bytes, charset: str) -> Hl7Message:
    r"""Parse a message.

    >>> read_message(b"MSH|^~\\&|MONITOR||||||ORU^R01|17|P|2.5\rOBX|1|NM|HR", "utf-8").control_id
    '17'

    Args:
        content: the bytes between the MLLP marks.
        charset: for messages that name none in MSH-18.

    Raises:
        Hl7Refusal: ``content`` is no valid message.
    """
    header = re.split(rb"[\r\n]", content, maxsplit=1)[0].decode("latin-1")
    text = _decoded(content, _charset_of(header) or charset)
    first, *lines = _lines(text) or [""]
    delimiters = _delimiters(first)
    if len(lines) > SEGMENTS_MAX:
        raise Hl7Refusal("AE", 207, f"{len(lines)} segments: more than {SEGMENTS_MAX}")
    # MSH-1 is the delimiter itself, at which the other fields are split.
    fields = first.split(delimiters.field)
    fields[1:1] = [delimiters.field]
    return Hl7Message(Hl7Segment(HEADER, fields, delimiters), lines, delimiters)


def _lines(text: str) -> list[str]:
    """Split into segments. They end in a carriage return, optionally with a line feed; other line
    feeds belong to values. Some senders end segments with line feeds only.
    """
    lines = text.replace("\r\n", "\r").split("\r") if "\r" in text else text.split("\n")
    return [line for line in lines if line]


def _delimiters(header: str) -> Delimiters:
    if not header.startswith(HEADER) or len(header) < len(HEADER) + _DELIMITERS:
        raise Hl7Refusal("AR", 100, "a message begins with MSH and its delimiters")
    found = header[len(HEADER) : len(HEADER) + _DELIMITERS]
    if len(set(found)) != _DELIMITERS or any(sign.isalnum() or sign.isspace() for sign in found):
        raise Hl7Refusal("AR", 100, f"{found!r} are no five delimiters")
    return Delimiters(*found)


def _charset_of(header: str) -> str:
    """Python's name of the first charset in MSH-18; empty: it names none."""
    fields = header.split(header[3:4] or "|")
    name = fields[17].partition("~")[0].strip().upper() if len(fields) > 17 else ""
    if name not in _CHARSETS:
        raise Hl7Refusal("AR", 207, f"character set {name!r:.30} is not known here")
    return _CHARSETS[name]


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset)
    except UnicodeDecodeError as error:
        raise Hl7Refusal(
            "AE", 102, f"byte {error.start} is not of character set {charset}"
        ) from error


# Acknowledgements of HL7 messages: ACK with MSA and, for a refusal, ERR.
#
# Original mode (MSH-15 and MSH-16 empty): one application acknowledgement, AA, AE or AR. Enhanced
# mode (HL7 v2.5.1, section 2.9.2): MSH-15 requests accept acknowledgements (CA, CE, CR), MSH-16
# requests application acknowledgements (AA, AE, AR).


_ACK_CONDITIONS: Final = {
    "AL": (True, True),
    "NE": (False, False),
    "SU": (True, False),
    "ER": (False, True),
}
"""HL7 table 0155: whether success is acknowledged, and whether a refusal is."""
_ECHO_MAX: Final = 300
"""Most characters of a field that are echoed."""
_REASON_MAX: Final = 80


def answers(
    message: Hl7Message | None, refused: Hl7Refusal | None, now_ns: int, number: int
) -> list[bytes]:
    """Make the framed acknowledgements of a message.

    Args:
        message: the message; None: even its header could not be read.
        refused: why it is refused; None: its events are durable.
        now_ns: this device's wall clock.
        number: number of this answer, for its own MSH-10.
    """
    code = "AA" if refused is None else refused.code
    codes = [code]
    if message is not None and (message.header.raw(15) or message.header.raw(16)):
        accept, application = message.header.raw(15), message.header.raw(16)
        codes = [
            each
            for each, condition in ((f"C{code[1]}", accept), (code, application))
            if _ACK_CONDITIONS.get(condition, (bool(condition), bool(condition)))[
                refused is not None
            ]
        ]
    return [_framed(_answer(message, each, refused, now_ns, number)) for each in codes]


def _answer(
    message: Hl7Message | None, code: str, refused: Hl7Refusal | None, now_ns: int, number: int
) -> str:
    field, component, *others = message.delimiters if message is not None else tuple("|^~\\&")
    echo = [""] * 20 if message is None else [message.header.raw(i)[:_ECHO_MAX] for i in range(20)]
    version = echo[12] or "2.5"
    header = [
        "MSH", "".join([component, *others]), echo[5], echo[6], echo[3], echo[4], hl7_time(now_ns),
        "", component.join(["ACK", "R01", "ACK"]), f"SLK{now_ns}-{number}", echo[11] or "P",
        version,
    ]  # fmt: skip
    if echo[18]:
        header += ["", "", "", "", "", echo[18]]
    acknowledged = ["MSA", code, echo[10]]
    lines = [header, acknowledged]
    if refused is not None:
        reason = _plain(refused.reason, field, component, *others)
        acknowledged.append(reason[:_REASON_MAX])
        number_of = component.join([str(refused.number), "", "HL70357"])
        lines.append(["ERR", "", "", number_of, "E", "", "", "", reason])
    return "".join(f"{field.join(line)}\r" for line in lines)


def _plain(text: str, *delimiters: str) -> str:
    """Remove characters of ``text`` that would be parsed as structure."""
    return "".join(sign if sign.isprintable() and sign not in delimiters else " " for sign in text)


def _framed(text: str) -> bytes:
    return START + text.encode("utf-8", "replace") + END + b"\r"
