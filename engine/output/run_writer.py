"""Writes the output of one pass over a log, batch by batch, idempotently.

Layout: ``windows/ matches/ ordered/ late/ quarantined/`` (Parquet parts per micro-batch),
``counters.json`` (see ``engine.scenario``), or on Spark ``spark/`` (``engine.output.spark_parts``).
Chains may run in other processes, so their output comes as ``OutputPart``s: a site, a kind and
content, which is bytes between processes.
"""

from __future__ import annotations

import json
import shutil
from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent.errors import one_line
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Result
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.output.answer_files import AnswerLines, AnswerTables, site_file
from slackwater.engine.output.answer_retention import SUFFIX, closed_files
from slackwater.engine.output.durability import AnswersDamaged
from slackwater.engine.output.json_lines import in_one_text
from slackwater.engine.output.ordered_stream import (
    LATE,
    ORDERED,
    QUARANTINED,
    SIDE_OUTPUT,
    event_lines,
)
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.result_kinds import KINDS, ResultKind, kind_of
from slackwater.engine.output.schema import POSITION
from slackwater.engine.output.spark_parts import BY_SPARK, COUNTERS, SparkParts
from slackwater.engine.output.table_files import (
    by_schema,
    event_tables,
    table_bytes,
    table_of_bytes,
)
from slackwater.engine.query.failures import QueryFailure

# Queries that have failed at a site, in files with their answers: ``QUERY/SITE.failed.json``.
#
# A failed query gives no more answers for that site, also after a restart, as the cause is in the
# log. It is retried from the log's beginning if its file is removed, or by another version of the
# program; with other queries or settings an engine starts from scratch anyway.


_SUFFIX: Final = ".failed.json"
_SAID: Final = 5
Failed = dict[str, str]
"""``site``, ``query``, ``reason``, and the ``version`` of the program."""


class FailedQueries:
    """The failed queries among the answers in ``folder``.

    Args:
        folder: has a folder for each query.
        queries: names of the current queries.
        known: result of ``state``; None: start from scratch.
        again: whether answers can be computed from the log's beginning.
        tell: takes a line for the user.
        changed: takes all failures, at once and after each addition.

    Raises:
        AnswersDamaged: a query must be retried, so all answers must be computed again.
    """

    def __init__(
        self, folder: Path, queries: Collection[str], known: Sequence[Failed] | None, *,
        again: bool, tell: Callable[[str], None], changed: Callable[[list[Failed]], None],
    ) -> None:  # fmt: skip
        self._folder = folder
        self._tell = tell
        self._changed = changed
        self._version = version("slackwater")
        self._failed = {(each["query"], each["site"]): each for each in known or ()}
        expected = {self._path(*key) for key in self._failed}
        for query in queries:  # unsaved failures occur again
            for path in {*(folder / query).glob(f"*{_SUFFIX}")} - expected:
                path.unlink()
        for key, failed in self._failed.items():
            path = self._path(*key)
            is_gone = not path.exists()
            if again and (is_gone or failed["version"] != self._version):
                raise AnswersDamaged(f"query {key[0]} failed at site {key[1]!r} and is tried again")
            if is_gone:
                self._write(path, failed)
                tell(
                    f"query {key[0]} cannot be tried again at site {key[1]!r}, as the oldest files "
                    f"of the log were retired: move {folder} away, and all answers begin behind "
                    "them"
                )
        for (query, site), failed in list(self._failed.items())[:_SAID]:
            tell(f"query {query} is set aside at site {site!r}: {_first_line(failed['reason'])}")
        if len(self._failed) > _SAID:
            tell(f"{len(self._failed) - _SAID} more are set aside, which *{_SUFFIX} files tell")
        changed(self.state())

    def add(self, site: str, failures: Sequence[QueryFailure]) -> None:
        """Record that these queries have failed at ``site``; known failures are ignored.

        Raises:
            OSError: their files cannot be written; the call may be repeated.
        """
        for failure in failures:
            key = (failure.query, site)
            if key in self._failed:
                continue
            failed = {
                "site": site, "query": failure.query, "reason": failure.reason,
                "version": self._version,
            }  # fmt: skip
            path = self._path(*key)
            self._write(path, failed)
            self._failed[key] = failed
            if failure.trace:
                self._tell(_indented(failure.trace))
            self._tell(
                f"query {failure.query} has failed at site {site!r} and is set aside there: "
                f"{_first_line(failure.reason)}; all other answers go on. When the cause is gone, "
                f"remove {path} and start again"
            )
            self._changed(self.state())

    def at_end(self, site: str, failures: Sequence[QueryFailure]) -> None:
        """Report queries that would fail at the end of the log."""
        for failure in failures:
            if failure.trace:
                self._tell(_indented(failure.trace))
            self._tell(
                f"query {failure.query} at site {site!r}: what the log's end would give is not "
                f"written: {_first_line(failure.reason)}"
            )

    def state(self) -> list[Failed]:
        """Return the failures, for the saved state and the live page."""
        return list(self._failed.values())

    def _path(self, query: str, site: str) -> Path:
        return self._folder / query / f"{site_file(site)}{_SUFFIX}"

    def _write(self, path: Path, failed: Failed) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as sink:
            sink.write(json.dumps(failed, indent=1, ensure_ascii=False).encode())


def _first_line(reason: str) -> str:
    return one_line(reason.partition("\n")[0])


def _indented(trace: str) -> str:
    """Indent a traceback, which may quote devices, so that no line resembles a log line."""
    return "\n".join(f"  {one_line(line)}" for line in trace.splitlines())


RESULTS: Final = "results"
FAILED: Final = "failed"
COUNTERS_FILE: Final = "counters.json"
_ASIDE: Final = (LATE, QUARANTINED)
_EVENTS: Final = (ORDERED, *_ASIDE)
CHECKPOINT: Final = "checkpoint"
READING: Final = "reading"
SETTINGS: Final = "settings.txt"
TASKS: Final = "tasks.txt"
_TO_GO_ON: Final = (CHECKPOINT, READING, SETTINGS, TASKS)
"""Files with which a host resumes an interrupted run."""


class OutputPart(Struct, frozen=True):
    """A piece of one site's output; ``kind`` is the kind of ``payload``.

    The payload is a table of matches or events, a list of other results or failed queries, a site's
    counters, or the bytes of one of these by ``packed``.
    """

    site: str
    kind: str
    payload: Any

    def content(self) -> Any:
        """Return the payload before it was ``packed``."""
        if not isinstance(self.payload, bytes):
            return self.payload
        if self.kind in (RESULTS, COUNTERS, FAILED):
            return json.loads(self.payload)
        return table_of_bytes(self.payload)


def packed(part: OutputPart) -> OutputPart:
    """Return ``part`` with its payload as bytes: tables as Arrow streams, others as JSON."""
    if not isinstance(part.payload, pa.Table):
        return OutputPart(part.site, part.kind, json.dumps(part.payload).encode())
    return OutputPart(part.site, part.kind, table_bytes(part.payload))


class SiteCounters(UserDict[str, Any]):
    """Counters by site. They are kept as JSON, as dicts those of 10,000 sites take 30 MB.

    ``data``: the JSON by site, in order of the sites' names.
    """

    def __getitem__(self, site: str) -> dict[str, Any]:
        counters: dict[str, Any] = msgspec.json.decode(self.data[site])
        return counters

    def __setitem__(self, site: str, counters: dict[str, Any]) -> None:
        self.data[site] = json.dumps(counters).encode()


class RunWriter:
    """Writes the parts of a pass into a store; a batch written again replaces itself.

    A temporary store gets nothing that only a later pass would read.
    """

    def __init__(self, store: PartStore) -> None:
        self._store = store
        self.directory = store.directory
        self._counters = SiteCounters()

    def clear(self) -> None:
        """Remove the output of an earlier pass, whose batches or kinds may differ."""
        names = [*KINDS, *_EVENTS, COUNTERS, COUNTERS_FILE, BY_SPARK]
        for name in [*_TO_GO_ON, *names]:
            path = self.directory / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def write(self, batch_id: int, parts: Sequence[OutputPart]) -> None:
        """Make ``parts`` the whole of batch ``batch_id``.

        Args:
            batch_id: micro-batch, from 0.
            parts: of any sites; in order of emission for each site.
        """
        files, counters = filed(parts)
        lasts = self._store.is_lasting
        for name in (*KINDS, *_EVENTS):
            # Side output is rare, but a batch written again must replace the old one.
            again = lasts and (name not in _ASIDE or (self.directory / name).exists())
            if name in files or again:
                self._store.replace(name, batch_id, files.get(name, []))
        if lasts:
            self._write_counters(batch_id, counters)
        else:
            found = {site: json.dumps(each).encode() for site, each in counters.items()}
            self._counters.data.update(found)

    def _write_counters(self, batch_id: int, counters: dict[str, Any]) -> None:
        """Write the counters of sites that ended in this batch; remove the file of a retry."""
        folder = self.directory / COUNTERS
        path = folder / f"batch-{batch_id:012d}.json"
        if not counters:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as sink:
            sink.write(json.dumps(counters).encode())

    def finish(self, **facts: Any) -> dict[str, Any]:
        """Write the sites' counters and ``facts`` to ``counters.json``, and return them."""
        sites = self._counters
        for path in sorted((self.directory / COUNTERS).glob("*.json")):
            sites.update(json.loads(path.read_bytes()))
        if (self.directory / BY_SPARK).is_dir():
            sites.data.update(SparkParts(self.directory).open(COUNTERS).payloads())
        sites.data = dict(sorted(sites.data.items()))
        if self._store.is_lasting:
            with whole_file(self.directory / COUNTERS_FILE) as sink:
                around = json.dumps({**facts, "sites": {}}, indent=1)
                sink.write(around.removesuffix("}\n}").encode())
                for number, (site, text) in enumerate(sites.data.items()):
                    sink.write(b",\n"[: 2 * number] + json.dumps(site).encode() + b": " + text)
                sink.write(b"}\n}")
        return {"sites": sites, **facts}


def filed(
    parts: Sequence[OutputPart], start: int = 0
) -> tuple[dict[str, list[list[pa.Table]]], dict[str, Any]]:
    """Return the parts of a batch in the form of a store, and counters by site.

    Args:
        parts: of any sites; in order of emission for each site. A query's results are either all
            in tables or all in lists.
        start: position of the first result.

    Returns:
        by name, files: tables of one schema each, by site; results have their positions.

    Raises:
        ContractViolation: a result lacks fields of DESIGN "Results", or events of a site have
            conflicting types.
    """
    results: list[Result] = []
    tables: dict[str, list[pa.Table]] = {name: [] for name in (*_EVENTS, *KINDS)}
    counters: dict[str, Any] = {}
    for part in parts:
        if part.kind == RESULTS:
            results.extend(part.content())
        elif part.kind == COUNTERS:
            counters[part.site] = part.content()
        else:
            tables[part.kind].append(part.content())
    kinds = [kind_of(result) for result in results]
    files = {name: event_tables(tables[name]) for name in _EVENTS if tables[name]}
    for name, kind in KINDS.items():
        found, position = [], start + len(results)
        for table in tables[name]:
            positions = pa.array(np.arange(position, position + table.num_rows))
            found.append(table.set_column(0, POSITION, positions))
            position += table.num_rows
        if kind in kinds:
            chosen = [place for place, each in enumerate(kinds) if each is kind]
            found = [*_by_site(chosen, results, kind, start), *found]
        if len(found) > 1:
            found.sort(key=_site_of)
        if found:
            files[name] = by_schema(found)
    return files, counters


def _site_of(table: pa.Table) -> str:
    return str(table.column("site")[0].as_py())


def _by_site(
    positions: list[int], results: Sequence[Result], kind: ResultKind, start: int
) -> list[pa.Table]:
    """Return one table per site, in order of names."""
    sites: dict[str, list[int]] = {}
    for position in positions:
        sites.setdefault(results[position]["site"], []).append(position)
    return [
        kind.rows([start + p for p in sites[site]], [results[p] for p in sites[site]])
        for site in sorted(sites)
    ]


# The beginning of an engine in a log whose oldest files were retired.


def check_begin(log: Path, answers: Path, queries: Iterable[str], begin: int = 0) -> None:
    """Check that answers can begin after the log's file ``begin``.

    Raises:
        UserError: later files were retired, so the existing answers would be replaced by those to
            the rest of the log.
    """
    upto = retired(log).upto
    for name in queries if upto > begin else ():
        folder = answers / name
        if any(folder.glob(f"*{SUFFIX}")) or closed_files(folder):
            raise UserError(
                f"query {name}: {folder} has answers to the log's files from the first on, "
                f"of which those up to {upto} were retired, and the engine's state does not fit, "
                "or a file of answers was damaged (said above): ask as before, with the same "
                "engine, and restore the file; or move that folder away, then answers are made "
                f"from file {upto + 1} on"
            )


def skipped(log: Path, done: int, tell: Callable[[str], None]) -> int:
    """Return the file number to continue from; ``tell`` gets a line if unread files were
    retired.
    """
    upto = retired(log).upto
    if done >= upto:
        return done
    if done:
        tell(f"answers: the log's files {done + 1} to {upto} were retired unread: they lack those")
    else:
        tell(f"answers: the log's files up to {upto} were retired: they begin behind them")
    return upto


# Output of live answers: lines, optional tables, and the live page. Late and quarantined events go
# to lines as well, if requested, in folders named after their kinds.


Fed = Callable[[bytes], None]
"""Takes new lines after they were written."""
Patient = Callable[[Callable[[], Any]], Any]
"""Repeats a call until it raises no OSError."""


class LiveAnswers:
    """Writes the output of chains; see ``AnswerLines`` and ``AnswerTables``.

    Args:
        lines: gets all results.
        tables: gets them, too; None: no tables.
        unit_ns: unit of all times [ns].
        times: by query, the labels of aggregates that are times.
        fed: gets new lines.
        patient: repeats failed writes.
        silent: queries without output.
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
        """Repeats other failed writes."""

    def take(self, parts: Sequence[OutputPart]) -> None:
        """Write the results in ``parts``; each site's are in order of emission."""
        for key, kind, table in self._pieces(parts):
            lines = self._lines_of(key, kind, table)
            new = self.patient(partial(self._lines.append, key, lines))
            if new:
                self._fed(new)
            if self._tables is not None:
                self._tables.add(key, kind, table)
        for key, lines in self._side_output(parts):
            self.patient(partial(self._lines.append, key, lines))
        for site, failures in self._failures(parts):
            self.patient(partial(self._failed.add, site, failures))
        self.rest()

    def caught_up(self) -> None:
        """Trim the files, as all answers to the log have been written."""
        self.patient(self._lines.trim)

    def rest(self) -> None:
        """Write the rows that have waited long enough."""
        if self._tables is not None:
            self.patient(self._tables.close_if_full)

    def close(self, end: Sequence[OutputPart] = ()) -> None:
        """Write all waiting rows, and the output for the end of the log.

        Args:
            end: output for the end of the log.
        """
        for site, failures in self._failures(end):
            self._failed.at_end(site, failures)
        lines: dict[tuple[str, str], bytes] = {}
        for key, kind, table in self._pieces(end):
            lines[key] = lines.get(key, b"") + self._lines_of(key, kind, table)
        for key, more in self._side_output(end):
            lines[key] = lines.get(key, b"") + more
        self.patient(lambda: self._lines.end(lines))
        if self._tables is not None:
            self.patient(self._tables.close_all)

    def state(self) -> dict[str, Any]:
        """Return the state to save; everything it refers to is on disk.

        Raises:
            OSError: files cannot be synced.
        """
        tables = {} if self._tables is None else self._tables.state()
        return {
            "lines": self._lines.state(),
            "numbers": self._lines.numbers(),
            "tables": tables,
            "failed": self._failed.state(),
        }

    def saved(self) -> None:
        """Note that the last ``state`` is saved; raises OSError if a file cannot be closed."""
        self._lines.saved()

    def idle(self) -> None:
        """React to a time without input."""
        self.rest()
        self.patient(self._lines.close_due)

    def _pieces(
        self, parts: Sequence[OutputPart]
    ) -> Iterator[tuple[tuple[str, str], ResultKind, pa.Table]]:
        """Yield (query, site), kind and rows of the results in ``parts``, without silent
        queries.
        """
        return (piece for piece in _pieces(parts) if piece[0][0] not in self._silent)

    def _failures(self, parts: Sequence[OutputPart]) -> Iterator[tuple[str, list[QueryFailure]]]:
        """Yield each site and its failed queries, without silent ones."""
        for part in parts:
            if part.kind == FAILED:
                failures = [QueryFailure(**row) for row in part.content()]
                yield part.site, [each for each in failures if each.query not in self._silent]

    def _lines_of(self, key: tuple[str, str], kind: ResultKind, table: pa.Table) -> bytes:
        pieces = kind.lines(table, self._unit, self._times.get(key[0], ()))
        return "".join(map(in_one_text, pieces)).encode()

    def _side_output(self, parts: Sequence[OutputPart]) -> Iterator[tuple[tuple[str, str], bytes]]:
        """Yield (kind, site) and lines of late and quarantined events in ``parts``."""
        for part in parts:
            if part.kind in SIDE_OUTPUT.folders:
                events = SIDE_OUTPUT.export_columns(part.content())
                lines = event_lines(part.site, events, self._unit, SIDE_OUTPUT)
                yield (part.kind, part.site), "".join(lines).encode()


def _pieces(parts: Sequence[OutputPart]) -> Iterator[tuple[tuple[str, str], ResultKind, pa.Table]]:
    """Yield (query, site), kind and rows of the results in ``parts``, in order.

    Tables of one site are combined, as the conversion of a table to lines takes milliseconds.
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
    """Yield kind and rows of the results in a part."""
    if part.kind in KINDS:
        yield KINDS[part.kind], part.content()
    elif part.kind == RESULTS:
        results = part.content()
        kinds = [kind_of(result) for result in results]
        for kind in KINDS.values():
            mine = [result for result, of in zip(results, kinds, strict=True) if of is kind]
            if mine:
                yield kind, kind.rows(range(len(mine)), mine)
