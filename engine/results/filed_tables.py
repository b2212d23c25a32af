"""The files of one site's table of answers: ``SITE.rows-FIRST-END.parquet``, run after run of rows.

They are found by their names. One checksum goes over the content of all of them, in their order:
so a life that begins sees whether any was damaged, exchanged or taken away since.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from engine.results.answer_lines import AnswersDamaged
from engine.results.tables.table_file import PARQUET, is_whole

_NAME: Final = re.compile(r"(.+)\.rows-([0-9]{12,})-([0-9]{12,})\.parquet")
_ASIDE: Final = ".damaged"
_PIECE: Final = 1 << 20


class _Run(NamedTuple):
    path: Path
    first: int
    end: int


class FiledTables:
    """Of the site and query at ``place`` (folder of the query, name of the site).

    Args:
        place: as above.
        tell: takes a line for people.
        known: what ``state`` gave; None: all is made again, and files that are whole are kept.

    Raises:
        AnswersDamaged: the files are not as ``known`` says; a damaged one was moved aside.
        OSError: one cannot be read, or not be moved.
    """

    def __init__(
        self, place: Path, tell: Callable[[str], None], known: tuple[int, int] | None = None
    ) -> None:
        self._place = place
        self._tell = tell
        self.end = 0
        """Rows in files."""
        self._sum = 0
        self._unsummed: list[Path] = []
        place.parent.mkdir(parents=True, exist_ok=True)
        runs = self._runs()
        self._follow(runs if known is None else self._behind(runs, *known))

    def file_of(self, rows: int) -> Path:
        """The file for the next ``rows``."""
        name = f"{self._place.name}.rows-{self.end:012d}-{self.end + rows:012d}{PARQUET}"
        return self._place.with_name(name)

    def filed(self, path: Path, rows: int) -> None:
        """The next rows are in that file."""
        self.end += rows
        self._unsummed.append(path)

    def state(self) -> tuple[int, int]:
        """For the next life.

        Raises:
            AnswersDamaged: a file is gone.
            OSError: one cannot be read.
        """
        while self._unsummed:
            if not self._unsummed[0].exists():
                raise AnswersDamaged(f"{self._unsummed[0]}: is gone")
            self._sum = _sum(self._unsummed[0], self._sum)
            del self._unsummed[0]
        return self.end, self._sum

    def _runs(self) -> list[_Run]:
        found = []
        for path in sorted(self._place.parent.glob(f"*{PARQUET}")):
            name = _NAME.fullmatch(path.name)
            if name is not None and name[1] == self._place.name:
                found.append(_Run(path, int(name[2]), int(name[3])))
        return found

    def _behind(self, runs: list[_Run], end: int, wanted: int) -> list[_Run]:
        """Those of ``runs`` that do not belong to the rows up to ``end``; these are as they were.

        Nothing is removed if they are not: the log may not have any more what they are made of.
        """
        mine: list[_Run] = []
        for run in runs:
            if run.first == self.end < end:
                mine.append(run)
                self.end, self._sum = run.end, _sum(run.path, self._sum)
        if self.end != end:
            raise AnswersDamaged(f"{self._place}: the file of its rows from {self.end} on is gone")
        if self._sum != wanted:
            # Of files that can be read none is known to be right.
            hurt = [run for run in mine if not is_whole(run.path, run.end - run.first)] or mine
            names = ", ".join(_put_aside(run.path).name for run in hurt)
            raise AnswersDamaged(f"{hurt[0].path}: is not as it was written; kept: {names}")
        return [run for run in runs if run not in mine]

    def _follow(self, runs: list[_Run]) -> None:
        """Takes what follows, as another life or engine has written it, up to a gap."""
        for run in runs:
            if run.first != self.end:
                run.path.unlink()
            elif is_whole(run.path, run.end - run.first):
                self.filed(run.path, run.end - run.first)
            else:
                kept = _put_aside(run.path)
                self._tell(f"{run.path}: was damaged, and is made anew; kept as {kept.name}")


def _put_aside(path: Path) -> Path:
    return path.rename(path.with_name(path.name + _ASIDE))


def _sum(path: Path, before: int) -> int:
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            before = zlib.crc32(piece, before)
    return before
