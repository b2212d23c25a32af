"""Results of a run's queries: matches, alerts and windows, measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.engine.apps.report.measure.events import quantiles
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.scenario import Table

# Numbers of alerts, cleared traces and violations per monitored pattern.


_KINDS = ("alert", "cleared", "violation")


def alert_tables(alerts: Mapping[str, Counter[tuple[str, str]]]) -> tuple[Table, ...]:
    """A table with a row per query; none if no query is under a constraint.

    alerts: by query, the number of results per kind and certainty.
        alerts: by query, how many results of each kind and certainty.
    """
    if not alerts:
        return ()
    rows: list[tuple[str | int, ...]] = []
    for query, counts in sorted(alerts.items()):
        each = [counts[kind, "confirmed"] + counts[kind, "uncertain"] for kind in _KINDS]
        rows.append((query, *each, sum(counts[kind, "uncertain"] for kind in _KINDS)))
    return (
        Table(
            "Patterns under a constraint",
            ("query", "alerts", "cleared", "violations", "uncertain"),
            tuple(rows),
            "An alert: every way to go on has a match; cleared: none has; a violation: an event "
            "that the constraint does not allow. Uncertain: those of them that depend on clocks.",
        ),
    )


# Combines a run's results, insertions and retractions, into those that are valid at the end.
#
# Results are read line by line; at most ``KEPT_MAX`` windows and as many matches are kept for the
# time lines; all are counted.


KEPT_MAX: Final = 200_000
_STAGE: Final = "drift"  # field of R19's drift windows
_EARLY: Final = ("low", "middle")
"""Stages of ``DRIFT each`` before the last one of the same window."""

Result = dict[str, Any]


@dataclass(slots=True)
class QueryAnswers:
    """The results of one query.

    Attributes:
        standing: results that were not retracted, by identity, in order of emission.
        taken_back: matches that were retracted and not inserted again.
        counts: ``inserted retracted early not_kept``.
    """

    standing: dict[tuple[Any, ...], Result] = field(default_factory=dict)
    taken_back: dict[tuple[Any, ...], Result] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, identity: tuple[Any, ...], result: Result) -> None:
        """Take the next result of the query."""
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
    """Numbers of results per kind (``alert cleared violation``) and certainty, without
    retracted.
    """


def read_answers(path: Path) -> ReadAnswers:
    """Read the results in ``results.jsonl``; a run without queries has none.

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
    line_numbers, found = set(lines), {}
    if line_numbers:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(islice(file, max(line_numbers)), 1):
                if number in line_numbers:
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
        alerts = answers.alerts.setdefault(result["query"], Counter())
        alerts[result["alert"], result["certainty"]] += 1 if result["op"] == "+" else -1
        return
    into = answers.matches.setdefault(result["query"], QueryAnswers())
    events = result.pop("events")
    identity = tuple(map(_name, events))
    result["ref"] = max(map(_end, events))
    result["sources"] = [event["source"] for event in events]
    result["line"] = line
    into.take((result["site"], *identity), result)


def _name(event: Result) -> tuple[Any, ...]:
    """Identity of an event; without a number, as for results, from its content."""
    number = event["seq"]
    if number is None:
        number = json.dumps([event.get("te"), event.get("attrs")], sort_keys=True)
    return event["stream"], event["source"], number, event["ts"]


def _end(event: Result) -> int:
    """End of an event on the engine's clock; for half an interval, the part that is known."""
    te = event.get("te")
    return int(event["ref"]) + (0 if te is None else int(te) - int(event["ts"]))


# Matches of a run's queries: number, certainty, times, and delay until they were known.


POINTS_SHOWN: Final = 1_500
"""Points per query and kind; more are thinned evenly."""
EVENTS_SHOWN: Final = 100
"""Shown matches per query and kind whose events are listed."""
LISTED: Final = ("confirmed", "uncertain", "unknown", "taken back")
_OF_EVENT: Final = ("source", "stream", "type", "seq", "ts", "te", "ref", "attrs")


def measure_matches(
    answers: Mapping[str, QueryAnswers], truth: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Measures per query, over all matches that are valid at the end.

    Args:
        answers: ``engine.apps.report.measure.results.ReadAnswers.matches``.
        truth: ``[{at_ref_ns, query?}]``: true matches; without a query, they count for all.

    Returns:
        query -> ``confirmed uncertain unknown taken_back inserted retracted not_kept delay_ns``
        (quantiles of a match's emission time minus its last event's ref), and ``shown``:
        kind -> ``[{ref_ns, at_ns, probability, sources, line}]``, with ``true`` among the kinds.
    """
    return {query: _query(query, found, truth) for query, found in sorted(answers.items())}


def add_events(matches: Mapping[str, Any], results: Path) -> None:
    """Add ``events`` to the first matches shown of each query and kind.

    Args:
        matches: the result of ``measure_matches``.
        results: the ``results.jsonl`` from which it was measured.
        results: the ``results.jsonl`` that it was measured from.
    """
    chosen = [
        each
        for found in matches.values()
        for kind in LISTED
        for each in found["shown"][kind][:EVENTS_SHOWN]
    ]
    events = read_events(results, [each["line"] for each in chosen])
    for each in chosen:
        each["events"] = [
            {name: event.get(name) for name in _OF_EVENT} for event in events[each["line"]]
        ]


def _query(query: str, found: QueryAnswers, truth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    standing = list(found.standing.values())
    kinds = {
        kind: [each for each in standing if each["certainty"] == kind]
        for kind in ("confirmed", "uncertain", "unknown")
    }
    delays = np.array([each["at"] - each["ref"] for each in standing], np.int64)
    real = sorted(row["at_ref_ns"] for row in truth if row.get("query", query) == query)
    points = {kind: _points(results) for kind, results in kinds.items()}
    points["taken back"] = _points(found.taken_back.values())
    points["true"] = [{"ref_ns": int(at)} for at in _thinned(real)]
    return {
        **{kind: len(results) for kind, results in kinds.items()},
        "taken_back": len(found.taken_back),
        "inserted": found.counts["inserted"],
        "retracted": found.counts["retracted"],
        "not_kept": found.counts["not_kept"],
        "true": len(real),
        "delay_ns": quantiles(np.sort(delays)),
        "shown": points,
    }


def _points(results: Iterable[Result]) -> list[dict[str, Any]]:
    ascending = sorted(results, key=lambda each: int(each["ref"]))
    return [
        {
            "ref_ns": each["ref"],
            "at_ns": each["at"],
            "probability": each["probability"],
            "sources": each["sources"],
            "line": each.get("line"),
        }
        for each in _thinned(ascending)
    ]


def _thinned(values: list[Any]) -> list[Any]:
    step = -(-len(values) // POINTS_SHOWN) or 1
    return values[::step]


# Windows of a run's queries: number, certainty, completeness, and deviation from the truth.


KEYS_SHOWN: Final = 6
WINDOWS_SHOWN: Final = 400
"""Windows shown per key: the first ones."""
_TOLERANCE: Final = 1e-9
"""Relative tolerance of truth against bounds: float sums depend on their order."""

Point = dict[str, Any]


def measure_windows(
    answers: Mapping[str, QueryAnswers], truth: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Measures per query and aggregate, over all windows that are valid at the end.

    Args:
        answers: ``engine.apps.report.measure.results.ReadAnswers.windows``.
        truth: query -> ``[{start, key, value}]``; ``value`` a number or aggregate -> number.

    Returns:
        query -> counts (``phantom``: windows at the ends without a certain event, which are not in
        ``aggregates``) and ``aggregates``: label -> ``with_truth``, ``inside`` (truth within the
        error bar), ``complete_with_truth``, ``complete_inside`` (the same for windows without
        missing events), ``keys`` and ``series`` (of at most ``KEYS_SHOWN`` keys, those with the
        largest deviations or most missing events first).
    """
    return {
        query: _window_query(found, truth.get(query, ()))
        for query, found in sorted(answers.items())
    }


def _window_query(found: QueryAnswers, truth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    standing = list(found.standing.values())
    true_values = {(row["start"], _key(row.get("key"))): row["value"] for row in truth}
    answered = {(each["window"]["start"], _key(each["key"])) for each in standing}
    labels = dict.fromkeys(label for each in standing for label in each["value"] or {})
    real = _without_phantoms(standing, true_values)
    return {
        "windows": len(standing),
        "inserted": found.counts["inserted"],
        "retracted": found.counts["retracted"],
        "early": found.counts["early"],
        "not_kept": found.counts["not_kept"],
        "with_missing": sum(bool(each.get("missing")) for each in real),
        "missing": sum(each.get("missing") or 0 for each in standing),
        "certain": sum(each.get("certain") or 0 for each in standing),
        "ambiguous": sum(each.get("ambiguous") or 0 for each in standing),
        "true_windows": len(true_values),
        "unanswered": len(set(true_values) - answered),
        "phantom": len(standing) - len(real),
        "aggregates": {label: _aggregate(real, true_values, label) for label in labels},
    }


def _without_phantoms(standing: Sequence[Result], truth: Mapping[Any, Any]) -> list[Result]:
    """Remove windows before the first and after the last window with a certain event: they exist
    only because events of their neighbours may be in them.
    """
    starts = [
        each["window"]["start"]
        for each in standing
        if each.get("certain") != 0 or (each["window"]["start"], _key(each["key"])) in truth
    ]
    if not starts:
        return list(standing)
    first, last = min(starts), max(starts)
    return [each for each in standing if first <= each["window"]["start"] <= last]


def _key(key: object) -> str:
    return json.dumps(key or {}, sort_keys=True)


def _aggregate(standing: Iterable[Result], truth: Mapping[Any, Any], label: str) -> dict[str, Any]:
    by_key: dict[str, list[Point]] = defaultdict(list)
    for each in standing:
        key = _key(each["key"])
        by_key[key].append(_point(each, truth.get((each["window"]["start"], key)), label))
    judged = [point for points in by_key.values() for point in points if point["truth"] is not None]
    complete = [point for point in judged if not point["missing"]]
    interest = sorted(by_key, key=lambda key: (*_interest(by_key[key]), key))
    return {
        "with_truth": len(judged),
        "inside": sum(point["inside"] for point in judged),
        "complete_with_truth": len(complete),
        "complete_inside": sum(point["inside"] for point in complete),
        "keys": len(by_key),
        "series": [
            {
                "key": json.loads(key),
                "windows": len(by_key[key]),
                "points": sorted(by_key[key], key=lambda point: point["start_ns"])[:WINDOWS_SHOWN],
            }
            for key in sorted(interest[:KEYS_SHOWN], key=_place)
        ],
    }


def _place(key: str) -> list[tuple[bool, float, str]]:
    """Sort key that sorts numbers by value, before texts."""
    return [
        (False, value, "") if isinstance(value, int | float) else (True, 0, str(value))
        for value in json.loads(key).values()
    ]


def _interest(points: list[Point]) -> tuple[int, int]:
    outside = sum(point["inside"] is False for point in points)
    return -outside, -sum(point["missing"] for point in points)


def _point(result: Result, truth: Any, label: str) -> Point:
    """One window: its value, its error bar, and the truth if known."""
    value = _part(result["value"], label)
    low, high = _bar(result, label, value)
    true_value = _part(truth, label)
    inside = None
    if true_value is not None:
        inside = False
        if low is not None and high is not None:
            slack = _TOLERANCE * max(abs(low), abs(high), abs(true_value))
            inside = low - slack <= true_value <= high + slack
    return {
        "start_ns": result["window"]["start"],
        "end_ns": result["window"]["end"],
        "value": value,
        "low": low,
        "high": high,
        "missing": result.get("missing") or 0,
        "truth": true_value,
        "inside": inside,
    }


def _bar(result: Result, label: str, value: Any) -> tuple[Any, Any]:
    """Exact bounds if the query has them, else the spread of LOW, MIDDLE and HIGH."""
    exact = _part(result.get("bounds"), label)
    if exact is not None and None not in exact:
        return exact[0], exact[1]
    three = (_part(result.get(name), label) for name in ("low", "middle", "high"))
    spread = [each for each in (value, *three) if each is not None]
    return (min(spread), max(spread)) if spread else (None, None)


def _part(value: Any, label: str) -> Any:
    return value.get(label) if isinstance(value, Mapping) else value
