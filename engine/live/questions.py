"""The queries of a site, and whose answers are in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edge_agent.records import DEFAULT_SITE
from engine.chain import ChainSettings
from engine.chain.operators import build_operator
from engine.errors import UserError
from engine.log.files.log_files import file_mark
from engine.log.whole_file import whole_file
from engine.passes.options import asked_of_queries
from engine.pattern.spill.settings import STATE
from engine.query import query
from engine.query.analysis.cascade import read_statements
from engine.query.endpoints.joins import COST, IBP
from engine.query.language.statements import several, statements
from engine.query.plan import Plan
from engine.query.purge_settings import MATCHES_MAX
from engine.query.results_as_events import whole_text
from engine.results.side_output import SIDE_OUTPUT

# Whose answers are in a folder: to which query, asked how, over which log.
#
# A name identifies one query with one set of settings. A query more needs nothing but a new name;
# what was answered under a name is never mixed with answers to something else.


QUERY_FILE: Final = "query.json"
_LOG: Final = "log"


def claim(answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]]) -> None:
    """The folders of these queries in ``answers`` are for their answers over ``log``.

    Args:
        answers: folder with one for each query.
        log: the arrival log, which has a file.
        of_each: by a query's name, all that its answers depend on beside the log.

    Raises:
        UserError: one has answers to something else, or over another log; says what to do.
        OSError: it cannot be written.
    """
    check_claim(answers, log, of_each)
    for name, mine in of_each.items():
        path = answers / name / QUERY_FILE
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as sink:
                content = json.dumps(
                    {**mine, _LOG: file_mark(log, 1)}, indent=1, ensure_ascii=False
                )
                sink.write(content.encode())


def check_claim(answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]]) -> None:
    """Whether ``claim`` would be refused.

    Raises:
        UserError: it would.
    """
    for name, mine in of_each.items():
        folder = answers / name
        known = _read(folder / QUERY_FILE)
        if not known:
            continue
        first = known.pop(_LOG, None)
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
"""Orders that depend on all queries, so that one more may change the answers of the others."""
_SAME_ANSWERS: Final = ("intervals", "joins", "matches_max")
"""Options that change how answers are found, or whether, not what they are."""
_OF_ORDER: Final = ("order", "guard", "clock", "time_unit", "beside")
"""What the order of events depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Queries by name, and how they are answered: the options of ``slackwater query``."""

    queries: tuple[tuple[str, str], ...]
    """(name, text), in their order."""
    order: str = "sequence"
    barrier: str = ""
    """Empty: as each query's REALTIME says."""
    certainty: str = "pairwise"
    purge: str = "late"
    intervals: str = IBP
    joins: str = COST
    matches_max: int = MATCHES_MAX
    spill: str = ""
    """``state`` and settings; empty: nothing leaves memory."""
    late: bool = False
    """Whether late and quarantined events are written, too."""
    window: str = ""
    """Empty: by default."""
    monitor: str = ""
    """Empty: by default."""
    guard: str = "1s"
    clock: str = ""
    """What ``--clock`` says, a line each; empty: clocks without a sync are unknown."""
    time_unit: str = "ns"

    def plans(self) -> tuple[Plan, ...]:
        """Of the queries.

        Raises:
            UserError: one is at fault; the message has its name, the place and a remedy.
        """
        texts = [text for _, text in self.queries]
        if any(several(statements(text)) for text in texts):
            names = [name for name, _ in self.queries]
            return read_statements(texts, self.time_unit, names)[0]
        found = []
        for name, text in self.queries:
            try:
                found.append(query(text, self.time_unit, name))
            except UserError as error:
                raise UserError(f"query {name}: {error}") from error
        return tuple(found)

    def _names(self) -> tuple[str, ...]:
        """Of all statements."""
        return tuple(plan.name for plan in self.plans())

    def chain_settings(self) -> ChainSettings:
        """Of the chains that answer them.

        Raises:
            UserError: a query or a short form is at fault, or the order cannot serve the queries.
        """
        plans = self.plans()
        if self.spill and self.spill.partition(",")[0].strip() != STATE:
            raise UserError(
                f"spill {self.spill[:40]!r}: a server keeps chunks with its engine's state, so "
                'name no folder: write "state", as in "state,hot=10min,pending=64"'
            )
        settings = asked_of_queries(
            plans, self.time_unit, order=self.order, barrier=self.barrier or None,
            certainty=self.certainty, purge=self.purge, intervals=self.intervals,
            window=self.window or None, monitor=self.monitor or None, guard=self.guard,
            late=self.late, spill=self.spill or None, on_spark=True, joins=self.joins,
            matches_max=self.matches_max, clock=self.clock.splitlines(),
        )  # fmt: skip
        settings = replace(settings, isolate_failures=True)
        for plan in plans if self.spill else ():
            build_operator(plan, settings, DEFAULT_SITE)  # which refuses what cannot spill
        taken = {plan.name for plan in plans}.intersection(SIDE_OUTPUT.folders)
        if self.late and taken:
            raise UserError(
                f"query {min(taken)}: with late = true that is the folder of such events; give "
                "the query another name"
            )
        return settings

    @property
    def folders(self) -> tuple[str, ...]:
        """Of answers, beside one another."""
        names = self._names()
        return (*names, *SIDE_OUTPUT.folders) if self.late else names

    def of_each(self) -> dict[str, dict[str, Any]]:
        """By name, all that a query's answers depend on beside the log."""
        shared = asdict(self)
        for name in ("queries", "late", *_SAME_ANSWERS):
            del shared[name]
        if self.order.partition(":")[0] in _READ_QUERIES:
            shared["beside"] = [text for _, text in self.queries]
        found: dict[str, dict[str, Any]] = {}
        for plan in self.plans():
            found[plan.name] = {"query": whole_text(plan), **shared}
        if self.late:
            of_order: dict[str, Any] = {name: shared[name] for name in _OF_ORDER if name in shared}
            for name in SIDE_OUTPUT.folders:
                found[name] = {"events": name, **of_order}
        return found
