"""compare.html and compare.json: the whole comparison in one folder, to keep and to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from engine.compare.columns import COST, OUTCOME, arrival_facts, as_plain, fields, order_table
from engine.compare.comparison import OrdersCompared
from engine.compare.measure import Measures
from engine.compare.trade_off import trade_off_figure
from engine.report.page.document import document
from engine.report.page.page_folder import write_page_folder
from engine.report.plain import as_json, plain
from engine.report.versions import versions
from engine.scenario import Table

HTML: Final = "compare.html"
JSON: Final = "compare.json"
_CHAPTERS: Final = {
    "verdict": "Verdict", "input": "Input", "orders": "Orders", "trade-off": "Trade-off",
    "fields": "Glossary",
}  # fmt: skip
NO_ARRIVALS: Final = (
    "The input has no arrival times: line numbers stand for them, so holds are counted in lines, "
    "and timeouts given in time (sequence's latency) do not mean what they say."
)


def write_comparison(comparison: OrdersCompared, source: str, out: Path) -> dict[str, Any]:
    """Writes ``compare.json`` and ``compare.html`` into the folder ``out``, made if absent.

    Args:
        comparison: what to write.
        source: what was compared, for the reader.
        out: see ``engine.report.page.page_folder``.

    Returns:
        what ``compare.json`` holds.

    Raises:
        UserError: see ``check_page_folder``.
    """
    found: dict[str, Any] = plain(as_plain(comparison, source, versions()))
    write_page_folder(out, {JSON: as_json(found, indent=1) + "\n", HTML: page(comparison, found)})
    return found


def page(comparison: OrdersCompared, found: Mapping[str, Any]) -> str:
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
    )  # fmt: skip


def _orders(comparison: OrdersCompared, measured: Sequence[Measures]) -> list[Table]:
    """Two tables, as one would be too wide to be seen at once: what comes out, what it costs."""
    return [
        Table(heading, *order_table(comparison, measured, parts))
        for heading, parts in (("What comes out", OUTCOME), ("What it costs", COST))
    ]
