"""Windows of a run's queries: how many, how sure, how complete, and how near the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from slackwater.engine.apps.report.measure.matches import QueryAnswers, Result

KEYS_SHOWN: Final = 6
POINTS_SHOWN: Final = 400
"""Windows per key; the first ones are shown."""
_TOLERANCE: Final = 1e-9
"""Of the truth against bounds, relative: sums of floats in another order."""

Point = dict[str, Any]


def measure_windows(
    answers: Mapping[str, QueryAnswers], truth: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Per query and aggregate, over all windows that stand at the end.

    Args:
        answers: ``engine.apps.report.measure.matches.Answers.windows``.
        truth: query -> ``[{start, key, value}]``; ``value`` a number or aggregate -> number.

    Returns:
        query -> counts (``phantom``: windows at the ends without a certain event, which
        ``aggregates`` leaves out) and ``aggregates``: label -> ``with_truth``, ``inside`` (truth
        within the error bar), ``complete_with_truth``, ``complete_inside`` (the same without
        windows that miss events), ``keys`` and ``series`` (of at most ``KEYS_SHOWN`` keys, those
        furthest from the truth or with most missing first).
    """
    return {query: _query(found, truth.get(query, ())) for query, found in sorted(answers.items())}


def _query(found: QueryAnswers, truth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    """Without the windows before the first and after the last that hold an event for sure: what
    made them is only that events of their neighbours may lie in them.
    """
    held = [
        each["window"]["start"]
        for each in standing
        if each.get("certain") != 0 or (each["window"]["start"], _key(each["key"])) in truth
    ]
    if not held:
        return list(standing)
    first, last = min(held), max(held)
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
                "points": sorted(by_key[key], key=lambda point: point["start_ns"])[:POINTS_SHOWN],
            }
            for key in sorted(interest[:KEYS_SHOWN], key=_place)
        ],
    }


def _place(key: str) -> list[tuple[bool, float, str]]:
    """Sorts numbers as numbers, before texts."""
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
    """Exact bounds where the query has them, else the spread of LOW, MIDDLE and HIGH."""
    exact = _part(result.get("bounds"), label)
    if exact is not None and None not in exact:
        return exact[0], exact[1]
    three = (_part(result.get(name), label) for name in ("low", "middle", "high"))
    spread = [each for each in (value, *three) if each is not None]
    return (min(spread), max(spread)) if spread else (None, None)


def _part(value: Any, label: str) -> Any:
    return value.get(label) if isinstance(value, Mapping) else value
