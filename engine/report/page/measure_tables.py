"""The tables of a run's page that show what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.report.measure.sources import how_it_ended
from engine.report.page.figures import display_names
from engine.report.units import Cell, milliseconds, percent
from engine.scenario import Table

Report = Mapping[str, Any]
_ABOUT_BARS: Final = (
    "Error bars say what the clocks' errors could have done. They do not say what missing events "
    "would have added, so that only windows that miss nothing must have the truth within them."
)


def disorder_table(report: Report) -> Table:
    """Out of order, inversions and lateness before and after each pass."""
    found = report["disorder"]
    lines = [
        ("arrived, by the sources' clocks (ts)", found["arrived_ts"]),
        ("arrived, clocks corrected (ref)", found["arrived_ref"]),
    ]
    lines += [(f"released by “{label}”", each) for label, each in found["released"].items()]
    rows = tuple(
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
    )
    headings = (
        "", "events", "out of order", "share", "marked late",
        "marked residual", "out of order, unmarked", "inversions [pairs]",
        "lateness p50 [ms]", "p95 [ms]", "p99 [ms]", "max [ms]",
    )  # fmt: skip
    return Table("", headings, rows)


def hold_table(report: Report) -> Table:
    """Hold times per pass."""
    quantiles = ("mean", "p50", "p95", "p99", "p999", "max")
    rows = tuple(
        (
            label,
            each["events"],
            percent(each["at_once"], each["events"]),
            *(milliseconds(each["hold_ns"][of]) for of in quantiles),
        )
        for label, each in report["holds"].items()
    )
    headings = (
        "pass", "released events", "held for 0 ms", "mean [ms]", "p50 [ms]", "p95 [ms]",
        "p99 [ms]", "p99.9 [ms]", "max [ms]",
    )  # fmt: skip
    return Table("", headings, rows)


def source_table(report: Report) -> Table:
    """Who held the others back, and how far each source of the main pass had got."""
    found = report["sources"]
    several_sites = len({row["site"] for row in found}) > 1
    several_streams = len({row["stream"] for row in found}) > 1
    rows: list[tuple[Cell, ...]] = []
    for row in found:
        name = [row["source"] or "(none)"]
        name = [row["site"], *name] if several_sites else name
        name = [*name, row["stream"] or "(none)"] if several_streams else name
        rows.append(
            (
                "/".join(name),
                milliseconds(row["blocked_ns"]),
                row["silences"],
                how_it_ended(row),
                milliseconds(row["silent_ns"]),
                milliseconds(row["behind_ns"]),
                milliseconds(row["gap_timeout"]),
                milliseconds(row["idle_timeout"]),
                milliseconds(row["offset"]),
                milliseconds(row["uncertainty"]),
            )
        )
    headings = (
        "source", "held others back [ms]", "silences", "at the end", "silent since [ms]",
        "behind [ms]", "gap timeout [ms]", "idle timeout [ms]", "offset [ms]", "uncertainty [ms]",
    )  # fmt: skip
    return Table("", headings, tuple(rows))


def clock_table(report: Report) -> Table:
    """Clock error against its declared bound, or only the bound where there is no truth."""
    found = report["clock_error"]
    headings: tuple[str, ...] = ("source", "events", "declared bound p50 [ms]", "bound max [ms]")
    if found["known"]:
        headings += (
            "with known truth", "inside the bound", "error p50 [ms]", "size of error p50 [ms]",
            "size of error p99 [ms]", "size of error max [ms]",
        )  # fmt: skip
    names = display_names(found["sources"])
    rows = tuple(
        (names[name], *_clock_row(each, known=found["known"]))
        for name, each in found["sources"].items()
    )
    return Table("", headings, rows)


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


def window_table(report: Report) -> Table:
    """How many windows each query gave, and what is known to be missing in them."""
    rows = tuple(
        (
            query,
            found["windows"],
            found["inserted"],
            found["retracted"],
            found["with_missing"],
            found["missing"],
            percent(found["ambiguous"], found["certain"] + found["ambiguous"]),
        )
        for query, found in report["windows"].items()
    )
    headings = (
        "query", "windows", "inserted", "retracted", "that miss events", "missing [events]",
        "ambiguous events",
    )  # fmt: skip
    return Table("", headings, rows, _not_kept(report["windows"]))


def judged_table(report: Report) -> Table:
    """Windows against the truth, where it is known."""
    rows = tuple(
        (
            f"{query}: {label}",
            each["with_truth"],
            percent(each["inside"], each["with_truth"]),
            each["complete_with_truth"],
            percent(each["complete_inside"], each["complete_with_truth"]),
            found["unanswered"],
        )
        for query, found in report["windows"].items()
        if found["true_windows"]
        for label, each in found["aggregates"].items()
    )
    headings = (
        "query and aggregate", "windows with known truth", "truth within the error bar",
        "of them missing nothing", "truth within the error bar", "true windows without a result",
    )  # fmt: skip
    return Table("Against the truth", headings, rows, _ABOUT_BARS)


def match_table(report: Report) -> Table:
    """How many matches each query gave, and how long they took."""
    rows = tuple(
        (
            query,
            found["confirmed"],
            found["uncertain"],
            found["taken_back"],
            found["true"] or None,
            *(milliseconds(found["delay_ns"][of]) for of in ("p50", "p99", "max")),
        )
        for query, found in report["matches"].items()
    )
    headings = (
        "query", "confirmed", "uncertain", "taken back", "true", "answer delay p50 [ms]",
        "p99 [ms]", "max [ms]",
    )  # fmt: skip
    return Table("", headings, rows, _not_kept(report["matches"]))


def _not_kept(found: Mapping[str, Any]) -> str:
    lost = {query: each["not_kept"] for query, each in found.items() if each["not_kept"]}
    return "; ".join(
        f"{query}: {count:,} more results were counted as inserted but are too many to be shown"
        for query, count in lost.items()
    )


def glossary_table(report: Report) -> Table:
    """Every number's name, definition and unit."""
    rows = tuple((each["term"], each["definition"], each["unit"]) for each in report["glossary"])
    return Table("", ("term", "definition", "unit"), rows)
