"""Figures of the queries' results: charts, windows and matches on a time line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slackwater.engine.apps.report.numbers import TimeLine
from slackwater.engine.apps.report.page.figures import (
    BAD,
    COLOURS,
    GOOD,
    NEUTRAL,
    Figure,
    Spec,
    band,
    digits,
    log_axis,
    short,
)
from slackwater.engine.core.units import number, percent

# Figures of a scenario's own charts (``engine.scenario.Chart``).


_LOGARITHMIC: Final = 30
"""An axis of positive values that span a larger factor is logarithmic."""
_HEIGHT_PX: Final = 440
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross")
_MARGIN: Final = 0.12
"""Margin around the points for labels, as a share of the axis."""


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
            for trace in (
                *(
                    band(
                        digits(series["x"]),
                        series["low"],
                        series["high"],
                        COLOURS[at % len(COLOURS)],
                    )
                    if series["low"]
                    else ()
                ),
                _chart_trace(at, series),
            )
        ],
        {"xaxis": _axis(chart, "x"), "yaxis": _axis(chart, "y")},
        height_px=_HEIGHT_PX,
    )


def _chart_trace(at: int, series: Mapping[str, Any]) -> Spec:
    colour = COLOURS[at % len(COLOURS)]
    is_named = list(series["names"]) != [series["name"]]  # else the legend has the name
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
        "mode": "+".join(["lines"] * series["joined"] + ["markers"] + ["text"] * is_named),
        "textposition": "top center",
        "marker": {"size": 11, "color": colour, "symbol": _SYMBOLS[at % len(_SYMBOLS)]},
        "line": {"width": 1.5, "color": colour, "dash": "dot"},
        "hovertemplate": "%{text}: %{x:.4g}, %{y:.4g}",
    }


def _axis(chart: Mapping[str, Any], of: str) -> Spec:
    """Logarithmic if the values of points require it, else from 0."""
    value_names = (of, "low", "high") if of == "y" else (of,)
    values = [value for series in chart["series"] for name in value_names for value in series[name]]
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


# Figures of the queries' results: windows and matches on a time line.


def window_figures(
    windows: Mapping[str, Any], time: TimeLine, units: Mapping[str, Any]
) -> list[Figure]:
    """One figure per query and aggregate; ``units``: of aggregates, see ``engine.scenario``."""
    return [
        _window_figure(f"windows-{at}-{place}", query, label, aggregate, time, units.get(label))
        for at, (query, found) in enumerate(windows.items())
        for place, (label, aggregate) in enumerate(found["aggregates"].items())
    ]


def _window_figure(
    name: str,
    query: str,
    label: str,
    aggregate: Mapping[str, Any],
    time: TimeLine,
    unit: Mapping[str, Any] | None,
) -> Figure:
    series = aggregate["series"]
    data: list[Spec] = []
    factor = 1 if unit is None else unit["factor"]
    for at, one in enumerate(series):
        colour, points = (
            COLOURS[at % len(COLOURS)],
            [_scaled(each, factor) for each in one["points"]],
        )
        x = digits(time.place((each["start_ns"] + each["end_ns"]) // 2) for each in points)
        low, high = ([each[side] for each in points] for side in ("low", "high"))
        data += [*band(x, low, high, colour), _values(one["key"], x, points, colour)]
        for kind, chosen, value in (
            ("truth", [each["truth"] is not None for each in points], "truth"),
            ("events missing", [bool(each["missing"]) for each in points], "value"),
        ):
            if any(chosen):
                data.append(_marks(kind, x, points, chosen, value, colour))
    data += [
        _legend_entry(kind) for kind in _MARKS if any(each.get("name") == kind for each in data)
    ]
    y_title = short(label) if unit is None else f"{short(label)} [{unit['name']}]"
    return Figure(name, f"{query}: {label}", _window_caption(aggregate), data, {
        "xaxis": {"title": {"text": time.title}},
        "yaxis": {"title": {"text": y_title}},
    })  # fmt: skip


def _scaled(point: Mapping[str, Any], factor: float) -> dict[str, Any]:
    of = ("value", "low", "high", "truth")
    return {
        **point,
        **{key: point[key] if point[key] is None else point[key] * factor for key in of},
    }


_MARKS: Final = {"truth": ("diamond-open", 9), "events missing": ("x-thin-open", 9)}


def _window_caption(aggregate: Mapping[str, Any]) -> str:
    text = (
        "Each point is a window, at its middle: its value; the band is all that the clocks' errors "
        "could have made of it; a cross marks a window that knows it misses events."
    )
    if aggregate["with_truth"]:
        share = percent(aggregate["inside"], aggregate["with_truth"])
        text += f" Diamonds are the truth; {share} of all windows have it within their band."
    series_count, keys = len(aggregate["series"]), aggregate["keys"]
    if series_count < keys:
        text += (
            f" Shown: {series_count} of {number(keys)} keys, those furthest from the truth "
            "or missing most."
        )
    if any(len(one["points"]) < one["windows"] for one in aggregate["series"]):
        most = max(len(one["points"]) for one in aggregate["series"])
        text += f" Shown: the first {most} windows of each key."
    return text


def _values(key: Mapping[str, Any], x: list[float], points: Sequence[Any], colour: str) -> Spec:
    name = (
        ", ".join(
            f"{field}={'unknown' if value is None else value}" for field, value in key.items()
        )
        or "all"
    )
    return {
        "name": short(name),
        "x": x,
        "y": [each["value"] for each in points],
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "size": 6},
        "customdata": [[each["missing"], each["low"], each["high"]] for each in points],
        "hovertemplate": "%{y:.6g}, from %{customdata[1]:.6g} to %{customdata[2]:.6g}, "
        "%{customdata[0]} missing",
    }


def _marks(
    kind: str,
    x: list[float],
    points: Sequence[Any],
    chosen: list[bool],
    value: str,
    colour: str,
) -> Spec:
    symbol, size = _MARKS[kind]
    return {
        "name": kind,
        "showlegend": False,
        "x": [place for place, is_chosen in zip(x, chosen, strict=True) if is_chosen],
        "y": [each[value] for each, is_chosen in zip(points, chosen, strict=True) if is_chosen],
        "mode": "markers",
        "marker": {
            "symbol": symbol,
            "size": size,
            "color": BAD if kind == "events missing" else colour,
            "line": {"width": 1.5},
        },
        "hovertemplate": f"{kind}: %{{y:.6g}}" if kind == "truth" else kind,
    }


def _legend_entry(kind: str) -> Spec:
    symbol, size = _MARKS[kind]
    colour = BAD if kind == "events missing" else NEUTRAL
    marker = {"symbol": symbol, "size": size, "color": colour, "line": {"width": 1.5}}
    return {"name": kind, "x": [None], "y": [None], "mode": "markers", "marker": marker}


def match_figures(matches: Mapping[str, Any], time: TimeLine) -> list[Figure]:
    """One figure per query: a row of marks for each kind of match, and one for the truth."""
    return [
        _match_figure(f"matches-{at}", query, found, time)
        for at, (query, found) in enumerate(matches.items())
    ]


def _match_figure(name: str, query: str, found: Mapping[str, Any], time: TimeLine) -> Figure:
    kinds = {
        "taken back": (BAD, found["taken_back"]),
        "unknown": (COLOURS[2], found.get("unknown", 0)),
        "uncertain": (COLOURS[1], found["uncertain"]),
        "confirmed": (COLOURS[0], found["confirmed"]),
        "true": (GOOD, found["true"]),
    }
    present = {kind: style for kind, style in kinds.items() if style[1]}
    data = []
    for kind, (colour, _) in present.items():
        points = found["shown"][kind]
        data.append(
            {
                "x": digits(time.place(each["ref_ns"]) for each in points),
                "y": [kind] * len(points),
                "mode": "markers",
                "marker": {
                    "symbol": "line-ns-open",
                    "size": 20,
                    "color": colour,
                    "line": {"width": 2, "color": colour},
                },
                "text": [_match_text(each) for each in points],
                "customdata": [
                    match_anchor(name, kind, place) if "events" in each else ""
                    for place, each in enumerate(points)
                ],
                "hovertemplate": "%{x:.6g} " + time.unit + "%{text}",
            }
        )
    thinned = [kind for kind in present if len(found["shown"][kind]) < present[kind][1]]
    rest = f" Thinned evenly to what can be seen: {', '.join(thinned)}." if thinned else ""
    truth = (
        "; a mark in the row “true” without one above or below it is a miss"
        if found["true"]
        else ""
    )
    return Figure(
        name,
        query,
        "Each mark is a match at the end of its last event: what was found, and how certain it "
        f"is{truth}. A click leads to its events.{rest}",
        data,
        {
            "showlegend": False,
            "xaxis": {"title": {"text": time.title}, "range": time.whole},
            "yaxis": {
                "type": "category",
                "categoryarray": list(present),
                "range": [-0.6, len(present) - 0.4],
                "showgrid": False,
            },
        },
        height_px=110 + 46 * len(present),
    )


def match_anchor(figure: str, kind: str, place: int) -> str:
    """Anchor of a match and its events on the page."""
    return f"#{figure}-{kind.replace(' ', '-')}-{place}"


def _match_text(match: Mapping[str, Any]) -> str:
    if "sources" not in match:
        return ""
    probability = match["probability"]
    sure = "" if probability is None else f", probability {number(probability)}"
    return f": {short(', '.join(str(source) for source in match['sources']))}{sure}"
