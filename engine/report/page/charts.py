"""Figures of a scenario's own charts (``engine.scenario.Chart``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.report.page.figures import COLOURS, Figure, Spec, digits, log_axis, short
from engine.report.page.result_figures import band

_LOGARITHMIC: Final = 30
"""An axis whose values, all above 0, span a larger factor is logarithmic."""
_HEIGHT_PX: Final = 440
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross")
_MARGIN: Final = 0.12
"""Room around the points, as a share of the axis: names stand beside them."""


def chart_figures(charts: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """One figure per chart that has a point; charts as plain data."""
    return [
        _chart_figure(f"chart-{at}", chart)
        for at, chart in enumerate(charts)
        if any(series["x"] for series in chart["series"])
    ]


def _chart_figure(name: str, chart: Mapping[str, Any]) -> Figure:
    return Figure(
        name,
        chart["title"],
        chart["caption"],
        [
            trace
            for at, series in enumerate(chart["series"])
            if series["x"]
            for trace in (*_band(at, series), _trace(at, series))
        ],
        {"xaxis": _axis(chart, "x"), "yaxis": _axis(chart, "y")},
        height_px=_HEIGHT_PX,
    )


def _band(at: int, series: Mapping[str, Any]) -> list[Spec]:
    points = [
        {"low": low, "high": high} for low, high in zip(series["low"], series["high"], strict=True)
    ]
    return band(digits(series["x"]), points, COLOURS[at % len(COLOURS)]) if points else []


def _trace(at: int, series: Mapping[str, Any]) -> Spec:
    colour = COLOURS[at % len(COLOURS)]
    if not series["names"]:
        return {
            "name": short(series["name"]),
            "x": digits(series["x"]),
            "y": digits(series["y"]),
            "mode": "lines",
            "line": {"width": 1.5, "color": colour, "dash": "solid" if series["low"] else "dot"},
            "hovertemplate": "%{x:.4g}, %{y:.6g}",
        }
    return {
        "name": short(series["name"]),
        "x": digits(series["x"]),
        "y": digits(series["y"]),
        "text": series["names"],
        "mode": "lines+markers+text" if series["joined"] else "markers+text",
        "textposition": "top center",
        "marker": {"size": 11, "color": colour, "symbol": _SYMBOLS[at % len(_SYMBOLS)]},
        "line": {"width": 1.5, "color": colour, "dash": "dot"},
        "hovertemplate": "%{text}: %{x:.4g}, %{y:.4g}",
    }


def _axis(chart: Mapping[str, Any], of: str) -> Spec:
    """Logarithmic where the values of points ask for it, else from 0 on."""
    shown = (of, "low", "high") if of == "y" else (of,)
    values = [value for series in chart["series"] for name in shown for value in series[name]]
    title: Spec = {"title": {"text": chart[f"{of}_title"]}}
    low, high = min(values), max(values)
    points = any(series["names"] for series in chart["series"])
    if points and low > 0 and high > _LOGARITHMIC * low:
        return log_axis(chart[f"{of}_title"])
    if low < 0:
        return title
    if of == "x" and not points:
        return title | {"range": [low, high]}
    top = high or 1.0
    return title | {"range": [-_MARGIN / 2 * top, (1 + _MARGIN) * top]}
