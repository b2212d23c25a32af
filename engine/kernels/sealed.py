"""Files with a checksum before their content: what is damaged, or another user's, is not used."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

from engine.cache_home import own_bytes

_DIGEST: Final = 32


def sealed_bytes(content: bytes) -> bytes:
    """``content`` with its checksum before it."""
    return _digest(content) + content


def unsealed(path: Path) -> bytes | None:
    """The file's content; None: absent, another's, or damaged."""
    whole = own_bytes(path)
    if whole is None or _digest(whole[_DIGEST:]) != whole[:_DIGEST]:
        return None
    return whole[_DIGEST:]


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()
