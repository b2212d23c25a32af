"""Arithmetic of aggregates in SELECT: values, bounds, what is told, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query, to_text
from engine.query.fields import time_labels
from tests.order.conftest import frame

SYNC = {"kind": "sync", "source": "s", "offset": 0, "delay": 4, "arrival": 1}


def results(text: str, *events: tuple[int, float], synced: bool = False) -> list[dict[str, Any]]:
    records = [SYNC] * synced + [
        {"source": "s", "seq": n, "ts": ts, "arrival": 100 + n, "attrs": {"v": v}}
        for n, (ts, v) in enumerate(events)
    ]
    chosen = ChainSettings(parse_order("none"), (query(text),), guards=Guards(None))
    chain = Chain(chosen, "main")
    return [*chain.process([frame(records)]).results[0], *chain.finish().results[0]]


def test_bounds_hold_whichever_window_an_event_is_in() -> None:
    inside, doubtful = [(13, 2.0), (15, 5.0)], (19, 9.0)
    text = (
        "SELECT max(v) - min(v) AS d, sum(v) / count(*) AS m, 1 / (sum(v) - 7) AS x, median(v) + 1"
    )
    (told,) = [
        one for one in results(text + " WINDOW TUMBLING 10", *inside, doubtful, synced=True)
        if one["window"]["start"] == 10
    ]  # fmt: skip
    assert told["ambiguous"] == 1
    assert told["value"] == {
        "d": 7.0, "m": pytest.approx(16 / 3), "x": pytest.approx(1 / 9), "median(v) + 1": 6.0,
    }  # fmt: skip
    bounds = told["bounds"]
    assert bounds.keys() == {"d", "m", "x"}
    for some in (inside, [*inside, doubtful]):
        values = [v for _, v in some]
        assert bounds["d"][0] <= max(values) - min(values) <= bounds["d"][1]
        assert bounds["m"][0] <= sum(values) / len(values) <= bounds["m"][1]
    assert bounds["x"] == [None, None]  # without the event it is divided by zero


def test_what_stays_as_it_was_is_not_told_again() -> None:
    text = "SELECT max(v) - min(v) AS d WINDOW TUMBLING 10 EMIT ON CHANGE"
    told = results(text, (10, 1.0), (11, 4.0), (12, 2.0))
    # The third event changes no number that is worked out; counts of events are told with it.
    assert [(one["op"], one["value"]["d"], one["certain"]) for one in told] == [
        ("+", 0.0, 1), ("-", 0.0, 1), ("+", 3.0, 2), ("-", 3.0, 2), ("+", 3.0, 3),
    ]  # fmt: skip
    for one, other in itertools.pairwise(told):
        assert {**one, "op": "", "at": 0} != {**other, "op": "", "at": 0} or one["op"] == "+"


def test_a_span_of_times_is_one_in_results() -> None:
    plan = query(
        "SELECT max(ts) - min(ts) AS span, max(ts) / count(*) AS w, var(ts) * 2 AS q "
        "WINDOW TUMBLING 9"
    )
    assert time_labels([plan]) == {"q1": {"span", "w"}}


@pytest.mark.parametrize("text", [
    "SELECT max(v) - min(v) AS spread, count(*) GROUP BY g HAVING spread > 1 WINDOW TUMBLING 30 ns",
    "SELECT abs(max(v) - min(v)), max(v) AS hi, (sum(v) + 1) / count(*) AS m WINDOW ROWS 3 EVERY 1",
])  # fmt: skip
def test_its_text_says_the_same(text: str) -> None:
    assert to_text(query(to_text(query(text)))) == to_text(query(text))
    again = query(to_text(query(text)))
    assert [one.label for one in again.aggregates] == [one.label for one in query(text).aggregates]


@pytest.mark.parametrize(("text", "why"), [
    ("avg(v) + v", "'v' stands beside aggregates"),
    ("abs(v)", "this abs is not aggregated"),
    ("v + 1", "this is not aggregated"),
    ("upper(first(v))", "this is text"),
    ("max(v) > 3", "a value is needed here"),
])  # fmt: skip
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        query(f"SELECT {text} WINDOW TUMBLING 10")
