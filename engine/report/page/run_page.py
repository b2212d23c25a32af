"""The report of a run as one page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from engine.report.page.charts import chart_figures
from engine.report.page.document import document
from engine.report.page.figures import clock_figures, disorder_figure, hold_figure
from engine.report.page.measure_tables import (
    clock_table,
    disorder_table,
    glossary_table,
    hold_table,
    judged_table,
    match_table,
    source_table,
    window_table,
)
from engine.report.page.result_figures import match_figures, window_figures
from engine.report.page.run_tables import (
    FEW,
    before_table,
    counter_table,
    equations,
    facts_table,
    flow_table,
    pass_table,
    source_tables,
)
from engine.report.page.timelines import timeline_figures
from engine.report.units import TimeLine

_CHAPTERS: Final = {
    "verdict": "Verdict", "run": "Run", "conservation": "Events", "disorder": "Disorder",
    "holds": "Hold time", "sources": "Sources", "clocks": "Clocks", "windows": "Windows",
    "matches": "Matches", "tables": "Tables", "glossary": "Glossary",
}  # fmt: skip
_QUARANTINED_SHOWN: Final = 20


def page(report: Mapping[str, Any]) -> str:
    """The page that shows ``report`` (what ``report.json`` holds)."""
    run = report["run"]
    time = TimeLine.of(run["first_arrival_ns"], run["last_arrival_ns"])
    disorder, holds = disorder_figure(report["disorder"]), hold_figure(report["holds"])
    clocks = clock_figures(report["clock_error"], time)
    windows = window_figures(report["windows"], time)
    matches = match_figures(report["matches"], time)
    charts = [*timeline_figures(report["timelines"]), *chart_figures(report["charts"])]
    found = {
        "sources": report["sources"], "windows": report["windows"], "matches": report["matches"],
        "tables": report["tables"] or charts,
    }  # fmt: skip
    return document(
        "run.html",
        str(report["title"]),
        {name: heading for name, heading in _CHAPTERS.items() if found.get(name, True)},
        [each for each in (disorder, holds, *clocks, *windows, *matches, *charts) if each],
        report,
        "report.json",
        figures={
            "disorder": disorder, "holds": holds, "clocks": clocks, "windows": windows,
            "matches": matches, "charts": charts,
        },
        tables={
            "facts": facts_table(report, time),
            "passes": pass_table(report),
            "counters": counter_table(report),
            "before": before_table(report),
            "flow": flow_table(report),
            "by_source": list(source_tables(report)),
            "disorder": disorder_table(report),
            "holds": hold_table(report),
            "sources": source_table(report),
            "clocks": clock_table(report),
            "windows": window_table(report),
            "judged": judged_table(report),
            "matches": match_table(report),
            "glossary": glossary_table(report),
        },
        equations=equations(report),
        few=FEW,
        settings=json.dumps(run["settings"], indent=1),
        quarantined=[
            json.dumps(row, ensure_ascii=False) for row in run["quarantined"][:_QUARANTINED_SHOWN]
        ],
    )  # fmt: skip
