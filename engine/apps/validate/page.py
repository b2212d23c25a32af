"""validate.html and validate.json: a validation in one folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import Kpi, plain, versions
from slackwater.engine.apps.report.page import document
from slackwater.engine.apps.report.page.document import CHAPTER
from slackwater.engine.apps.report.page.figures import (
    BAD,
    CARE,
    COLOURS,
    GOOD,
    NEUTRAL,
    Figure,
    band,
    digits,
    duration_axis,
    log_axis,
    ms,
)
from slackwater.engine.apps.validate.tables import (
    GLOSSARY,
    TERMS,
    Validation,
    as_plain,
    beside_table,
    clock_table,
    deviation_table,
    fact_table,
    key_numbers,
    link_table,
    query_table,
)
from slackwater.engine.apps.validate.two_logs import SourceBeside, TwoLogs
from slackwater.engine.apps.validate.verdict import duration, nearest
from slackwater.engine.core.units import duration_unit, number, percent
from slackwater.engine.scenario import Table

HTML: Final = "validate.html"
JSON: Final = "validate.json"
_CHAPTERS: Final = {
    "verdict": "Verdict", "queries": "Queries", "clocks": "Clocks", "links": "Links",
    "besides": "Measured besides", "formulas": "How it is computed", **CHAPTER,
    "glossary": "Glossary",
}  # fmt: skip
_BARS_MAX: Final = 12
FEW: Final = 8
"""A table of more sources is collapsed: its figure shows the worst of them."""
_DOWN: Final = {"automargin": True, "autorange": "reversed"}
_ABOVE: Final = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}
_UNIT: Final = re.compile(r"([0-9]) (ns|\u00b5s|ms|s|min|h|ppm|ppb|B|%)(?![A-Za-z])")


def write_page(found: Validation, out: Path, command: str) -> None:
    """Write ``validate.json`` and ``validate.html`` into ``out``, created if missing.

    ``command``: the command line.
    """
    plain = as_plain(found, versions())
    kpis, care = key_numbers(found)
    figures = {
        "bounds": _bounds(plain) if found.setup.synced else None,
        "offset": _offset(plain), "known": _known(plain), "allan": _allan(plain),
        "transit": _transit(plain),
    }  # fmt: skip
    made = {
        "queries": query_table(found), "clocks": clock_table(found), "links": link_table(found),
        "deviations": deviation_table(found), "facts": fact_table(plain),
    }  # fmt: skip
    tables = {name: _unbroken(table) for name, table in made.items()}
    document.write_page(
        out, Path(HTML), f"Validated: {plain['looked_at']}", _CHAPTERS, plain, command=command,
        tables=tables, figures=figures, kpis=kpis, care=care, few=FEW, glossary=GLOSSARY,
        terms=TERMS,
    )  # fmt: skip


def _unbroken(table: Table) -> Table:
    """Keep numbers and their units on one line."""
    rows = tuple(
        tuple(_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", cell) if isinstance(cell, str) else cell
              for cell in row)
        for row in table.rows
    )  # fmt: skip
    return replace(table, rows=rows)


def _bounds(plain: Mapping[str, Any]) -> Figure | None:
    """Main figure: needs of each query, and the precision of the clocks."""
    queries = [each for each in plain["queries"] if each["within_ns"] or each["window_ns"]]
    if not queries:
        return None
    names = [each["name"] for each in queries]
    limits = [each["window_ns"] or each["within_ns"] for each in queries]
    colours = {"fit": GOOD, "fit with care": CARE, "not fit": BAD}
    return Figure(
        "bounds", "What the queries ask, and what these clocks can decide",
        "Dot: the query's WITHIN or window, in the colour of its verdict. Bar: the smallest that "
        "this hardware can decide. The further the dot lies right of the bar's end, the better.",
        [
            {
                "name": "smallest", "type": "bar", "orientation": "h", "y": names,
                "x": ms([max(each["smallest_ns"], 1) for each in queries]),
                "customdata": [duration(each["smallest_ns"]) for each in queries],
                "marker": {"color": NEUTRAL}, "hovertemplate": "smallest %{customdata}",
            },
            {
                "name": "asked", "mode": "markers", "y": names, "x": ms(limits),
                "marker": {"size": 13, "color": [colours[each["verdict"]] for each in queries]},
                "customdata": [f"{duration(at)}: {each['verdict']}"
                               for at, each in zip(limits, queries, strict=True)],
                "hovertemplate": "asked %{customdata}",
            },
        ],
        {
            "xaxis": duration_axis("time", [*limits, *(each["smallest_ns"] for each in queries)]),
            "yaxis": _DOWN, "legend": _ABOVE,
        },
        height_px=150 + 36 * len(queries),
    )  # fmt: skip


def _offset(plain: Mapping[str, Any]) -> Figure | None:
    """A device's clock during the measurement."""
    series = plain["facts"].get("series")
    if not series or not series["at_ns"]:
        return None
    x = digits(at / 1e9 for at in series["at_ns"])
    low = [a - b for a, b in zip(series["offset_ns"], series["bound_ns"], strict=True)]
    high = [a + b for a, b in zip(series["offset_ns"], series["bound_ns"], strict=True)]
    unit, unit_ns = duration_unit(max(map(abs, (*low, *high))))

    def scaled(times_ns: Iterable[int]) -> list[float]:
        return digits(each / unit_ns for each in times_ns)

    return Figure(
        "offset", "The clock against the gateway's",
        "Offset of each train's best exchange, less the first one; the band is its bound, half the "
        "round trip and both precisions.",
        [
            *band(x, scaled(low), scaled(high), NEUTRAL),
            {"x": x, "y": scaled(series["offset_ns"]), "mode": "lines+markers", "name": "offset",
             "marker": {"size": 4}, "line": {"width": 1, "color": COLOURS[0]},
             "hovertemplate": f"%{{y:.4g}} {unit} after %{{x:.3g}} s"},
        ],
        {"xaxis": {"title": {"text": "time [s]"}}, "yaxis": {"title": {"text": f"offset [{unit}]"}},
         "showlegend": False},
    )  # fmt: skip


def _known(plain: Mapping[str, Any]) -> Figure | None:
    """How well the clocks of several sources are known, the worst first."""
    found = [each for each in plain["sources"] if each["clock"]["offset_ns"] is not None]
    if len(found) < 2:
        return None
    found = sorted(found, key=lambda each: -each["clock"]["bound_ns"])[:_BARS_MAX]
    bounds = [each["clock"]["bound_ns"] for each in found]
    return Figure(
        "known", "How well each clock is known",
        "By how much a source's times may be wrong after correction, until its next sync: the "
        f"least known first{_left_out(plain)}. How far the clock itself is off does not matter.",
        [
            {
                "type": "bar", "orientation": "h", "y": [each["name"] for each in found],
                "x": ms(bounds), "marker": {"color": COLOURS[0]},
                "customdata": [f"± {duration(bound)}; offset {nearest(each['clock']['offset_ns'])}"
                               for bound, each in zip(bounds, found, strict=True)],
                "hovertemplate": "%{y}: %{customdata}",
            }
        ],
        {"xaxis": duration_axis("known to ±", bounds),
         "yaxis": _DOWN, "showlegend": False},
        height_px=110 + 24 * len(found),
    )  # fmt: skip


def _left_out(plain: Mapping[str, Any]) -> str:
    count = len(plain["sources"])
    return f" ({_BARS_MAX} of {count})" if count > _BARS_MAX else ""


def _allan(plain: Mapping[str, Any]) -> Figure | None:
    found = [pair for each in plain["sources"] for pair in each["clock"]["deviations"]]
    if len(found) < 2:
        return None
    return Figure(
        "allan", "Stability: Allan deviation",
        "How much the clock's frequency over one stretch differs from that over the next. Where it "
        "falls, it is the noise of the readings; where it rises, the clock wanders.",
        [
            {
                "x": digits(tau / 1e9 for tau, _ in found), "y": digits(ppb for _, ppb in found),
                "mode": "lines+markers", "line": {"color": COLOURS[0]},
                "hovertemplate": "%{y:.4g} ppb over %{x:.3g} s",
            }
        ],
        {"xaxis": log_axis("over [s]", (tau / 1e9 for tau, _ in found)),
         "yaxis": log_axis("deviation [ppb]", (ppb for _, ppb in found)),
         "showlegend": False},
        height_px=300,
    )  # fmt: skip


def _transit(plain: Mapping[str, Any]) -> Figure | None:
    """Transit times of the sources, from least to p99.9."""
    found = [each for each in plain["sources"] if each["link"]]
    found = sorted(found, key=lambda each: -each["link"]["p999_ns"])[:_BARS_MAX]
    if not found:
        return None
    parts = (("least", "least_ns", "line-ns-open"), ("p50", "p50_ns", "circle"),
             ("p95", "p95_ns", "diamond"), ("p99.9", "p999_ns", "square"))  # fmt: skip
    return _dots(
        "transit", "The way to the gateway",
        "How long events take from the device to the gateway: the slowest sources first"
        f"{_left_out(plain)}. It is wrong by up to what the source's clock is; what is not above "
        "0 is not drawn.",
        "one way", [each["name"] for each in found],
        [(label, symbol, COLOURS[place], [each["link"][key] for each in found])
         for place, (label, key, symbol) in enumerate(parts)],
    )  # fmt: skip


def _dots(
    name: str, title: str, caption: str, axis: str, rows: list[str],
    marks: Iterable[tuple[str, str, str, list[int]]],
) -> Figure:  # fmt: skip
    """Durations per row; a mark has a label, a symbol, a colour and a duration per row."""
    groups = list(marks)
    return Figure(
        name, title, caption,
        [
            {
                "name": label, "mode": "markers", "y": rows, "x": ms(values),
                "marker": {"size": 9, "symbol": symbol, "color": colour},
                "customdata": [*map(duration, values)], "hovertemplate": f"{label} %{{customdata}}",
            }
            for label, symbol, colour, values in groups
        ],
        {"xaxis": duration_axis(axis, [at for *_, values in groups for at in values]),
         "yaxis": _DOWN, "legend": _ABOVE},
        height_px=170 + 26 * len(rows),
    )  # fmt: skip


# two-logs.html and two-logs.json: what two gateways received from the same sources.


TWO_LOGS_HTML: Final = "two-logs.html"
TWO_LOGS_JSON: Final = "two-logs.json"
_CHAPTERS_OF_TWO: Final = {
    "verdict": "In short", "later": "How much later", "sources": "Sources", **CHAPTER,
}  # fmt: skip
_LATER_SHOWN: Final = 30


def write_two_logs(found: TwoLogs, a: Path, b: Path, out: Path, command: str) -> None:
    """Write ``two-logs.json`` and ``two-logs.html`` into ``out``, created if missing."""
    report: dict[str, Any] = {
        "a": str(a), "b": str(b), **plain(found), "made_with": versions(),
    }  # fmt: skip
    document.write_page(
        out, Path(TWO_LOGS_HTML), f"Two logs: {a} and {b}", _CHAPTERS_OF_TWO, report,
        command=command, kpis=plain(list(_tiles(found))), figure=_later(found),
        table=beside_table(found), median=duration(found.median_ns), headline=_headline(found),
    )  # fmt: skip


def _headline(found: TwoLogs) -> str:
    a, b = _sum(found, "missing_a"), _sum(found, "missing_b")
    if not a and not b:
        return "Both received every event that one of them has."
    said = [
        f"{name} misses {number(count)} event{'s' * (count != 1)} that {other} has"
        for name, other, count in (("A", "B", a), ("B", "A", b))
        if count
    ]
    return f"{' and '.join(said)}."


def _sum(found: TwoLogs, name: str) -> int:
    return sum(getattr(each, name) for each in found.sources)


def _tiles(found: TwoLogs) -> Iterator[Kpi]:
    both = _sum(found, "both")
    yield Kpi("events in both", both, "count", number(both), f"of {len(found.sources)} sources")
    missing = {"A": _sum(found, "missing_b"), "B": _sum(found, "missing_a")}
    whole = both + sum(missing.values())
    for log, other in (("A", "B"), ("B", "A")):
        note = f"{number(missing[other])} of {number(whole)} that one of them has"
        share = missing[other] / whole
        yield Kpi(f"missing in {log}", share, "share", percent(missing[other], whole), note, "less")
    for log, alone in missing.items():
        behind, came = _sum(found, f"out_of_order_{log.lower()}"), both + alone
        yield Kpi(
            f"out of order in {log}", behind / came, "share", percent(behind, came),
            f"{number(behind)} came after a later one", "less",
        )  # fmt: skip
    slowest = max(_timed(found), key=_tail)
    yield Kpi(
        "later in B, p95", _tail(slowest), "ns", duration(_tail(slowest)),
        f"{slowest.name}: than its fastest event",
    )  # fmt: skip


def _timed(found: TwoLogs) -> list[SourceBeside]:
    return [each for each in found.sources if each.later_ns]


def _tail(each: SourceBeside) -> int:
    return each.later_ns["p95"] - each.later_ns["min"]


def _later(found: TwoLogs) -> Figure | None:
    """Delays beyond that of the fastest event, in B relative to A."""
    sources = sorted(_timed(found), key=lambda each: -each.later_ns["p999"])[:_LATER_SHOWN]
    parts = (("p50", "circle"), ("p95", "diamond"), ("p999", "square"))
    extra = {name: [each.later_ns[name] - each.later_ns["min"] for each in sources]
             for name, _ in parts}  # fmt: skip
    if not any(each > 0 for values in extra.values() for each in values):
        return None
    return _dots(
        "later", "How much later B had the events than A",
        "The gateways' clocks are not compared, so each source's smallest difference counts as 0, "
        "and is not drawn. Far to the right: the way to B varies more than that to A.",
        "later in B, beyond its fastest event", [each.name for each in sources],
        [(name.replace("p999", "p99.9"), symbol, COLOURS[place], extra[name])
         for place, (name, symbol) in enumerate(parts, 1)],
    )  # fmt: skip
