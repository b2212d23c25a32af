"""Shapes of papers' figures: lines and bars, ours in full colour, the paper's paler and dotted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slackwater.paper import Figure, digits, log_axis

_OUTSIDE: Final = {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.25, "yanchor": "top"}

_THIN: Final = 2
_WIDE: Final = 7
_CLOSE: Final = 0.005
"""Curves closer than this share of the highest value look the same."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``published``: the paper's numbers, not ours."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    colour: str
    published: bool = False


def lines(
    name: str, title: str, caption: str, series: Sequence[Curve], axes: tuple[str, str], *,
    log_y: bool = False, marks: bool = True,
) -> Figure:  # fmt: skip
    """A line per series; ``axes``: titles of x and y. A logarithmic axis has no place for 0. A line
    that another one covers is wider, so that its edges show.
    """
    if log_y and any(y <= 0 for each in series for y in each.y):
        caption += " Zeros are not drawn."
    return Figure(
        name,
        title,
        caption,
        [
            {
                "name": each.name,
                "x": list(each.x),
                "y": [None if log_y and y <= 0 else y for y in digits(each.y)],
                "mode": "lines+markers" if marks else "lines",
                "line": {
                    "color": each.colour,
                    "width": _WIDE if _covered(each, series[place + 1 :]) else _THIN,
                    "dash": "dot" if each.published else "solid",
                },
                "opacity": 0.6 if each.published else 1,
            }
            for place, each in enumerate(series)
        ],
        {"xaxis": {"title": {"text": axes[0]}}, "yaxis": _y(axes[1], series, log_y=log_y),
         "legend": _OUTSIDE},
        height_px=400,
    )  # fmt: skip


def bars(
    name: str, title: str, caption: str, series: Sequence[Curve], axes: tuple[str, str], *,
    log_y: bool = False,
) -> Figure:  # fmt: skip
    """Groups of bars; ``axes``: titles of x and y."""
    return Figure(
        name,
        title,
        caption,
        [
            {
                "type": "bar",
                "name": each.name,
                "x": list(each.x),
                "y": digits(each.y),
                "marker": {
                    "color": each.colour,
                    "pattern": {"shape": "/" if each.published else "", "fillmode": "replace"},
                },
            }
            for each in series
        ],
        {"barmode": "group", "xaxis": {"title": {"text": axes[0]}, "type": "category"},
         "yaxis": _y(axes[1], series, log_y=log_y), "legend": _OUTSIDE},
        height_px=400,
    )  # fmt: skip


def _covered(line: Curve, later: Sequence[Curve]) -> bool:
    """Whether a curve that is drawn later would hide ``line``."""
    height = max((abs(y) for each in (line, *later) for y in each.y), default=0.0)
    return any(
        list(line.x) == list(other.x)
        and all(abs(a - b) <= _CLOSE * height for a, b in zip(line.y, other.y, strict=True))
        for other in later
    )


def _y(title: str, series: Sequence[Curve], *, log_y: bool) -> dict[str, Any]:
    if log_y:
        return log_axis(title, [y for each in series for y in each.y])
    return {"title": {"text": title}, "rangemode": "tozero"}
