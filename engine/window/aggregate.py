"""The aggregate functions, from a summary of the values: count sum avg min max stddev quantile.

Nulls are skipped, as in SQL; without any value every function but ``count`` is None. ``stddev`` is
the deviation of the population (SQL's stddev_pop). ``quantile`` interpolates linearly between
the two nearest ranks (Hyndman & Fan 1996, type 7).
"""

from __future__ import annotations

import math

import numpy as np

from engine.query.plan import Aggregate
from engine.window.accumulate import Summary
from engine.window.drift import Number

NEEDS_ALL_VALUES = frozenset({"quantile"})
NEEDS_MOMENTS = frozenset({"stddev"})
NEEDS_AMBIGUOUS_VALUES = frozenset({"sum", "avg", "min", "max"})
"""Functions whose bounds need the single values of ambiguous events."""


def evaluate(aggregate: Aggregate, summary: Summary, values: np.ndarray | None) -> Number | None:
    """The aggregate of the values summed up in ``summary``; ``values`` themselves for quantiles."""
    if aggregate.function == "count":
        return summary.n
    if summary.n == 0:
        return None
    match aggregate.function:
        case "sum":
            return summary.total
        case "avg":
            return summary.total / summary.n
        case "min":
            return summary.smallest
        case "max":
            return summary.largest
        case "stddev":
            return math.sqrt(max(0.0, summary.squares) / summary.n)
    assert aggregate.function == "quantile"
    assert values is not None
    assert aggregate.parameter is not None
    return float(np.quantile(values, aggregate.parameter))
