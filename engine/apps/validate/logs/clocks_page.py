"""clocks.html and clocks.json: every clock of a log, and its offset over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import Cell, TimeLine, plain, versions
from slackwater.engine.apps.report.page.document import CHAPTER, write_page
from slackwater.engine.apps.report.page.figures import COLOURS, Figure, digits
from slackwater.engine.apps.validate.logs.clock_reports import ClockReport, remarks
from slackwater.engine.apps.validate.tables import ppm
from slackwater.engine.apps.validate.verdict import duration, nearest
from slackwater.engine.core.units import duration_unit
from slackwater.engine.scenario import Table

HTML: Final = "clocks.html"
JSON: Final = "clocks.json"
_CHAPTERS: Final = {
    "verdict": "In short", "offset": "Offset over time", "clocks": "Clocks", **CHAPTER,
}  # fmt: skip
_SHOWN: Final = 30


def called(each: ClockReport, found: Sequence[ClockReport]) -> str:
    """The clock's name, with its site where there are several."""
    several = len({other.site for other in found}) > 1
    return f"{each.site}/{each.name}" if several else each.name


def clocks_table(found: Sequence[ClockReport]) -> Table:
    """A row per clock, the furthest off first."""
    headings = (
        "clock", "events", "offset", "known by", "skew", "steps", "resolution", "jitter", "syncs",
        "longest without sync", "bound", "lag at least", "option to use",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            called(each, found), each.events, nearest(each.offset_ns), each.known_by,
            ppm(each.skew_ppb), len(each.steps), duration(each.resolution_ns),
            duration(each.jitter_ns), each.syncs, duration(each.age_ns),
            "unknown" if each.known_by != "syncs" else duration(each.declared_ns),
            duration(each.lag_ns),
            None if each.clock is None else f"--clock {each.clock}",
        )
        for each in sorted(found, key=lambda each: -abs(each.offset_ns or 0))
    ]  # fmt: skip
    return Table("", headings, tuple(rows))


def as_plain(found: Sequence[ClockReport], looked_at: str) -> dict[str, Any]:
    """What ``clocks.json`` holds; durations in ns, skew in ppb."""
    return {
        "looked_at": looked_at, "clocks": [plain(each) for each in found],
        "remarks": remarks(found), "made_with": versions(),
    }  # fmt: skip


def write_clocks(found: Sequence[ClockReport], looked_at: str, out: Path, command: str) -> None:
    """Writes ``clocks.json`` and ``clocks.html`` into ``out``, made if absent."""
    report = as_plain(found, looked_at)
    write_page(
        out, Path(HTML), f"Clocks of {Path(looked_at).name}", _CHAPTERS, report, command=command,
        figure=_over_time(found), table=clocks_table(found), headline=headline(found),
    )  # fmt: skip


def headline(found: Sequence[ClockReport]) -> str:
    """The clock that is furthest off."""
    known = [each for each in found if each.offset_ns is not None]
    if not known:
        return "The input has no arrival times, so nothing is known of its clocks."
    worst = max(known, key=lambda each: abs(each.offset_ns or 0))
    offset = worst.offset_ns or 0
    way = "slow" if offset > 0 else "fast"
    about = "" if worst.known_by == "syncs" else "about "
    off = f"{worst.name} is {about}{nearest(abs(offset))} {way}" if offset else "No clock is off"
    steps = [each.name for each in found if each.steps]
    return f"{off}." + (f" Set meanwhile: {', '.join(steps[:3])}." if steps else "")


def _over_time(found: Sequence[ClockReport]) -> Figure | None:
    shown = sorted(found, key=lambda each: -abs(each.offset_ns or 0))
    shown = [each for each in shown if each.at_ns][:_SHOWN]
    if not shown:
        return None
    first = min(
        at + by for each in shown for at, by in zip(each.at_ns, each.series_ns, strict=True)
    )
    last = max(at + by for each in shown for at, by in zip(each.at_ns, each.series_ns, strict=True))
    time = TimeLine.of(first, last, "sync or event")
    unit, unit_ns = duration_unit(max(abs(by) for each in shown for by in each.series_ns))
    return Figure(
        "offset", "Offset of each clock over time",
        "What must be added to a clock's times: by its syncs, or by the least of arrival less "
        "stamp (less the assumed delay of the fastest message). Below 0 it is fast.",
        [
            {
                "name": called(each, found), "mode": "lines+markers",
                "y": digits(by / unit_ns for by in each.series_ns),
                "x": digits(time.place(at + by)
                            for at, by in zip(each.at_ns, each.series_ns, strict=True)),
                "marker": {"size": 4}, "line": {"width": 1, "color": COLOURS[n % len(COLOURS)]},
                "hovertemplate": f"%{{y:.4g}} {unit} after %{{x:.4g}} {time.unit}",
            }
            for n, each in enumerate(shown)
        ],
        {"xaxis": {"title": {"text": time.title}}, "yaxis": {"title": {"text": f"offset [{unit}]"}},
         "showlegend": len(shown) > 1},
    )  # fmt: skip
