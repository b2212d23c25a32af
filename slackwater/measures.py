"""Measurements of an order on a log, for scenarios that compare orders."""

from __future__ import annotations

from slackwater.engine.apps.compare.comparison import choose, in_place
from slackwater.engine.apps.compare.measure import (
    Durations,
    Measures,
    Reading,
    measure,
    measure_many,
)

__all__ = [
    "Durations",
    "Measures",
    "Reading",
    "choose",
    "in_place",
    "measure",
    "measure_many",
]
