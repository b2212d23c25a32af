"""The queries of a site, and the owners of answer folders."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import DEFAULT_SITE
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.chain.operators import build_operator
from slackwater.engine.hosts.live.embedded import EmbeddedEngine, EnginePlace
from slackwater.engine.hosts.options import SEQUENCE, QueryOptions
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.log_files import file_mark
from slackwater.engine.log.log_folder import retired
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.operators.match.spill.bounds import STATE
from slackwater.engine.output.answer_files import AnswerLines
from slackwater.engine.output.ordered_stream import SIDE_OUTPUT
from slackwater.engine.output.run_writer import FailedQueries, LiveAnswers
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.language.statements import several, statements
from slackwater.engine.query.plan import Plan, lookups_of
from slackwater.engine.query.reference_tables import Tables
from slackwater.engine.query.results_as_events import whole_text

# Owners of answer folders: which query, with which settings, over which log.
#
# A name identifies one query with one set of settings. Another query only needs a new name; answers
# of different queries are never mixed under one name.


QUERY_FILE: Final = "query.json"
_LOG: Final = "log"
_BEHIND: Final = "behind"


def claim(
    answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]], begins: Mapping[str, int]
) -> None:
    """Mark the folders of these queries in ``answers`` as theirs, over ``log``.

    A new folder stores the number of the file after which its answers begin: for sinks, answers
    that begin elsewhere are different ones, whose lines have other keys.

    Args:
        answers: has a folder for each query.
        log: the arrival log, with at least one file.
        of_each: by query, everything but the log that its answers depend on.
        begins: by query, number of the last file of the log that it skips; default 0.

    Raises:
        UserError: a folder has other answers, or those of another log; the message says what to do.
        OSError: the mark cannot be written.
    """
    check_claim(answers, log, of_each)
    upto = retired(log).upto
    for name, mine in of_each.items():
        path = answers / name / QUERY_FILE
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            behind = max(upto, begins.get(name, 0))
            content = {**mine, _LOG: file_mark(log, 1)} | ({_BEHIND: behind} if behind else {})
            with whole_file(path) as sink:
                sink.write(json.dumps(content, indent=1, ensure_ascii=False).encode())


def check_claim(answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]]) -> None:
    """Check whether ``claim`` would be refused.

    Raises:
        UserError: it would.
    """
    for name, mine in of_each.items():
        folder = answers / name
        known = _read(folder / QUERY_FILE)
        if not known:
            continue
        first = known.pop(_LOG, None)
        known.pop(_BEHIND, None)
        other = sorted(key for key in {*known, *mine} if known.get(key) != mine.get(key))
        if not other and first != file_mark(log, 1):
            other = [_LOG]
        if other:
            raise UserError(
                f"query {name}: {folder} has answers with another {' and '.join(other)}: give the "
                "query another name, or move that folder away; then its answers are made again "
                "from the log"
            )


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise UserError(
            f"{path}: damaged: move {path.parent} away; then they are made again from the log"
        ) from error


# The queries of a site, as texts for a settings file and a child process.


_READ_QUERIES: Final = ("aq-kslack", "ldop", "kslack-chain")
"""Orders that depend on all queries, so that a new query may change the answers of others."""
_SAME_ANSWERS: Final = ("intervals", "joins", "matches_max")
"""Options that change how or whether answers are computed, but not their values."""
_OF_ORDER: Final = ("order", "guard", "clock", "time_unit", "beside")
"""Options that the order of events depends on."""


@dataclass(frozen=True, kw_only=True)
class Questions(QueryOptions):
    """Queries by name, and options for their answers; ``spill`` is ``state`` and settings.

    Tables are read once.
    """

    queries: tuple[tuple[str, str], ...]
    """(name, text), in order."""
    late: bool = False
    """Whether late and quarantined events are written, too."""
    clock: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    time_unit: str = "ns"
    order: str = SEQUENCE

    @cached_property
    def _tables(self) -> Tables:
        return self.tables()

    def plans(self) -> tuple[Plan, ...]:
        """Return the plans of the queries.

        Raises:
            UserError: a query is invalid; the message has its name, the place and a remedy.
        """
        texts, tables = [text for _, text in self.queries], self._tables
        if any(several(statements(text)) for text in texts):
            names = [name for name, _ in self.queries]
            return read_statements(texts, self.time_unit, names, tables)[0]
        found = []
        for name, text in self.queries:
            try:
                found.append(query(text, self.time_unit, name, tables))
            except UserError as error:
                raise UserError(f"query {name}: {error}") from error
        return tuple(found)

    def names(self) -> tuple[str, ...]:
        """Return the names of all statements."""
        return tuple(plan.name for plan in self.plans())

    def chain_settings(self) -> ChainSettings:
        """Return the settings of the chains that answer the queries.

        Raises:
            UserError: a query or an option is invalid, or the order cannot serve the queries.
        """
        plans = self.plans()
        if self.spill and self.spill.partition(",")[0].strip() != STATE:
            raise UserError(
                f"spill {self.spill[:40]!r}: a server keeps chunks with its engine's state, so "
                'name no folder: write "state", as in "state,hot=10min,pending=64"'
            )
        settings = self.answering(plans, self.time_unit, late=self.late, on_spark=True)
        settings = replace(settings, isolate_failures=True)
        for plan in plans if self.spill else ():
            build_operator(plan, settings, DEFAULT_SITE)  # refuses operators that cannot spill
        taken = {plan.name for plan in plans}.intersection(SIDE_OUTPUT.folders)
        if self.late and taken:
            raise UserError(
                f"query {min(taken)}: with late = true that is the folder of such events; give "
                "the query another name"
            )
        return settings

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of answers."""
        names = self.names()
        return (*names, *SIDE_OUTPUT.folders) if self.late else names

    def of_each(self) -> dict[str, dict[str, Any]]:
        """Return, by query, everything but the log that its answers depend on."""
        shared = {name: "" if value is None else value for name, value in asdict(self).items()}
        shared["clock"] = "\n".join(self.clock)
        for name in ("queries", "late", "table", *_SAME_ANSWERS):
            del shared[name]
        if self.order.partition(":")[0] in _READ_QUERIES:
            shared["beside"] = [text for _, text in self.queries]
        found: dict[str, dict[str, Any]] = {}
        for plan in self.plans():
            found[plan.name] = {"query": whole_text(plan), **shared}
            if lookups := lookups_of(plan):
                content = {each.table.name: each.table.digest for each in lookups}
                found[plan.name]["table"] = content
        if self.late:
            of_order: dict[str, Any] = {name: shared[name] for name in _OF_ORDER if name in shared}
            for name in SIDE_OUTPUT.folders:
                found[name] = {"events": name, **of_order}
        return found


# Queries that began together have one chain per site, and one state. A query added later has a
# chain of its own, which begins with the existing log or after it, so the others continue
# unchanged, even if the log's first files are gone.


_GROUPS: Final = "groups.json"
LOG: Final = "log"
NOW: Final = "now"


@dataclass(frozen=True, kw_only=True)
class QueryGroup:
    """Queries that one chain per site answers.

    ``state``: name of its state file. ``begin``: number of the last file of the log that it skips.
    ``silent``: queries without output, to which others refer or which were removed: a chain answers
    all of its queries or none.
    """

    state: str
    begin: int
    queries: tuple[tuple[str, str], ...]
    silent: tuple[str, ...] = ()

    @property
    def answered(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the queries with output."""
        return tuple(pair for pair in self.queries if pair[0] not in self.silent)

    @property
    def silent_statements(self) -> frozenset[str]:
        """Names of the statements of queries without output."""
        without = [(name, text) for name, text in self.queries if name in self.silent]
        return frozenset(each.stream or name for name, text in without for each in statements(text))


def query_groups(
    folder: Path, kind: str, questions: Questions, from_now: Collection[str], done: int
) -> list[QueryGroup]:
    """Return the groups of ``questions``: existing ones that are still needed, then new ones.

    Args:
        folder: folder of the engine's state, which stores the groups.
        kind: kind of the engine.
        questions: queries of a site.
        from_now: names of queries that begin after the log's file ``done``, if they are new.
        done: number of a file.

    Raises:
        UserError: the stored groups are damaged.
        OSError: they cannot be written.
    """
    path, left, groups = folder / _GROUPS, set(questions.queries), list[QueryGroup]()
    for known in _read(path).get(kind, ()):
        group = QueryGroup(**{**known, "queries": tuple(map(tuple, known["queries"]))})
        still_asked = left.intersection(group.answered)
        if still_asked:
            silent = tuple(pair[0] for pair in group.queries if pair not in still_asked)
            groups.append(replace(group, silent=silent))
            left -= still_asked
        else:
            for gone in (folder / group.state, folder / f"{group.state}.chunks"):
                shutil.rmtree(gone) if gone.is_dir() else gone.unlink(missing_ok=True)
    for is_now, begin in ((False, 0), (True, done)):
        new = [q for q in questions.queries if q in left and (done and q[0] in from_now) == is_now]
        if new:
            taken = {group.state for group in groups}
            names = (kind, *(f"{kind}-{number}" for number in range(2, len(groups) + 2)))
            state = next(name for name in names if name not in taken)
            groups.append(_new_group(questions, state, begin, new))
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as sink:
        sink.write(json.dumps({kind: list(map(asdict, groups))}, indent=1).encode())
    return groups


def _new_group(
    questions: Questions, state: str, begin: int, new: list[tuple[str, str]]
) -> QueryGroup:
    """Return a group of ``new``, with all other queries as silent ones if it refers to them."""
    beside = {plan.name: whole_text(plan) for plan in questions.plans()}
    try:
        alone = {p.name: whole_text(p) for p in replace(questions, queries=tuple(new)).plans()}
    except UserError:  # a CHECK of a query that is not in the group
        alone = {}
    if alone and all(beside.get(name) == text for name, text in alone.items()):
        return QueryGroup(state=state, begin=begin, queries=tuple(new))
    silent = tuple(pair[0] for pair in questions.queries if pair not in new)
    return QueryGroup(state=state, begin=begin, queries=questions.queries, silent=silent)


# Measures how long disk and engine take from a closed frame to the lines of its answers.
#
# A simulation lacks this: it knows when a frame is closed, but not how long the machine takes to
# write it, read it, answer it and write the answers. The measurement runs the engine over frames of
# a few events in a temporary folder on the log's disk.


TRIALS: Final = 15
_FIRST: Final = 3
"""Trials that load what is needed; they do not count."""
_ROWS: Final = 6
"""Rows per frame. All trials together are too few for compiled kernels."""
_APART_NS: Final = 10**9
_NEVER_S: Final = 10**9


def answering_time_ns(beside: Path, questions: Questions) -> int:
    """Return the median time of some trials [ns].

    Args:
        beside: folder on the log's disk; a temporary folder is created in it.
        questions: queries to answer.

    Raises:
        UserError: a query is invalid, or ``beside`` cannot be written.
    """
    # Trials give no results, so failures must be raised.
    settings = replace(questions.chain_settings(), isolate_failures=False)
    with tempfile.TemporaryDirectory(prefix=".slackwater-validate-", dir=beside) as scratch:
        folder = Path(scratch)

        def opened(_: dict[str, Any]) -> LiveAnswers:
            lines = AnswerLines(folder / "answers", questions.folders, {}, _ignore)
            failed = FailedQueries(
                folder / "answers", (), None, again=True, tell=_ignore, changed=_ignore
            )
            return LiveAnswers(lines, None, 1, {}, _ignore, _at_once, failed)

        writer = LogWriter(folder / "log")
        place = EnginePlace(folder / "log", folder / "state", _NEVER_S)
        engine = EmbeddedEngine(place, settings, opened, _ignore)
        took = []
        for number in range(_FIRST + TRIALS):
            frame = _frame(number)
            begun = time.monotonic_ns()
            writer.append(frame)
            writer.flush()
            engine.upto(writer.files)
            took.append(time.monotonic_ns() - begun)
        writer.close()
    return int(np.median(took[_FIRST:]))


def _frame(number: int) -> Frame:
    """Return a frame with events one second after those of the frame before."""
    at = np.arange(_ROWS, dtype=np.int64) + number * _APART_NS
    columns = {
        r.SOURCE: pa.array(["s0"] * _ROWS).dictionary_encode(),
        r.SEQ: pa.array(np.arange(_ROWS) + number * _ROWS),
        r.TS: pa.array(at),
        r.ARRIVAL: pa.array(at),
    }
    return Frame("main", pa.RecordBatch.from_pydict(columns))


def _ignore(_: object) -> None:
    """Ignore lines."""


def _at_once(what: Callable[[], Any]) -> Any:
    return what()
