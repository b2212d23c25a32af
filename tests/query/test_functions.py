"""Functions, CASE, BETWEEN, LIKE, IS NULL: what they say, in conditions, RETURN and aggregates."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.cli.app import run
from slackwater.engine.core.released import Strings
from slackwater.engine.query import query
from slackwater.engine.query.clock_sensitivity import is_clocked
from slackwater.engine.query.expression import View, computed_values, python_values, view_value
from slackwater.engine.query.plan import Attribute, FunctionCall, SeqPlan
from slackwater.engine.query.render import render
from slackwater.engine.query.values import FUNCTIONS
from tests.query.random_conditions import columns_of
from tests.query.slow_expression import TYPES


def matches(text: str, *events: dict[str, Any]) -> list[Any]:
    """By the command: of each match the numbers of its events, or its value."""
    with TemporaryDirectory() as name:
        trace, out = Path(name, "trace.jsonl"), Path(name, "out.jsonl")
        lines = [
            {"type": "A", "seq": n, "ts": 10 * n, **each} if "attrs" in each or "type" in each
            else {"type": "A", "seq": n, "ts": 10 * n, "attrs": each}
            for n, each in enumerate(events)
        ]  # fmt: skip
        trace.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        run(["query", text, "--input", str(trace), "--out", str(out), "--quiet"])
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    if found and "value" in found[0]:
        return [result["value"] for result in found]
    return sorted([event["seq"] for event in result["events"]] for result in found)


def test_conditions_of_one_event() -> None:
    events: list[dict[str, Any]] = [
        {"v": 2.5, "s": "Ada"}, {"v": -7.5, "s": "bob"}, {"s": "50%"}, {"v": 3.0},
    ]  # fmt: skip
    for condition, want in {
        "a.v BETWEEN 2.5 AND 3": [0, 3],
        "a.v NOT BETWEEN 2.5 AND 3": [1],
        "a.v IS NULL": [2],
        "a.s IS NOT NULL": [0, 1, 2],
        "a.s LIKE '_d%'": [0],
        "a.s LIKE '%\\%'": [2],
        "a.s NOT LIKE '%b'": [0, 2],
        "upper(a.s) = 'BOB'": [1],
        "length(a.s) + 1 = 4": [0, 1, 2],
        "regexp_like(lower(a.s), '^[ab]')": [0, 1],
        "abs(a.v) > 3 AND a.v % 2 = -1.5": [1],
        "round(a.v) = 3": [0, 3],
        "round(a.v) = -8": [1],
        "floor(a.v) = ceil(a.v)": [3],
        "coalesce(a.v, 0) = 0": [2],
        "least(a.v, 0) < 0": [1],
        "greatest(a.v, 1) = 1": [1, 2],
        "CASE WHEN a.v > 2.7 THEN 'high' WHEN a.v > 0 THEN 'low' END = 'low'": [0],
        "CASE a.s WHEN 'bob' THEN 1 ELSE 0 END = 0": [0, 2, 3],
    }.items():
        found = matches(f"EVENT SEQ(A a) WHERE {condition}", *events)
        assert found == [[n] for n in want], condition


def test_conditions_across_events() -> None:
    events: list[dict[str, Any]] = [
        {"v": 2, "s": "Ada"}, {"v": -7, "s": "ADA"}, {"s": "ada"}, {"v": 3, "s": "b"},
    ]  # fmt: skip
    for condition, want in {
        "lower(a.s) = lower(b.s)": [[0, 1], [0, 2], [1, 2]],
        "abs(a.v - b.v) < 5": [[0, 3]],
        "coalesce(a.v, b.v) = 3": [[2, 3]],
        "least(a.v, b.v) = -7": [[0, 1], [1, 2], [1, 3]],
        "CASE WHEN a.v > b.v THEN a.v ELSE b.v END = 3": [[0, 3], [1, 3], [2, 3]],
        "(a.s LIKE 'A%' OR b.v = 3) AND length(a.s) > length(b.s)": [[0, 3], [1, 3], [2, 3]],
        "abs(b.ts - a.ts) <= 10": [[0, 1], [1, 2], [2, 3]],
        "abs(a.ts - b.ts) = 20": [[0, 2], [1, 3]],
        "30 <= abs(a.ts - b.ts)": [[0, 3]],
        "abs(a.ts - b.ts) != 10": [[0, 2], [0, 3], [1, 3]],
        "hour(b.raw_ts) = 0 AND a.v = 2": [[0, 1], [0, 2], [0, 3]],
    }.items():
        assert matches(f"EVENT SEQ(A a, A b) WHERE {condition}", *events) == want, condition


def test_the_least_of_many_values_of_two_events() -> None:
    events: list[dict[str, Any]] = [{f"v{n}": n + 5 for n in range(20)}, {"v3": 2, "v7": 1}]
    many = ", ".join(f"{'ab'[n % 2]}.v{n}" for n in range(20))
    assert matches(f"EVENT SEQ(A a, A b) WHERE least({many}) = 1", *events) == [[0, 1]]
    assert matches(f"EVENT SEQ(A a, A b) WHERE greatest({many}) = 23", *events) == [[0, 1]]


def test_values_of_matches_and_of_windows() -> None:
    events: list[dict[str, Any]] = [{"v": 2, "s": "Ada"}, {"v": -7, "s": "x"}]
    text = "EVENT SEQ(A a, A b) RETURN upper(a.s) AS name, abs(b.v) AS far, length(b.s) + a.v"
    assert matches(text, *events) == [{"name": "ADA", "far": 7, "length(b.s) + a.v": 3}]
    text = "SELECT sum(abs(v)) AS far, sum(CASE WHEN v > 0 THEN 1 ELSE 0 END) AS up "
    text += "WINDOW TUMBLING 1 s"
    assert matches(text, *events) == [{"far": 9, "up": 1}]
    text = "SELECT count(*), min(v) WINDOW TUMBLING 1 s HAVING abs(min(v)) BETWEEN 6 AND 8"
    assert matches(text, *events) == [{"count(*)": 2, "min(v)": -7}]


def test_distances_of_times_go_by_clock_errors() -> None:
    plan = query("EVENT SEQ(A a, B b) WHERE abs(b.ts - a.ts) > 3 s")
    assert isinstance(plan, SeqPlan)
    assert [is_clocked(each) for each in plan.others] == [True]
    plan = query("EVENT SEQ(A a, B b) WHERE abs(b.arrival - a.arrival) < 3 s")
    assert isinstance(plan, SeqPlan)
    assert [is_clocked(each) for each in plan.others] == [False]


# ---- RETURN of whole matches ------------------------------------------------------------------
STRINGS = Strings(["A", "B", "red", "blue"])
ATTRIBUTE_TYPES = {"price": "int", "rate": "float", "on": "bool", "colour": "str"}


def view(shift: int) -> View:
    """Three events; the last has no price, the second's rate is not a number."""
    columns: dict[str, Any] = {
        "ref": np.array([10, 20, 30], np.int64) + shift,
        "attrs.price": np.array([5, 7, 0], np.int64) + shift,
        "valid.price": np.array([True, True, False]),
        "attrs.rate": np.array([0.5, np.nan, 1e308]),
        "attrs.on": np.array([True, False, True]),
        "attrs.colour": np.array([2, 3, -1], np.int32),
    }
    return View.of(columns, ATTRIBUTE_TYPES, STRINGS)


def values(returned: str) -> dict[str, list[Any]]:
    plan = query(f"EVENT SEQ(A a, B b) RETURN {returned}")
    assert isinstance(plan, SeqPlan)
    found = computed_values(plan, {"a": view(0), "b": view(3)}, 3)
    return {label: python_values(value, 3, STRINGS) for label, value in found.items()}


RETURNED: dict[str, dict[str, list[Any]]] = {
    "a.price, b.price - a.price AS gain": {"gain": [3, 3, None]},
    "b.ts-a.ts, a.price*2 AS twice": {"b.ts - a.ts": [3, 3, 3], "twice": [10, 14, None]},
    "a.colour AS colour": {"colour": ["red", "blue", None]},
    "a.on AS bright": {"bright": [1, 0, 1]},
    "a.rate AS rate, a.rate * 10 AS tenfold": {
        "rate": [0.5, None, 1e308],
        "tenfold": [5.0, None, None],
    },
    "a.price / (b.price - a.price - 3) AS never": {"never": [None, None, None]},
    "a.missing + 1 AS missing": {"missing": [None, None, None]},
    "a.colour + 1 AS odd": {"odd": [None, None, None]},
    "a.ts": {},
}


@pytest.mark.parametrize("returned", RETURNED)
def test_what_return_computes(returned: str) -> None:
    assert values(returned) == RETURNED[returned]


# ---- times ------------------------------------------------------------------------------------
@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))  # noqa: DTZ001 - UTC below
def test_fields_of_a_time_as_in_python(when: datetime) -> None:
    aware = when.replace(tzinfo=UTC)
    ns = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    strings = Strings()
    view = View.of(columns_of([{"i": ns}], strings), TYPES, strings)
    for name in ("year", "month", "day", "hour", "minute", "second"):
        value = view_value(FunctionCall(name, (Attribute("i"),)), view)
        assert value.data.tolist() == [getattr(aware, name)], name
    value = view_value(FunctionCall("day_of_week", (Attribute("i"),)), view)
    assert value.data.tolist() == [aware.isoweekday()]


def test_a_comment_and_a_length_of_several_parts() -> None:
    plan = query("EVENT SEQ(A a, B b) -- who, when\nWITHIN 1 min 30 s -- the end")
    assert isinstance(plan, SeqPlan)
    assert plan.within_ns == 90 * 10**9
    plans = [
        query(f"EVENT SEQ(A a, B b) WHERE b.ts - a.ts < {t}") for t in ("1 h 1 ms", "3600001 ms")
    ]
    assert render(plans[0]) == render(plans[1])


def test_every_function_is_documented() -> None:
    text = (
        Path(__file__)
        .parents[2]
        .joinpath("docs", "reference", "language.md")
        .read_text(encoding="utf-8")
    )
    section = text.split("## Functions")[1].split("\n## ")[0]
    assert [name for name in FUNCTIONS if f"`{name}" not in section] == []
