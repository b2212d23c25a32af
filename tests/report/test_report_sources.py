"""Who held the others back: from the chain's counters to the report's table."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from slackwater.engine.apps.report.measure.events import how_it_ended, measure_sources
from slackwater.engine.apps.report.page.run_page import page as page_of
from slackwater.engine.apps.report.page.tables import ITEMS_MAX, ROWS_MAX, source_table
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from tests.order.conftest import frame
from tests.report.test_report_page import Page, report

TRACE: list[dict[str, Any]] = [
    {"kind": "sync", "source": "a", "offset": 2, "delay": 4, "first_seq": 0, "arrival": 0, "ts": 0},
    {"source": "a", "seq": 0, "ts": 0, "arrival": 0},
    {"source": "b", "seq": 0, "ts": 5, "arrival": 1},
    {"source": "b", "seq": 1, "ts": 20, "arrival": 4},  # both wait for a from 1 on
    {"source": "a", "seq": 1, "ts": 12, "arrival": 9},  # b's first goes on; its second from 9 on
    {"source": "b", "seq": 2, "ts": 21, "arrival": 30},  # a was idle from 19 on
    {"source": "b", "seq": 3, "ts": 22, "arrival": 50},  # b had been silent since 40
    {"kind": "eos", "source": "b", "arrival": 51},
]


def counters(order: str) -> dict[str, Any]:
    chain = Chain(ChainSettings(parse_order(order), guards=Guards(None)), "main")
    chain.process([frame(TRACE)])
    chain.finish()
    return {"sites": {"main": chain.counters()}}


def test_the_time_that_others_stood_ready_is_its_who_let_them_go_on() -> None:
    a, b = measure_sources(counters("sequence:timeout=fixed:10"))
    assert (a["source"], a["blocked_ns"]) == ("a", (9 - 1) + (19 - 9))
    assert (b["source"], b["blocked_ns"]) == ("b", 0)
    assert (a["silences"], b["silences"]) == (0, 2)  # a never came back; b after 4 and 30
    assert (how_it_ended(a), how_it_ended(b)) == ("idle", "ended")
    assert (a["silent_ns"], a["behind_ns"]) == (51 - 9, 51 - 14)
    assert (a["offset"], a["uncertainty"], a["gap_timeout"], a["idle_timeout"]) == (2, 2, 10, 10)
    assert (b["silent_ns"], b["behind_ns"], b["offset"]) == (0, 51 - 22, 0)


@pytest.mark.parametrize("order", ["none", "kslack:5", "mp-kslack", "kslack-chain:1,4"])
def test_an_order_without_numbers_knows_how_far_its_sources_got(order: str) -> None:
    a, b = measure_sources(counters(order))
    assert (a["silent_ns"], a["behind_ns"], a["offset"]) == (51 - 9, 51 - 14, 2)
    assert (b["silent_ns"], b["behind_ns"]) == (1, 51 - 22)  # of events: no marker is one
    assert (a["blocked_ns"], how_it_ended(a)) == (None, None)


def test_the_table_says_it_in_the_unit_that_fits_longest_first() -> None:
    rows = measure_sources(counters("sequence:timeout=fixed:10"))
    for row in rows:
        row["blocked_ns"] *= 10**6
    shown = source_table({"sources": rows}).rows
    assert [row[:4] for row in shown] == [
        ("a", "18\N{NO-BREAK SPACE}ms", 0, "idle"), ("b", "0\N{NO-BREAK SPACE}ms", 2, "ended"),
    ]  # fmt: skip


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
