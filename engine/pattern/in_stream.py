"""Patterns see the ordered stream: what an order dropped from it makes and takes back no match.

Windows see dropped events too, as corrections (SPEC 3.1, 4.4); a pattern's user who wants late
events to count asks the order to pass them (``late=pass``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from engine.operator import Operator, Result
from engine.stream.released import LATE_DROPPED, Gaps, Progress, Promises, Released

_Told = TypeVar("_Told", Progress, Gaps, Promises)


class InStream:
    """An operator that gets no dropped events; else it is ``operator``."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def required_columns(self) -> set[str]:
        return {*self.operator.required_columns(), "status"}

    def process(self, released: Released) -> Sequence[Result]:
        return self.operator.process(in_stream(released))

    def advance(self, now: int) -> Sequence[Result]:
        return self.operator.advance(now)

    def finish(self, at: int) -> Sequence[Result]:
        return self.operator.finish(at)

    def counters(self) -> dict[str, int]:
        """Of the operator; what was dropped is counted where it was."""
        return self.operator.counters()

    def codes(self) -> np.ndarray | None:
        return self.operator.codes()

    def snapshot(self) -> dict[str, Any]:
        return self.operator.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        self.operator.restore(state)


def in_stream(released: Released) -> Released:
    """``released`` without the events that were dropped; all places count those that are left."""
    kept = released.columns["status"] != LATE_DROPPED
    if kept.all():
        return released
    before = np.concatenate(([0], np.cumsum(kept)))

    def moved(told: _Told) -> _Told:
        return replace(told, row=before[told.row])

    return replace(
        released,
        n=int(before[-1]),
        columns={name: column[kept] for name, column in released.columns.items()},
        progress=moved(released.progress),
        gaps=moved(released.gaps),
        slack=moved(released.slack),
        promises=None if released.promises is None else moved(released.promises),
    )
