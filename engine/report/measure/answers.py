"""Folds a run's results, insertions and retractions, into what stands at the end.

Results are read line by line; at most ``KEPT_MAX`` windows and as many matches are kept for the
time lines, all are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from engine.errors import ContractViolation

KEPT_MAX: Final = 200_000
_STAGE: Final = "drift"  # field of R19's drift windows
_EARLY: Final = ("low", "middle")
"""Stages of ``DRIFT each`` that the last one of the same window completes."""

Result = dict[str, Any]


@dataclass(slots=True)
class QueryAnswers:
    """What one query said.

    Attributes:
        standing: results not taken back, by identity, in order of emission.
        taken_back: of matches, those that were retracted and not inserted again.
        counts: ``inserted retracted early not_kept``.
    """

    standing: dict[tuple[Any, ...], Result] = field(default_factory=dict)
    taken_back: dict[tuple[Any, ...], Result] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, identity: tuple[Any, ...], result: Result) -> None:
        """The next result of the query."""
        if result["op"] == "+":
            self.counts["inserted"] += 1
            self.taken_back.pop(identity, None)
            if identity in self.standing or len(self.standing) < KEPT_MAX:
                self.standing[identity] = result
            else:
                self.counts["not_kept"] += 1
            return
        self.counts["retracted"] += 1
        gone = self.standing.pop(identity, None)
        if gone is not None and len(self.taken_back) < KEPT_MAX:
            self.taken_back[identity] = gone


@dataclass(slots=True)
class ReadAnswers:
    """Results of a run by query name."""

    windows: dict[str, QueryAnswers] = field(default_factory=dict)
    matches: dict[str, QueryAnswers] = field(default_factory=dict)
    alerts: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """How many of each kind (``alert cleared violation``) and certainty were not taken back."""


def read_answers(path: Path) -> ReadAnswers:
    """The results of ``results.jsonl``; a run without queries has none.

    Raises:
        ContractViolation: a line is no result.
    """
    answers = ReadAnswers()
    if not path.is_file():
        return answers
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                _take(answers, json.loads(line), number)
            except (KeyError, TypeError, ValueError) as error:
                raise ContractViolation(f"{path}:{number}: not a result: {error!r}") from error
    return answers


def read_events(path: Path, lines: Collection[int]) -> dict[int, list[Result]]:
    """The events of the matches in these lines of ``results.jsonl``, by line from 1."""
    wanted, found = set(lines), {}
    if wanted:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(islice(file, max(wanted)), 1):
                if number in wanted:
                    found[number] = json.loads(line)["events"]
    return found


def _take(answers: ReadAnswers, result: Result, line: int) -> None:
    if "window" in result:
        into = answers.windows.setdefault(result["query"], QueryAnswers())
        if result.get(_STAGE) in _EARLY:
            into.counts["early"] += 1
            return
        key = json.dumps(result["key"], sort_keys=True)
        window = result["window"]
        into.take((result["site"], window["start"], window["end"], key), result)
        return
    if "alert" in result:
        told = answers.alerts.setdefault(result["query"], Counter())
        told[result["alert"], result["certainty"]] += 1 if result["op"] == "+" else -1
        return
    into = answers.matches.setdefault(result["query"], QueryAnswers())
    events = result.pop("events")
    identity = tuple(map(_name, events))
    result["ref"] = max(map(_end, events))
    result["sources"] = [event["source"] for event in events]
    result["line"] = line
    into.take((result["site"], *identity), result)


def _name(event: Result) -> tuple[Any, ...]:
    """What makes an event another one; one without a number, as results are, by what it says."""
    number = event["seq"]
    if number is None:
        number = json.dumps([event.get("te"), event.get("attrs")], sort_keys=True)
    return event["stream"], event["source"], number, event["ts"]


def _end(event: Result) -> int:
    """When an event was over, on the engine's clock; of half an interval, what is known of it."""
    te = event.get("te")
    return int(event["ref"]) + (0 if te is None else int(te) - int(event["ts"]))
