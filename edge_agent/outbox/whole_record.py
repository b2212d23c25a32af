"""Small things that an outbox must not forget: one JSON object, kept twice with a checksum.

Each copy is replaced whole. A copy that has rotted fails its checksum, and the other one counts.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from edge_agent.outbox.files import Files

READ_MAX: Final = 1 << 20
_COPIES: Final = ("", ".copy")


def store(files: Files, name: str, value: Mapping[str, Any]) -> None:
    """Returns when ``value`` is on the disk under ``name``.

    Raises:
        OSError: it may or may not be; what was there before is still, at least in one copy.
    """
    text = json.dumps(value, sort_keys=True)
    line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
    for copy in _COPIES:
        files.replace(name + copy, line)


def load(files: Files, name: str) -> dict[str, Any] | None:
    """What was stored; None: nothing was, or no copy is whole."""
    names = files.names()
    for copy in _COPIES:
        if name + copy in names:
            try:
                found = _read(files.read(name + copy, 0, READ_MAX))
            except OSError:
                continue  # a copy on a bad sector; the other one may be readable
            if found is not None:
                return found
    return None


def _read(line: bytes) -> dict[str, Any] | None:
    crc, _, text = line.rstrip(b"\n").partition(b" ")
    if crc != f"{zlib.crc32(text):08x}".encode():
        return None
    value = json.loads(text)
    return value if type(value) is dict else None
