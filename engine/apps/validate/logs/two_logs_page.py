"""two-logs.html and two-logs.json: what two gateways received of the same sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.numbers import Kpi, plain, versions
from slackwater.engine.apps.report.page.document import CHAPTER, write_page
from slackwater.engine.apps.report.page.figures import COLOURS, Figure, duration_axis, ms
from slackwater.engine.apps.validate.logs.two_logs import SourceBeside, TwoLogs
from slackwater.engine.apps.validate.tables import beside_table
from slackwater.engine.apps.validate.verdict import duration
from slackwater.engine.core.units import amount, percent

HTML: Final = "two-logs.html"
JSON: Final = "two-logs.json"
_CHAPTERS: Final = {
    "verdict": "In short", "later": "How much later", "sources": "Sources", **CHAPTER,
}  # fmt: skip
_SHOWN: Final = 30


def write_two_logs(found: TwoLogs, a: Path, b: Path, out: Path, command: str) -> None:
    """Writes ``two-logs.json`` and ``two-logs.html`` into ``out``, made if absent."""
    report: dict[str, Any] = {
        "a": str(a), "b": str(b), **plain(found), "made_with": versions(),
    }  # fmt: skip
    write_page(
        out, Path(HTML), f"Two logs: {a} and {b}", _CHAPTERS, report, command=command,
        kpis=list(_tiles(found)), figure=_later(found), table=beside_table(found),
        median=duration(found.median_ns), headline=_headline(found),
    )  # fmt: skip


def _headline(found: TwoLogs) -> str:
    a, b = _sum(found, "missing_a"), _sum(found, "missing_b")
    if not a and not b:
        return "Both received every event that one of them has."
    said = [
        f"{name} misses {amount(count)} event{'s' * (count != 1)} that {other} has"
        for name, other, count in (("A", "B", a), ("B", "A", b))
        if count
    ]
    return f"{' and '.join(said)}."


def _sum(found: TwoLogs, name: str) -> int:
    return sum(getattr(each, name) for each in found.sources)


def _tiles(found: TwoLogs) -> Iterator[Kpi]:
    both = _sum(found, "both")
    yield Kpi("events in both", both, "count", amount(both), f"of {len(found.sources)} sources")
    own = {"A": _sum(found, "missing_b"), "B": _sum(found, "missing_a")}
    whole = both + sum(own.values())
    for log, other in (("A", "B"), ("B", "A")):
        note = f"{amount(own[other])} of {amount(whole)} that one of them has"
        share = own[other] / whole
        yield Kpi(f"missing in {log}", share, "share", percent(own[other], whole), note, "less")
    for log, alone in own.items():
        behind, came = _sum(found, f"out_of_order_{log.lower()}"), both + alone
        yield Kpi(
            f"out of order in {log}", behind / came, "share", percent(behind, came),
            f"{amount(behind)} came after a later one", "less",
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
    """How much longer than the fastest event took, in B as against A."""
    sources = sorted(_timed(found), key=lambda each: -each.later_ns["p999"])[:_SHOWN]
    parts = (("p50", "circle"), ("p95", "diamond"), ("p999", "square"))
    extra = {name: [each.later_ns[name] - each.later_ns["min"] for each in sources]
             for name, _ in parts}  # fmt: skip
    if not any(each > 0 for values in extra.values() for each in values):
        return None
    return Figure(
        "later", "How much later B had the events than A",
        "The gateways' clocks are not compared, so each source's smallest difference counts as 0, "
        "and is not drawn. Far to the right: the way to B varies more than that to A.",
        [
            {
                "name": name.replace("p999", "p99.9"), "mode": "markers",
                "y": [each.name for each in sources], "x": ms(extra[name]),
                "marker": {"size": 9, "symbol": symbol, "color": COLOURS[place + 1]},
                "customdata": [duration(each) for each in extra[name]],
                "hovertemplate": f"{name} %{{customdata}}",
            }
            for place, (name, symbol) in enumerate(parts)
        ],
        {"xaxis": duration_axis("later in B, beyond its fastest event",
                                [at for each in extra.values() for at in each]),
         "yaxis": {"automargin": True, "autorange": "reversed"},
         "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"}},
        height_px=170 + 26 * len(sources),
    )  # fmt: skip
