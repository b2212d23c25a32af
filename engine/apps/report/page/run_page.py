"""The report of a run as one page: the story first, then each part, its numbers folded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import TimeLine, places_of, with_anchors
from slackwater.engine.apps.report.page.document import document
from slackwater.engine.apps.report.page.figures import (
    bound_figure,
    clock_figures,
    disorder_figure,
    display_names,
    hold_figure,
    reconciled_figure,
    timeline_figures,
)
from slackwater.engine.apps.report.page.hero import hero
from slackwater.engine.apps.report.page.measure_tables import (
    clock_table,
    disorder_table,
    hold_table,
    how_many,
    how_many_sources,
    judged_table,
    match_list,
    match_table,
    shortened,
    source_table,
    window_lists,
    window_table,
)
from slackwater.engine.apps.report.page.result_figures import (
    chart_figures,
    match_figures,
    window_figures,
)
from slackwater.engine.apps.report.page.run_tables import (
    before_table,
    counter_table,
    equations,
    facts_table,
    flow_table,
    pass_table,
    reconciled_table,
    source_tables,
)
from slackwater.engine.core.clocks.arrivals import SLOW_NS, slow_text
from slackwater.engine.core.units import is_date
from slackwater.engine.log.record.times import instant_text

_CHAPTERS: Final = {
    "verdict": "Verdict", "story": "Before and after", "matches": "Matches", "windows": "Windows",
    "tables": "Scenario", "conservation": "Events",
    "disorder": "Disorder", "holds": "Hold time",
    "clocks": "Clocks", "sources": "Sources", "run": "How it was made", "glossary": "Glossary",
}  # fmt: skip
_QUARANTINED_SHOWN: Final = 20
FEW: Final = 12
"""Up to so many rows a scenario's only table is open from the start."""
FEW_CLAIMS: Final = 3
FEW_FIGURES: Final = 2


def page(report: Mapping[str, Any], *, against: bool = False) -> str:
    """The page that shows ``report`` (what ``report.json`` holds).

    ``against``: whether a page beside it compares the run with another.
    """
    run, over = report["run"], report["over_time"]
    since = "arrival" if run["arrival_given"] else "event"
    time = TimeLine.of(run["first_arrival_ns"], run["last_arrival_ns"], since)
    picture = hero(report, time)
    charts = [*timeline_figures(report["timelines"]), *chart_figures(report["charts"])]
    clocks_of = report["clock_error"]["sources"]
    slow = _slow(clocks_of)
    words, shown = with_anchors(report["glossary"]), shortened(report)
    found = {
        "story": picture, "sources": report["sources"], "windows": report["windows"],
        "matches": report["matches"], "tables": report["tables"] or charts,
        "holds": run["arrival_given"],
        "clocks": report["clock_error"]["known"] or over["clocks"] or slow,
    }  # fmt: skip
    return document(
        Path("run.html"),
        str(report["title"]),
        {name: heading for name, heading in _CHAPTERS.items() if found.get(name, True)},
        shown,
        "report.json",
        said=(_colour(report), _word(report)),
        since=since,
        against=against,
        hero=picture,
        panels=picture and picture.panels,
        figures={
            "reconciled": reconciled_figure(over["reconciled"], time),
            "disorder": disorder_figure(report["disorder"]),
            "holds": hold_figure(report["holds"]) if found["holds"] else None,
            "bounds": bound_figure(report["clock_error"]),
            "clocks": clock_figures(report["clock_error"], time),
            "windows": window_figures(report["windows"], time, report["units"]),
            "matches": match_figures(report["matches"], time), "charts": charts,
        },
        matches=[
            (query, listed := match_list(each, f"matches-{at}", time), how_many(each, listed))
            for at, (query, each) in enumerate(report["matches"].items())
        ],
        tables=_tables(report, shown, time),
        equations=equations(report),
        glossary=words,
        terms=places_of(words),
        few=FEW,
        few_claims=FEW_CLAIMS,
        few_figures=FEW_FIGURES,
        settings=json.dumps(shown["run"]["settings"], indent=1),
        clocks_listed=how_many_sources(len(clocks_of), ", the worst first").capitalize(),
        clocks_slow=slow,
        clocks_judged=sum(bool(each.get("with_truth")) for each in clocks_of.values()),
        sources_listed=how_many_sources(len(report["sources"])).capitalize(),
        quarantined=[
            json.dumps({name: _when(of, time) if name == "ref" else of for name, of in row.items()},
                       ensure_ascii=False)
            for row in run["quarantined"][:_QUARANTINED_SHOWN]
        ],
    )  # fmt: skip


def _when(ns: int, time: TimeLine) -> str:
    """A date; of times that count from elsewhere, where it lies."""
    return instant_text(ns) if is_date(ns) else time.text(ns)


def _slow(clocks: Mapping[str, Any]) -> str:
    """Clocks of which all events came late; empty: none."""
    names = display_names(clocks)
    lags = {names[name]: each.get("lag_ns", 0) for name, each in clocks.items()}
    slow = {name: lag for name, lag in lags.items() if lag >= SLOW_NS}
    said = slow_text(list(slow), max(slow.values())) if slow else ""
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _tables(report: Mapping[str, Any], shown: Mapping[str, Any], time: TimeLine) -> dict[str, Any]:
    """By name in the template; ``shown``: the report with the worst of very many sources."""
    return {
        "facts": facts_table(report, time),
        "passes": pass_table(report),
        "counters": counter_table(report),
        "before": before_table(report),
        "flow": flow_table(report),
        "reconciled": reconciled_table(report, time),
        "by_source": list(source_tables(report)),
        "disorder": disorder_table(report),
        "holds": hold_table(report),
        "sources": source_table(shown),
        "clocks": clock_table(shown),
        "windows": window_table(report),
        "window_lists": window_lists(report, time),
        "judged": judged_table(report),
        "matches": match_table(report),
    }


def _colour(report: Mapping[str, Any]) -> str:
    """Of the banner: with care where nothing is claimed and the answers lack events."""
    if not report["verdict"]["holds"]:
        return "fails"
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    lacking = counts["missing"] or counts["late_dropped"] or counts["residual_dropped"]
    lacking = lacking or report["run"].get("lookup_missed")
    lacking = lacking and not report["verdict"]["claims"]
    return "care" if lacking or report["facts"].get("excluded") else "holds"


def _word(report: Mapping[str, Any]) -> str:
    """Above the headline: pass or fail where something is claimed, else what was done."""
    if not report["verdict"]["holds"]:
        return "FAIL"
    if report["verdict"]["claims"]:
        return "PASS"
    if report["facts"].get("excluded"):
        return "INCOMPLETE"
    return "ANSWERED" if report["run"]["queries"] else "ORDERED"
