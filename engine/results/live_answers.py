"""Where answers go while they come: lines, tables if wanted, and whoever looks on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.results.answer_lines import AnswerLines
from engine.results.answer_tables import AnswerTables
from engine.results.kinds import KINDS, ResultKind, kind_of
from engine.results.lines.json_texts import in_one_text
from engine.results.run_writer import RESULTS, Part

Fed = Callable[[bytes], None]
"""Takes lines that have just been written."""
Patient = Callable[[Callable[[], Any]], Any]
"""Calls what may fail with OSError until it does not."""


class LiveAnswers:
    """Takes the parts that chains give; see ``AnswerLines`` and ``AnswerTables``.

    Args:
        lines: gets all of them.
        tables: gets them, too; None: there are no tables.
        unit_ns: of every time, rounded down.
        times: of queries, by name, the aggregates that are times.
        fed: gets the lines that were not there before.
        patient: how writing is tried again.
    """

    def __init__(
        self, lines: AnswerLines, tables: AnswerTables | None, unit_ns: int,
        times: Mapping[str, Collection[str]], fed: Fed, patient: Patient,
    ) -> None:  # fmt: skip
        self._lines = lines
        self._tables = tables
        self._unit = unit_ns
        self._times = times
        self._fed = fed
        self.patient = patient
        """For what else must be written."""

    def take(self, parts: Sequence[Part]) -> None:
        """Writes the results among ``parts``: each site's in the order of emission."""
        for key, kind, table in _pieces(parts):
            lines = self._lines_of(key, kind, table)
            new = self.patient(partial(self._lines.append, key, lines))
            if new:
                self._fed(new)
            if self._tables is not None:
                self._tables.add(key, kind, table)
                self.patient(self._tables.close_if_full)

    def caught_up(self) -> None:
        """All that the log gives has been taken: nothing more may be there."""
        self.patient(self._lines.trim)

    def rest(self) -> None:
        """Nothing comes for now: what has waited long enough is written."""
        if self._tables is not None:
            self.patient(self._tables.close_if_full)

    def close(self, end: Sequence[Part] = ()) -> None:
        """Nothing more comes for now: all that waits is written.

        Args:
            end: what the end of the log would give.
        """
        lines: dict[tuple[str, str], bytes] = {}
        for key, kind, table in _pieces(end):
            lines[key] = lines.get(key, b"") + self._lines_of(key, kind, table)
        self.patient(lambda: self._lines.end(lines))
        if self._tables is not None:
            self.patient(self._tables.close_all)

    def state(self) -> dict[str, Any]:
        """For the next life; all that it names is on disk.

        Raises:
            OSError: it cannot be brought to the disk.
        """
        tables = {} if self._tables is None else self._tables.state()
        return {"lines": self._lines.state(), "tables": tables}

    def _lines_of(self, key: tuple[str, str], kind: ResultKind, table: pa.Table) -> bytes:
        pieces = kind.lines(table, self._unit, self._times.get(key[0], ()))
        return "".join(map(in_one_text, pieces)).encode()


def _pieces(parts: Sequence[Part]) -> Iterator[tuple[tuple[str, str], ResultKind, pa.Table]]:
    """(query, site), kind and rows of the results among ``parts``, in their order."""
    for part in parts:
        for kind, table in _tables(part):
            names = table.column("query").unique().to_pylist()
            for name in names:
                mine = table if len(names) == 1 else table.filter(pc.field("query") == name)
                yield (name, part.site), kind, mine


def _tables(part: Part) -> Iterator[tuple[ResultKind, pa.Table]]:
    """Kind and rows of the results in a part."""
    if part.kind in KINDS:
        yield KINDS[part.kind], part.content()
    elif part.kind == RESULTS:
        results = part.content()
        kinds = [kind_of(result) for result in results]
        for kind in KINDS.values():
            mine = [result for result, of in zip(results, kinds, strict=True) if of is kind]
            if mine:
                yield kind, kind.rows(range(len(mine)), mine)
