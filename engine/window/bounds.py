"""Smallest and largest value of an aggregate over all assignments of the ambiguous events.

Every ambiguous event may be in the window or not (SPEC 4.4). ``sum avg min max`` range over the
assignments with at least one value, as they are null without.
"""

from __future__ import annotations

import math

import numpy as np

from engine.jit import njit
from engine.query.plan import Aggregate
from engine.window.accumulate import Summary
from engine.window.drift import Number

Bounds = list[Number | None]


def bounds(
    aggregate: Aggregate, sure: Summary, ambiguous: int, values: np.ndarray
) -> Bounds | None:
    """[smallest, largest], or None for a function without bounds (stddev, quantile).

    Args:
        aggregate: the function.
        sure: summary of the values surely in the window.
        ambiguous: how many values are possibly in it.
        values: those values, where the function needs them.
    """
    if aggregate.function == "count":
        return [sure.n, sure.n + ambiguous]
    if aggregate.function not in {"sum", "avg", "min", "max"}:
        return None
    if sure.n == 0 and len(values) == 0:
        return [None, None]
    if aggregate.function == "sum":
        return [_least_sum(sure, values), -_least_sum(_mirrored(sure), -values)]
    if aggregate.function == "avg":
        return [_least_avg(sure, values), -_least_avg(_mirrored(sure), -values)]
    if aggregate.function == "min":
        return [_least_min(sure, values), -_least_max(_mirrored(sure), -values)]
    return [_least_max(sure, values), -_least_min(_mirrored(sure), -values)]


def _mirrored(sure: Summary) -> Summary:
    """The summary of the negated values: the largest of x is minus the smallest of -x."""
    return Summary(sure.n, -sure.total, -sure.largest, -sure.smallest, -sure.mean, sure.squares)


def _total(first: Number, values: np.ndarray) -> Number:
    """Exact for integers, correctly rounded for floats."""
    if isinstance(first, float) or values.dtype.kind == "f":
        return math.fsum([first, *values.tolist()])
    return int(first + sum(values.tolist()))


def _least_sum(sure: Summary, values: np.ndarray) -> Number:
    negative = values[values < 0]
    if sure.n == 0 and not len(negative):
        smallest: Number = values.min().item()
        return smallest
    return _total(sure.total, negative)


def _least_avg(sure: Summary, values: np.ndarray) -> float:
    """Take the smallest values one after the other as long as each lowers the average."""
    if not len(values):
        return sure.total / sure.n
    ascending = np.sort(values)
    taken = _taken(ascending.astype(np.float64), float(sure.total), sure.n)
    return _total(sure.total, ascending[:taken]) / (sure.n + taken)


@njit
def _taken(ascending: np.ndarray, total: float, n: int) -> int:
    """How many of the smallest values lower the average of ``n`` values that sum to ``total``."""
    taken = 0
    while taken < len(ascending) and (n == 0 or ascending[taken] < total / n):
        total += ascending[taken]
        n += 1
        taken += 1
    return taken


def _least_min(sure: Summary, values: np.ndarray) -> Number:
    found: list[Number] = values.tolist() + ([sure.smallest] if sure.n else [])
    return min(found)


def _least_max(sure: Summary, values: np.ndarray) -> Number:
    """The sure ones alone, or else the smallest possible one alone."""
    if sure.n:
        return sure.largest
    smallest: Number = values.min().item()
    return smallest
