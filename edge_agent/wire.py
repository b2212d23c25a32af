"""Encoding of messages: a 4-byte big-endian length, then one msgpack array.

The first element is the kind of message; the others follow the fields of its class in
``messages``. A decoder trusts nothing: every type, length, count and range is checked, and a
violation raises ``WireError`` only. The content of columns (codes in range, ``ts <= te``) is
checked by the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgpack

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as limits
from slackwater.edge_agent.errors import WireError
from slackwater.edge_agent.sequence import SEQ_MAX

HELLO: Final = 1
DATA: Final = 2
PROMISE: Final = 3
BEGIN: Final = 4
SYNC: Final = 5
EOS: Final = 6
WELCOME: Final = 7
ACK: Final = 8
ERROR: Final = 9
INTERVALS_REQUEST: Final = 10
MISSING_INTERVALS: Final = 11
PREFIX_BYTES: Final = 4


_PACKER: Final = msgpack.Packer()
"""One for all calls: its buffer is 256 KB, and ``pack`` does not release the interpreter lock."""


def _fields(message: m.Message) -> list[Any]:
    match message:
        case m.Data():
            return [DATA, *message] if message.clocks else [DATA, *message[:-1]]
        case m.Promise():
            return [PROMISE, message.number, message.ts, message.type, message.streams]
        case m.Begin():
            named = [] if message.clock is None else [message.clock]
            return [BEGIN, message.number, message.stream, message.ts, message.id, message.type,
                    *named]  # fmt: skip
        case m.Sync():
            named = [] if message.clock is None else [message.clock]
            return [SYNC, message.number, message.offset, message.delay, message.measured_at,
                    message.precision, message.skew_error_ppb, *named]  # fmt: skip
        case m.Eos():
            return [EOS, message.number, message.ts, message.next_seqs]
        case m.Hello():
            streams = [
                [s.schema.name, s.first_seq, s.acked, s.schema.attrs] for s in message.streams
            ]
            can = [message.capabilities] if message.capabilities else []
            return [HELLO, message.version, message.site, message.source, message.token,
                    message.incarnation, message.resend, message.control_acked,
                    streams, message.start, *can]  # fmt: skip
        case m.Welcome():
            can = [message.capabilities] if message.capabilities else []
            return [WELCOME, message.version, message.control_next, message.next_seqs, *can]
        case m.Ack():
            return [ACK, message.control_next, message.next_seqs]
        case m.IntervalsRequest():
            return [INTERVALS_REQUEST, message.intervals]
        case m.MissingIntervals():
            return [MISSING_INTERVALS, message.unended, message.unknown]
        case m.ErrorMessage():
            return [ERROR, message.reason, message.detail, message.retry, message.above]


def encode(message: m.Message) -> bytes:
    """The bytes of ``message`` with their length prefix.

    Raises:
        WireError: ``too_long`` (more than MESSAGE_MAX bytes).
    """
    body: bytes = _PACKER.pack(_fields(message))
    if len(body) > m.MESSAGE_MAX:
        raise WireError("too_long", f"{len(body)} bytes, {m.MESSAGE_MAX} are allowed")
    return len(body).to_bytes(PREFIX_BYTES, "big") + body


_NAMING: Final = (b"\x9a\x02", b"\x97\x04", b"\x98\x05")
"""First bytes of bodies that name clocks: arrays of ten, seven, eight; DATA, BEGIN, SYNC."""


def names_clocks(data: bytes) -> bool:
    """Whether a message encoded by ``encode`` names clocks."""
    return data[PREFIX_BYTES : PREFIX_BYTES + 2] in _NAMING


def without_clocks(data: bytes) -> bytes:
    """Encode a DATA or BEGIN that names clocks for a gateway that does not know them."""
    message = decode(data[PREFIX_BYTES:])
    if isinstance(message, m.Data):
        return encode(message._replace(clocks=None))
    assert isinstance(message, m.Begin)
    return encode(replace(message, clock=None))


def _int(value: object, low: int, high: int, name: str) -> int:
    if type(value) is not int:
        raise WireError("type", f"{name} is not an integer")
    if not low <= value <= high:
        raise WireError("range", f"{name} = {value}")
    return value


def _seq(value: object, name: str) -> int:
    return _int(value, 0, SEQ_MAX - 1, name)


def _time(value: object, name: str) -> int:
    return _int(value, -limits.TIME_MAX_NS, limits.TIME_MAX_NS, name)


def _text(value: object, name: str, shortest: int = 1, longest: int = m.NAME_MAX) -> str:
    if type(value) is not str:
        raise WireError("type", f"{name} is not a string")
    if not shortest <= len(value) <= longest:
        raise WireError("length", f"{name} has {len(value)} characters")
    return value


def _list(value: object, low: int, high: int, name: str) -> list[Any]:
    if type(value) is not list:
        raise WireError("type", f"{name} is not an array")
    if not low <= len(value) <= high:
        raise WireError("length", f"{name} has {len(value)} elements")
    return value


def _bytes(value: object, size: int, name: str) -> bytes:
    if type(value) is not bytes:
        raise WireError("type", f"{name} is not binary")
    if len(value) != size:
        raise WireError("length", f"{name} has {len(value)} bytes instead of {size}")
    return value


def _bool(value: object, name: str) -> bool:
    if type(value) is not bool:
        raise WireError("type", f"{name} is not a bool")
    return value


def _seqs(value: object) -> tuple[int, ...]:
    return tuple(_seq(each, "next number") for each in _list(value, 0, m.STREAMS_MAX, "numbers"))


def _schema(value: object) -> m.HelloStream:
    name, first_seq, acked, attrs = _list(value, 4, 4, "stream")
    if type(attrs) is not dict or len(attrs) > m.ATTRS_MAX:
        raise WireError("type", "attributes are not a table, or too many")
    for attr, kind in attrs.items():
        _text(attr, "attribute")
        if kind not in m.ATTR_TYPES:
            raise WireError("attr_type", f"attribute {attr} is of type {kind!r:.50}")
    first = _seq(first_seq, "first number")
    done = _int(acked, first, SEQ_MAX - 1, "acked number")
    return m.HelloStream(m.StreamSchema(_text(name, "stream"), attrs), first, done)


def _hello(f: list[Any]) -> m.Hello:
    streams = tuple(_schema(each) for each in _list(f[8], 1, m.STREAMS_MAX, "streams"))
    if len({each.schema.name for each in streams}) < len(streams):
        raise WireError("stream", "a stream is declared twice")
    return m.Hello(
        _text(f[2], "site"), _text(f[3], "source"), _text(f[4], "token", 0, m.TEXT_MAX),
        _seq(f[5], "incarnation"), _bool(f[6], "resend"), _seq(f[7], "control number"), streams,
        _int(f[9], 0, 2**64 - 1, "start"),
        _capabilities(f[10]),
    )  # fmt: skip


def _capabilities(value: object) -> tuple[str, ...]:
    return tuple(_text(each, "can") for each in _list(value, 0, m.CAPABILITIES_MAX, "can"))


def _clock(value: object) -> str | None:
    return None if value is None else _text(value, "clock")


def _texts(value: object, rows: int, name: str, longest: int) -> m.Texts:
    names, codes = _list(value, 2, 2, name)
    _list(names, 1 if codes is None else 0, m.NAMES_MAX, name)
    shortest = 0 if longest == m.TEXT_MAX else 1
    # Thousands of names per message: each one is checked only to find which is wrong.
    if names and not (
        set(map(type, names)) == {str}
        and len(max(names, key=len)) <= longest
        and len(min(names, key=len)) >= shortest
    ):
        for each in names:
            _text(each, name, shortest, longest)
    return m.Texts(names, None if codes is None else _bytes(codes, 4 * rows, name))


def _attr(value: Any, rows: int) -> m.Values | m.Texts | None:
    if value is None:
        return None
    if type(value) is not list or len(value) != 2:
        _list(value, 2, 2, "attribute")
    first, second = value
    if type(first) is bytes and len(first) in (8 * rows, rows):
        return m.Values(first, None if second is None else _bytes(second, rows, "mask"))
    if type(first) is list:
        return _texts(value, rows, "attribute", m.TEXT_MAX)
    raise WireError("length", f"an attribute is not a column of {rows} rows")


def _data(f: list[Any]) -> m.Data:
    rows = _int(f[3], 1, m.ROWS_MAX, "rows")
    return m.Data(
        _int(f[1], 0, m.STREAMS_MAX - 1, "stream"),
        _int(f[2], 0, SEQ_MAX - 1 - rows, "first number"),
        rows,
        _bytes(f[4], 8 * rows, "ts"),
        None if f[5] is None else _bytes(f[5], 8 * rows, "te"),
        None if f[6] is None else _bytes(f[6], 8 * rows, "ids"),
        None if f[7] is None else _texts(f[7], rows, "types", m.NAME_MAX),
        tuple([_attr(each, rows) for each in _list(f[8], 0, m.ATTRS_MAX, "attributes")]),
        None if f[9] is None else _texts(f[9], rows, "clocks", m.NAME_MAX),
    )


def _promise(f: list[Any]) -> m.Promise:
    pairs = []
    for each in _list(f[4], 1, m.STREAMS_MAX, "streams"):
        stream, next_seq = _list(each, 2, 2, "stream")
        pairs.append((_int(stream, 0, m.STREAMS_MAX - 1, "stream"), _seq(next_seq, "number")))
    if len(dict(pairs)) < len(pairs):
        raise WireError("stream", "a stream is promised twice")
    kind = None if f[3] is None else _text(f[3], "type")
    return m.Promise(_seq(f[1], "control number"), _time(f[2], "ts"), kind, tuple(pairs))


def _begin(f: list[Any]) -> m.Begin:
    return m.Begin(
        _seq(f[1], "control number"), _int(f[2], 0, m.STREAMS_MAX - 1, "stream"),
        _time(f[3], "ts"), _int(f[4], -(2**63), 2**63 - 1, "id"), _text(f[5], "type"),
        _clock(f[6]),
    )  # fmt: skip


def _sync(f: list[Any]) -> m.Sync:
    if (f[2] is None) != (f[3] is None):
        raise WireError("type", "offset without delay, or delay without offset")
    return m.Sync(
        _seq(f[1], "control number"),
        None if f[2] is None else _int(f[2], -limits.OFFSET_MAX_NS, limits.OFFSET_MAX_NS, "offset"),
        None if f[3] is None else _int(f[3], 0, limits.DELAY_MAX_NS, "delay"),
        _time(f[4], "measured_at"),
        _int(f[5], 0, limits.PRECISION_MAX_NS, "precision"),
        _int(f[6], 0, limits.SKEW_ERROR_MAX_PPB, "skew error"),
        _clock(f[7]),
    )


def _welcome(f: list[Any]) -> m.Welcome:
    return m.Welcome(_seq(f[2], "control number"), _seqs(f[3]), _capabilities(f[4]))


def _intervals(value: object) -> m.Intervals:
    pairs = []
    for each in _list(value, 0, m.INTERVALS_MAX, "intervals"):
        stream, number = _list(each, 2, 2, "interval")
        stream = _int(stream, 0, m.STREAMS_MAX - 1, "stream")
        pairs.append((stream, _int(number, -(2**63), 2**63 - 1, "id")))
    return tuple(pairs)


def _error(f: list[Any]) -> m.ErrorMessage:
    detail = _text(f[2], "detail", 0, m.TEXT_MAX)
    above = None if f[4] is None else _seq(f[4], "incarnation")
    return m.ErrorMessage(_text(f[1], "reason"), detail, _bool(f[3], "retry"), above)


_READERS: Final[dict[int, tuple[int, Callable[[list[Any]], m.Message]]]] = {
    HELLO: (11, _hello),
    DATA: (10, _data),
    PROMISE: (5, _promise),
    BEGIN: (7, _begin),
    SYNC: (8, _sync),
    EOS: (4, lambda f: m.Eos(_seq(f[1], "control number"), _time(f[2], "ts"), _seqs(f[3]))),
    WELCOME: (5, _welcome),
    ACK: (3, lambda f: m.Ack(_seq(f[1], "control number"), _seqs(f[2]))),
    ERROR: (5, _error),
    INTERVALS_REQUEST: (2, lambda f: m.IntervalsRequest(_intervals(f[1]))),
    MISSING_INTERVALS: (3, lambda f: m.MissingIntervals(_intervals(f[1]), _intervals(f[2]))),
}
_LAST_LEFT_OUT: Final[dict[int, Any]] = {
    HELLO: [], WELCOME: [], DATA: None, BEGIN: None, SYNC: None,
}  # fmt: skip
"""Default of an optional last field: older messages end before it."""


def _no_extension(code: int, data: bytes) -> object:
    raise WireError("type", f"msgpack extension {code} of {len(data)} bytes")


def decode(body: bytes) -> m.Message:
    """Decode a msgpack body (without the length prefix).

    Raises:
        WireError: the message is not correct; ``reason`` is one of ``msgpack type length range
            version stream attr_type kind``.
    """
    try:
        return _read(_unpacked(body))
    except WireError as error:
        # A HELLO contains a token, and kept samples are shown to people.
        raise WireError(error.reason, error.detail, b"" if _is_hello(body) else body) from error


def _is_hello(body: bytes) -> bool:
    reader = msgpack.Unpacker()
    reader.feed(body)
    try:
        reader.read_array_header()
        return bool(reader.unpack() == HELLO)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return False


def _unpacked(body: bytes) -> object:
    try:
        return msgpack.unpackb(
            body,
            strict_map_key=True,
            ext_hook=_no_extension,
            max_array_len=min(m.NAMES_MAX, len(body)),
            max_map_len=min(m.ATTRS_MAX, len(body)),
            max_str_len=4 * m.TEXT_MAX,
            max_ext_len=16,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise WireError("msgpack", str(error)[:200] or type(error).__name__) from error


def _read(fields: object) -> m.Message:
    if type(fields) is not list or not fields or type(fields[0]) is not int:
        raise WireError("kind", "not an array that begins with the kind of message")
    if fields[0] not in _READERS:
        raise WireError("kind", f"no message is of kind {fields[0]}")
    if fields[0] in (HELLO, WELCOME) and fields[1:2] != [m.PROTOCOL_VERSION]:
        said = fields[1] if len(fields) > 1 and type(fields[1]) is int else "no number"
        raise WireError("version", f"version {said}, this is {m.PROTOCOL_VERSION}")
    size, reader = _READERS[fields[0]]
    if len(fields) == size - 1 and fields[0] in _LAST_LEFT_OUT:
        fields = [*fields, _LAST_LEFT_OUT[fields[0]]]
    if len(fields) != size:
        raise WireError("length", f"{len(fields)} fields instead of {size}")
    return reader(fields)


_TLS_RECORD: Final = b"\x16\x03"
_TLS: Final = "; this is TLS, which needs [tls] on both sides"


class Decoder:
    """Splits one connection's bytes into messages; keeps at most ``limit`` + 4 + one read."""

    def __init__(self, limit: int = m.MESSAGE_MAX) -> None:
        """``limit``: longest accepted body [bytes]; may be changed later."""
        self.limit = limit
        self._rest = bytearray()
        self._broken = False

    @property
    def pending(self) -> int:
        """Bytes of an incomplete message."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[m.Message]:
        """Return the messages that ``data`` completes, in order; take them all before the next
        call.

        Raises:
            WireError: at the fault, after the valid messages before it; the stream is then
                unusable, and every later call raises ``broken``.
        """
        if self._broken:
            raise WireError("broken", "more bytes after a fault")
        if not self._rest and self._size(data) == len(data) - PREFIX_BYTES > 0:
            yield self._decoded(bytes(data[PREFIX_BYTES:]))  # one whole message, the usual case
            return
        self._rest += data
        while len(self._rest) >= PREFIX_BYTES:
            end = PREFIX_BYTES + self._size(self._rest)
            if len(self._rest) < end:
                return
            body = bytes(self._rest[PREFIX_BYTES:end])
            del self._rest[:end]
            yield self._decoded(body)

    def _size(self, data: bytes | bytearray) -> int:
        """Size of the message that begins here [bytes]."""
        size = int.from_bytes(data[:PREFIX_BYTES], "big")
        if not 1 <= size <= self.limit and len(data) >= PREFIX_BYTES:
            self._broken = True
            tls = _TLS if data.startswith(_TLS_RECORD) else ""
            raise WireError("too_long", f"{size} bytes, 1 to {self.limit} are allowed{tls}")
        return size

    def _decoded(self, body: bytes) -> m.Message:
        try:
            return decode(body)
        except WireError:
            self._broken = True
            raise
