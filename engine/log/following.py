"""Logs that are not whole files yet: one that grows, and an input held in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import ROWS_PER_FILE, LogReader, frames_in
from slackwater.engine.log.files.folder import covering, file_name
from slackwater.engine.log.files.log_files import facts_in, reading

# Follows a growing log file by file, from the file after the last one read.
#
# Files are identified by number: a file may since have been merged into a larger one
# (``engine.log.retention``), and a reader may have stopped anywhere inside that one.


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


# An input of one pass in memory, read as an arrival log is; what is too long goes to disk.
#
# A log that goes with the pass for which it was made spares nobody anything: its frames need not be
# packed, written, read, checked and unpacked again. Small frames of one site are put together, as
# many sites that take turns make frames of a few rows: a frame costs as much as some hundred rows,
# to write, to read and to process.


HELD_BYTES: Final = 128 << 20
"""What an input may take in memory instead of being written."""
SMALL: Final = 4096
"""Rows; a frame with more goes its way alone."""
_FRAMES_HELD: Final = 1 << 15
"""Bounds the memory, as ``ROWS_PER_FILE`` does: a frame of few rows takes 5 KB."""


class HeldLog(Struct, frozen=True):
    """Frames of one input, in order, each site's with one type an attribute; see ``LogReader``."""

    frames: list[Frame]
    arrival_given: bool

    def rows(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for frame in self.frames:
            found[frame.site] += frame.batch.num_rows
        return dict(sorted(found.items()))

    def of_sites(self, sites: Collection[str] | None) -> Iterator[Frame]:
        return (frame for frame in self.frames if sites is None or frame.site in sites)

    def one_by_one(self) -> Iterator[Frame]:
        return iter(self.frames)


Log = LogReader | HeldLog


def opened(log: Path | Log) -> Log:
    """A log itself, or that of a folder.

    Raises:
        UserError: the folder is none of an arrival log.
    """
    return log if isinstance(log, HeldLog | LogReader) else LogReader(log)


def held(frames: Iterable[Frame]) -> tuple[list[Frame] | None, Iterator[Frame]]:
    """The frames as a list, if memory may hold them, else None; and all of them to be read."""
    found: list[Frame] = []
    more = iter(frames)
    room = HELD_BYTES
    for frame in more:
        found.append(frame)
        room -= frame.batch.nbytes
        if room < 0:
            return None, chain(found, more)
    return found, iter(found)


def gathered(frames: Iterable[Frame]) -> Iterator[Frame]:
    """The same records in fewer frames; each site's are in the same order."""
    waiting: dict[str, list[Frame]] = {}
    rows = held = 0
    for frame in frames:
        many = frame.batch.num_rows
        if many >= SMALL and frame.site not in waiting:
            yield frame
            continue
        waiting.setdefault(frame.site, []).append(frame)
        rows, held = rows + many, held + 1
        if rows >= ROWS_PER_FILE or held >= _FRAMES_HELD:
            yield from _joined(waiting)
            waiting, rows, held = {}, 0, 0
    yield from _joined(waiting)


def _joined(waiting: dict[str, list[Frame]]) -> Iterator[Frame]:
    """A frame per site, and per run of frames with the same columns."""
    for site, frames in waiting.items():
        for _, alike in groupby(frames, key=attrgetter("batch.schema")):
            batches = [frame.batch for frame in alike]
            if len(batches) == 1:
                yield Frame(site, batches[0])
                continue
            table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
            yield Frame(site, table.to_batches()[0])
