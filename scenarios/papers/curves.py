"""Curves over shares, sizes or windows: as a figure, as a table, and how they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from slackwater.paper import COLOURS, Figure
from slackwater.scenario import Table
from slackwater.scenarios.papers.drawing import Curve, lines

FLAT: Final = 1.25
"""Up to here a curve's largest over its smallest value counts as "not greatly" different."""
GROWS: Final = 1.05
"""From this ratio of the last to the first value, a curve grows; less may be measurement noise."""
Curves = Mapping[str, Sequence[float]]
"""By name, a value for each place on the x axis."""


def percents(shares: Sequence[float]) -> list[str]:
    """Shares as headings."""
    return [f"{share:.0%}".replace("%", " %") for share in shares]


def drawn(
    name: str, title: str, caption: str, curves: Curves, xs: Sequence[float],
    axes: tuple[str, str], *, log_y: bool = False,
) -> Figure:  # fmt: skip
    """A line per curve."""
    series = [
        Curve(label, xs, values, COLOURS[place % len(COLOURS)])
        for place, (label, values) in enumerate(curves.items())
    ]
    return lines(name, title, caption, series, axes, log_y=log_y)


def tabled(
    title: str, first: str, headings: Sequence[str], curves: Curves, note: str = ""
) -> Table:
    """A row per curve."""
    rows: list[tuple[str | float, ...]] = [(label, *values) for label, values in curves.items()]
    return Table(title, (first, *headings), tuple(rows), note)


def growth(values: Sequence[float]) -> float:
    """Last over first; infinite if it grows from nothing."""
    if not values[0]:
        return 1.0 if not values[-1] else float("inf")
    return values[-1] / values[0]


def spread(values: Sequence[float]) -> float:
    """Largest over smallest."""
    return max(values) / min(values) if min(values) else float("inf")


def ascending(values: Sequence[float]) -> bool:
    """Whether each value is larger than the one before."""
    return all(before < after for before, after in pairwise(values))
