"""A state in a file that appears whole, with a checksum: what cannot be read is as not there."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import msgpack

from engine.log.whole_file import whole_file

_CHECK: Final = 4


def save(path: Path, state: Any) -> None:
    """Replaces what was there.

    Args:
        path: of the file.
        state: of what msgpack knows, with keys of any kind.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    content = msgpack.packb(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as sink:
        sink.write(zlib.crc32(content).to_bytes(_CHECK, "big"))
        sink.write(content)


def load(path: Path) -> Any:
    """What was saved last; None: nothing, or it is damaged."""
    if not path.exists():
        return None
    content = path.read_bytes()
    check, content = content[:_CHECK], content[_CHECK:]
    if check != zlib.crc32(content).to_bytes(_CHECK, "big"):
        return None
    try:
        return msgpack.unpackb(content, strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # with a checksum, but not written by this program
        return None
