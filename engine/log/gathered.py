"""Small frames of one site put together: many sites that take turns make frames of a few rows.

A frame costs as much as some hundred rows, to write, to read and to process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

import pyarrow as pa

from engine.log.arrival_log import ROWS_PER_FILE
from engine.stream.frame import Frame

SMALL: Final = 4096
"""Rows; a frame with more goes its way alone."""
_FRAMES_HELD: Final = 1 << 15
"""Bounds the memory, as ``ROWS_PER_FILE`` does: a frame of few rows takes 5 KB."""


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
