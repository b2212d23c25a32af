"""An input of one pass in memory, read as an arrival log is; what is too long goes to disk.

A log that goes with the pass for which it was made spares nobody anything: its frames need not be
packed, written, read, checked and unpacked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from engine.log.arrival_log import LogReader
from engine.stream.frame import Frame

HELD_BYTES: Final = 128 << 20
"""What an input may take in memory instead of being written."""


@dataclass(frozen=True, slots=True)
class HeldLog:
    """Frames of one input, in order, each site's with one type an attribute; see ``LogReader``."""

    frames: list[Frame]
    arrival_given: bool

    def site_names(self) -> list[str]:
        return sorted({frame.site for frame in self.frames})

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
