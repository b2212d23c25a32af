"""Which files make up a log, what each says of itself, and what is kept of removed ones."""

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

# What a file of a log says of itself in its footer, and how one finds that it is no longer true.
#
# Pages have checksums of their own, a Parquet footer has none: so the facts in it have one, and
# they hold one of all rows. Each payload is marked, too: a file with marked payloads and without
# facts has lost them. Files of earlier versions have neither.


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
        """Numbers of the files that this one merges, or its own."""
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


# Which files of a folder make up its log: those of one number, and merged ones, of many.
#
# ``frames-N`` is file N of the log. ``merged-A-B`` has the rows of files A to B, one behind
# another, and stands for them whether they are still there or not. Files that were retired count no
# more.


FILE_NAME: Final = re.compile(r"frames-([0-9]+)\.parquet")
_MERGED_NAME: Final = re.compile(r"merged-([0-9]+)-([0-9]+)\.parquet")


class LogFile(NamedTuple):
    """A file with the rows of the log's files ``first`` to ``last``."""

    path: Path
    first: int
    last: int


def file_name(number: int) -> str:
    """Of a log's file, which are numbered from 1."""
    return f"frames-{number:012d}.parquet"


def merged_name(first: int, last: int) -> str:
    """Name of the merged file of files ``first`` to ``last``."""
    return f"merged-{first:012d}-{last:012d}.parquet"


def is_merged(name: str) -> bool:
    """Whether a file of that name is a merged one."""
    return _MERGED_NAME.fullmatch(name) is not None


def numbered(path: Path) -> LogFile | None:
    """What the name says; None: it is not one of ours."""
    single, many = FILE_NAME.fullmatch(path.name), _MERGED_NAME.fullmatch(path.name)
    if single is not None:
        return LogFile(path, int(single[1]), int(single[1]))
    return None if many is None else LogFile(path, int(many[1]), int(many[2]))


def chosen(files: Iterable[LogFile], upto: int) -> list[LogFile]:
    """Those that count, in order: none within another, none of the files up to ``upto``."""
    found: list[LogFile] = []
    for file in sorted(files, key=lambda file: (file.first, -file.last)):
        if (file.last > upto or not upto) and not (found and file.last <= found[-1].last):
            found.append(file)
    return found


def numbered_files(directory: Path) -> list[LogFile]:
    """Those that count among the folder's files with our names, in order.

    Raises:
        UserError: what is known of retired files is damaged.
    """
    paths = parquet_files(directory) if directory.is_dir() else []
    found = [file for path in paths if (file := numbered(path)) is not None]
    return chosen(found, retired(directory).upto)


def covering(directory: Path, first: int, last: int) -> LogFile | None:
    """The file that has files ``first`` to ``last`` of the log; None: there is none."""
    if first == last and (path := directory / file_name(first)).exists():
        return LogFile(path, first, last)
    return next(
        (file for file in numbered_files(directory) if file.first <= first and last <= file.last),
        None,
    )


# What is kept of a log's files that were removed because of their age, or for want of room.


RETIRED: Final = "retired.state"


class Retired(Struct, frozen=True):
    """Files up to number ``upto`` are no part of the log any more.

    ``first_mark`` and ``last_mark``: what identified its first file, and file ``upto``;
    ``known``: what the gateway must know of them (``engine.gateway.recall``); ``files`` and
    ``bytes``: how much was removed in all, ``unread``: how many files an engine had not read.
    """

    upto: int = 0
    first_mark: int | None = None
    last_mark: int | None = None
    known: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 0
    unread: int = 0


def retired(directory: Path) -> Retired:
    """Of the log in ``directory``.

    Raises:
        UserError: it is damaged.
    """
    path = directory / RETIRED
    state = load(path)
    if state is None and path.exists():
        raise UserError(
            f"{path}: damaged: restore it; without it nobody knows where the log begins"
        )
    return Retired(**(state or {}))


def keep(directory: Path, state: Retired) -> None:
    """Replaces what was known; on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    save(directory / RETIRED, structs.asdict(state))
