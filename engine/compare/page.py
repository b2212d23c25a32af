"""compare.html and compare.json: the whole comparison in one folder, to keep and to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from engine.compare.columns import COST, OUTCOME, arrival_facts, as_plain, fields, order_table
from engine.compare.comparison import Comparison
from engine.compare.measure import Measures
from engine.compare.trade_off import trade_off_figure
from engine.report.document import DATA_ID, document
from engine.report.elements import details, figure, paragraph, section, table, text
from engine.report.page_folder import write_page_folder
from engine.report.plain import as_json, plain
from engine.report.versions import versions

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
_TABLE_NOTE: Final = (
    "In place: released as in order, with no larger ref before, among all that arrived but second "
    "copies. Out of order left: late events included; dropped ones are gone, so that R19's "
    "accuracy counts them as mended. Most held: of the site that held most. Events per second: "
    "in the ordering chain alone, on one core of this machine, and different from run to run."
)


def write_comparison(comparison: Comparison, source: str, out: Path) -> dict[str, Any]:
    """Writes ``compare.json`` and ``compare.html`` into the folder ``out``, made if absent.

    Args:
        comparison: what to write.
        source: what was compared, for the reader.
        out: see ``engine.report.page_folder``.

    Returns:
        what ``compare.json`` holds.

    Raises:
        UserError: see ``check_page_folder``.
    """
    found: dict[str, Any] = plain(as_plain(comparison, source, versions()))
    write_page_folder(out, {JSON: as_json(found, indent=1) + "\n", HTML: page(comparison, found)})
    return found


def page(comparison: Comparison, found: Mapping[str, Any]) -> str:
    """The page that shows ``comparison``; ``found`` is what compare.json holds."""
    drawn = trade_off_figure(comparison)
    sections = {
        "verdict": _verdict(comparison),
        "input": section(
            "input",
            "What arrived",
            table(("", ""), [("input", str(found["input"])), *arrival_facts(comparison)],
                  kind="facts"),
            "" if comparison.arrival_given else paragraph(NO_ARRIVALS, "fails"),
        ),
        "orders": section(
            "orders", "Orders side by side",
            *_orders(comparison, comparison.orders),
            paragraph(_table_note(comparison), "note"),
        ),
        "trade-off": section(
            "trade-off", "What completeness costs",
            figure(drawn) if drawn else paragraph("No order held any event: no figure."),
            _sweep(comparison),
        ),
        "fields": section(
            "fields", "What each number means",
            table(("field of compare.json", "definition", "unit"),
                  [tuple(each.values()) for each in fields()], kind="terms"),
        ),
    }  # fmt: skip
    version = found["made_with"]["slackwater"]
    footer = (
        f"slackwater {text(version)}. All numbers of this page are inside it as JSON "
        f"(<code>#{DATA_ID}</code>) and in {JSON}."
    )
    title = f"Orders compared: {found['input']}"
    body = "\n".join(sections.values())
    return document(title, _CHAPTERS, body, [drawn] if drawn else [], found, footer)


def _verdict(comparison: Comparison) -> str:
    choice = comparison.choice
    kind = "fails" if choice.suits is None else "holds"
    costs = "\n".join(
        f'<li class="{"holds" if each.enough else "fails"}">'
        f'<span class="mark">{"complete" if each.enough else "not complete"}</span> '
        f'<div>{text(each.order)}<div class="detail">{text(each.text)}</div></div></li>'
        for each in choice.costs
    )
    return (
        f'<section id="verdict" class="{kind}"><p class="word">WHAT SUITS</p>'
        f'<p class="headline">{text(choice.headline)}</p>'
        f"{paragraph(choice.reason)}"
        + (f'<h3>The others beside it</h3><ul class="equations">{costs}</ul>' if costs else "")
        + "</section>"
    )


def _table_note(comparison: Comparison) -> str:
    truth = comparison.settings.reading.truth
    return _TABLE_NOTE + (f" Out of order is judged by the attribute {truth}." if truth else "")


def _sweep(comparison: Comparison) -> str:
    if not comparison.sweep:
        return ""
    swept = "".join(_orders(comparison, comparison.sweep))
    return details(f"The {len(comparison.sweep)} slacks of the lines", swept)


def _orders(comparison: Comparison, measured: Sequence[Measures]) -> list[str]:
    """Two tables, as one would be too wide to be seen at once: what comes out, what it costs."""
    return [
        f"<h3>{text(heading)}</h3>{table(*order_table(comparison, measured, parts))}"
        for heading, parts in (("What comes out", OUTCOME), ("What it costs", COST))
    ]
