"""compare.html and compare.json: the whole comparison in one folder, to keep and to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from engine.compare.choice import in_place
from engine.compare.columns import COST, OUTCOME, arrival_facts, as_plain, fields, order_table
from engine.compare.comparison import OrdersCompared
from engine.compare.measure import Measures
from engine.compare.trade_off import trade_off_figure
from engine.report.kpis import Kpi
from engine.report.page.document import document
from engine.report.page.how_made import CHAPTER, how_made
from engine.report.page.page_folder import write_page_folder
from engine.report.plain import as_json, plain
from engine.report.units import amount, duration, number, percent
from engine.report.versions import versions
from engine.scenario import Table

HTML: Final = "compare.html"
JSON: Final = "compare.json"
_CHAPTERS: Final = {
    "verdict": "Verdict", "input": "Input", "orders": "Orders", "trade-off": "Trade-off",
    "fields": "Glossary", **CHAPTER,
}  # fmt: skip
NO_ARRIVALS: Final = (
    "The input has no arrival times: line numbers stand for them, so holds are counted in lines, "
    "and timeouts given in time (sequence's latency) do not mean what they say."
)


def write_comparison(
    comparison: OrdersCompared, source: str, out: Path, command: str
) -> dict[str, Any]:
    """Writes ``compare.json`` and ``compare.html`` into the folder ``out``, made if absent.

    Args:
        comparison: what to write.
        source: what was compared, for the reader.
        out: see ``engine.report.page.page_folder``.
        command: that made it; empty: none did.

    Returns:
        what ``compare.json`` holds.

    Raises:
        UserError: see ``check_page_folder``.
    """
    found: dict[str, Any] = plain(as_plain(comparison, source, versions()))
    html = page(comparison, found, command)
    write_page_folder(out, {JSON: as_json(found, indent=1) + "\n", HTML: html})
    return found


def page(comparison: OrdersCompared, found: Mapping[str, Any], command: str) -> str:
    """The page that shows ``comparison``; ``found`` is what compare.json holds."""
    drawn = trade_off_figure(comparison)
    facts = (("input", str(found["input"])), *arrival_facts(comparison))
    named = tuple(tuple(each.values()) for each in fields())
    tables = {
        "arrivals": Table("", ("", ""), facts),
        "orders": _orders(comparison, comparison.orders),
        "sweep": _orders(comparison, comparison.sweep),
        "fields": Table("", ("field of compare.json", "definition", "unit"), named),
    }
    return document(
        "compare.html", f"Orders compared: {found['input']}", _CHAPTERS, [drawn] if drawn else [],
        found, JSON, tables=tables, trade_off=drawn, no_arrivals=NO_ARRIVALS,
        kpis=_kpis(comparison), how=how_made(command, found["made_with"]),
    )  # fmt: skip


def _kpis(comparison: OrdersCompared) -> list[Kpi]:
    """What arrived, and what the order that suits makes of it."""
    arrived = comparison.arrivals
    sources = f"of {amount(arrived.sources)} source{'' if arrived.sources == 1 else 's'}"
    made = [
        Kpi("events arrived", arrived.events, "count", amount(arrived.events), sources),
        Kpi("out of order on arrival", arrived.disorder, "count",
            percent(arrived.disorder, arrived.events), amount(arrived.disorder), "less"),
    ]  # fmt: skip
    suits = comparison.choice.suits
    best = next((each for each in comparison.orders if each.order == suits), None)
    if best is None:
        most = max(comparison.orders, key=lambda each: each.completeness)
        note = f"of the events; {most.order} is the most complete"
        return [*made, Kpi("in their place", most.completeness, "share", in_place(most), note,
                           "more", holds=False)]  # fmt: skip
    hold = best.hold
    return [
        *made,
        Kpi("what suits", None, "", best.order, holds=True),
        Kpi("in their place", best.completeness, "share", in_place(best), "of the events", "more"),
        Kpi("held, p99", hold.p99_ns, "ns", _held(comparison, hold.p99_ns),
            f"half at most {_held(comparison, hold.p50_ns)}", "less"),
        Kpi("held at once, most", best.buffered_max, "count", amount(best.buffered_max),
            "events of one site", "less"),
    ]  # fmt: skip


def _held(comparison: OrdersCompared, hold_ns: float) -> str:
    """A hold; without arrival times it is counted in lines."""
    return duration(hold_ns) if comparison.arrival_given else f"{number(hold_ns)} lines"


def _orders(comparison: OrdersCompared, measured: Sequence[Measures]) -> list[Table]:
    """Two tables, as one would be too wide to be seen at once: what comes out, what it costs."""
    return [
        Table(heading, *order_table(comparison, measured, parts))
        for heading, parts in (("What comes out", OUTCOME), ("What it costs", COST))
    ]
