"""Metrics of a run of a scenario file: its results compared with those of a perfect world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

SHARES: Final = {
    "recall": "true results among the final ones, of all true ones",
    "precision": "final results that are true, of all final ones",
    "uncertain": "final results that are uncertain; for windows, those with ambiguous events",
    "wrong": "final results that are certain and not true, of all final ones",
    "retracted": "results retracted, of all that were emitted",
    "missing": "events that happened and never reached the queries, of all events",
    "late": "events that came too late for their place, of all that arrived",
    "disorder": "events that arrived after one with a later time, of all that arrived",
}
DURATIONS: Final = {
    "detection_delay_p50": "from a true result's last event (a window's end) until it is emitted",
    "detection_delay_p95": "the same, 95 of 100 are faster",
    "detection_delay_p99": "the same, 99 of 100 are faster",
    "detection_delay_max": "the slowest",
    "answer_delay_p50": "the same until a live engine emits it: with frame_every and answers_after",
    "answer_delay_p95": "the same, 95 of 100 are faster",
    "hold_p95": "hold of events by the order, 95 of 100 are held for less",
}
COUNTS: Final = {
    "results": "final results: emitted and not retracted",
    "events": "events that happened",
}
METRICS: Final = {**SHARES, **DURATIONS, **COUNTS}
OF_STREAM: Final = ("missing", "late", "disorder", "hold_p95", "events")
"""Metrics of the stream of events, not of a query."""
DELAYS: Final = (0.5, 0.95, 0.99, 1.0)
ANSWER_DELAYS: Final = {"answer_delay_p50": 0.5, "answer_delay_p95": 0.95}


@dataclass(frozen=True, slots=True)
class EmittedResult:
    """A result: its identity, its content, whether it is certain, when it was emitted [ns].

    ``answered_ns``: when a live engine emits it; None: not known.
    """

    identity: Any
    content: Any
    certain: bool
    at_ns: int
    answered_ns: int | None = None


@dataclass(frozen=True, slots=True)
class TrueResult:
    """A result of the perfect world, and the earliest time at which it can be known [ns]."""

    content: Any
    since_ns: int


def query_metrics(
    emissions: Sequence[tuple[str, EmittedResult]], true: Mapping[Any, TrueResult], same: Any
) -> dict[str, float]:
    """Metrics of one query.

    Args:
        emissions: ``+`` or ``-`` and the result, in order.
        true: results of the perfect world by identity.
        same: whether two contents are the same.
    """
    final: dict[Any, EmittedResult] = {}
    first: dict[Any, EmittedResult] = {}
    inserted = retracted = 0
    for op, each in emissions:
        if op == "-":
            retracted += 1
            final.pop(each.identity, None)
            continue
        inserted += 1
        final[each.identity] = each
        if each.identity in true and same(each.content, true[each.identity].content):
            first.setdefault(each.identity, each)
    right = {
        name for name, each in final.items()
        if name in true and same(each.content, true[name].content)
    }  # fmt: skip
    wrong = sum(each.certain for name, each in final.items() if name not in right)
    unsure = sum(not each.certain for each in final.values())
    since = np.array([true[name].since_ns for name in first], np.int64)
    delays = np.array([each.at_ns for each in first.values()], np.int64) - since
    found = {
        "results": float(len(final)),
        "recall": _share(len(right), len(true), 1.0),
        "precision": _share(len(right), len(final), 1.0),
        "uncertain": _share(unsure, len(final), 0.0),
        "wrong": _share(wrong, len(final), 0.0),
        "retracted": _share(retracted, inserted, 0.0),
    }
    if delays.size:
        spread = np.quantile(delays, DELAYS, method="higher").tolist()
        names = [name for name in DURATIONS if name.startswith("detection_delay")]
        found |= dict(zip(names, map(float, spread), strict=True))
    answered = [each.answered_ns for each in first.values() if each.answered_ns is not None]
    if answered and len(answered) == len(first):
        waits = np.array(answered, np.int64) - since
        for name, share in ANSWER_DELAYS.items():
            found[name] = float(np.quantile(waits, share, method="higher"))
    return found


def _share(part: int, whole: int, of_nothing: float) -> float:
    return part / whole if whole else of_nothing
