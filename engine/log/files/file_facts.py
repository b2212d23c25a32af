"""What a file of a log says of itself in its footer, and how one finds that it is no longer true.

Pages have checksums of their own, a Parquet footer has none: so the facts in it have one, and they
hold one of all rows. Each payload is marked, too: a file with marked payloads and without facts has
lost them. Files of earlier versions have neither.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec import Struct, structs

_FACTS: Final = b"slackwater.facts"
_CHECK: Final = b"slackwater.check"
_EARLIER: Final = b"slackwater.arrival"
_LINE_NUMBERS: Final = b"line numbers"
MARK: Final = {b"slackwater.frame": b"in a file with facts"}
"""Schema metadata of each payload."""


class FactsError(ValueError):
    """The footer is damaged, or the file is not the one it was."""


class Parts:
    """Rows and checksums of consecutive files: int64 pairs, in order."""

    def __init__(self, pairs: np.ndarray) -> None:
        self.pairs = pairs

    @classmethod
    def of_text(cls, text: str) -> Parts:
        """Inverse of ``text``."""
        content = zlib.decompress(base64.b64decode(text))
        return cls(np.frombuffer(content, "<i8").astype(np.int64).reshape(-1, 2))

    @property
    def text(self) -> str:
        """For facts."""
        return base64.b64encode(zlib.compress(self.pairs.astype("<i8").tobytes())).decode()

    def __len__(self) -> int:
        return len(self.pairs)

    def rows_before(self, place: int) -> int:
        """Rows of the files before the one at ``place``, counted from 0."""
        return int(self.pairs[:place, 0].sum())

    def mark(self, place: int) -> int:
        """What tells the file at ``place`` from others."""
        return int(self.pairs[place, 1])


class FileFacts(Struct, frozen=True):
    """``number``: of the file in its log; ``frames``: its rows; ``arrival_given``: see
    ``LogWriter``; ``checksum``: of all rows.

    Of a merged file ``number`` is the first of those it stands for, and ``parts`` has rows and
    checksum of each (``Parts.text``).
    """

    number: int
    frames: int
    arrival_given: bool
    checksum: int
    parts: str = ""

    @property
    def each(self) -> Parts:
        """Of the files that this one stands for, or is."""
        if self.parts:
            return Parts.of_text(self.parts)
        return Parts(np.array([[self.frames, self.checksum]], np.int64))

    def as_metadata(self) -> dict[bytes, bytes]:
        """For the file's schema."""
        said = {name: value for name, value in structs.asdict(self).items() if value != ""}
        text = json.dumps(said).encode()
        return {_FACTS: text, _CHECK: str(zlib.crc32(text)).encode()}


def checksum(rows: Iterable[tuple[str, int, int, int, bytes | pa.Buffer]], before: int = 0) -> int:
    """Of rows (site, first arrival, last arrival, number of records, payload).

    ``before``: that of the rows before them.
    """
    found = before
    for site, *numbers, payload in rows:
        found = zlib.crc32(payload, zlib.crc32(repr((site, numbers)).encode(), found))
    return found


def facts_of(metadata: Mapping[bytes, bytes] | None) -> FileFacts | None:
    """What the schema's metadata says; None: nothing.

    Raises:
        FactsError: damaged.
    """
    text, check = ((metadata or {}).get(name) for name in (_FACTS, _CHECK))
    if text is None and check is None:
        return None
    if text is None or check != str(zlib.crc32(text)).encode():
        raise FactsError("its footer is not as it was written")
    return FileFacts(**json.loads(text))


def earlier_arrival_given(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Of a file of an earlier version."""
    return (metadata or {}).get(_EARLIER) != _LINE_NUMBERS


def is_marked(schema: pa.Schema) -> bool:
    """Whether a payload of this schema stands in a file with facts."""
    return bool((schema.metadata or {}).keys() & MARK.keys())
