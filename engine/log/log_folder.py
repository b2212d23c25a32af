"""The files of a log, the facts in their footers, and the state kept of removed files."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct, field, structs

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.whole_file import load, parquet_files, save

# The facts that a file of a log states in its footer, and how damage is detected.
#
# Parquet pages have checksums, the footer has none, so the facts have one, and include one of all
# rows. Each payload is marked, too: a file with marked payloads and without facts has lost them.
# Files of earlier versions have neither.


_FACTS: Final = b"slackwater.facts"
_CHECK: Final = b"slackwater.check"
_EARLIER: Final = b"slackwater.arrival"
_LINE_NUMBERS: Final = b"line numbers"
MARK: Final = {b"slackwater.frame": b"in a file with facts"}
"""Schema metadata of each payload."""


class FactsError(ValueError):
    """The footer is damaged, or the file was replaced."""


class Parts:
    """Rows and checksums of consecutive files, in order: int64 (files, 2)."""

    def __init__(self, pairs: np.ndarray) -> None:
        self.pairs = pairs

    @classmethod
    def of_text(cls, text: str) -> Parts:
        """Parse ``text``."""
        content = zlib.decompress(base64.b64decode(text))
        return cls(np.frombuffer(content, "<i8").astype(np.int64).reshape(-1, 2))

    @property
    def text(self) -> str:
        """The pairs as text, for ``FileFacts.parts``."""
        return base64.b64encode(zlib.compress(self.pairs.astype("<i8").tobytes())).decode()

    def __len__(self) -> int:
        return len(self.pairs)

    def rows_before(self, place: int) -> int:
        """Return the number of rows in the files before ``place`` (from 0)."""
        return int(self.pairs[:place, 0].sum())

    def mark(self, place: int) -> int:
        """Return the checksum of the file at ``place``, which identifies it."""
        return int(self.pairs[place, 1])


class FileFacts(Struct, frozen=True):
    """``number``: of the file in its log; ``frames``: number of rows; ``arrival_given``: see
    ``LogWriter``; ``checksum``: of all rows.

    In a merged file ``number`` is that of the first merged file, and ``parts`` has rows and
    checksum of each (``Parts.text``).
    """

    number: int
    frames: int
    arrival_given: bool
    checksum: int
    parts: str = ""

    @property
    def each(self) -> Parts:
        """Rows and checksums of the merged files, or of the file itself."""
        if self.parts:
            return Parts.of_text(self.parts)
        return Parts(np.array([[self.frames, self.checksum]], np.int64))

    def as_metadata(self) -> dict[bytes, bytes]:
        """Return metadata for the file's schema."""
        said = {name: value for name, value in structs.asdict(self).items() if value != ""}
        text = json.dumps(said).encode()
        return {_FACTS: text, _CHECK: str(zlib.crc32(text)).encode()}


def checksum(rows: Iterable[tuple[str, int, int, int, bytes | pa.Buffer]], before: int = 0) -> int:
    """Return the checksum of rows (site, first arrival, last arrival, number of records, payload).

    ``before``: checksum of the rows before them.
    """
    found = before
    for site, *numbers, payload in rows:
        found = zlib.crc32(payload, zlib.crc32(repr((site, numbers)).encode(), found))
    return found


def facts_of(metadata: Mapping[bytes, bytes] | None) -> FileFacts | None:
    """Return the facts in the schema's metadata; None: it has none.

    Raises:
        FactsError: the facts are damaged.
    """
    text, check = ((metadata or {}).get(name) for name in (_FACTS, _CHECK))
    if text is None and check is None:
        return None
    if text is None or check != str(zlib.crc32(text)).encode():
        raise FactsError("its footer is not as it was written")
    return FileFacts(**json.loads(text))


def earlier_arrival_given(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Whether arrivals are instants, for a file of an earlier version."""
    return (metadata or {}).get(_EARLIER) != _LINE_NUMBERS


def is_marked(schema: pa.Schema) -> bool:
    """Whether a payload with this schema belongs in a file with facts."""
    return bool((schema.metadata or {}).keys() & MARK.keys())


# Names of the files of a log.
#
# ``frames-N`` is file N of the log. ``merged-A-B`` has the rows of files A to B, in order, and
# replaces them, whether they still exist or not. Retired files are ignored.


FILE_NAME: Final = re.compile(r"frames-([0-9]+)\.parquet")
_MERGED_NAME: Final = re.compile(r"merged-([0-9]+)-([0-9]+)\.parquet")


class LogFile(NamedTuple):
    """A file with the rows of the log's files ``first`` to ``last``."""

    path: Path
    first: int
    last: int


def file_name(number: int) -> str:
    """Return the name of a log's file; numbers begin at 1."""
    return f"frames-{number:012d}.parquet"


def merged_name(first: int, last: int) -> str:
    """Return the name of the merged file of files ``first`` to ``last``."""
    return f"merged-{first:012d}-{last:012d}.parquet"


def is_merged(name: str) -> bool:
    """Whether a file of that name is a merged file."""
    return _MERGED_NAME.fullmatch(name) is not None


def numbered(path: Path) -> LogFile | None:
    """Return the numbers in the name; None: not a file of the log."""
    single, many = FILE_NAME.fullmatch(path.name), _MERGED_NAME.fullmatch(path.name)
    if single is not None:
        return LogFile(path, int(single[1]), int(single[1]))
    return None if many is None else LogFile(path, int(many[1]), int(many[2]))


def chosen(files: Iterable[LogFile], upto: int) -> list[LogFile]:
    """Return the files in use, in order: none within another, none up to ``upto``."""
    found: list[LogFile] = []
    for file in sorted(files, key=lambda file: (file.first, -file.last)):
        if (file.last > upto or not upto) and not (found and file.last <= found[-1].last):
            found.append(file)
    return found


def numbered_files(directory: Path) -> list[LogFile]:
    """Return the files in use in a folder, in order.

    Raises:
        UserError: the state of retired files is damaged.
    """
    paths = parquet_files(directory) if directory.is_dir() else []
    found = [file for path in paths if (file := numbered(path)) is not None]
    return chosen(found, retired(directory).upto)


def covering(directory: Path, first: int, last: int) -> LogFile | None:
    """Return the file that has files ``first`` to ``last`` of the log; None: there is none."""
    if first == last and (path := directory / file_name(first)).exists():
        return LogFile(path, first, last)
    return next(
        (file for file in numbered_files(directory) if file.first <= first and last <= file.last),
        None,
    )


# The state kept of files that were removed by age or size.


RETIRED: Final = "retired.state"


class Retired(Struct, frozen=True):
    """Files up to number ``upto`` are no longer part of the log.

    ``first_mark`` and ``last_mark``: marks of the first file and of file ``upto``; ``known``: what
    the gateway needs of them (``engine.gateway.recall``); ``bytes``: total size of removed files;
    ``unread``: number of files that an engine had not read.
    """

    upto: int = 0
    first_mark: int | None = None
    last_mark: int | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 0
    unread: int = 0


def retired(directory: Path) -> Retired:
    """Return the state of retired files of the log in ``directory``.

    Raises:
        UserError: the state is damaged.
    """
    path = directory / RETIRED
    state = load(path)
    if state is None and path.exists():
        raise UserError(
            f"{path}: damaged: restore it; without it nobody knows where the log begins"
        )
    return Retired(**(state or {}))


def keep(directory: Path, state: Retired) -> None:
    """Replace the state; it is on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    save(directory / RETIRED, structs.asdict(state))
