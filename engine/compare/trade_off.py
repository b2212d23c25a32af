"""The figure of a comparison: hold against completeness, with the slack swept.

Both axes are logarithmic and yet show their ends: the axis of completeness is one of the share
that is *not* in its place, so that 99 %, 99.9 % and 99.99 % lie equally far apart and 100 % has a
place of its own; a hold of 0 stands below all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.compare.choice import in_place
from engine.compare.comparison import Comparison
from engine.compare.labels import place_labels
from engine.compare.measure import Measures, Spread
from engine.report.figures import COLOURS, NEUTRAL, Figure, short
from engine.report.units import number

_HEIGHT_PX: Final = 520
_PLOT_PX: Final = (900.0, 430.0)
"""About the size of the plot on a wide screen, to place labels."""
_TICKS: Final = (0.0, 50.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 99.9999)
_GAP: Final = 0.5
_SIDE: Final = 0.014
"""Of the axis: orders that are nearer to one another stand side by side."""
_MEAN: Final = "circle"
_P99: Final = "diamond"


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where values stand: a logarithm, and ``edge`` for those beyond every logarithm."""

    edge: float
    low: float
    high: float

    def share(self, value: float) -> float:
        """How far along the axis, 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def trade_off_figure(comparison: Comparison) -> Figure | None:
    """The figure; None when no order held any event."""
    measured = [*comparison.orders, *comparison.sweep]
    unit, unit_ns = comparison.hold_unit
    spreads = [_spread(comparison, each) for each in measured]
    held = [value / unit_ns for each in spreads for value in (each.mean_ns, each.p99_ns) if value]
    if not held:
        return None
    x_axis, y_axis = _completeness_axis(measured), _hold_axis(held)
    named = _side_by_side([_x(each, x_axis) for each in comparison.orders], x_axis)
    what = "latency" if comparison.settings.reading.departed else "hold time"
    data = _sweep_lines(comparison, x_axis, y_axis)
    data += [
        _order_line(comparison, each, x, y_axis, place)
        for place, (each, x) in enumerate(zip(comparison.orders, named, strict=True))
    ]
    data += _legend()
    swept = " The lines are K-slack with its slack swept." if comparison.sweep else ""
    return Figure(
        "trade-off",
        "What completeness costs: hold time against events in their place"
        if what == "hold time"
        else "What completeness costs: latency against events in their place",
        f"Lower is faster, further right is more complete. Each order stands on a bar from its "
        f"mean to its p99 {what}.{swept} The axis of completeness is stretched towards 100 %; "
        "orders that are equally complete stand side by side.",
        data,
        {
            "xaxis": _ticks(x_axis, _shares_shown(x_axis), "events released in their place [%]"),
            "yaxis": _ticks(y_axis, _powers(y_axis), f"{what} [{unit}]"),
            "annotations": _labels(comparison, named, x_axis, y_axis),
        },
        height_px=_HEIGHT_PX,
    )


def _spread(comparison: Comparison, each: Measures) -> Spread:
    return each.latency if comparison.settings.reading.departed else each.hold


def _x(each: Measures, axis: _Axis) -> float:
    return axis.edge if each.completeness >= 1 else -math.log10(1 - each.completeness)


def _y(duration_ns: float, axis: _Axis, unit_ns: int) -> float:
    return math.log10(duration_ns / unit_ns) if duration_ns > 0 else axis.edge


def _completeness_axis(measured: Sequence[Measures]) -> _Axis:
    inner = [-math.log10(1 - each.completeness) for each in measured if each.completeness < 1]
    low, high = (min(inner), max(inner)) if inner else (1.0, 1.0)
    edge = high + max(_GAP, 0.12 * (high - low))
    has_edge = len(inner) < len(measured)
    margin = 0.06 * (edge - low)
    return _Axis(edge, low - margin, (edge if has_edge else high) + 2 * margin)


def _hold_axis(held: Sequence[float]) -> _Axis:
    low, high = math.log10(min(held)), math.log10(max(held))
    edge = math.floor(low) - _GAP
    margin = 0.06 * (high - edge)
    return _Axis(edge, edge - margin, high + 2 * margin)


def _side_by_side(places: list[float], axis: _Axis) -> list[float]:
    """The places, moved to the right as far as needed to stand apart."""
    step = _SIDE * (axis.high - axis.low)
    moved = list(places)
    last = -math.inf
    for place in sorted(range(len(places)), key=lambda each: places[each]):
        moved[place] = last = max(places[place], last + step)
    return moved


def _order_line(
    comparison: Comparison, each: Measures, x: float, axis: _Axis, place: int
) -> dict[str, Any]:
    _, unit_ns = comparison.hold_unit
    spread = _spread(comparison, each)
    colour = COLOURS[place % len(COLOURS)]
    return {
        "name": each.order,
        "x": [x, x],
        "y": [_y(spread.mean_ns, axis, unit_ns), _y(spread.p99_ns, axis, unit_ns)],
        "mode": "lines+markers",
        "line": {"color": colour, "width": 3},
        "marker": {"symbol": [_MEAN, _P99], "size": [9, 11], "color": colour},
        "text": [_told(comparison, each, "mean"), _told(comparison, each, "p99")],
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _sweep_lines(comparison: Comparison, x_axis: _Axis, y_axis: _Axis) -> list[dict[str, Any]]:
    _, unit_ns = comparison.hold_unit
    swept = sorted(comparison.sweep, key=lambda each: each.completeness)
    if not swept:
        return []
    return [
        {
            "name": f"slack swept: {name}",
            "x": [_x(each, x_axis) for each in swept],
            "y": [_y(of(_spread(comparison, each)), y_axis, unit_ns) for each in swept],
            "mode": "lines+markers",
            "line": {"color": NEUTRAL, "width": 2, "dash": dash},
            "marker": {"symbol": f"{symbol}-open", "size": 6, "color": NEUTRAL},
            "text": [_told(comparison, each, name) for each in swept],
            "hovertemplate": "%{text}<extra></extra>",
        }
        for name, of, dash, symbol in (
            ("mean", lambda spread: spread.mean_ns, "solid", _MEAN),
            ("p99", lambda spread: float(spread.p99_ns), "dash", _P99),
        )
    ]


def _legend() -> list[dict[str, Any]]:
    """What the two symbols of an order mean."""
    return [
        {
            "name": f"an order: {name}",
            "x": [None],
            "y": [None],
            "mode": "markers",
            "marker": {"symbol": symbol, "size": 10, "color": NEUTRAL},
        }
        for name, symbol in (("mean", _MEAN), ("p99", _P99))
    ]


def _told(comparison: Comparison, each: Measures, name: str) -> str:
    unit, unit_ns = comparison.hold_unit
    spread = _spread(comparison, each)
    duration = spread.mean_ns if name == "mean" else spread.p99_ns
    return (
        f"{each.order}<br>{in_place(each)} in place<br>{name} {number(duration / unit_ns)} {unit}"
    )


def _labels(
    comparison: Comparison, named: Sequence[float], x_axis: _Axis, y_axis: _Axis
) -> list[dict[str, Any]]:
    _, unit_ns = comparison.hold_unit
    width, height = _PLOT_PX
    tops, taken = [], []
    for each, x in zip(comparison.orders, named, strict=True):
        spread = _spread(comparison, each)
        mean, p99 = (_y(value, y_axis, unit_ns) for value in (spread.mean_ns, spread.p99_ns))
        tops.append((x, max(mean, p99)))
        steps = 8
        taken += [(x, mean + (p99 - mean) * step / steps) for step in range(steps)]
    taken += [
        (_x(each, x_axis), _y(value, y_axis, unit_ns))
        for each in comparison.sweep
        for value in (
            _spread(comparison, each).mean_ns, float(_spread(comparison, each).p99_ns),
        )
    ]  # fmt: skip
    texts = [short(each.order) for each in comparison.orders]

    def pixels(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x_axis.share(x) * width, (1 - y_axis.share(y)) * height) for x, y in points]

    offsets = place_labels(pixels(tops), texts, pixels(taken), _PLOT_PX)
    return [
        {
            "x": x, "y": y, "ax": right, "ay": down, "text": text, "showarrow": True,
            "arrowhead": 0, "arrowwidth": 1, "arrowcolor": NEUTRAL,
            "font": {"color": COLOURS[place % len(COLOURS)]},
        }
        for place, ((x, y), (right, down), text) in enumerate(
            zip(tops, offsets, texts, strict=True)
        )
    ]  # fmt: skip


def _ticks(axis: _Axis, shown: Sequence[tuple[float, str]], title: str) -> dict[str, Any]:
    return {
        "title": {"text": title},
        "range": [axis.low, axis.high],
        "tickvals": [place for place, _ in shown],
        "ticktext": [text for _, text in shown],
        "zeroline": False,
    }


def _shares_shown(axis: _Axis) -> list[tuple[float, str]]:
    inner = [(-math.log10(1 - share / 100), f"{share:g}") for share in _TICKS]
    shown = [(place, text) for place, text in inner if axis.low <= place < axis.edge - 0.15]
    return [*shown, (axis.edge, "100")] if axis.edge <= axis.high else shown


def _powers(axis: _Axis) -> list[tuple[float, str]]:
    powers = range(math.ceil(axis.edge), math.floor(axis.high) + 1)
    return [(axis.edge, "0"), *((float(power), number(10.0**power)) for power in powers)]
