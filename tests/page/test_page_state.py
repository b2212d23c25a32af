"""What a page shows of sources, however many they are, and of events."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.engine.server.overview import SORTS
from slackwater.engine.server.page import view
from tests.gateway.conftest import SYNC, a_data, a_hello
from tests.page.conftest import EPOCH, S, Site, a_result


def state(site: Site, **query: str) -> dict[str, Any]:
    site.overview._due = 0.0
    return view.state(site.overview, site.feed, view.wish_of(query))


def test_a_source_with_its_clock_gaps_and_sums(site: Site) -> None:
    site.source("door", events=3, offset=2 * S)
    at = site.now
    site.say("main/door", a_data(5, 2, at), a_data(0, 3, at), a_data(9, 1, at))
    reported = state(site)
    (row,) = reported["rows"]
    assert (row["site"], row["source"], row["state"]) == ("main", "door", "connected")
    assert row["offset"] == 2.0
    assert row["delay"] == 1e-8
    assert 0 < row["bound"] < 1e-3
    assert (row["gaps"], row["missing"], row["events"]) == (2, 4, 6)
    assert row["counts"]["duplicate"] == 3
    assert row["counts"]["received"] == 9
    assert reported["sums"]["events"]["received"] == 9
    assert reported["sums"]["events"]["recorded"] == reported["sums"]["logged"] == 6
    assert reported["sums"]["balance"] == 0
    assert reported["clocks"][0]["points"][0][1] == 2.0
    json.dumps(reported, allow_nan=False)


def test_states_of_sources(site: Site) -> None:
    for name in ("talks", "silent", "left", "done"):
        site.source(name)
    site.core.disconnected("main/left", site.now)
    site.say("main/done", m.Eos(1, site.now, (3,)))
    site.later(11 * S)
    site.say("main/talks", a_data(3, 1, site.now))
    found = {row["source"]: row["state"] for row in state(site)["rows"]}
    assert found == {"talks": "connected", "silent": "idle", "left": "away", "done": "ended"}
    assert state(site)["sums"]["states"] == {"connected": 1, "idle": 1, "away": 1, "ended": 1}


def test_a_source_that_said_hello_only_is_shown(site: Site) -> None:
    site.say("c", a_hello("shy"))
    (row,) = state(site)["rows"]
    assert (row["source"], row["offset"], row["lag"], row["seen"]) == ("shy", None, None, None)
    assert state(site)["clocks"] == [
        {"site": "main", "source": "shy", "status": "unknown", "points": [], "devices": []}
    ]


def test_devices_behind_a_source_have_clocks_of_their_own(site: Site) -> None:
    site.source("ward", offset=2 * S)
    clocks = (("mon#1", 20 * S), ("mon#2", -3 * S), ("pump#1.2", S))
    for number, (name, offset) in enumerate(clocks, 1):
        at = replace(SYNC, number=number, offset=offset, clock=name)
        site.say("main/ward", replace(at, measured_at=site.now))
    row = state(site)["rows"][0]
    assert (row["offset"], row["status"]) == (2.0, "synchronized")
    found = [(each["name"], each["offset"], each["status"]) for each in row["devices"]]
    assert found == [("mon", -3.0, "synchronized"), ("pump", 1.0, "disrupted")]
    assert state(site)["clocks"][0]["devices"] == row["devices"]
    site.later(301 * S)
    site.source("a")
    row = state(site)["rows"][1]
    assert row["status"] == row["devices"][0]["status"] == "free-running"


@pytest.mark.parametrize(
    ("by", "alarm"),
    [
        (S // 2, ""),
        (-S // 2, "its events came up to 500 ms before they can have happened: a clock is ahead"),
        (
            20 * S,
            "all its events of a minute came 20 s or more after they can have happened: a slow",
        ),
    ],
)
def test_lag_that_no_bound_explains_is_an_alarm(site: Site, by: int, alarm: str) -> None:
    """The agent is right, says its sync; its events are stamped by a clock that is not."""
    site.source("ward", events=0, offset=0)
    for number in range(130):
        site.say("main/ward", a_data(number, 1, site.now - by))
        site.later(S // 2)
    reported = state(site)
    assert reported["rows"][0]["alarm"].startswith(alarm)
    assert reported["alarms"]["total"] == bool(alarm)
    assert [each["source"] for each in reported["alarms"]["shown"]] == ["ward"] * bool(alarm)
    assert reported["rows"][0]["status"] == ("disrupted" if by < 0 else "synchronized")
    site.later(121 * S)
    site.source("other")
    assert state(site)["alarms"]["total"] == 0


def test_numbers_used_again_are_an_alarm(site: Site) -> None:
    site.source("ward", events=3, capabilities=())
    site.say("main/ward", a_data(0, 2, site.now))
    shown = state(site)
    assert shown["rows"][0]["alarm"].startswith("2 of its events have a number that another event")
    assert "[seq_bits]" in shown["rows"][0]["alarm"]
    assert (shown["alarms"]["total"], shown["sums"]["events"]["reused"]) == (1, 2)
    assert shown["sums"]["balance"] == 0


def test_rows_are_sorted_by_what_is_asked_for_and_the_unknown_come_last(site: Site) -> None:
    for place, name in enumerate(["b", "a", "d", "c"]):
        site.source(name, events=place, offset=(place - 2) * S)
    site.say("x", a_hello("x"))
    for sort in SORTS:
        for order in ("asc", "desc"):
            rows = state(site, sort=sort, order=order)["rows"]
            assert sorted(row["source"] for row in rows) == ["a", "b", "c", "d", "x"]
            values = [row.get(sort) for row in rows]
            if sort == "offset":
                values = [None if value is None else abs(value) for value in values]
            known = [value for value in values if value is not None]
            if sort not in ("state", "source"):
                assert values == known + [None] * (len(values) - len(known))
                assert known == sorted(known, reverse=order == "desc")
    names = [row["source"] for row in state(site)["rows"]]
    assert names == ["a", "b", "c", "d", "x"]
    assert [row["source"] for row in state(site, find="MAIN/b")["rows"]] == ["b"]
    for name in ("a11", "a2"):
        site.source(name)
    assert [row["source"] for row in state(site)["rows"]][:3] == ["a", "a2", "a11"]


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ({"sort": "token"}, "sort: one of source"),
        ({"order": "up"}, "order: asc or desc"),
        ({"page": "-1"}, "page: a whole number"),
        ({"page": "٣"}, "page: a whole number"),
        ({"after": "9" * 400}, "after: a whole number"),
        ({"find": "x" * 201}, "find: 200 characters"),
    ],
)
async def test_a_wrong_wish_is_reported(site: Site, query: dict[str, str], reported: str) -> None:
    async with site.client() as client:
        for path in ("/state", "/live"):
            answer = await client.get(path, params=query)
            assert answer.status == 400
            assert reported in await answer.text()


def test_thousands_of_sources_give_pages_of_fifty() -> None:
    site = Site(connections_max=3_000)
    for number in range(2_000):
        name = f"s{number:05}"
        site.core.connected(name, EPOCH, "127.0.0.1")
        sync = m.Sync(0, number, 10, EPOCH, 3, 50)
        site.core.received(name, b"".join(map(wire.encode, (a_hello(name), sync))), EPOCH)
        site.core.outputs()
        for each in range(3) if number < 20 else ():
            # As after a month: every row of the history is there.
            site.figures.history.add(number, EPOCH + each * 60 * S, number, 1)
    site.core.finish(EPOCH)
    reported = state(site, sort="offset", order="desc", page="3")
    counted = [reported[what] for what in ("total", "matching", "pages", "page")]
    assert counted == [2_000, 2_000, 40, 3]
    assert [row["source"] for row in reported["rows"]] == [
        f"s{n:05}" for n in range(1849, 1799, -1)
    ]
    assert len(reported["clocks"]) == view.CLOCKS
    assert len(json.dumps(reported)) < 40_000
    assert state(site, page="999999")["page"] == 39
    assert state(site, find="s0199")["matching"] == 10


async def test_state_gives_results_too(site: Site) -> None:
    site.feed.publish([a_result(1), a_result(2), a_result(1, "-")])
    async with site.client() as client:
        reported = (await (await client.get("/state")).json())["results"]
        assert reported["end"] == 3
        first, second, gone = reported["results"]
        assert first["key"] == gone["key"] != second["key"]
        assert (first["op"], gone["op"]) == ("+", "-")
        assert first["what"] == "SHELF → EXIT"
        assert first["at"] == EPOCH / S
        again = await client.get("/state", params={"after": "2"})
        assert len((await again.json())["results"]["results"]) == 1


def test_a_look_is_not_taken_more_often_than_it_may_cost(site: Site) -> None:
    site.source("a")
    view.state(site.overview, site.feed, view.Wish())
    site.source("b")
    assert view.state(site.overview, site.feed, view.Wish())["total"] == 1
    assert state(site)["total"] == 2
