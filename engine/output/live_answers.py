"""Where answers go while they come, and where an engine begins in a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.files.folder import retired
from slackwater.engine.output.answer_files import SUFFIX, AnswerLines, AnswerTables
from slackwater.engine.output.json_lines import in_one_text
from slackwater.engine.output.kinds import KINDS, ResultKind, kind_of
from slackwater.engine.output.ordered import SIDE_OUTPUT, event_lines
from slackwater.engine.output.run_writer import FAILED, RESULTS, FailedQueries, OutputPart
from slackwater.engine.query.failures import QueryFailure

# Where an engine begins in a log whose oldest files were retired.


def check_begin(log: Path, answers: Path, queries: Iterable[str], begin: int = 0) -> None:
    """Answers are to be made from the log's file behind ``begin``: it must still be there, or there
    are none.

    Raises:
        UserError: files of the log were retired, and the answers that were made of them would be
            replaced by those that the rest of the log gives.
    """
    upto = retired(log).upto
    for name in queries if upto > begin else ():
        folder = answers / name
        if any(folder.glob(f"*{SUFFIX}")):
            raise UserError(
                f"query {name}: {folder} has answers to the log's files from the first on, "
                f"of which those up to {upto} were retired, and the engine's state does not fit, "
                "or a file of answers was damaged (said above): ask as before, with the same "
                "engine, and restore the file; or move that folder away, then answers are made "
                f"from file {upto + 1} on"
            )


def skipped(log: Path, done: int, tell: Callable[[str], None]) -> int:
    """The file number to continue from; ``tell`` gets a line where unread files were retired."""
    upto = retired(log).upto
    if done >= upto:
        return done
    if done:
        tell(f"answers: the log's files {done + 1} to {upto} were retired unread: they lack those")
    else:
        tell(f"answers: the log's files up to {upto} were retired: they begin behind them")
    return upto


# Output of answers as they come: lines, optional tables, and the live page. Events that were late
# or set aside go to lines as well, if requested, in folders named after their kinds.


Fed = Callable[[bytes], None]
"""Takes lines that have just been written."""
Patient = Callable[[Callable[[], Any]], Any]
"""Calls what may fail with OSError until it does not."""


class LiveAnswers:
    """Takes the parts that chains give; see ``AnswerLines`` and ``AnswerTables``.

    Args:
        lines: gets all of them.
        tables: gets them, too; None: there are no tables.
        unit_ns: of every time.
        times: of queries, by name, the aggregates that are times.
        fed: gets the lines that were not there before.
        patient: how writing is tried again.
        silent: queries whose answers go nowhere.
        failed: gets the queries that fail.
    """

    def __init__(
        self, lines: AnswerLines, tables: AnswerTables | None, unit_ns: int,
        times: Mapping[str, Collection[str]], fed: Fed, patient: Patient, failed: FailedQueries,
        silent: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._lines = lines
        self._tables = tables
        self._unit = unit_ns
        self._times = times
        self._fed = fed
        self._failed = failed
        self._silent = frozenset(silent)
        self.patient = patient
        """For what else must be written."""

    def take(self, parts: Sequence[OutputPart]) -> None:
        """Writes the results among ``parts``: each site's in the order of emission."""
        for key, kind, table in self._pieces(parts):
            lines = self._lines_of(key, kind, table)
            new = self.patient(partial(self._lines.append, key, lines))
            if new:
                self._fed(new)
            if self._tables is not None:
                self._tables.add(key, kind, table)
        for key, lines in self._aside(parts):
            self.patient(partial(self._lines.append, key, lines))
        for site, failures in self._failures(parts):
            self.patient(partial(self._failed.add, site, failures))
        self.rest()

    def caught_up(self) -> None:
        """All that the log gives has been taken: nothing more may be there."""
        self.patient(self._lines.trim)

    def rest(self) -> None:
        """Writes what has waited long enough."""
        if self._tables is not None:
            self.patient(self._tables.close_if_full)

    def close(self, end: Sequence[OutputPart] = ()) -> None:
        """Nothing more comes for now: all that waits is written.

        Args:
            end: what the end of the log would give.
        """
        for site, failures in self._failures(end):
            self._failed.at_end(site, failures)
        lines: dict[tuple[str, str], bytes] = {}
        for key, kind, table in self._pieces(end):
            lines[key] = lines.get(key, b"") + self._lines_of(key, kind, table)
        for key, more in self._aside(end):
            lines[key] = lines.get(key, b"") + more
        self.patient(lambda: self._lines.end(lines))
        if self._tables is not None:
            self.patient(self._tables.close_all)

    def state(self) -> dict[str, Any]:
        """For the next life; all that it names is on disk.

        Raises:
            OSError: it cannot be brought to the disk.
        """
        tables = {} if self._tables is None else self._tables.state()
        return {"lines": self._lines.state(), "tables": tables, "failed": self._failed.state()}

    def _pieces(
        self, parts: Sequence[OutputPart]
    ) -> Iterator[tuple[tuple[str, str], ResultKind, pa.Table]]:
        """(query, site), kind and rows of the results among ``parts`` that go somewhere."""
        return (piece for piece in _pieces(parts) if piece[0][0] not in self._silent)

    def _failures(self, parts: Sequence[OutputPart]) -> Iterator[tuple[str, list[QueryFailure]]]:
        """Site, and its queries that have failed and whose answers go somewhere."""
        for part in parts:
            if part.kind == FAILED:
                failures = [QueryFailure(**row) for row in part.content()]
                yield part.site, [each for each in failures if each.query not in self._silent]

    def _lines_of(self, key: tuple[str, str], kind: ResultKind, table: pa.Table) -> bytes:
        pieces = kind.lines(table, self._unit, self._times.get(key[0], ()))
        return "".join(map(in_one_text, pieces)).encode()

    def _aside(self, parts: Sequence[OutputPart]) -> Iterator[tuple[tuple[str, str], bytes]]:
        """(kind, site) and lines of the events among ``parts`` that did not go their way."""
        for part in parts:
            if part.kind in SIDE_OUTPUT.folders:
                shown = SIDE_OUTPUT.shown(part.content())
                lines = event_lines(part.site, shown, self._unit, SIDE_OUTPUT)
                yield (part.kind, part.site), "".join(lines).encode()


def _pieces(parts: Sequence[OutputPart]) -> Iterator[tuple[tuple[str, str], ResultKind, pa.Table]]:
    """(query, site), kind and rows of the results among ``parts``, in their order.

    Those of one site are put together: to make lines of a table costs milliseconds, however few.
    """
    tables: dict[tuple[str, str], list[pa.Table]] = {}
    for part in parts:
        for kind, table in _tables(part):
            tables.setdefault((part.site, kind.name), []).append(table)
    for (site, kind_name), of_site in tables.items():
        for _, alike in groupby(of_site, attrgetter("schema")):
            together = list(alike)
            table = pa.concat_tables(together) if len(together) > 1 else together[0]
            names = table.column("query").unique().to_pylist()
            for name in names:
                mine = table if len(names) == 1 else table.filter(pc.field("query") == name)
                yield (name, site), KINDS[kind_name], mine


def _tables(part: OutputPart) -> Iterator[tuple[ResultKind, pa.Table]]:
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
