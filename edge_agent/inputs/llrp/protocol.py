"""The subset of LLRP 1.1 that an inventory needs: messages, parameters, and their encoding.

Written here, because the Python client of LLRP is GPL-3.0 only, which does not fit this project's
licence (docs/design.md). Section numbers are those of the EPCglobal LLRP standard 1.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from slackwater.edge_agent.errors import AgentError

VERSION: Final = 1
"""Version 1.0.1, which readers of 1.1 understand as well."""
HEADER: Final = struct.Struct(">HII")
MESSAGE_MAX: Final = 1 << 20
UNIT_NS: Final = 1_000
"""Nanoseconds per unit of LLRP times: a microsecond."""
PARAMETERS_MAX: Final = 100_000
_TYPE_BITS: Final = 0x3FF
_TV_BIT: Final = 0x80

# Message types (16.1).
ADD_ROSPEC: Final = 20
DELETE_ROSPEC: Final = 21
ENABLE_ROSPEC: Final = 24
GET_ROSPECS: Final = 26
SET_READER_CONFIG: Final = 3
RO_ACCESS_REPORT: Final = 61
KEEPALIVE: Final = 62
READER_EVENT_NOTIFICATION: Final = 63
ENABLE_EVENTS_AND_REPORTS: Final = 64
KEEPALIVE_ACK: Final = 72
ERROR_MESSAGE: Final = 100
ANSWERS: Final = {
    ADD_ROSPEC: 30, DELETE_ROSPEC: 31, ENABLE_ROSPEC: 34, GET_ROSPECS: 36, SET_READER_CONFIG: 13,
}  # fmt: skip
"""Message type of a request -> message type of its answer."""

# Parameter types (17.2): below 128 type-value, the others with a length.
ANTENNA_ID: Final = 1
FIRST_SEEN_UTC: Final = 2
FIRST_SEEN_UPTIME: Final = 3
LAST_SEEN_UTC: Final = 4
PEAK_RSSI: Final = 6
CHANNEL_INDEX: Final = 7
TAG_SEEN_COUNT: Final = 8
ROSPEC_ID: Final = 9
EPC_96: Final = 13
UTC_TIMESTAMP: Final = 128
UPTIME: Final = 129
ROSPEC: Final = 177
RO_BOUNDARY: Final = 178
RO_START: Final = 179
RO_STOP: Final = 182
AI_SPEC: Final = 183
AI_STOP: Final = 184
INVENTORY: Final = 186
KEEPALIVE_SPEC: Final = 220
EVENTS_AND_REPORTS: Final = 226
RO_REPORT: Final = 237
TAG_CONTENT: Final = 238
TAG_REPORT: Final = 240
EPC_DATA: Final = 241
READER_EVENT: Final = 246
CONNECTION_ATTEMPT: Final = 256
LLRP_STATUS: Final = 287
TV_BYTES: Final = {
    1: 2, 2: 8, 3: 8, 4: 8, 5: 8, 6: 1, 7: 2, 8: 2, 9: 4, 10: 2, 11: 2, 12: 2, 13: 12, 14: 2,
    15: 2, 16: 4, 17: 4, 18: 4, 19: 2, 20: 2,
}  # fmt: skip
"""Value size [bytes] of each parameter without a length field (17.2.1)."""


class LlrpError(AgentError):
    """Bytes from a reader that are not LLRP; the connection must be closed."""


class LlrpMessage(NamedTuple):
    """``body``: the bytes after the header."""

    type: int
    id: int
    body: bytes


class Messages:
    """Splits the bytes of one connection into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[LlrpMessage]:
        """Return the messages that ``data`` completes; raises LlrpError: no LLRP, or too long."""
        self._rest += data
        found: list[LlrpMessage] = []
        at = 0
        while at + HEADER.size <= len(self._rest):
            first, size, number = HEADER.unpack_from(self._rest, at)
            if not 1 <= (first >> 10) & 7 <= 2 or first >> 13 or not HEADER.size <= size:
                raise LlrpError(f"no header of LLRP: {bytes(self._rest[at : at + 10]).hex()}")
            if size > MESSAGE_MAX:
                raise LlrpError(f"a message of {size} bytes; the longest is {MESSAGE_MAX}")
            if at + size > len(self._rest):
                break
            body = bytes(self._rest[at + HEADER.size : at + size])
            found.append(LlrpMessage(first & _TYPE_BITS, number, body))
            at += size
        del self._rest[:at]
        return found


def message(kind: int, number: int, body: bytes = b"") -> bytes:
    """Encode a message."""
    return HEADER.pack(VERSION << 10 | kind, HEADER.size + len(body), number) + body


def parameter(kind: int, *parts: bytes) -> bytes:
    """Encode a parameter that has a length field."""
    body = b"".join(parts)
    return struct.pack(">HH", kind, 4 + len(body)) + body


def parameters(data: bytes, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of the parameters in ``data`` from ``at``, without nested ones.

    Raises:
        LlrpError: they do not end where ``data`` ends, or there are too many.
    """
    for _ in range(PARAMETERS_MAX):
        if at == len(data):
            return
        if data[at] & _TV_BIT:
            kind = data[at] & ~_TV_BIT
            begin, end = at + 1, at + 1 + TV_BYTES.get(kind, len(data))
        else:
            kind = int.from_bytes(data[at : at + 2], "big") & _TYPE_BITS
            begin, end = at + 4, at + int.from_bytes(data[at + 2 : at + 4], "big")
        if end < begin or end > len(data):
            raise LlrpError(f"parameter {kind} at byte {at} does not fit into its message")
        yield kind, data[begin:end]
        at = end
    raise LlrpError(f"more than {PARAMETERS_MAX} parameters")


def status_of(body: bytes) -> tuple[int, str]:
    """Code (0: success) and text of an answer's LLRPStatus; raises LlrpError if it is missing."""
    for kind, value in parameters(body):
        if kind == LLRP_STATUS and len(value) >= 4:
            code, size = struct.unpack_from(">HH", value)
            return code, value[4 : 4 + size].decode("utf-8", "replace")
    raise LlrpError("an answer without LLRPStatus")
