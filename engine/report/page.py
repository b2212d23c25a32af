"""The report of a run as one page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.report.charts import chart_figures
from engine.report.document import DATA_ID, document
from engine.report.elements import text
from engine.report.figures import clock_figures, disorder_figure, hold_figure
from engine.report.front_sections import conservation_section, run_section, verdict_banner
from engine.report.measure_sections import (
    clock_section,
    disorder_section,
    glossary_section,
    hold_section,
    match_section,
    table_section,
    window_section,
)
from engine.report.result_figures import match_figures, window_figures
from engine.report.source_section import source_section
from engine.report.units import TimeLine

_CHAPTERS: Final = {
    "verdict": "Verdict", "run": "Run", "conservation": "Events", "disorder": "Disorder",
    "holds": "Hold time", "sources": "Sources", "clocks": "Clocks", "windows": "Windows",
    "matches": "Matches", "tables": "Tables", "glossary": "Glossary",
}  # fmt: skip


def page(report: Mapping[str, Any]) -> str:
    """The page that shows ``report`` (what ``report.json`` holds)."""
    run = report["run"]
    time = TimeLine.of(run["first_arrival_ns"], run["last_arrival_ns"])
    disorder, holds = disorder_figure(report["disorder"]), hold_figure(report["holds"])
    clocks = clock_figures(report["clock_error"], time)
    windows = window_figures(report["windows"], time)
    matches = match_figures(report["matches"], time)
    charts = chart_figures(report["charts"])
    sections = {
        "verdict": verdict_banner(report),
        "run": run_section(report, time),
        "conservation": conservation_section(report),
        "disorder": disorder_section(report, disorder),
        "holds": hold_section(report, holds),
        "sources": source_section(report),
        "clocks": clock_section(report, clocks),
        "windows": window_section(report, windows),
        "matches": match_section(report, matches),
        "tables": table_section(report, charts),
        "glossary": glossary_section(report),
    }
    figures = [each for each in (disorder, holds, *clocks, *windows, *matches, *charts) if each]
    chapters = {name: heading for name, heading in _CHAPTERS.items() if sections[name]}
    version = report["run"]["reported_with"]["slackwater"]
    footer = (
        f"slackwater {text(version)}. Times are relative to the run's first arrival. All numbers "
        f"of this page are inside it as JSON (<code>#{DATA_ID}</code>) and in report.json."
    )
    body = "\n".join(sections.values())
    return document(str(report["title"]), chapters, body, figures, report, footer)
