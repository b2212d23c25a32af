"""Which files of a folder make up its log: those of one number, and merged ones, of many.

``frames-N`` is file N of the log. ``merged-A-B`` has the rows of files A to B, one behind another,
and stands for them whether they are still there or not. Files that were retired count no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from engine.log.files.retired import retired
from engine.log.whole_file import parquet_files

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
    """Of the file that stands for files ``first`` to ``last``."""
    return f"merged-{first:012d}-{last:012d}.parquet"


def is_merged(name: str) -> bool:
    """Whether a file of that name stands for others."""
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
        if file.last > upto and not (found and file.last <= found[-1].last):
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
