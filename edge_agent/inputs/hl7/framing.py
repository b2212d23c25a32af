"""MLLP: ``0B``, a message, ``1C 0D`` (HL7 v2.x Transport Specification, Release 1, section 2)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

START: Final = b"\x0b"
END: Final = b"\x1c"
_RETURN: Final = b"\r"
_MARKS: Final = re.compile(b"([\x0b\x1c])")


class Frame(NamedTuple):
    """A message's bytes. ``whole`` False: it was longer than allowed, these are its first bytes."""

    content: bytes
    whole: bool = True


class Framing:
    """Cuts the bytes of one connection into messages; holds at most ``message_max`` of them."""

    def __init__(self, message_max: int) -> None:
        self.counts: Counter[str] = Counter()
        """``garbage_bytes`` between messages; ``broken_off``: messages that another cut short."""
        self._max = message_max
        self._part: bytearray | None = None

    @property
    def partial(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._part is not None

    def feed(self, data: bytes) -> list[Frame]:
        r"""The messages that ``data`` completes. The final carriage return may be missing.

        >>> Framing(100).feed(b"\x0bMSH|1\x1c\r\x0bMSH|2\x1c\r")
        [Frame(content=b'MSH|1', whole=True), Frame(content=b'MSH|2', whole=True)]
        """
        found: list[Frame] = []
        for piece in _MARKS.split(data):
            if piece == START:
                self.counts["broken_off"] += self._part is not None
                self._part = bytearray()
            elif self._part is None:
                self.counts["garbage_bytes"] += len(piece.replace(_RETURN, b""))
            elif piece == END:
                whole = len(self._part) <= self._max
                found.append(Frame(bytes(self._part[: self._max]), whole))
                self._part = None
            else:
                # One byte more than allowed tells that it was too long; the rest is not kept.
                self._part += piece[: self._max + 1 - len(self._part)]
        return found
