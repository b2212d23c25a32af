"""Matches of a run's queries: how many, how certain, when, and how soon they were known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.report.measure.answers import QueryAnswers, Result, read_events
from engine.report.measure.quantiles import quantiles

POINTS_SHOWN: Final = 1_500
"""Per query and kind; more are thinned evenly."""
EVENTS_SHOWN: Final = 100
"""Matches per query and kind whose events are listed, of those shown."""
LISTED: Final = ("confirmed", "uncertain", "unknown", "taken back")
_OF_EVENT: Final = ("source", "stream", "type", "seq", "ts", "te", "ref", "attrs")


def measure_matches(
    answers: Mapping[str, QueryAnswers], truth: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Per query, over all matches that stand at the end.

    Args:
        answers: ``engine.report.measure.answers.Answers.matches``.
        truth: ``[{at_ref_ns, query?}]``: what really happened, of all queries if not named.

    Returns:
        query -> ``confirmed uncertain unknown taken_back inserted retracted not_kept delay_ns``
        (quantiles of the instant a match was given out minus its last event's ref), and ``shown``:
        kind -> ``[{ref_ns, at_ns, probability, sources, line}]``, with ``true`` among the kinds.
    """
    return {query: _query(query, found, truth) for query, found in sorted(answers.items())}


def add_events(matches: Mapping[str, Any], results: Path) -> None:
    """Gives the first matches shown of each query and kind their ``events``.

    Args:
        matches: what ``measure_matches`` gave.
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
    shown = {kind: _shown(results) for kind, results in kinds.items()}
    shown["taken back"] = _shown(found.taken_back.values())
    shown["true"] = [{"ref_ns": int(at)} for at in _thinned(real)]
    return {
        **{kind: len(results) for kind, results in kinds.items()},
        "taken_back": len(found.taken_back),
        "inserted": found.counts["inserted"],
        "retracted": found.counts["retracted"],
        "not_kept": found.counts["not_kept"],
        "true": len(real),
        "delay_ns": quantiles(np.sort(delays)),
        "shown": shown,
    }


def _shown(results: Iterable[Result]) -> list[dict[str, Any]]:
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
