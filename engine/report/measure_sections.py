"""The report's later sections: disorder, hold time, clock error, results, tables, glossary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.report.elements import Cell, details, figure, paragraph, section, table, text
from engine.report.figures import Figure, display_names
from engine.report.units import milliseconds, percent

Report = Mapping[str, Any]


def disorder_section(report: Report, drawn: Figure | None) -> str:
    """Out of order, inversions and lateness before and after each pass."""
    found = report["disorder"]
    lines = [
        ("arrived, by the sources' clocks (ts)", found["arrived_ts"]),
        ("arrived, clocks corrected (ref)", found["arrived_ref"]),
    ]
    lines += [(f"released by “{label}”", each) for label, each in found["released"].items()]
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            each["events"],
            each["out_of_order"],
            percent(each["out_of_order"], each["events"]),
            each.get("late"),
            each.get("residual"),
            each.get("in_time_out_of_order"),
            each["inversions"],
            *(milliseconds(each["lateness_ns"][of]) for of in ("p50", "p95", "p99", "max")),
        )
        for name, each in lines
    ]
    headings = (
        "", "events", "out of order", "share", "marked late",
        "marked residual", "out of order, unmarked", "inversions [pairs]",
        "lateness p50 [ms]", "p95 [ms]", "p99 [ms]", "max [ms]",
    )  # fmt: skip
    note = (
        "Out of order: some event of the site that came earlier has a larger event time. Marked "
        "events came too late for their place, and the queries know it. Lateness "
        "is over the events out of order. Arrived: dropped ones included, duplicates and "
        "quarantined ones not."
    )
    return section(
        "disorder",
        "Disorder before and after",
        table(headings, rows, note),
        figure(drawn) if drawn else paragraph("Nothing was ever out of order: no figure."),
    )


def hold_section(report: Report, drawn: Figure | None) -> str:
    """Hold times per pass."""
    rows = [
        (
            label,
            each["events"],
            percent(each["at_once"], each["events"]),
            *(
                milliseconds(each["hold_ns"][of])
                for of in ("mean", "p50", "p95", "p99", "p999", "max")
            ),
        )
        for label, each in report["holds"].items()
    ]
    headings = (
        "pass", "released events", "held for 0 ms", "mean [ms]", "p50 [ms]", "p95 [ms]",
        "p99 [ms]", "p99.9 [ms]", "max [ms]",
    )  # fmt: skip
    return section(
        "holds",
        "What order costs: hold time",
        table(headings, rows),
        figure(drawn) if drawn else paragraph("No pass held any event: no figure."),
    )


def clock_section(report: Report, drawn: list[Figure]) -> str:
    """Clock error against its declared bound, or only the bound where there is no truth."""
    found = report["clock_error"]
    headings: tuple[str, ...] = ("source", "events", "declared bound p50 [ms]", "bound max [ms]")
    if found["known"]:
        headings += (
            "with known truth", "inside the bound", "error p50 [ms]", "size of error p50 [ms]",
            "size of error p99 [ms]", "size of error max [ms]",
        )  # fmt: skip
        share = percent(found["inside"], found["with_truth"])
        said = paragraph(
            f"{share} of {found['with_truth']:,} events whose truth is known lie inside their "
            "declared bound.",
            "holds" if found["inside"] == found["with_truth"] else "fails",
        )
    else:
        said = paragraph(
            "The true times are not known here, so that no clock can be judged: below is only what "
            "each source's time sync declared. A bound of 0 ms means never synchronised."
        )
    names = display_names(found["sources"])
    rows = [
        (names[name], *_clock_row(each, known=found["known"]))
        for name, each in found["sources"].items()
    ]
    figures = "".join(figure(each, level=4) for each in drawn)
    judged = sum(bool(each.get("with_truth")) for each in found["sources"].values())
    note = (
        "Error = ref minus true time on the engine's clock. In each of "
        "120 slices of time the most negative and the most positive error are drawn, the grey band "
        "is the declared bound ± around zero, and points outside it are red. "
        f"Shown: {len(drawn)} of {judged} sources, those with the smallest share inside first."
    )
    return section(
        "clocks",
        "Clock error against its declared bound",
        said,
        f'<div class="panels">{figures}</div>{paragraph(note, "note")}' if drawn else "",
        details(f"Each of {len(rows)} sources", table(headings, rows), shown=len(rows) <= 12),
    )


def _clock_row(source: Mapping[str, Any], *, known: bool) -> Iterator[Cell]:
    yield source["events"]
    yield milliseconds(source["bound_ns"]["p50"])
    yield milliseconds(source["bound_ns"]["max"])
    if known:
        yield source["with_truth"]
        yield percent(source["inside"], source["with_truth"])
        yield milliseconds(source["error_ns"]["median"])
        for of in ("p50", "p99", "max"):
            yield milliseconds(source["error_ns"][of])


_ABOUT_BARS: Final = (
    "Error bars say what the clocks' errors could have done. They do not say what missing events "
    "would have added, so that only windows that miss nothing must have the truth within them."
)


def window_section(report: Report, drawn: list[Figure]) -> str:
    """Windows on a time line."""
    windows = report["windows"]
    if not windows:
        return ""
    rows: list[tuple[Cell, ...]] = []
    judged: list[tuple[Cell, ...]] = []
    for query, found in windows.items():
        rows.append(
            (
                query,
                found["windows"],
                found["inserted"],
                found["retracted"],
                found["with_missing"],
                found["missing"],
                percent(found["ambiguous"], found["certain"] + found["ambiguous"]),
            )
        )
        judged += [
            (
                f"{query}: {label}",
                each["with_truth"],
                percent(each["inside"], each["with_truth"]),
                each["complete_with_truth"],
                percent(each["complete_inside"], each["complete_with_truth"]),
                found["unanswered"],
            )
            for label, each in found["aggregates"].items()
            if found["true_windows"]
        ]
    headings = (
        "query", "windows", "inserted", "retracted", "that miss events", "missing [events]",
        "ambiguous events",
    )  # fmt: skip
    against = (
        "query and aggregate", "windows with known truth", "truth within the error bar",
        "of them missing nothing", "truth within the error bar", "true windows without a result",
    )  # fmt: skip
    return section(
        "windows",
        "Windows on a time line",
        table(headings, rows, _not_kept(windows)),
        f"<h3>Against the truth</h3>{table(against, judged, _ABOUT_BARS)}" if judged else "",
        *(figure(each) for each in drawn),
    )


def match_section(report: Report, drawn: list[Figure]) -> str:
    """Matches on a time line."""
    matches = report["matches"]
    if not matches:
        return ""
    rows = [
        (
            query,
            found["confirmed"],
            found["uncertain"],
            found["taken_back"],
            found["true"] or None,
            *(milliseconds(found["delay_ns"][of]) for of in ("p50", "p99", "max")),
        )
        for query, found in matches.items()
    ]
    headings = (
        "query", "confirmed", "uncertain", "taken back", "true", "answer delay p50 [ms]",
        "p99 [ms]", "max [ms]",
    )  # fmt: skip
    return section(
        "matches",
        "Matches on a time line",
        table(headings, rows, _not_kept(matches)),
        *(figure(each) for each in drawn),
    )


def _not_kept(found: Mapping[str, Any]) -> str:
    lost = {query: each["not_kept"] for query, each in found.items() if each["not_kept"]}
    return "; ".join(
        f"{query}: {count:,} more results were counted as inserted but are too many to be shown"
        for query, count in lost.items()
    )


def table_section(report: Report, drawn: list[Figure]) -> str:
    """The scenario's own figures and tables."""
    if not report["tables"] and not drawn:
        return ""
    return section(
        "tables",
        "The scenario's tables",
        *(figure(each) for each in drawn),
        *(
            f"<h3>{text(each['title'])}</h3>" + table(each["headings"], each["rows"], each["note"])
            for each in report["tables"]
        ),
    )


def glossary_section(report: Report) -> str:
    """Every number's name, definition and unit."""
    rows = [(each["term"], each["definition"], each["unit"]) for each in report["glossary"]]
    found = table(("term", "definition", "unit"), rows, kind="terms")
    return section("glossary", "What each number means", found)
