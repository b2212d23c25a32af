"""A log that grows, file by file: what comes after the file that was read last.

Files are told by their numbers, so it does not matter whether one still lies there by itself or in
a merged one (``engine.log.compaction``), nor where in that one a reader has stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engine.errors import UserError
from engine.log.arrival_log import frames_in
from engine.log.files.folder import covering, file_name
from engine.log.files.log_files import facts_in
from engine.log.files.reading import reading
from engine.stream.frame import Frame


class Piece(NamedTuple):
    """Rows of a file from ``start`` on; they go up to the log's file number ``last``."""

    path: Path
    start: int
    last: int


def piece_after(log: Path, done: int) -> Piece:
    """The next to be read when the log's files up to number ``done`` were; call it as a reader.

    Raises:
        UserError: there is none, or it is damaged.
    """
    file = covering(log, done + 1, done + 1)
    if file is None:
        raise UserError(f"{log / file_name(done + 1)}: is missing; restore it")
    if file.first == done + 1:
        return Piece(file.path, 0, file.last)
    facts = facts_in(file.path)
    assert facts is not None
    return Piece(file.path, facts.each.rows_before(done + 1 - file.first), file.last)


def frames_after(log: Path, done: int, number: int) -> Iterator[tuple[list[Frame], int]]:
    """The frames behind file ``done`` up to file ``number``, or a little more if files were merged.

    With each list of frames comes the number of the last file they are of.

    Raises:
        UserError: a file is missing or damaged.
    """
    while done < number:
        with reading(log):  # not while the frames are worked on, which may take long
            piece = piece_after(log, done)
            frames = frames_in(piece.path)[piece.start :]
        done = piece.last
        yield frames, done
