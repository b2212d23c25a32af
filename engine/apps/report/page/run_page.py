"""The report of a run as one page: summary first, then each part, with collapsed numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import TimeLine, places_of, with_anchors
from slackwater.engine.apps.report.page.document import document
from slackwater.engine.apps.report.page.figures import (
    ARRIVED,
    BAD,
    COLOURS,
    GOOD,
    NEUTRAL,
    Figure,
    Spec,
    band,
    bound_figure,
    clock_figures,
    digits,
    disorder_figure,
    display_names,
    hold_figure,
    reconciled_figure,
    timeline_figures,
)
from slackwater.engine.apps.report.page.result_figures import (
    chart_figures,
    match_figures,
    window_figures,
)
from slackwater.engine.apps.report.page.tables import (
    before_table,
    clock_table,
    counter_table,
    disorder_table,
    equations,
    facts_table,
    flow_table,
    hold_table,
    how_many,
    how_many_sources,
    judged_table,
    match_list,
    match_table,
    pass_table,
    reconciled_table,
    shortened,
    source_table,
    source_tables,
    window_lists,
    window_table,
)
from slackwater.engine.core.clocks.arrivals import SLOW_NS, slow_text
from slackwater.engine.core.units import duration, duration_unit, is_date, number, percent
from slackwater.engine.log.record.times import instant_text

# The first figure of a run's page: the problem on arrival, and what is left of it.
#
# If clocks were synchronised: clocks before and after correction; else late events before and
# after; else the number of events. Two panels next to each other, each with its own scale, which
# its heading states.


HEIGHT_PX: Final = 250
_SILENT_SLICES: Final = 4
"""A band ends after this many slices of time without an event."""
_WORTH: Final = 2
"""Clocks are shown if they were this many times further apart than their bound is now."""


@dataclass(frozen=True, slots=True)
class Hero:
    """A sentence, panels with titles in large type, and an explanation."""

    title: str
    panels: tuple[Figure, ...]
    caption: str


def hero(report: Mapping[str, Any], time: TimeLine) -> Hero | None:
    """The most informative first figure; None if nothing arrived."""
    over = report["over_time"]
    if over["lateness"] is None:
        return None
    clocks = over["clocks"]
    if clocks and clocks["spread_ns"] > _WORTH * _left_of(report):
        return _clocks(report, clocks, time)
    if report["disorder"]["arrived_ref"]["out_of_order"]:
        return _disorder(report, over["lateness"], time)
    return _counts(report, time)


def _left_of(report: Mapping[str, Any]) -> int:
    """Remaining error of clocks: the largest error if known, else the bound."""
    worst = [
        each["error_ns"]["max"]
        for each in report["clock_error"]["sources"].values()
        if each.get("with_truth")
    ]
    return int(max(worst) if worst else report["over_time"]["clocks"]["bound_ns"]["p99"])


def _panel(place: str, word: str, said: str, data: list[Spec], time: TimeLine, y: Spec) -> Figure:
    axes = {"xaxis": {"title": {"text": time.title}, "nticks": 5}, "yaxis": {"nticks": 5, **y}}
    return Figure(f"story-{place}", word, said, data, {**axes, "showlegend": False}, HEIGHT_PX)


def _clocks(report: Mapping[str, Any], clocks: Mapping[str, Any], time: TimeLine) -> Hero:
    sources, spread = clocks["sources"], duration(clocks["spread_ns"])
    apart = {name: (each["at_ns"], each["apart_ns"]) for name, each in sources.items()}
    names = display_names(sources)
    unit, unit_ns = duration_unit(clocks["spread_ns"])
    left = _panel(
        "before", f"{spread} apart", "the clocks by themselves",
        _lines(apart, names, time, unit, unit_ns), time,
        {"title": {"text": f"ahead by [{unit}]"}, "rangemode": "tozero"},
    )  # fmt: skip
    known = {name: (each["series"]["at_ns"], each["series"]["error_ns"])
             for name, each in report["clock_error"]["sources"].items()
             if name in sources and each.get("with_truth")}  # fmt: skip
    widest = clocks["widest"]
    most = max(widest["bound_ns"])
    size = max([abs(ns) for _, errors in known.values() for ns in errors] or [most])
    unit, unit_ns = duration_unit(max(most, size) if known else most)
    declared = [
        trace
        for at, bound in _runs(widest)
        for trace in band(_places(at, time), [-ns / unit_ns for ns in bound],
                          [ns / unit_ns for ns in bound], NEUTRAL)
    ]  # fmt: skip
    word = duration(_left_of(report)) if known else f"\N{PLUS-MINUS SIGN}{duration(most)}"
    said = "wrong at most, corrected" if known else "known to, corrected"
    right = _panel(
        "after", word, said, [*declared, *_lines(known, names, time, unit, unit_ns)], time,
        {"title": {"text": f"error [{unit}]"}},
    )  # fmt: skip
    more = clocks["count"] - len(sources)
    rest = f" Shown: the {len(sources)} that are furthest off." if more > 0 else ""
    truth = report["clock_error"]["known"]
    return Hero(
        f"Clocks {spread} apart, corrected to {word}",
        (left, right),
        "Left: each line is a clock against the engine's (0). Right, on a finer scale: "
        + ("how wrong its times still are after correction, in truth; the band is the widest that "
           "is declared." if truth else "how wrong its times may still be after correction.")
        + rest,
    )  # fmt: skip


def _lines(
    series: Mapping[str, tuple[Sequence[int], Sequence[int]]], names: Mapping[str, str],
    time: TimeLine, unit: str, unit_ns: int,
) -> list[Spec]:  # fmt: skip
    """A line per source, with the same colour in both panels."""
    places = {name: place for place, name in enumerate(names)}
    return [
        {
            "name": names[name], "x": _places(at, time), "y": digits(ns / unit_ns for ns in values),
            "mode": "lines" if len(at) > 1 else "markers",
            "line": {"width": 1.8, "color": COLOURS[places[name] % len(COLOURS)]},
            "hovertemplate": f"%{{y:.4g}} {unit}",
        }
        for name, (at, values) in series.items()
    ]  # fmt: skip


def _places(times_ns: Sequence[int], time: TimeLine) -> list[float]:
    return digits(map(time.place, times_ns))


def _runs(widest: Mapping[str, Any]) -> Iterator[tuple[list[int], list[int]]]:
    """Parts of the band: without events for a while, no bound is declared."""
    place, at, bound = widest["place"], widest["at_ns"], widest["bound_ns"]
    cuts = [n for n, (a, b) in enumerate(pairwise(place), 1) if b - a > _SILENT_SLICES]
    for start, end in pairwise([0, *cuts, len(place)]):
        yield at[start:end], bound[start:end]


def _disorder(report: Mapping[str, Any], late: Mapping[str, Sequence[int]], time: TimeLine) -> Hero:
    main = report["run"]["passes"][0]["label"]
    found, left = report["disorder"]["arrived_ref"], report["disorder"]["released"][main]
    share = percent(found["out_of_order"], found["events"])
    rest = percent(left["out_of_order"], left["events"])
    unit, unit_ns = duration_unit(max(late["before_ns"]))
    scale = {"title": {"text": f"late by [{unit}]"},
             "range": [0, 1.06 * max(late["before_ns"]) / unit_ns]}  # fmt: skip

    def panel(place: str, word: str, said: str, ns: Sequence[int], colour: str) -> Figure:
        bars = _bars(late["at_ns"], [each / unit_ns for each in ns], colour, time, f".4g}} {unit}")
        return _panel(place, word, said, bars, time, scale)

    hold = report["holds"][main]["hold_ns"]["p95"]
    cost = f", hold time p95 {duration(hold)}" if hold and report["run"]["arrival_given"] else ""
    marked = left["out_of_order"] and not left["in_time_out_of_order"]
    after = f"out of order, as released{', all marked late' if marked else ''}{cost}"
    return Hero(
        f"{share} out of order on arrival, {rest if left['out_of_order'] else 'none'} afterwards",
        (
            panel("before", share, "out of order, as they arrived", late["before_ns"], ARRIVED),
            panel("after", rest, after, late["after_ns"],
                  BAD if left["out_of_order"] else GOOD),
        ),
        "Bars: by how much the latest event of each moment lay behind one that had come, or been "
        "released, before it. Both on the same scale.",
    )  # fmt: skip


def _bars(
    at_ns: Sequence[int], values: Sequence[float], colour: str, time: TimeLine, number_format: str
) -> list[Spec]:
    """``number_format``: format of a value, and the text after it."""
    return [
        {
            "type": "bar", "x": _places(at_ns, time), "y": digits(values), "name": "",
            "marker": {"color": colour}, "hovertemplate": f"%{{y:{number_format}",
        }
    ]  # fmt: skip


def _counts(report: Mapping[str, Any], time: TimeLine) -> Hero:
    found = report["over_time"]["reconciled"]
    bars = _bars(found["starts_ns"], found["in_place"], COLOURS[0], time, ",} events")
    said = f"in moments of {duration(found['width_ns'])}"
    word = f"{number(sum(found['in_place']))} events"
    panel = _panel("counts", word, said, bars, time, {"title": {"text": "events"}})
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    aside = counts["quarantined_future"] + counts["quarantined_jump"]
    if aside:
        title = f"{number(aside)} of {number(counts['arrived'])} events excluded, the rest in order"
        return Hero(title, (panel,), "Excluded events are in no result; the verdict says whose.")
    return Hero("All in order", (panel,), "Nothing was out of order, and no clock was corrected.")


# The report of a run as one page: summary first, then each part, with collapsed numbers.


_CHAPTERS: Final = {
    "verdict": "Verdict", "story": "Before and after", "matches": "Matches", "windows": "Windows",
    "tables": "Scenario", "conservation": "Events",
    "disorder": "Disorder", "holds": "Hold time",
    "clocks": "Clocks", "sources": "Sources", "run": "How it was made", "glossary": "Glossary",
}  # fmt: skip
_QUARANTINED_SHOWN: Final = 20
FEW: Final = 12
"""Up to this many rows a scenario's only table is initially expanded."""
FEW_CLAIMS: Final = 3
FEW_FIGURES: Final = 2


def page(report: Mapping[str, Any]) -> str:
    """The page for ``report`` (the content of ``report.json``)."""
    run, over = report["run"], report["over_time"]
    since = "arrival" if run["arrival_given"] else "event"
    time = TimeLine.of(run["first_arrival_ns"], run["last_arrival_ns"], since)
    picture = hero(report, time)
    charts = [*timeline_figures(report["timelines"]), *chart_figures(report["charts"])]
    clocks_of = report["clock_error"]["sources"]
    slow = _slow(clocks_of)
    words, short_report = with_anchors(report["glossary"]), shortened(report)
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
        short_report,
        "report.json",
        said=(_colour(report), _word(report)),
        since=since,
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
        tables=_tables(report, short_report, time),
        equations=equations(report),
        glossary=words,
        terms=places_of(words),
        few=FEW,
        few_claims=FEW_CLAIMS,
        few_figures=FEW_FIGURES,
        settings=json.dumps(short_report["run"]["settings"], indent=1),
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
    """A date; for times with another origin, the place on the time line."""
    return instant_text(ns) if is_date(ns) else time.text(ns)


def _slow(clocks: Mapping[str, Any]) -> str:
    """Text about clocks whose events all arrived late; empty: none."""
    names = display_names(clocks)
    lags = {names[name]: each.get("lag_ns", 0) for name, each in clocks.items()}
    slow = {name: lag for name, lag in lags.items() if lag >= SLOW_NS}
    said = slow_text(list(slow), max(slow.values())) if slow else ""
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _tables(
    report: Mapping[str, Any], short_report: Mapping[str, Any], time: TimeLine
) -> dict[str, Any]:
    """Tables by name in the template; ``short_report``: the report with the worst sources."""
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
        "sources": source_table(short_report),
        "clocks": clock_table(short_report),
        "windows": window_table(report),
        "window_lists": window_lists(report, time),
        "judged": judged_table(report),
        "matches": match_table(report),
    }


def _colour(report: Mapping[str, Any]) -> str:
    """Colour of the banner: care if nothing is claimed and the results lack events."""
    if not report["verdict"]["holds"]:
        return "fails"
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    lacking = counts["missing"] or counts["late_dropped"] or counts["residual_dropped"]
    lacking = lacking or report["run"].get("lookup_missed")
    lacking = lacking and not report["verdict"]["claims"]
    return "care" if lacking or report["facts"].get("excluded") else "holds"


def _word(report: Mapping[str, Any]) -> str:
    """Word above the headline: pass or fail if something is claimed, else what was done."""
    if not report["verdict"]["holds"]:
        return "FAIL"
    if report["verdict"]["claims"]:
        return "PASS"
    if report["facts"].get("excluded"):
        return "INCOMPLETE"
    return "ANSWERED" if report["run"]["queries"] else "ORDERED"
