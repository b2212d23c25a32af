"""The window queries' results against the true aggregates: claims and R19's table of averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.scenario import Claim, Score, Table, Unit
from slackwater.scenarios.runs import share, standing
from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.window_truth import QUERIES, Key, WindowQuery, true_windows

SPEED: Final = "avg(v)"
METRES: Final = Unit("m/s", 1e-6)
"""The recording's speeds are um/s; people read these."""
_TOLERANCE: Final = 1e-9
"""Of an average of integers: two ways of rounding its division."""


@dataclass(frozen=True, slots=True)
class WindowComparison:
    """One query: its standing results and the truth, by window and key.

    ``whole``: over all events; ``reached``: over those that are in the log.
    """

    query: WindowQuery
    results: Mapping[Key, dict[str, Any]]
    whole: Mapping[Key, dict[str, float]]
    reached: Mapping[Key, dict[str, float]]

    def outside(self) -> list[tuple[Key, str]]:
        """Truths (over what reached the log) that no result has within its bounds."""
        return [
            (key, label)
            for key, values in self.reached.items()
            for label, value in values.items()
            if not _holds(self.results.get(key), label, value)
        ]

    def off_um_per_s(self) -> float:
        """Mean of |result - truth over what reached the log| of the average speed."""
        errors = [
            abs(result["value"][SPEED] - self.reached[key][SPEED])
            for key, result in self.results.items()
            if key in self.reached
        ]
        return float(np.mean(errors)) if errors else 0.0


def window_score(directory: Path, label: str, truth: EventTruth, logged: np.ndarray) -> Score:
    """Scores the window queries of pass ``label``."""
    found = standing(directory, label, "windows", _identity)
    compared = {query.name: _compare(query, found, truth, logged) for query in QUERIES}
    truths = sum(len(values) for each in compared.values() for values in each.reached.values())
    outside = sum(len(each.outside()) for each in compared.values())
    claim = Claim(
        f"Every window's bounds hold the true value: {truths - outside} of {truths} aggregates "
        f"over the events that reached the engine ({share(truths - outside, truths):.1f} %).",
        outside == 0,
        "; ".join(
            f"{name}: {label} of the window at {key[0]} ns lies outside"
            for name, each in compared.items()
            for key, label in each.outside()[:3]
        ),
    )
    one, three = compared["plain"].off_um_per_s(), compared["velocity"].off_um_per_s()
    facts = {
        "window_truths": truths,
        "window_truths_outside": outside,
        "speed_error_one_window": one,
        "speed_error_three_windows": three,
        "windows_truth": {name: _sample(each.whole) for name, each in compared.items()},
    }
    return Score(
        (claim,), (_table(compared, one, three),), facts,
        units=dict.fromkeys(("avg(v)", "max(v)"), METRES),
    )  # fmt: skip


def _sample(truth: Mapping[Key, dict[str, float]]) -> list[dict[str, Any]]:
    """The truth over all events, as the report draws it beside the results."""
    return [
        {"start": start, "key": {} if sid is None else {"sid": sid}, "value": values}
        for (start, sid), values in truth.items()
    ]


def _identity(result: dict[str, Any]) -> tuple[Any, ...]:
    return (result["query"], result["window"]["start"], *result["key"].values())


def _compare(
    query: WindowQuery, found: list[dict[str, Any]], truth: EventTruth, logged: np.ndarray
) -> WindowComparison:
    results = {}
    for result in found:
        if result["query"] == query.name:
            results[result["window"]["start"], result["key"].get("sid")] = result
    return WindowComparison(
        query,
        results,
        true_windows(query, truth.true_ns, truth.sid, truth.v),
        true_windows(query, truth.true_ns[logged], truth.sid[logged], truth.v[logged]),
    )


def _holds(result: dict[str, Any] | None, label: str, value: float) -> bool:
    bounds = None if result is None else result.get("bounds", {}).get(label)
    if bounds is None or None in bounds:
        return False
    room = abs(value) * _TOLERANCE
    return bool(bounds[0] - room <= value <= bounds[1] + room)


def _table(compared: Mapping[str, WindowComparison], one: float, three: float) -> Table:
    plain, velocity = compared["plain"], compared["velocity"]
    rows: list[tuple[str | float | int | None, ...]] = []
    first = min(plain.whole, default=(0, None))[0]
    for key in sorted(plain.whole):
        speeds = [each.get(key, {}).get(SPEED) for each in (plain.whole, plain.reached)]
        single, mean = plain.results.get(key), velocity.results.get(key)
        values = [None if each is None else each["value"][SPEED] for each in (single, mean)]
        bounds = [None, None] if mean is None else mean["bounds"][SPEED]
        counts = [
            None if mean is None else mean[name] for name in ("certain", "ambiguous", "missing")
        ]
        rows.append(
            (
                (key[0] - first) / 1e9,
                *(_metres(each) for each in (*speeds, *values, *bounds)),
                *counts,
            )
        )
    return Table(
        "Average speed in 10 s windows",
        ("from [s]", "true [m/s]", "true, of what arrived [m/s]", "one window [m/s]",
         "mean of R19's three [m/s]", "at least [m/s]", "at most [m/s]", "certain [events]",
         "ambiguous [events]", "missing [events]"),
        tuple(rows),
        f"Mean error against the truth of what arrived: {one * METRES.factor:.2g} m/s with one "
        f"window (R19 Query 5.6), {three * METRES.factor:.2g} m/s with the mean of three (R19 "
        "Query 5.7).",
    )  # fmt: skip


def _metres(um_per_s: float | None) -> str | None:
    """In m/s, to the um/s: the clocks' errors are no more than some of these."""
    return None if um_per_s is None else f"{um_per_s * METRES.factor:.6f}"
