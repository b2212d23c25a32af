"""The figures of the report as Plotly specifications: plain data from report.json's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from slackwater.engine.apps.report.numbers import NS_PER_MS, TimeLine
from slackwater.engine.core.units import duration, duration_unit, number, percent

# Figures of a scenario's intervals (``engine.scenario.Timeline``): lines of bars over time.


_LANE_PX: Final = 30
_AROUND_PX: Final = 130
_FAINT: Final = 0.35
"""Opacity of bars that are not in a match."""
_NARROWEST: Final = 0.002
"""Width of a point, as a share of the whole time."""


def timeline_figures(timelines: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """One figure per timeline that has a bar; timelines as plain data."""
    return [
        _figure(f"timeline-{at}", timeline)
        for at, timeline in enumerate(timelines)
        if timeline["bars"]
    ]


def _figure(name: str, timeline: Mapping[str, Any]) -> Figure:
    bars = timeline["bars"]
    first = min(bar["start_ns"] for bar in bars)
    last = max(bar["end_ns"] for bar in bars)
    time = TimeLine.of(first, max(last, first + 1))
    lanes = list(dict.fromkeys(bar["lane"] for bar in bars))
    kinds = sorted({bar["kind"] for bar in bars})  # one colour in all figures of a page
    return Figure(
        name,
        timeline["title"],
        timeline["caption"],
        [
            _timeline_trace(at, kind, [bar for bar in bars if bar["kind"] == kind], time)
            for at, kind in enumerate(kinds)
        ],
        {
            "barmode": "overlay",
            "bargap": 0.25,
            "xaxis": {"title": {"text": f"time since the first interval [{time.unit}]"}},
            "yaxis": {"categoryorder": "array", "categoryarray": [*map(short, lanes[::-1])]},
        },
        height_px=_AROUND_PX + _LANE_PX * len(lanes),
    )


def _timeline_trace(at: int, kind: str, bars: Sequence[Mapping[str, Any]], time: TimeLine) -> Spec:
    narrowest = _NARROWEST * time.place(time.last_ns)
    starts = digits(time.place(bar["start_ns"]) for bar in bars)
    ends = digits(time.place(bar["end_ns"]) for bar in bars)
    colour = COLOURS[at % len(COLOURS)]
    return {
        "type": "bar",
        "orientation": "h",
        "name": short(kind),
        "y": [short(bar["lane"]) for bar in bars],
        "base": starts,
        "x": [max(end - start, narrowest) for start, end in zip(starts, ends, strict=True)],
        "customdata": [
            [bar["name"], start, end] for bar, start, end in zip(bars, starts, ends, strict=True)
        ],
        "marker": {
            "color": colour,
            "opacity": [1.0 if bar["strong"] else _FAINT for bar in bars],
            "line": {"color": colour, "width": 1},
        },
        "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]:.5g}} to %{{customdata[2]:.5g}} "
        f"{time.unit}",
    }


# The figures of the report as Plotly specifications: plain data, made from report.json's numbers.
#
# Colours of text, grid and background come from the page, which has a light and a dark mode.


COLOURS: Final = (
    "#3b7dd8", "#dd7a12", "#2a9d6f", "#a45fd0", "#d1495b", "#1899ae", "#8f8f22", "#b0678a",
)  # fmt: skip
"""Distinct for colour-blind people, on light and dark background."""
ARRIVED: Final = "#e3b778"
_PASS_COLOURS: Final = ("#3b7dd8", "#a45fd0", "#2a9d6f", "#d1495b", "#1899ae")
GOOD: Final = "#2a9d6f"
BAD: Final = "#d1495b"
CARE: Final = "#d99a2b"
NEUTRAL: Final = "#858b95"
NAME_LENGTH: Final = 26
CLOCKS_SHOWN: Final = 12
_DIGITS: Final = 6
_LEAST_NS: Final = 1
"""Replaces 0 on a logarithmic axis."""
_TELLING_SHARE: Final = 1e-3
"""Smaller errors, as a share of the least bound, need no distinction."""
_NAMED: Final = 8
"""Up to this number of points are labelled,"""
_NAME_ROOM: Final = 3
"""if no other point is within this factor, so that names do not overlap."""

_MINUTE_NS: Final = 60 * 10**9
_ROUND_NS: Final = (
    *(10**power for power in range(11)), _MINUTE_NS, 10 * _MINUTE_NS, 60 * _MINUTE_NS,
    600 * _MINUTE_NS, *(10**power * 1_440 * _MINUTE_NS for power in (1, 2, 3, 4)),
)  # fmt: skip
"""Common durations, some ten times apart."""

ONE_BOX: Final = "<extra></extra>"
"""End of a ``hovertemplate`` without Plotly's second box."""

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """``name`` is unique in the page; ``data`` and ``layout`` are Plotly's."""

    name: str
    title: str
    caption: str
    data: list[Spec]
    layout: Spec = field(default_factory=dict)
    height_px: int = 360

    def spec(self) -> Spec:
        """The specification that the page's script draws, with all markup escaped."""
        return {"name": self.name, "data": _as_it_is(self.data), "layout": _as_it_is(self.layout)}

    def alone(self) -> Any:
        """The figure as a ``plotly.graph_objects.Figure``, for notebooks; needs plotly."""
        import plotly.graph_objects as go  # noqa: PLC0415 - loads slowly, and pages need it not

        made = go.Figure(data=_as_it_is(self.data), layout=_as_it_is(self.layout))
        look = {"template": "plotly_white", "title": self.title, "height": self.height_px}
        return made.update_layout(look)


def _as_it_is(value: Any) -> Any:
    """Escape markup, because Plotly would make a link from ``<a href=...>``; keep line breaks."""
    if isinstance(value, str):
        text = value.removesuffix(ONE_BOX)
        return escape(text, quote=False).replace("\n", "<br>") + value[len(text) :]
    if isinstance(value, Mapping):
        return {name: _as_it_is(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_it_is(each) for each in value]
    return value


_WIDE: Final[Spec] = {"width": 5}


def _pass_line(place: int) -> Spec:
    """Line style of the pass at this place; equal results remain visible."""
    dash = ("solid", "dash", "dot", "dashdot")[place % 4]
    return {"color": _PASS_COLOURS[place % len(_PASS_COLOURS)], "dash": dash, "width": 2}


def short(name: str) -> str:
    """A name shortened for a legend."""
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"


def disorder_figure(disorder: Mapping[str, Any]) -> Figure | None:
    """Lateness before and after; None if nothing was out of order."""
    curves = [
        ("arrived, sources' clocks (ts)", disorder["arrived_ts"], _WIDE | {"color": NEUTRAL}),
        ("arrived, clocks corrected (ref)", disorder["arrived_ref"], _WIDE | {"color": ARRIVED}),
    ]
    curves += [
        (f"released by “{short(label)}”", measured, _pass_line(at))
        for at, (label, measured) in enumerate(disorder["released"].items())
    ]
    drawn = [curve for curve in curves if curve[1]["out_of_order"]]
    if not drawn:
        return None
    flat = [name for name, measured, _ in curves if not measured["out_of_order"]]
    absent = f" No line, because nothing is out of order: {'; '.join(flat)}." if flat else ""
    return Figure(
        "disorder",
        "Lateness before and after ordering",
        "How many of all events are out of order by at least so much: lower and further left is "
        f"better. Both axes are logarithmic.{absent}",
        [
            {
                "name": name,
                "x": ms(measured["curve"]["lateness_ns"]),
                "customdata": [duration(each) for each in measured["curve"]["lateness_ns"]],
                "y": digits(100 * share for share in measured["curve"]["share"]),
                "line": line,
                "mode": "lines",
                "hovertemplate": "%{y:.3g} % at least %{customdata} late",
            }
            for name, measured, line in drawn
        ],
        {
            "xaxis": duration_axis(
                "lateness", (ns for _, each, _ in drawn for ns in each["curve"]["lateness_ns"])
            ),
            "yaxis": log_axis(
                "share of events at least so late [%]",
                (100 * share for _, each, _ in drawn for share in each["curve"]["share"]),
            ),
        },
    )


def hold_figure(holds: Mapping[str, Any]) -> Figure | None:
    """Distribution of hold times per pass; None if no pass held an event."""
    drawn = {
        label: measured
        for label, measured in holds.items()
        if measured["events"] and measured["hold_ns"]["max"]
    }
    if not drawn:
        return None
    flat = [label for label in holds if label not in drawn]
    absent = f" No line, because it held nothing: {'; '.join(flat)}." if flat else ""
    return Figure(
        "holds",
        "How long events were held",
        "Share of the released events that were held for at most so long (release minus arrival): "
        "further left is faster, and the right end is the longest hold. The axis of time is "
        f"logarithmic; events that were held for less than its left end count there.{absent}",
        [
            {
                "name": f"“{short(label)}”",
                "x": ms(measured["curve"]["hold_ns"]),
                "customdata": [duration(each) for each in measured["curve"]["hold_ns"]],
                "y": digits(100 * share for share in measured["curve"]["share"]),
                "line": _pass_line(list(holds).index(label)),
                "mode": "lines",
                "hovertemplate": "%{y:.2f} % held at most %{customdata}",
            }
            for label, measured in drawn.items()
        ],
        {
            "xaxis": duration_axis(
                "hold time", (ns for each in drawn.values() for ns in each["curve"]["hold_ns"])
            ),
            "yaxis": {"title": {"text": "share of released events [%]"}, "range": [0, 102]},
        },
    )


def clock_figures(clock_error: Mapping[str, Any], time: TimeLine) -> list[Figure]:
    """One small figure per source, sources with the smallest share inside first."""
    judged = {name: each for name, each in clock_error["sources"].items() if each.get("with_truth")}
    worst = sorted(
        judged,
        key=lambda name: (
            judged[name]["inside"] / judged[name]["with_truth"],
            -judged[name]["error_ns"]["max"],
            name,
        ),
    )
    names, drawn = display_names(clock_error["sources"]), worst[:CLOCKS_SHOWN]
    series = [judged[name]["series"] for name in drawn]
    most = max((abs(ns) for one in series for of in ("error_ns", "bound_ns") for ns in one[of]),
               default=0)  # fmt: skip
    return [_clock_figure(at, names[name], judged[name], time, most)
            for at, name in enumerate(drawn)]  # fmt: skip


def bound_figure(clock_error: Mapping[str, Any]) -> Figure | None:
    """Declared bounds against true errors, a point per clock; None without truth."""
    judged = {name: each for name, each in clock_error["sources"].items() if each.get("with_truth")}
    if not judged:
        return None
    names = display_names(clock_error["sources"])
    bounds = [each["bound_ns"]["p99"] for each in judged.values() if each["bound_ns"]["p99"]]
    least = max(min(bounds, default=0) * _TELLING_SHARE, _LEAST_NS)
    sizes = {
        name: [max(each[of]["p99"], least) for of in ("error_ns", "bound_ns")]
        for name, each in judged.items()
    }
    ends = [size for pair in sizes.values() for size in pair]
    line = ms((min(ends), max(ends)))
    middle = math.sqrt(min(ends) * max(ends))
    few = len(sizes) <= _NAMED
    named = [names[name] if _has_room(name, sizes) else "" for name in sizes] if few else None
    return Figure(
        "clock-bounds",
        "Declared bounds beside true errors",
        "A point per clock: what 99 % of its events do not exceed. Above the line the bound is "
        "wider than the error, so it holds; the further above, the less it says. "
        f"Errors below {duration(least)} are drawn as that. Each point says its clock.",
        [
            {"x": line, "y": line, "mode": "lines", "line": {"width": 1, "color": NEUTRAL},
             "name": "bound = error", "hoverinfo": "skip"},
            {
                "x": ms(error for error, _ in sizes.values()),
                "y": ms(bound for _, bound in sizes.values()),
                "text": named, "name": "clocks",
                "hovertext": [names[name] for name in sizes],
                "mode": "markers+text" if few else "markers",
                "textposition": ["middle right" if error <= middle else "middle left"
                                 for error, _ in sizes.values()],
                "cliponaxis": False,
                "marker": {
                    "size": 7,
                    "color": [COLOURS[0] if each["inside"] == each["with_truth"] else BAD
                              for each in judged.values()],
                },
                "hovertemplate": "%{hovertext}: error %{x:.4g} ms, bound %{y:.4g} ms",
            },
        ],
        {"showlegend": False, "xaxis": duration_axis("size of the error, p99", ends),
         "yaxis": duration_axis("declared bound, p99", ends)},
        height_px=320,
    )  # fmt: skip


def _has_room(name: str, sizes: Mapping[str, Sequence[int]]) -> bool:
    """Whether no other point is near that of ``name``; sizes are above 0."""
    return not any(
        all(
            1 / _NAME_ROOM < mine / its < _NAME_ROOM
            for mine, its in zip(at, sizes[name], strict=True)
        )
        for other, at in sizes.items()
        if other != name
    )


def display_names(sources: Iterable[str]) -> dict[str, str]:
    """site/source -> displayed name: without the site if there is only one."""
    sites = {name.partition("/")[0] for name in sources}
    return {name: name.partition("/")[2] if len(sites) == 1 else name for name in sources}


def _clock_figure(
    at: int, name: str, source: Mapping[str, Any], time: TimeLine, most_ns: int
) -> Figure:
    """``most_ns``: the largest value of all figures, which share this end for comparison."""
    series = source["series"]
    unit, unit_ns = duration_unit(most_ns)
    x = digits(time.place(each) for each in series["at_ns"])
    bound = digits(each / unit_ns for each in series["bound_ns"])
    end = 1.08 * most_ns / unit_ns
    share = percent(source["inside"], source["with_truth"])
    return Figure(
        f"clock-{at}",
        name,
        f"{share} of {number(source['with_truth'])} events inside.",
        [
            *band(x, [-each for each in bound], bound, NEUTRAL, f"bound ±%{{y:.4g}} {unit}"),
            {
                "x": x,
                "y": digits(each / unit_ns for each in series["error_ns"]),
                "mode": "lines+markers",
                "line": {"width": 1, "color": COLOURS[0]},
                "marker": {
                    "size": 4,
                    "color": [
                        BAD if abs(error) > limit else COLOURS[0]
                        for error, limit in zip(series["error_ns"], series["bound_ns"], strict=True)
                    ],
                },
                "hovertemplate": f"error %{{y:.4g}} {unit}",
            },
        ],
        {
            "showlegend": False,
            "xaxis": {"title": {"text": f"time [{time.unit}]"}, "nticks": 5, "range": time.whole},
            "yaxis": {
                "title": {"text": f"error [{unit}]"},
                "nticks": 5,
                "range": digits([-end, end]),
            },
        },
        height_px=210,
    )


def reconciled_figure(found: Mapping[str, Any] | None, time: TimeLine) -> Figure | None:
    """Events that happened and arrived, per slice; None for an empty run."""
    if not found or not found["starts_ns"]:
        return None
    x = digits(time.place(at + found["width_ns"] // 2) for at in found["starts_ns"])
    kinds = [("in its place", COLOURS[0], found["in_place"]), ("late", COLOURS[1], found["late"])]
    kinds.append(("dropped as late", COLOURS[3], found["dropped"]))
    if found["happened"] is not None:
        kinds.append(("never arrived", BAD, missing_of(found)))
    return Figure(
        "reconciled",
        "Happened = arrived + lost" if found["happened"] is not None else "What arrived",
        f"Events in slices of {duration(found['width_ns'])}, by "
        + ("when they truly happened: a whole bar is what happened."
           if found["happened"] is not None else "their ref."),
        [
            {
                "type": "bar", "name": name, "x": x, "y": counts, "marker": {"color": colour},
                "hovertemplate": f"%{{y:,}} {name}",
            }
            for name, colour, counts in kinds if any(counts)
        ],
        {
            "barmode": "stack", "bargap": 0.05, "xaxis": {"title": {"text": time.title}},
            "yaxis": {"title": {"text": "events"}}, "showlegend": True,
        },
        height_px=280,
    )  # fmt: skip


def missing_of(found: Mapping[str, Any]) -> list[int]:
    """Per slice, events that happened and never arrived."""
    arrived = zip(found["in_place"], found["late"], found["dropped"], strict=True)
    return [all_of - sum(some) for all_of, some in zip(found["happened"], arrived, strict=True)]


def band(
    x: Sequence[float], low: Sequence[float | None], high: Sequence[float | None], colour: str,
    hover: str = "",
) -> list[Spec]:  # fmt: skip
    """Area between ``low`` and ``high``, where known; a single point has the width of a line."""
    known = [each for each in zip(x, low, high, strict=True) if None not in each]
    if not known:
        return []
    at, *edges = map(list, zip(*known, strict=True))
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    edge: Spec = {"x": at, "mode": "lines", "line": {"width": 0.5, "color": colour},
                  "showlegend": False, "hoverinfo": "skip"}  # fmt: skip
    upper = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.18)"}
    if hover:
        upper |= {"hoverinfo": "all", "hovertemplate": hover}
    return [edge | {"y": edges[0]}, edge | upper | {"y": edges[1]}]


def log_axis(title: str, values: Iterable[float] = ()) -> Spec:
    """A logarithmic axis with a line per power of ten; around ``values``, at least two lines."""
    axis = {"title": {"text": title}, "type": "log", "dtick": 1, "exponentformat": "none"}
    sizes = [math.log10(value) for value in values if value > 0]
    if not sizes:
        return axis
    low = math.floor(min(sizes))
    return axis | {"range": [low - 0.05, max(math.ceil(max(sizes)), low + 1) + 0.05]}


def duration_axis(title: str, values_ns: Iterable[float]) -> Spec:
    """A logarithmic axis of durations in ms with labels in common units; around ``values_ns``, at
    least two lines.
    """
    axis = {"title": {"text": title}, "type": "log", "tickmode": "array"}
    sizes = [value for value in values_ns if value > 0] or [NS_PER_MS]
    low = max((at for at, each in enumerate(_ROUND_NS) if each <= min(sizes)), default=0)
    high = next((at for at, each in enumerate(_ROUND_NS) if each >= max(sizes)), len(_ROUND_NS) - 1)
    lines = _ROUND_NS[low : max(high, low + 1) + 1]
    ends = min(*sizes, lines[0]), max(*sizes, lines[-1])
    return axis | {
        "tickvals": [each / NS_PER_MS for each in lines],
        "ticktext": [duration(each) for each in lines],
        "range": [math.log10(end / NS_PER_MS) + room
                  for end, room in zip(ends, (-0.05, 0.05), strict=True)],
    }  # fmt: skip


def ms(times_ns: Iterable[int]) -> list[float]:
    """Nanoseconds as ms."""
    return digits(time_ns / NS_PER_MS for time_ns in times_ns)


def digits(values: Iterable[float]) -> list[float]:
    """Rounded values, precise enough for a figure, to keep the page small."""
    return [float(f"{value:.{_DIGITS}g}") for value in values]
