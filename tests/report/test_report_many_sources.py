"""A page of very many sources shows the worst of them, and says where all are."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from engine.report.page.run_page import page as page_of
from engine.report.page.shortened import ITEMS_MAX, ROWS_MAX
from tests.report.test_report_page import Page, report

MANY = 3_000


def many(one: Any, prefix: str) -> dict[str, Any]:
    """``one`` for each of ``MANY`` sources."""
    return {f"{prefix}{n}": one for n in range(MANY)}


def test_a_page_of_thousands_of_sources_has_the_worst(rich_run: Any) -> None:
    """They are the last ones here; what was not lost by any source has no column, as ever."""
    made, _ = report(rich_run)
    found = deepcopy(made)
    before, clocks = found["conservation"]["before"], found["clock_error"]
    lane, clock = found["sources"][0], next(iter(clocks["sources"].values()))
    before["sources"] = many({"generated": 9, "never_logged": 0}, "s") | {
        "lossy": {"generated": 9, "never_logged": 1}
    }
    for each in found["conservation"]["passes"].values():
        counts = next(iter(each["sources"].values()))
        each["sources"] = many({**counts, "missing": 0}, "s") | {"lossy": {**counts, "missing": 3}}
    clocks["sources"] = many(clock, "x/s") | {"x/wrong": {**clock, "inside": 0}}
    found["sources"] = [{**lane, "source": f"s{n}"} for n in range(MANY)]
    found["run"]["settings"] = {"sources": [{"name": f"s{n}", "all": "alike"} for n in range(MANY)]}
    text = page_of(found)
    page = Page(text)
    assert len(text) - len(page_of(made)) < 600_000
    assert {"lossy", "wrong"} <= set(page.texts)
    inside = page.script("report-data")
    assert inside["left_out"] == MANY + 1
    assert len(inside["clock_error"]["sources"]) == ROWS_MAX
    assert next(iter(inside["conservation"]["before"]["sources"])) == "lossy"
    assert f"... and {MANY - ITEMS_MAX:,} more: all are in report.json" in " ".join(page.texts)
    assert ("a", {"href": "report.json"}) in page.elements
    assert "left_out" not in Page(page_of(made)).script("report-data")
