"""The page of a comparison: compare.html and compare.json, and its figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.compare.choice import in_place
from engine.compare.columns import COST, OUTCOME, arrival_facts, as_plain, fields, order_table
from engine.compare.comparison import OrdersCompared
from engine.compare.measure import Durations, Measures
from engine.report.numbers import Kpi, amount, as_json, duration, number, percent, plain, versions
from engine.report.page.document import CHAPTER, document, how_made, write_page_folder
from engine.report.page.figures import COLOURS, NEUTRAL, ONE_BOX, Figure, short
from engine.scenario import Table

# Places labels beside the points of a figure, so that none covers another or a point.


_LETTER_PX: Final = 7.2
_LINE_PX: Final = 17.0
_POINT_PX: Final = 6.0
_DISTANCES_PX: Final = (20.0, 36.0, 54.0, 76.0, 100.0, 130.0, 165.0)
_DIRECTIONS: Final = ((0, -1), (-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1), (0, 1))
"""Up first (y grows downwards), then aside, then down."""


class Box(NamedTuple):
    """A rectangle in pixels from the upper left corner of the plot."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        """Whether they overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def place_labels(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    occupied: Iterable[tuple[float, float]],
    size: tuple[float, float],
) -> list[tuple[int, int]]:
    """Offset of the middle of each label from its point, (right, down) [px].

    Greedy, in the order of the points; a label that finds no free place keeps the first one.

    Args:
        points: of the labels, in pixels from the upper left corner of the plot.
        texts: of the labels.
        occupied: further points that labels should not cover.
        size: width and height of the plot.
    """
    whole = Box(0, 0, *size)
    taken = [_around(x, y, _POINT_PX, _POINT_PX) for x, y in [*points, *occupied]]
    offsets = []
    for (x, y), text in zip(points, texts, strict=True):
        half = (len(text) * _LETTER_PX / 2, _LINE_PX / 2)
        places = list(_places(half))
        boxes = [_around(x + right, y + down, *half) for right, down in places]
        free = (
            number
            for number, box in enumerate(boxes)
            if _within(box, whole) and not any(box.covers(other) for other in taken)
        )
        chosen = next(free, 0)
        taken.append(boxes[chosen])
        offsets.append((round(places[chosen][0]), round(places[chosen][1])))
    return offsets


def _places(half: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Middles of a label around its point, near ones first."""
    for distance, (right, down) in product(_DISTANCES_PX, _DIRECTIONS):
        yield right * (half[0] + distance), down * distance


def _around(x: float, y: float, half_width: float, half_height: float) -> Box:
    return Box(x - half_width, y - half_height, x + half_width, y + half_height)


def _within(box: Box, whole: Box) -> bool:
    return (
        box.left >= whole.left
        and box.top >= whole.top
        and box.right <= whole.right
        and box.bottom <= whole.bottom
    )


# The figure of a comparison: hold against completeness, with the slack swept.
#
# Both axes are logarithmic and yet show their ends: the axis of completeness is one of the share
# that is *not* in its place, so that 99 %, 99.9 % and 99.99 % lie equally far apart and 100 % has a
# place of its own; holds of 0 and next to 0 stand below all others.


_HEIGHT_PX: Final = 520
_PLOT_PX: Final = (900.0, 430.0)
"""About the size of the plot on a wide screen, to place labels."""
_TICKS: Final = (
    0.0,
    30.0,
    50.0,
    70.0,
    80.0,
    90.0,
    95.0,
    99.0,
    99.5,
    99.9,
    99.95,
    99.99,
    99.999,
    99.9999,
)
_DECADES: Final = 6
"""Of the longest hold: shorter ones stand together below, so that they do not take all the room."""
_GAP: Final = 0.5
_SIDE: Final = 0.014
"""Of the axis: orders that are nearer to one another stand side by side."""
_STEPS: Final = 12
"""Points of each piece of a line that labels keep away from."""
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


def trade_off_figure(comparison: OrdersCompared) -> Figure | None:
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
        f"{what.capitalize()} against events in their place",
        f"Lower is faster, further right is more complete. Each order is on a bar from its "
        f"mean to its p99 {what}.{swept} The axis of completeness is stretched towards 100 %; "
        "orders that are equally complete are side by side.",
        data,
        {
            "xaxis": _ticks(x_axis, _shares_shown(x_axis), "events released in their place [%]"),
            "yaxis": _ticks(y_axis, _powers(y_axis), f"{what} [{unit}]"),
            "annotations": _labels(comparison, named, x_axis, y_axis),
        },
        height_px=_HEIGHT_PX,
    )


def _spread(comparison: OrdersCompared, each: Measures) -> Durations:
    return each.latency if comparison.settings.reading.departed else each.hold


def _x(each: Measures, axis: _Axis) -> float:
    return axis.edge if each.completeness >= 1 else -math.log10(1 - each.completeness)


def _y(duration_ns: float, axis: _Axis, unit_ns: int) -> float:
    return max(math.log10(duration_ns / unit_ns), axis.edge) if duration_ns > 0 else axis.edge


def _completeness_axis(measured: Sequence[Measures]) -> _Axis:
    inner = [-math.log10(1 - each.completeness) for each in measured if each.completeness < 1]
    low, high = (min(inner), max(inner)) if inner else (1.0, 1.0)
    edge = high + max(_GAP, 0.12 * (high - low))
    has_edge = len(inner) < len(measured)
    margin = 0.06 * (edge - low)
    return _Axis(edge, low - margin, (edge if has_edge else high) + 2 * margin)


def _hold_axis(held: Sequence[float]) -> _Axis:
    low, high = math.log10(min(held)), math.log10(max(held))
    edge = max(math.floor(low), math.floor(high) - _DECADES) - _GAP
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
    comparison: OrdersCompared, each: Measures, x: float, axis: _Axis, place: int
) -> dict[str, Any]:
    colour = COLOURS[place % len(COLOURS)]
    return {
        "name": each.order,
        "x": [x, x],
        "y": list(_ends(comparison, each, axis)),
        "mode": "lines+markers",
        "line": {"color": colour, "width": 3},
        "marker": {"symbol": [_MEAN, _P99], "size": [9, 11], "color": colour},
        "text": [_told(comparison, each, "mean"), _told(comparison, each, "p99")],
        "hovertemplate": f"%{{text}}{ONE_BOX}",
        "showlegend": False,
    }


def _sweep_lines(comparison: OrdersCompared, x_axis: _Axis, y_axis: _Axis) -> list[dict[str, Any]]:
    swept = sorted(comparison.sweep, key=lambda each: each.completeness)
    if not swept:
        return []
    return [
        {
            "name": f"slack swept: {name}",
            "x": [_x(each, x_axis) for each in swept],
            "y": [_ends(comparison, each, y_axis)[end] for each in swept],
            "mode": "lines+markers",
            "line": {"color": NEUTRAL, "width": 2, "dash": dash},
            "marker": {"symbol": f"{symbol}-open", "size": 6, "color": NEUTRAL},
            "text": [_told(comparison, each, name) for each in swept],
            "hovertemplate": f"%{{text}}{ONE_BOX}",
        }
        for end, (name, dash, symbol) in enumerate(
            (("mean", "solid", _MEAN), ("p99", "dash", _P99))
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


def _told(comparison: OrdersCompared, each: Measures, name: str) -> str:
    unit, unit_ns = comparison.hold_unit
    spread = _spread(comparison, each)
    duration = spread.mean_ns if name == "mean" else spread.p99_ns
    return f"{each.order}\n{in_place(each)} in place\n{name} {number(duration / unit_ns)} {unit}"


def _labels(
    comparison: OrdersCompared, named: Sequence[float], x_axis: _Axis, y_axis: _Axis
) -> list[dict[str, Any]]:
    width, height = _PLOT_PX
    tops, lines = [], []
    for each, x in zip(comparison.orders, named, strict=True):
        mean, p99 = _ends(comparison, each, y_axis)
        tops.append((x, max(mean, p99)))
        lines.append([(x, mean), (x, p99)])
    swept = sorted(comparison.sweep, key=lambda each: each.completeness)
    lines += [
        [(_x(each, x_axis), _ends(comparison, each, y_axis)[end]) for each in swept]
        for end in (0, 1)
    ]
    taken = [point for line in lines for point in _along(line)]
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


def _ends(comparison: OrdersCompared, each: Measures, axis: _Axis) -> tuple[float, float]:
    """Places of its mean and its p99."""
    _, unit_ns = comparison.hold_unit
    spread = _spread(comparison, each)
    return _y(spread.mean_ns, axis, unit_ns), _y(spread.p99_ns, axis, unit_ns)


def _along(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Points close to one another on a line of straight pieces."""
    for (x, y), (next_x, next_y) in itertools.pairwise(line):
        for step in range(_STEPS):
            part = step / _STEPS
            yield x + (next_x - x) * part, y + (next_y - y) * part


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
    least = f"< {number(10.0 ** powers[0])}"
    return [(axis.edge, least), *((float(power), number(10.0**power)) for power in powers)]


# compare.html and compare.json: the whole comparison in one folder, to keep and to show.


HTML: Final = "compare.html"
JSON: Final = "compare.json"
_CHAPTERS: Final = {
    "verdict": "Verdict", "input": "Input", "orders": "Orders", "trade-off": "Trade-off",
    "fields": "Glossary", **CHAPTER,
}  # fmt: skip
NO_ARRIVALS: Final = (
    "The input has no arrival times: line numbers replace them, so holds are counted in lines, "
    "and timeouts given in time (sequence's latency) do not mean what they say."
)


def write_comparison(
    comparison: OrdersCompared, source: str, out: Path, command: str
) -> dict[str, Any]:
    """Writes ``compare.json`` and ``compare.html`` into the folder ``out``, made if absent.

    Args:
        comparison: what to write.
        source: what was compared, for the reader.
        out: see ``engine.report.page.document``.
        command: that made it; empty: none did.

    Returns:
        what ``compare.json`` holds.

    Raises:
        UserError: see ``check_page_folder``.
    """
    found: dict[str, Any] = plain(as_plain(comparison, source, versions()))
    html = page(comparison, found, command)
    write_page_folder(out, {JSON: as_json(found, indent=1) + "\n", HTML: html})
    return found


def page(comparison: OrdersCompared, found: Mapping[str, Any], command: str) -> str:
    """The page that shows ``comparison``; ``found`` is what compare.json holds."""
    drawn = trade_off_figure(comparison)
    facts = (("input", str(found["input"])), *arrival_facts(comparison))
    named = tuple(tuple(each.values()) for each in fields())
    tables = {
        "arrivals": Table("", ("", ""), facts),
        "orders": _orders(comparison, comparison.orders),
        "sweep": _orders(comparison, comparison.sweep),
        "fields": Table("", ("field of compare.json", "definition", "unit"), named),
    }
    return document(
        "compare.html", f"Orders compared: {found['input']}", _CHAPTERS, [drawn] if drawn else [],
        found, JSON, tables=tables, trade_off=drawn, no_arrivals=NO_ARRIVALS,
        kpis=_kpis(comparison), how=how_made(command, found["made_with"]),
    )  # fmt: skip


def _kpis(comparison: OrdersCompared) -> list[Kpi]:
    """What arrived, and what the order that suits makes of it."""
    arrived = comparison.arrivals
    sources = f"of {amount(arrived.sources)} source{'' if arrived.sources == 1 else 's'}"
    made = [
        Kpi("events arrived", arrived.events, "count", amount(arrived.events), sources),
        Kpi("out of order on arrival", arrived.disorder, "count",
            percent(arrived.disorder, arrived.events), amount(arrived.disorder), "less"),
    ]  # fmt: skip
    suits = comparison.choice.suits
    best = next((each for each in comparison.orders if each.order == suits), None)
    if best is None:
        most = max(comparison.orders, key=lambda each: each.completeness)
        note = f"of the events; {most.order} is the most complete"
        return [*made, Kpi("in their place", most.completeness, "share", in_place(most), note,
                           "more", holds=False)]  # fmt: skip
    hold = best.hold
    return [
        *made,
        Kpi("what suits", None, "", best.order, holds=True),
        Kpi("in their place", best.completeness, "share", in_place(best), "of the events", "more"),
        Kpi("held, p99", hold.p99_ns, "ns", _held(comparison, hold.p99_ns),
            f"half at most {_held(comparison, hold.p50_ns)}", "less"),
        Kpi("held at once, most", best.buffered_max, "count", amount(best.buffered_max),
            "events of one site", "less"),
    ]  # fmt: skip


def _held(comparison: OrdersCompared, hold_ns: float) -> str:
    """A hold; without arrival times it is counted in lines."""
    return duration(hold_ns) if comparison.arrival_given else f"{number(hold_ns)} lines"


def _orders(comparison: OrdersCompared, measured: Sequence[Measures]) -> list[Table]:
    """Two tables, as one would be too wide to be seen at once: what comes out, what it costs."""
    return [
        Table(heading, *order_table(comparison, measured, parts))
        for heading, parts in (("What comes out", OUTCOME), ("What it costs", COST))
    ]
