"""Figures of a scenario's intervals (``engine.scenario.Timeline``): lines of bars over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.report.page.figures import COLOURS, Figure, Spec, digits, short
from engine.report.units import TimeLine

_LANE_PX: Final = 30
_AROUND_PX: Final = 130
_FAINT: Final = 0.35
"""Opacity of bars that are part of no match."""
_NARROWEST: Final = 0.002
"""What a point is drawn as, as a share of the whole time."""


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
            _trace(at, kind, [bar for bar in bars if bar["kind"] == kind], time)
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


def _trace(at: int, kind: str, bars: Sequence[Mapping[str, Any]], time: TimeLine) -> Spec:
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
